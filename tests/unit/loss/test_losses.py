import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.loss.distances import pairwise_error
from aam.loss.targets import classification_error, regression_error

pytestmark = pytest.mark.usefixtures("one_thread")


def symmetric(rng: np.random.Generator, size: int) -> torch.Tensor:
    upper = np.triu(rng.uniform(size=(size, size)), 1)
    return torch.from_numpy(upper + upper.T)


@given(size=st.integers(2, 9), variance=st.floats(0.01, 10), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
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


def test_an_error_beyond_a_deviation_counts_linearly():
    true = torch.zeros(1, 1)
    errors = [float(regression_error(torch.tensor([[x]]), true)) for x in (0.5, 1.0, 3.0, -3.0)]
    assert errors == pytest.approx([0.125, 0.5, 2.5, 2.5])


def test_cross_entropy_against_shares_is_the_mean_of_those_against_classes():
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    single = [float(classification_error(logits, torch.eye(3)[[i]])) for i in range(3)]
    mixed = float(classification_error(logits, torch.tensor([[0.25, 0.0, 0.75]])))
    assert mixed == pytest.approx(0.25 * single[0] + 0.75 * single[2])
    assert single[0] == pytest.approx(-float(torch.log_softmax(logits, 1)[0, 0]))
