import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.train.optimizer import (
    MUON_RATE,
    BatchedMuon,
    fraction_of_peak,
    make_optimizer,
    set_rate,
)
from aam.train.options import LEVELS, StepOptions, step_options
from aam.train.step import learning_rate


@given(total=st.integers(1, 500), warmup=st.floats(0, 0.99), is_linear=st.booleans())
def test_the_rate_rises_to_the_peak_and_falls_to_nothing(total, warmup, is_linear):
    rates = [
        fraction_of_peak(step, total, warmup=warmup, is_linear=is_linear) for step in range(total)
    ]
    assert all(0 < rate <= 1 for rate in rates)
    assert max(rates) == pytest.approx(1)
    falling = rates[round(warmup * total) :]
    assert falling == sorted(falling, reverse=True)


def test_a_rise_of_a_tenth_and_half_a_cosine():
    settings = Pretraining(learning_rate=1.0, learning_rate_decay="cosine")
    rates = [learning_rate(settings, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert (rates[10], rates[55]) == (1, pytest.approx(0.5))
    assert rates[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 89 / 90)))


def test_a_rise_of_a_tenth_and_a_straight_line():
    settings = Pretraining(learning_rate=2.0, learning_rate_decay="linear")
    rates = [learning_rate(settings, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * (i + 1) for i in range(10)])
    assert rates[10:] == pytest.approx([2.0 * (1 - i / 90) for i in range(90)])


def optimizer_of(model, name, *, fused=False):
    return make_optimizer(model, Pretraining(optimizer=name), fused=fused)


def groups_by_name(model, optimizer) -> dict[str, dict]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group for group in optimizer.param_groups for p in group["params"]}


def test_muon_moves_the_matrices_of_the_blocks_by_orthogonal_steps(new_model, monkeypatch):
    monkeypatch.setattr(Pretraining, "weight_decay", 0.0)
    model = new_model()
    optimizer = optimizer_of(model, "muon", fused=True)
    set_rate(optimizer, 5e-4)
    weight = model.encoder.sample.blocks[0].out.weight
    head = model.distances["unweighted"].project.weight
    before = {w: w.detach().clone() for w in (weight, head)}
    rng = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=rng)
    optimizer.step()
    step = (before[weight] - weight).detach() / (MUON_RATE * 5e-4)
    singular = torch.linalg.svdvals(step)
    assert 0.3 < singular.min() <= singular.max() < 1.5
    adam = (before[head] - head).detach() / 5e-4
    torch.testing.assert_close(adam.abs(), torch.ones_like(adam), atol=1e-3, rtol=0)


def test_matrices_that_are_updated_together_move_as_each_by_itself():
    """Matrices without a gradient stay, and a state is read by either."""
    shapes = [(8, 24), (24, 8), (8, 8), (24, 8), (6, 40), (8, 24)]
    rng = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=rng) for shape in shapes]
    kinds = (torch.optim.Muon, BatchedMuon)
    both = [[torch.nn.Parameter(x.clone()) for x in start] for _ in kinds]
    steppers = [
        kind(parameters, lr=0.02, weight_decay=0.1)
        for kind, parameters in zip(kinds, both, strict=True)
    ]
    for step in range(4):
        if step == 2:
            steppers[1].load_state_dict(copy.deepcopy(steppers[0].state_dict()))
        for pair in zip(*both, strict=True):
            gradient = torch.randn(pair[0].shape, generator=rng)
            for matrix in pair:
                matrix.grad = gradient.clone() if step or matrix.shape != (6, 40) else None
        for stepper in steppers:
            stepper.step()
        for before, one, other in zip(start, *both, strict=True):
            torch.testing.assert_close(other, one, atol=1e-3, rtol=0)
            assert torch.equal(one, before) == (step == 0 and one.shape == (6, 40))


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize(("encoder", "layers"), [("transformer", 3), ("bilstm", 3), ("bdh", 1)])
def test_muon_takes_the_matrices_of_the_layers(new_model, new_encoder, encoder, layers, name):
    """An LSTM's matrices of four gates are taken whole; all iterations of BDH are one layer.

    Matrices alone are decayed, and what is not trained is in no group.
    """
    model = new_model()
    model.encoder = new_encoder(20, encoder=encoder, asv_layers=3, sample_layers=2)
    assert len(model.encoder.asv.blocks) == layers
    model.encoder.asv.stem.requires_grad_(False)
    optimizer = optimizer_of(model, name)
    set_rate(optimizer, 1e-2)
    groups = groups_by_name(model, optimizer)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert set(groups) == set(trained)
    assert "encoder.asv.stem.weight" not in trained
    for parameter, value in trained.items():
        is_muons = name == "muon" and ".blocks." in parameter and value.ndim == 2
        group = groups[parameter]
        assert ("ns_steps" in group) == is_muons, parameter
        rate = 1e-2 * (MUON_RATE if is_muons else 1)
        assert group["lr"] == pytest.approx(rate), parameter
        assert group["weight_decay"] == (0.01 if value.ndim >= 2 else 0.0), parameter


def test_a_model_without_trainable_blocks_is_left_to_adamw(new_model):
    model = new_model()
    model.encoder.requires_grad_(False)
    (part,) = optimizer_of(model, "muon", fused=True).parts
    assert isinstance(part, torch.optim.AdamW)


def test_levels_name_the_options_and_single_options_win():
    assert set(LEVELS) == {"basic", "advanced", "ultra", "custom"}
    levels = ("basic", "advanced", "ultra")
    basic, advanced, ultra = (step_options(Optimization(level=level)) for level in levels)
    assert step_options(Optimization()) == advanced
    assert ultra == advanced.model_copy(update={"compile": "default", "level": "ultra"})
    assert (basic.attention, basic.fused_optimizer) == ("math", False)
    assert (advanced.attention, advanced.fused_optimizer) == ("auto", True)
    assert (basic.compile, basic.checkpointing, basic.deterministic) == ("off", False, False)
    chosen = step_options(Optimization(level="basic", attention="flash", fused_optimizer=True))
    assert (chosen.attention, chosen.fused_optimizer) == ("flash", True)
    given = {"attention": "math", "fused_optimizer": False, "compile": "off", "checkpointing": True}
    given |= {"deterministic": False, "level": "custom"}
    assert step_options(Optimization(**given)) == StepOptions(**given)
    with pytest.raises(ValueError, match="without compile; expected every option"):
        Optimization(**{**given, "compile": None})
