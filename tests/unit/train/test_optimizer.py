import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.config.sections.execution import Optimization
from aam.train.optimizer import adamw
from aam.train.options import step_options
from aam.train.schedule import warmup_cosine


def test_the_rate_rises_to_the_peak_and_falls_to_nothing():
    rates = [warmup_cosine(step, 100, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert rates[10] == 1
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 89 / 90)))
    assert rates[10:] == sorted(rates[10:], reverse=True)


@given(total=st.integers(1, 500), warmup=st.floats(0, 0.99))
def test_every_step_of_any_run_has_a_usable_rate(total, warmup):
    rates = [warmup_cosine(step, total, warmup) for step in range(total)]
    assert all(0 < rate <= 1 for rate in rates)
    assert max(rates) == pytest.approx(1)


def test_matrices_alone_are_decayed(new_model):
    model = new_model()
    frozen = model.encoder.asv.stem
    frozen.requires_grad_(False)
    optimizer = adamw(model, learning_rate=1e-3, weight_decay=0.1, fused=False)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decay = {
        names[id(p)]: group["weight_decay"]
        for group in optimizer.param_groups
        for p in group["params"]
    }
    trainable = {name for name, p in model.named_parameters() if p.requires_grad}
    assert set(decay) == trainable
    assert not any(name.startswith("encoder.asv.stem") for name in decay)
    for name, parameter in model.named_parameters():
        if name in decay:
            assert decay[name] == (0.1 if parameter.ndim >= 2 else 0.0), name
    assert decay["encoder.asv.blocks.0.norm_ffn.weight"] == 0
    assert decay["distances.unweighted.log_scale"] == 0


def test_levels_name_the_options_and_single_options_win():
    basic, advanced = (step_options(Optimization(level=level)) for level in ("basic", "advanced"))
    assert (basic.attention, basic.fused_optimizer) == ("math", False)
    assert (advanced.attention, advanced.fused_optimizer) == ("auto", True)
    chosen = step_options(Optimization(level="basic", attention="flash", fused_optimizer=True))
    assert (chosen.attention, chosen.fused_optimizer) == ("flash", True)
    assert not step_options(Optimization(level="advanced", fused_optimizer=False)).fused_optimizer
