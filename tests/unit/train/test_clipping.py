import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn

from aam.config.sections.training import Pretraining
from aam.train.clipping import LEAST_WEIGHTS, REMEMBERED, Clipping
from aam.train.distributed.devices import Devices

pytestmark = pytest.mark.usefixtures("one_thread")


def norm_of(values) -> float:
    return math.sqrt(sum(value * value for value in values))


def flat(gradients) -> list[float]:
    return [value for gradient in gradients for value in np.ravel(gradient).tolist()]


def by_norm(weights, gradients, limit, history):
    share = min(1.0, limit / (norm_of(flat(gradients)) + 1e-6))
    return [gradient * share for gradient in gradients]


def by_value(weights, gradients, limit, history):
    return [np.clip(gradient, -limit, limit) for gradient in gradients]


def by_unit(weights, gradients, limit, history):
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


def by_percentile(weights, gradients, limit, history):
    history.append(norm_of(flat(gradients)))
    most = np.percentile(history[-REMEMBERED:], limit)
    return by_norm(weights, gradients, most, history)


REFERENCES = {
    "norm": by_norm,
    "value": by_value,
    "adaptive": by_unit,
    "percentile": by_percentile,
}
CASES = [("norm", 0.5), ("value", 0.2), ("adaptive", 0.05), ("percentile", 30.0)]


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


def clip(clipping, model, devices):
    wrapped, optimizer = devices.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return float(clipping(wrapped, optimizer, devices))


@pytest.mark.parametrize(("kind", "limit"), CASES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), sizes=st.lists(st.floats(1e-3, 50), min_size=1, max_size=6))
def test_every_way_is_the_plain_one(cpu, kind, limit, seed, sizes):
    clipping, history = Clipping(kind, limit), []
    for step, size in enumerate(sizes):
        model = Small(seed)
        set_gradients(model, seed + step, size)
        trained = [p for p in model.parameters() if p.grad is not None]
        weights = [p.detach().double().numpy() for p in trained]
        gradients = [p.grad.double().numpy().copy() for p in trained]
        norm = clip(clipping, model, cpu)
        assert norm == pytest.approx(norm_of(flat(gradients)), rel=1e-5)
        expected = REFERENCES[kind](weights, gradients, limit, history)
        for parameter, reference in zip(trained, expected, strict=True):
            np.testing.assert_allclose(parameter.grad.numpy(), reference, rtol=2e-5, atol=1e-7)
        assert model.frozen.grad is None


@pytest.mark.parametrize("kind", REFERENCES)
def test_what_is_not_given_is_the_usual_limit(cpu, kind):
    usual = {"norm": 1.0, "value": 1.0, "adaptive": 0.01, "percentile": 10.0}[kind]
    found = []
    for limit in (None, usual):
        clipping = Clipping.of(Pretraining(clipping=kind, gradient_clip=limit))
        for size in (1.0, 30.0):
            model = Small(0)
            set_gradients(model, 1, size)
            clip(clipping, model, cpu)
        found.append(model.matrix.grad)
    assert torch.equal(*found)
    assert float(found[0].norm()) < 30


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_norm_tells_of_a_gradient_that_is_not_finite(cpu, kind, bad):
    """An infinite value that is cut off would look like any other."""
    model = Small(0)
    set_gradients(model, 1, 1.0)
    model.matrix.grad[2, 1] = bad
    assert not math.isfinite(clip(Clipping(kind), model, cpu))


def test_norms_that_are_not_finite_are_not_remembered(cpu):
    ways = [Clipping("percentile", 50.0) for _ in range(2)]
    for way, bad_steps in zip(ways, (0, 3), strict=True):
        for step in range(4):
            for bad in range(bad_steps if step == 2 else 0):
                model = Small(0)
                set_gradients(model, bad, float("inf"))
                clip(way, model, cpu)
            model = Small(0)
            set_gradients(model, step, 1.0 + step)
            clip(way, model, cpu)
            way.last = model.matrix.grad
    assert torch.equal(ways[0].last, ways[1].last)


def test_the_memory_of_norms_is_bounded_and_goes_on_from_its_state(cpu, monkeypatch):
    monkeypatch.setattr("aam.train.clipping.REMEMBERED", 4)
    whole, first = Clipping("percentile", 25.0), Clipping("percentile", 25.0)
    rest = Clipping("percentile", 25.0)
    norms, found = [], []
    for step in range(11):
        if step == 6:
            rest.restore(copy.deepcopy(first.state()))
        for clipping in (whole, first if step < 6 else rest):
            model = Small(0)
            set_gradients(model, step, 1.0 + step % 5)
            before = norm_of(
                flat([p.grad.numpy() for p in model.parameters() if p.grad is not None])
            )
            clip(clipping, model, cpu)
            found.append(
                norm_of(flat([p.grad.numpy() for p in model.parameters() if p.grad is not None]))
            )
        norms.append(before)
        limit = np.percentile(norms[-4:], 25)
        assert found[-1] == found[-2] == pytest.approx(min(before, limit), rel=1e-4)
    assert whole.state()["norm_H"].shape == (4,)
    assert Clipping("norm").state() == {}


def test_a_percentile_is_not_above_a_hundred():
    with pytest.raises(ValidationError, match="expected at most 100"):
        Pretraining(clipping="percentile", gradient_clip=101)
    assert Pretraining(clipping="norm", gradient_clip=101).gradient_clip == 101
