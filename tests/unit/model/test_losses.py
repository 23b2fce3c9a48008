from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss

from aam.config.losses import LOSSES as SUITING
from aam.config.losses import Loss
from aam.data.target import QUANTILES, Target
from aam.model.heads import pairwise_error
from aam.model.predictor import LOSSES, TargetLoss

pytestmark = pytest.mark.usefixtures("one_thread")
NUMBER = Target("regression", ("age",), (), "mae")
CLASSES = Target("classification", ("site",), tuple("abcd"), "cross_entropy")


def loss_of(target: Target, loss: str) -> TargetLoss:
    return TargetLoss(replace(target, loss=loss))


def test_every_loss_that_can_be_chosen_is_there():
    suiting = {name for names in SUITING.values() for name in names}
    assert suiting == LOSSES.keys() == {*get_args(Loss), "ordinal"}


def test_pairwise_error_is_a_mean_over_pairs_of_different_samples():
    predicted, true = (torch.cdist(x, x) for x in torch.randn(2, 7, 3))
    pairs = torch.triu_indices(7, 7, 1).unbind()
    expected = (predicted - true)[pairs].square().mean() / 0.3
    torch.testing.assert_close(pairwise_error(predicted, true, 0.3), expected)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("huber", [0.125, 2.5, 2.5]), ("mse", [0.25, 9, 9]), ("mae", [0.5, 3, 3])],
)
def test_errors_of_numbers(loss, expected):
    zero = torch.zeros(1, 1)
    errors = [loss_of(NUMBER, loss)(torch.tensor([[x]]), zero) for x in (0.5, 3.0, -3.0)]
    assert errors == pytest.approx(expected)


def test_the_pinball_error_is_the_libraries_and_least_at_the_quantiles_in_any_order():
    drawn = torch.linspace(-3, 3, 4001)[:, None]
    best = torch.quantile(drawn, torch.tensor(QUANTILES)).expand(4001, 5)
    each = [mean_pinball_loss(drawn, best[:, [i]], alpha=QUANTILES[i]) for i in range(5)]
    error = loss_of(NUMBER, "quantile")
    least = error(best.flip(1), drawn)
    assert float(least) == pytest.approx(np.mean(each))
    for quantile in range(5):
        for step in (-0.1, 0.1):
            other = best.clone()
            other[:, quantile] += step
            assert error(other, drawn) > least


@given(seed=st.integers(0, 99), weighted=st.booleans())
@settings(deadline=None, max_examples=30)
def test_weights_of_classes_with_and_without_an_order(seed, weighted):
    rng = np.random.default_rng(seed)
    logits, fraction = rng.normal(size=(5, 4)), rng.dirichlet(np.full(4, 0.5), 5)
    weights = tuple(rng.uniform(0, 3, 4)) if weighted else ()
    target, weight_K = replace(CLASSES, class_weights=weights), np.array(weights or np.ones(4))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    true = torch.from_numpy(fraction)
    error = loss_of(target, "cross_entropy").double()(torch.from_numpy(logits), true)
    assert float(error) == pytest.approx(-(weight_K * fraction * log_p).sum() / 5)
    # One question per threshold: does the sample lie above the class?
    total = 0.0
    for b in range(5):
        for k in range(3):
            above, p = fraction[b, k + 1 :].sum(), 1 / (1 + np.exp(-logits[b, k]))
            total -= fraction[b] @ weight_K * (above * np.log(p) + (1 - above) * np.log(1 - p))
    error = loss_of(target, "ordinal").double()(torch.from_numpy(logits[:, :3]), true)
    assert float(error) == pytest.approx(total / 15)


@pytest.mark.parametrize("loss", ["cross_entropy", "ordinal", "quantile"])
def test_extreme_outputs_give_finite_losses_and_gradients(loss):
    outputs, values = {"cross_entropy": (4, 4), "ordinal": (3, 4), "quantile": (5, 1)}[loss]
    far = torch.tensor([[1e4, -1e4, 0.0, 1e4, -1e4]])[:, :outputs].requires_grad_()
    target = replace(CLASSES, class_weights=(1.0, 0.0, 1.0, 2.0))
    error = loss_of(target, loss)(far, torch.eye(values)[-1:])
    (gradient,) = torch.autograd.grad(error, far)
    assert torch.isfinite(error)
    assert torch.isfinite(gradient).all()
