import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aam.config.sections.execution import Optimization
from aam.train.options import step_options
from aam.train.step import LEAST_WEIGHTS, clip_gradients


def norm_of(arrays) -> float:
    return math.sqrt(sum(value**2 for array in arrays for value in np.ravel(array).tolist()))


def plainly(kind, weights, gradients, limit):
    """Return the gradients, clipped number by number and unit by unit; a vector is one unit."""
    if kind == "norm":
        return [g * min(1.0, limit / (norm_of(gradients) + 1e-6)) for g in gradients]
    if kind == "value":
        return [np.clip(g, -limit, limit) for g in gradients]
    clipped = [np.array(g) for g in gradients]
    for weight, gradient in zip(weights, clipped, strict=True):
        for unit in range(len(gradient)) if gradient.ndim > 1 else [...]:
            most = limit * max(norm_of([weight[unit]]), LEAST_WEIGHTS)
            gradient[unit] *= min(1.0, most / norm_of([gradient[unit]]))
    return clipped


def new_model(seed: int, size: float) -> nn.ParameterDict:
    """Return a matrix, one whose weights are 0, a vector, a number; and what has no gradient."""
    made = torch.Generator().manual_seed(seed)
    values = {
        "matrix": torch.randn(5, 3, generator=made),
        "zeros": torch.zeros(2, 4),
        "vector": torch.randn(6, generator=made),
        "number": torch.tensor(0.3),
    }
    model = nn.ParameterDict(values)
    for parameter in model.values():
        parameter.grad = size * torch.randn(parameter.shape, generator=made)
    model["frozen"] = nn.Parameter(torch.ones(2))
    return model


def clip(model, devices, kind, limit):
    wrapped = devices.setup_model(model)
    optimizer = devices.setup_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return float(clip_gradients(wrapped, optimizer, devices, kind, limit))


@pytest.mark.parametrize(("kind", "limit"), [("norm", 0.5), ("value", 0.2), ("adaptive", 0.05)])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), size=st.floats(1e-3, 50))
def test_every_way_is_the_plain_one(devices, kind, limit, seed, size):
    model = new_model(seed, size)
    trained = [p for p in model.values() if p.grad is not None]
    weights = [p.detach().double().numpy() for p in trained]
    gradients = [p.grad.double().numpy() for p in trained]
    assert clip(model, devices, kind, limit) == pytest.approx(norm_of(gradients), rel=1e-5)
    expected = plainly(kind, weights, gradients, limit)
    for parameter, reference in zip(trained, expected, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), reference, rtol=2e-5, atol=1e-7)
    assert model["frozen"].grad is None


@pytest.mark.parametrize(("kind", "usual"), [("norm", 1.0), ("value", 1.0), ("adaptive", 0.01)])
def test_what_is_not_given_is_the_usual_limit(kind, usual):
    assert step_options(Optimization(clipping=kind)).clipping_limit == usual
    assert step_options(Optimization(clipping=kind, gradient_clip=0.3)).clipping_limit == 0.3


@pytest.mark.parametrize(
    ("kind", "bad"), [("norm", math.nan), ("value", math.inf), ("adaptive", math.inf)]
)
def test_a_norm_tells_of_a_gradient_that_is_not_finite(devices, kind, bad):
    """An infinite value that is cut off would look like any other."""
    model = new_model(0, 1.0)
    model["matrix"].grad[2, 1] = bad
    assert not math.isfinite(clip(model, devices, kind, 1.0))
