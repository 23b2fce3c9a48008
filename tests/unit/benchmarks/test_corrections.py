"""What a correction of batches takes out, what it leaves, and what it never looks at."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.util.errors import InputError
from benchmarks.corrections import CORRECTIONS, Samples, refuse_coinciding

BATCHES = 4
SIZE = 40
FEATURES = 12
DEPTH = 5000
MOVING = [name for name in CORRECTIONS if name != "none"]


def study(*, batch_effect: float, signal: float = 0.0, seed: int = 0) -> Samples:
    """Return samples of batches with multiplicative effects, half of each with a label."""
    rng = np.random.default_rng(seed)
    batch_N = np.repeat(np.arange(BATCHES), SIZE)
    is_case_N = np.arange(len(batch_N)) % 2 == 1
    log_NP = rng.normal(size=FEATURES) + 0.3 * rng.normal(size=(len(batch_N), FEATURES))
    log_NP += batch_effect * rng.normal(size=(BATCHES, FEATURES))[batch_N]
    log_NP[is_case_N, 0] += signal
    share_NP = np.exp(log_NP) / np.exp(log_NP).sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(DEPTH, share_P) for share_P in share_NP])
    target_NC = np.stack([1.0 - 2 * is_case_N, 2.0 * is_case_N - 1], axis=1)
    is_control_N = ~is_case_N & (np.arange(len(batch_N)) % 4 == 0)
    return Samples(csr_array(counts), batch_N.astype(str), target_NC, is_control_N)


def rows_of(samples: Samples, *batches: int) -> np.ndarray:
    return np.flatnonzero(np.isin(samples.batch_N, [str(batch) for batch in batches]))


def spread_of_batches(features_NP: np.ndarray, samples: Samples) -> float:
    """Return the fraction of the variance that lies between batches."""
    means = np.array(
        [features_NP[rows_of(samples, batch)].mean(axis=0) for batch in range(BATCHES)]
    )
    return float(means.var(axis=0).sum() / features_NP.var(axis=0).sum())


@pytest.mark.parametrize("name", MOVING)
def test_a_multiplicative_effect_is_taken_out_of_a_batch_never_seen_too(name):
    samples = study(batch_effect=1.5, signal=1.0)
    train = rows_of(samples, 0, 1, 2)
    before = spread_of_batches(CORRECTIONS["none"](samples, train, adapt=True), samples)
    corrected_NP = CORRECTIONS[name](samples, train, adapt=True)
    # Factors are shrunk, and what distinguishes the labels is not part of the batches.
    assert before > 0.9
    assert spread_of_batches(corrected_NP, samples) < (0.5 if name == "factors" else 0.1)
    is_case_N = samples.target_NC[:, 1] > 0
    differences = corrected_NP[is_case_N].mean(axis=0) - corrected_NP[~is_case_N].mean(axis=0)
    assert np.abs(differences).argmax() == 0
    assert differences[0] > 0


@pytest.mark.parametrize("name", CORRECTIONS)
def test_no_label_and_no_other_sample_of_the_test_is_looked_at(name):
    samples = study(batch_effect=1.0, signal=1.0)
    train = np.concatenate([rows_of(samples, 0, 1), rows_of(samples, 2)[::2]])
    correct = CORRECTIONS[name]
    features_NP = correct(samples, train, adapt=False)
    # A new sample, and one of a batch that is known, are corrected alike without their companions.
    for row in (rows_of(samples, 2)[1], rows_of(samples, 3)[5]):
        kept = np.append(train, row)
        few = replace(
            samples,
            reads_NP=samples.reads_NP[kept],
            batch_N=samples.batch_N[kept],
            target_NC=samples.target_NC[kept],
            is_control_N=samples.is_control_N[kept],
        )
        alone_NP = correct(few, np.arange(len(train)), adapt=False)
        assert alone_NP[-1] == pytest.approx(features_NP[row], abs=1e-6)
    target_NC = samples.target_NC.copy()
    target_NC[rows_of(samples, 3)] *= -1
    target_NC[rows_of(samples, 2)[1::2]] *= -1
    for adapt in (True, False):
        swapped_NP = correct(replace(samples, target_NC=target_NC), train, adapt=adapt)
        assert (swapped_NP == correct(samples, train, adapt=adapt)).all()


@pytest.mark.parametrize("name", CORRECTIONS)
def test_the_order_of_the_samples_does_not_matter(name):
    samples = study(batch_effect=1.0, signal=1.0)
    train = rows_of(samples, 0, 1, 2)
    order = np.random.default_rng(0).permutation(len(samples.batch_N))
    shuffled = replace(
        samples,
        reads_NP=samples.reads_NP[order],
        batch_N=samples.batch_N[order],
        target_NC=samples.target_NC[order],
        is_control_N=samples.is_control_N[order],
    )
    place = np.argsort(order)
    expected_NP = CORRECTIONS[name](samples, train, adapt=True)
    result_NP = CORRECTIONS[name](shuffled, np.sort(place[train]), adapt=True)
    assert result_NP[place] == pytest.approx(expected_NP, abs=1e-3)


@pytest.mark.parametrize("name", MOVING)
def test_a_batch_of_one_sample_is_left_as_it_is(name):
    samples = study(batch_effect=1.0)
    batch_N = samples.batch_N.astype("<U5")
    batch_N[-1] = "alone"
    samples = replace(samples, batch_N=batch_N)
    train = rows_of(samples, 0, 1, 2)
    apart_NP = CORRECTIONS[name](samples, train, adapt=False)
    adapted_NP = CORRECTIONS[name](samples, train, adapt=True)
    assert (adapted_NP[-1] == apart_NP[-1]).all()
    if name != "percentiles":
        assert adapted_NP[-1] == pytest.approx(samples.log_ratios_NP[-1], abs=1e-9)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_feature_that_a_batch_lacks_or_nobody_has_stays_within_reason(name):
    samples = study(batch_effect=1.0)
    counts = samples.reads_NP.toarray()
    counts[rows_of(samples, 1, 3), 2] = 0
    counts[:, 5] = 0
    samples = replace(samples, reads_NP=csr_array(counts))
    features_NP = CORRECTIONS[name](samples, rows_of(samples, 0, 1, 2), adapt=True)
    assert np.isfinite(features_NP).all()
    # Log-ratios of 5000 reads lie within some logarithms of 10,000.
    assert np.abs(features_NP).max() < 2 * np.log(2 * DEPTH)


@pytest.mark.parametrize("name", MOVING)
def test_a_label_that_follows_the_batch_is_not_made_a_signal_of_other_batches(name):
    # In three batches most samples of some are cases, and no feature differs within a batch.
    rng = np.random.default_rng(3)
    gains = []
    for seed in range(10):
        samples = study(batch_effect=1.5, seed=seed)
        fraction_N = np.repeat([0.1, 0.9, 0.5, 0.5], SIZE)
        is_case_N = rng.random(len(fraction_N)) < fraction_N
        target_NC = np.stack([1.0 - 2 * is_case_N, 2.0 * is_case_N - 1], axis=1)
        samples = replace(samples, target_NC=target_NC, is_control_N=~is_case_N)
        train = rows_of(samples, 0, 1, 2)
        test = rows_of(samples, 3)
        features_NP = CORRECTIONS[name](samples, train, adapt=name != "percentiles")
        slopes_P = features_NP[train].T @ (is_case_N[train] - is_case_N[train].mean())
        value_M = features_NP[test] @ slopes_P
        case_M = is_case_N[test]
        pairs = value_M[case_M][:, None] > value_M[~case_M]
        gains.append(pairs.mean() - 0.5)
    # The area under the curve of ten draws has a standard error of 0.03.
    assert abs(np.mean(gains)) < 0.1


def test_labels_that_differ_between_batches_alone_are_refused():
    batch_N = np.array(["a", "a", "b", "b"])
    with pytest.raises(InputError, match=r"center.*coincide"):
        refuse_coinciding(np.array(["x", "x", "y", "y"]), batch_N, "center")
    refuse_coinciding(np.array(["x", "y", "y", "y"]), batch_N, "center")


def test_percentiles_need_controls():
    samples = study(batch_effect=1.0)
    without = replace(samples, is_control_N=None)
    with pytest.raises(InputError, match="controls"):
        CORRECTIONS["percentiles"](without, rows_of(samples, 0, 1), adapt=True)
