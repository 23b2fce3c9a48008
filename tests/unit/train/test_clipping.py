import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aam.config.sections.training import Pretraining
from aam.train.clipping import LEAST_WEIGHTS, LIMITS, clip_gradients, clipping_of
from aam.train.distributed.devices import Devices

pytestmark = pytest.mark.usefixtures("one_thread")


def norm_of(values) -> float:
    return math.sqrt(sum(value * value for value in values))


def flat(gradients) -> list[float]:
    return [value for gradient in gradients for value in np.ravel(gradient).tolist()]


def by_norm(weights, gradients, limit):
    share = min(1.0, limit / (norm_of(flat(gradients)) + 1e-6))
    return [gradient * share for gradient in gradients]


def by_value(weights, gradients, limit):
    return [np.clip(gradient, -limit, limit) for gradient in gradients]


def by_unit(weights, gradients, limit):
    """Go through rows one by one; a vector is one unit."""
    clipped = []
    for weight, gradient in zip(weights, gradients, strict=True):
        whole = gradient.ndim < 2
        rows = []
        for w, g in zip(np.atleast_2d(weight), np.atleast_2d(gradient), strict=True):
            most = limit * max(norm_of(np.ravel(w)), LEAST_WEIGHTS)
            size = norm_of(np.ravel(g))
            rows.append(g * (most / size) if size > most else g)
        clipped.append(rows[0].reshape(gradient.shape) if whole else np.stack(rows))
    return clipped


REFERENCES = {"norm": by_norm, "value": by_value, "adaptive": by_unit}
CASES = [("norm", 0.5), ("value", 0.2), ("adaptive", 0.05)]


class Small(nn.Module):
    """A matrix, one whose weights are 0, vectors, and a number, as a model has them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(seed)
        self.matrix = nn.Parameter(torch.randn(5, 3, generator=made))
        self.zeros = nn.Parameter(torch.zeros(2, 4))
        self.vector = nn.Parameter(torch.randn(6, generator=made))
        self.number = nn.Parameter(torch.tensor(0.3))
        self.frozen = nn.Parameter(torch.ones(2))


def set_gradients(model: nn.Module, seed: int, size: float) -> None:
    made = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if name != "frozen":
            parameter.grad = size * torch.randn(parameter.shape, generator=made)


@pytest.fixture(scope="module")
def cpu(one_thread) -> Devices:
    return Devices("fp32", 1)


def clip(model, devices, kind, limit):
    wrapped, optimizer = devices.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return float(clip_gradients(wrapped, optimizer, devices, kind, limit))


@pytest.mark.parametrize(("kind", "limit"), CASES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), size=st.floats(1e-3, 50))
def test_every_way_is_the_plain_one(cpu, kind, limit, seed, size):
    model = Small(seed)
    set_gradients(model, seed, size)
    trained = [p for p in model.parameters() if p.grad is not None]
    weights = [p.detach().double().numpy() for p in trained]
    gradients = [p.grad.double().numpy().copy() for p in trained]
    norm = clip(model, cpu, kind, limit)
    assert norm == pytest.approx(norm_of(flat(gradients)), rel=1e-5)
    expected = REFERENCES[kind](weights, gradients, limit)
    for parameter, reference in zip(trained, expected, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), reference, rtol=2e-5, atol=1e-7)
    assert model.frozen.grad is None


@pytest.mark.parametrize("kind", REFERENCES)
def test_what_is_not_given_is_the_usual_limit(kind):
    usual = {"norm": 1.0, "value": 1.0, "adaptive": 0.01}
    assert usual == LIMITS
    assert clipping_of(Pretraining(clipping=kind)) == (kind, usual[kind])
    assert clipping_of(Pretraining(clipping=kind, gradient_clip=0.3)) == (kind, 0.3)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_norm_tells_of_a_gradient_that_is_not_finite(cpu, kind, bad):
    """An infinite value that is cut off would look like any other."""
    model = Small(0)
    set_gradients(model, 1, 1.0)
    model.matrix.grad[2, 1] = bad
    assert not math.isfinite(clip(model, cpu, kind, 1.0))
