import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from aam.config.sections.execution import Optimization
from aam.train.optimizer import MUON_RATE, make_optimizer, set_rate, warmup_cosine
from aam.train.options import step_options


@given(total=st.integers(1, 500), warmup=st.floats(0, 0.99))
@example(total=100, warmup=0.1)
def test_the_rate_rises_to_the_peak_and_falls_to_nothing(total, warmup):
    rates, rising = [warmup_cosine(step, total, warmup) for step in range(total)], warmup * total
    assert all(0 < rate <= 1 for rate in rates)
    assert max(rates) == pytest.approx(1)
    falling = rates[round(rising) :]
    assert falling == sorted(falling, reverse=True)
    if (total, warmup) == (100, 0.1):
        assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
        assert (rates[10], rates[55]) == (1, pytest.approx(0.5))
        assert rates[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 89 / 90)))


def groups_by_name(model, optimizer) -> dict[str, dict]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group for group in optimizer.param_groups for p in group["params"]}


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_matrices_alone_are_decayed(new_model, name):
    model = new_model()
    frozen = model.encoder.asv.stem
    frozen.requires_grad_(False)
    optimizer = make_optimizer(model, name, learning_rate=1e-3, weight_decay=0.1, fused=False)
    groups = groups_by_name(model, optimizer)
    assert set(groups) == {name for name, p in model.named_parameters() if p.requires_grad}
    assert not any(name.startswith("encoder.asv.stem") for name in groups)
    for name, parameter in model.named_parameters():
        if name in groups:
            expected = 0.1 if parameter.ndim >= 2 else 0.0
            assert groups[name]["weight_decay"] == expected, name
    assert groups["encoder.asv.blocks.0.norm_ffn.weight"]["weight_decay"] == 0
    assert groups["distances.unweighted.log_scale"]["weight_decay"] == 0


def test_muon_moves_the_matrices_of_the_blocks_by_orthogonal_steps(new_model):
    model = new_model()
    optimizer = make_optimizer(model, "muon", learning_rate=1e-3, weight_decay=0, fused=True)
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
    assert singular.min() > 0.3
    assert singular.max() < 1.5
    adam = (before[head] - head).detach() / 5e-4
    torch.testing.assert_close(adam.abs(), torch.ones_like(adam), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_layers_further_from_the_output_learn_more_slowly(new_model, name):
    model = new_model()
    optimizer = make_optimizer(
        model, name, learning_rate=1e-3, weight_decay=0.1, fused=False, layer_decay=0.5
    )
    set_rate(optimizer, 1e-2)
    groups = groups_by_name(model, optimizer)
    assert set(groups) == {name for name, _ in model.named_parameters()}
    asv, sample = len(model.encoder.asv.blocks), len(model.encoder.sample.blocks)
    expected = {
        "nucleotides.bases.weight": 0,
        "encoder.sample.pooling.score.weight": 0,
        f"encoder.sample.blocks.{sample - 1}.norm_ffn.weight": 1,
        "encoder.sample.blocks.0.norm_ffn.weight": sample,
        "encoder.sample.abundance.weight": sample + 1,
        "encoder.asv.pooling.score.weight": sample + 1,
        "encoder.asv.blocks.0.norm_ffn.weight": sample + 1 + asv,
        "encoder.asv.stem.weight": sample + asv + 2,
    }
    for parameter, depth in expected.items():
        assert groups[parameter]["lr"] == pytest.approx(1e-2 * 0.5**depth), parameter
    blocks = groups["encoder.sample.blocks.0.qkv.weight"]["lr"]
    assert blocks == pytest.approx(1e-2 * 0.5**sample * (MUON_RATE if name == "muon" else 1))


@pytest.mark.parametrize(("encoder", "layers"), [("bilstm", 3), ("bdh", 1)])
def test_other_encoders_layers_are_muons_and_have_their_depth(
    new_model, new_encoder, encoder, layers
):
    """An LSTM's matrices of four gates are taken whole; all iterations of BDH are one layer."""
    model = new_model()
    model.encoder.asv = new_encoder(20, encoder=encoder, asv_layers=3).asv
    optimizer = make_optimizer(
        model, "muon", learning_rate=1e-3, weight_decay=0.1, fused=False, layer_decay=0.5
    )
    groups = groups_by_name(model, optimizer)
    assert set(groups) == {name for name, _ in model.named_parameters()}
    above = len(model.encoder.sample.blocks) + 1
    assert groups["encoder.asv.stem.weight"]["rate"] == 0.5 ** (above + layers + 1)
    assert len(model.encoder.asv.blocks) == layers
    for name, parameter in model.encoder.asv.blocks.named_parameters():
        group = groups[f"encoder.asv.blocks.{name}"]
        assert ("ns_steps" in group) == (parameter.ndim == 2), name
        assert group["rate"] == 0.5 ** (above + layers - int(name.split(".")[0])), name


def test_a_model_without_trainable_blocks_is_left_to_adamw(new_model):
    model = new_model()
    model.encoder.requires_grad_(False)
    optimizer = make_optimizer(model, "muon", learning_rate=1e-3, weight_decay=0.1, fused=True)
    (part,) = optimizer.parts
    assert isinstance(part, torch.optim.AdamW)


def test_levels_name_the_options_and_single_options_win():
    basic, advanced = (step_options(Optimization(level=level)) for level in ("basic", "advanced"))
    assert (basic.attention, basic.fused_optimizer) == ("math", False)
    assert (advanced.attention, advanced.fused_optimizer) == ("auto", True)
    assert (basic.compile, basic.checkpointing, basic.deterministic) == ("off", False, False)
    chosen = step_options(Optimization(level="basic", attention="flash", fused_optimizer=True))
    assert (chosen.attention, chosen.fused_optimizer) == ("flash", True)
    assert not step_options(Optimization(level="advanced", fused_optimizer=False)).fused_optimizer
    assert step_options(Optimization(compile="default")).compile == "default"
