import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.losses import (
    absolute_error,
    asymmetric_error,
    class_error,
    count_error,
    huber_error,
    ordinal_error,
    pairwise_error,
    pinball_error,
    squared_error,
)

pytestmark = pytest.mark.usefixtures("one_thread")
few = settings(deadline=None, max_examples=30)


def symmetric(rng: np.random.Generator, size: int) -> torch.Tensor:
    upper = np.triu(rng.uniform(size=(size, size)), 1)
    return torch.from_numpy(upper + upper.T)


@given(size=st.integers(2, 9), variance=st.floats(0.01, 10), seed=st.integers(0, 99))
@few
def test_pairwise_error_is_a_mean_over_pairs_of_different_samples(size, variance, seed):
    rng = np.random.default_rng(seed)
    predicted, true = symmetric(rng, size), symmetric(rng, size)
    total, pairs = 0.0, 0
    for i in range(size):
        for j in range(i):
            total += float(predicted[i, j] - true[i, j]) ** 2
            pairs += 1
    expected = total / pairs / variance
    assert float(pairwise_error(predicted, true, variance)) == pytest.approx(expected)


def test_predicting_the_mean_distance_costs_one():
    true = symmetric(np.random.default_rng(0), 40)
    above = true[np.triu_indices(40, 1)]
    mean = torch.full((40, 40), float(above.mean()), dtype=torch.float64).fill_diagonal_(0)
    variance = float(above.var(unbiased=False))
    assert float(pairwise_error(mean, true, variance)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (huber_error, [0.125, 0.5, 2.5, 2.5]),
        (squared_error, [0.25, 1, 9, 9]),
        (absolute_error, [0.5, 1, 3, 3]),
        (lambda x, y: asymmetric_error(x, y, 0.8), [0.1, 0.2, 0.6, 2.4]),
    ],
)
def test_errors_of_numbers(loss, expected):
    true = torch.zeros(1, 1)
    errors = [float(loss(torch.tensor([[x]]), true)) for x in (0.5, 1.0, 3.0, -3.0)]
    assert errors == pytest.approx(expected)


@given(seed=st.integers(0, 99))
@few
def test_pinball_error_is_that_of_sorted_quantiles(seed):
    rng, levels = np.random.default_rng(seed), (0.1, 0.5, 0.9)
    predicted, true = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2))
    total = 0.0
    for b in range(4):
        for c in range(2):
            for level, quantile in zip(levels, sorted(predicted[b, c]), strict=True):
                missing = true[b, c] - quantile
                total += level * missing if missing > 0 else (level - 1) * missing
    found = pinball_error(torch.from_numpy(predicted), torch.from_numpy(true), levels)
    assert float(found) == pytest.approx(total / 24)


def test_the_quantiles_of_a_sample_have_the_least_pinball_error():
    levels, drawn = (0.05, 0.5, 0.95), torch.linspace(-3, 3, 4001)[:, None]
    best = torch.quantile(drawn, torch.tensor(levels)).expand(4001, 1, 3)
    least = pinball_error(best, drawn, levels)
    for place in range(3):
        for step in (-0.1, 0.1):
            other = best.clone()
            other[..., place] += step
            assert pinball_error(other, drawn, levels) > least


def test_cross_entropy_against_shares_is_the_mean_of_those_against_classes():
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    single = [float(class_error(logits, torch.eye(3)[[i]])) for i in range(3)]
    mixed = float(class_error(logits, torch.tensor([[0.25, 0.0, 0.75]])))
    assert mixed == pytest.approx(0.25 * single[0] + 0.75 * single[2])
    assert single[0] == pytest.approx(-float(torch.log_softmax(logits, 1)[0, 0]))


def shares(rng: np.random.Generator, samples: int = 5, classes: int = 4) -> np.ndarray:
    return rng.dirichlet(np.full(classes, 0.5), samples)


@given(seed=st.integers(0, 99), smoothing=st.sampled_from([0.0, 0.2]), weighted=st.booleans())
@few
def test_weights_and_smoothing_of_classes(seed, smoothing, weighted):
    rng = np.random.default_rng(seed)
    logits, share = rng.normal(size=(5, 4)), shares(rng)
    weights = rng.uniform(0, 3, 4).tolist() if weighted else []
    total = 0.0
    for b in range(5):
        log_p = logits[b] - np.log(np.exp(logits[b]).sum())
        for k in range(4):
            smooth = share[b, k] * (1 - smoothing) + smoothing / 4
            total -= (weights[k] if weighted else 1) * smooth * log_p[k]
    found = class_error(torch.from_numpy(logits), torch.from_numpy(share), weights, smoothing)
    assert float(found) == pytest.approx(total / 5)


@given(seed=st.integers(0, 99), smoothing=st.sampled_from([0.0, 0.2]), weighted=st.booleans())
@few
def test_ordinal_error_asks_for_every_class_whether_the_sample_lies_above(
    seed, smoothing, weighted
):
    rng = np.random.default_rng(seed)
    logits, share = rng.normal(size=(5, 3)), shares(rng)
    weights = rng.uniform(0, 3, 4).tolist() if weighted else []
    total = 0.0
    for b in range(5):
        weight = sum(share[b, k] * weights[k] for k in range(4)) if weighted else 1
        for k in range(3):
            above = sum(share[b, j] * (1 - smoothing) + smoothing / 4 for j in range(k + 1, 4))
            p = 1 / (1 + np.exp(-logits[b, k]))
            total -= weight * (above * np.log(p) + (1 - above) * np.log(1 - p))
    found = ordinal_error(torch.from_numpy(logits), torch.from_numpy(share), weights, smoothing)
    assert float(found) == pytest.approx(total / 15)


def test_extreme_outputs_give_finite_losses_and_gradients():
    far = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    share = torch.tensor([[0.0, 0.0, 1.0]])
    four = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    for loss in (
        class_error(far, share, [1.0, 0.0, 2.0], 0.1),
        ordinal_error(far, four, [1.0, 1.0, 1.0, 2.0], 0.1),
        pinball_error(far[:, None], torch.zeros(1, 1), (0.1, 0.5, 0.9)),
    ):
        (gradient,) = torch.autograd.grad(loss, far)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


def test_reads_count_where_hidden_and_in_units_of_their_deviation():
    rng = np.random.default_rng(0)
    true, hidden = torch.from_numpy(rng.normal(5, 3, 50)), torch.arange(50) % 3 == 0
    present = torch.arange(50) < 40
    mean, variance = float(true[:40].mean()), float(true[:40].var(unbiased=False))
    predicted = torch.where(hidden & present, (true + 2 - mean) / variance**0.5, 1e6)
    assert float(count_error(predicted, true, hidden, present)) == pytest.approx(4 / variance)
    ignorant = count_error(torch.zeros(50), true, present, present)
    assert float(ignorant) == pytest.approx(1)
    nothing = torch.zeros(50, dtype=torch.bool)
    assert float(count_error(predicted, true, nothing, present)) == 0
    assert float(count_error(predicted, true, hidden, nothing)) == 0


def test_equal_reads_do_not_blow_the_loss_up():
    true, present = torch.full((9,), 0.7), torch.ones(9, dtype=torch.bool)
    assert 0 < float(count_error(torch.full((9,), 0.1), true, present, present)) < 1
