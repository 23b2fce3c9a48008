import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.train.devices import Devices
from aam.train.inference import embed_samples
from aam.train.masking import Masker
from aam.train.validation import HeldOut, PairMoments, commonest_bases

HELD_OUT = np.array([2, 13, 15, 16, 18, 19])
TRAINING = np.array([0, 1, 3, 4, 5])


@pytest.fixture(scope="module")
def scored(mixed_lengths) -> HeldOut:
    return HeldOut(
        store=mixed_lengths.store,
        tokens=mixed_lengths.tokens,
        samples=HELD_OUT,
        training_samples=TRAINING,
        distances={"unweighted": mixed_lengths.distances},
        values={},
        masker=Masker(0.3, 9),
    )


@given(
    pairs=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
@settings(deadline=None)
def test_moments_give_correlation_and_error_for_any_partition(pairs, cuts):
    true, predicted = np.array(pairs).T
    moments = PairMoments()
    for part in np.split(np.arange(len(pairs)), sorted(min(cut, len(pairs)) for cut in cuts)):
        moments.add(true[part], predicted[part])
    assert moments.mean_absolute_error == pytest.approx(np.abs(true - predicted).mean(), abs=1e-9)
    if min(true.std(), predicted.std()) > 1e-3:
        assert moments.pearson == pytest.approx(np.corrcoef(true, predicted)[0, 1], abs=1e-6)


def test_a_constant_prediction_has_no_correlation():
    moments = PairMoments()
    moments.add(np.array([0.1, 0.5, 0.9]), np.array([0.5, 0.5, 0.5]))
    assert moments.pearson == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_scores_are_those_of_the_distances_of_the_head(scored, new_model, precision):
    model, devices = new_model(), Devices(precision, 1)
    found = scored.score(model, devices)
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, HELD_OUT, devices)
    with torch.no_grad():
        predicted = model.head("unweighted").eval()(embedding).numpy()
    above = np.triu_indices(len(HELD_OUT), 1)
    true = scored.distances["unweighted"][0][np.ix_(HELD_OUT, HELD_OUT)]
    correlation = np.corrcoef(true[above], predicted[above])[0, 1]
    assert found["unweighted_pearson"] == pytest.approx(correlation, abs=1e-4)
    error = np.abs(true[above] - predicted[above]).mean()
    assert found["unweighted_mae"] == pytest.approx(error, abs=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_pairs_are_those_of_the_head(scored, new_model, precision):
    model, devices = new_model(), Devices(precision, 1)
    true, predicted = scored.recorded_pairs(model, devices, seed=0)["unweighted"]
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, HELD_OUT, devices)
    with torch.no_grad():
        matrix = model.head("unweighted").eval()(embedding).numpy()
    above = np.triu_indices(len(HELD_OUT), 1)
    np.testing.assert_allclose(predicted, matrix[above], atol=1e-5)
    expected = scored.distances["unweighted"][0][np.ix_(HELD_OUT, HELD_OUT)][above]
    np.testing.assert_array_equal(true, expected)


def test_recorded_pairs_are_bounded_and_spread(scored, new_model, monkeypatch):
    monkeypatch.setattr("aam.train.validation.PAIRS_RECORDED", 7)
    first, again, other = (
        scored.recorded_pairs(new_model(), Devices("fp32", 1), seed)["unweighted"][0]
        for seed in (0, 0, 1)
    )
    assert len(first) == 7
    assert first.tolist() == again.tolist() != other.tolist()


def by_hand(scored: HeldOut, asvs: list[int]) -> tuple[list[tuple[int, int]], list[bool]]:
    """Return the masked places of some ASVs, and whether the commonest base is right there."""
    training = {
        int(asv)
        for row in TRAINING
        for asv in scored.store.asvs[scored.store.offsets[row] : scored.store.offsets[row + 1]]
    }
    places, right = [], []
    for asv in asvs:
        length = scored.tokens.lengths[asv]
        letters = scored.tokens.tokens[[asv], :length]
        _, (_, position, base) = scored.masker.mask(letters, np.array([asv]), 0)
        for p, b in zip(position.tolist(), base.tolist(), strict=True):
            counts = [0, 0, 0, 0]
            for other in training:
                if p < scored.tokens.lengths[other]:
                    counts[scored.tokens.tokens[other, p] - 1] += 1
            places.append((asv, p))
            right.append(counts.index(max(counts)) == b)
    return places, right


def test_nucleotides_are_scored_beside_the_commonest_base(scored, new_model, devices):
    held = [
        int(asv)
        for row in HELD_OUT
        for asv in scored.store.asvs[scored.store.offsets[row] : scored.store.offsets[row + 1]]
    ]
    _, right = by_hand(scored, sorted(set(held)))
    values = scored.score(new_model(), devices)
    assert values["nucleotide_baseline_accuracy"] == pytest.approx(np.mean(right))
    assert values == scored.score(new_model(), devices)


def test_accuracy_is_the_share_of_right_guesses_and_counts_unseen_asvs_apart(
    scored, new_model, devices, monkeypatch
):
    """A head that always answers A is right where the hidden base is A."""
    model = new_model()
    monkeypatch.setattr("aam.train.validation.ASVS_PER_BATCH", 5)
    with torch.no_grad():
        model.nucleotides.bases.weight.zero_()
        model.nucleotides.bases.bias.copy_(torch.tensor([1.0, 0, 0, 0]).repeat(5))
    values = scored.score(model, devices)
    store, tokens = scored.store, scored.tokens
    known = {
        int(a) for row in TRAINING for a in store.asvs[store.offsets[row] : store.offsets[row + 1]]
    }
    held = {
        int(a) for row in HELD_OUT for a in store.asvs[store.offsets[row] : store.offsets[row + 1]]
    }
    assert held - known, "these data have no unseen ASV"
    for name, asvs in (("", held), ("_unseen_asvs", held - known)):
        places, _ = by_hand(scored, sorted(asvs))
        expected = np.mean([tokens.tokens[asv, p] == 1 for asv, p in places])
        assert values[f"nucleotide_accuracy{name}"] == pytest.approx(expected), name


def test_commonest_bases_by_position(mixed_lengths):
    tokens = mixed_lengths.tokens
    found = commonest_bases(tokens, np.array([0, 3, 6]))
    for position in range(20):
        column = tokens.tokens[[0, 3, 6], position].tolist()
        assert column.count(found[position] + 1) == max(column.count(base) for base in (1, 2, 3, 4))
