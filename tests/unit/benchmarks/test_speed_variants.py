from dataclasses import fields, replace

import pytest

from benchmarks.accelerator import EVERY_OPTION, OPTION, OPTIONS, options
from benchmarks.speed.variants import ALONE, BATCH, ORDER, Hardware, Mode, Variant, variants

CPU, GPU = Hardware(workers=3), Hardware(accelerator=True, compiles=True, workers=3)


def differing(one: Mode, other: Mode) -> set[str]:
    return {f.name for f in fields(Mode) if getattr(one, f.name) != getattr(other, f.name)}


def test_variants_change_one_thing_at_a_time_from_naive_to_configured(speed_settings):
    found = variants(speed_settings(), CPU)
    order = [variant.mode for variant in found if variant.group == ORDER]
    model = {"patch_bp": 5, "optimizer": "adamw"}
    assert order[0] == Mode(True, True, True, asvs_per_sample=40, recompute=True, **model)
    changes = [differing(one, other) for one, other in zip(order[:-1], order[1:], strict=True)]
    names = """asvs_per_sample encoded_padding recompute copies chunks asvs_per_sample attention
    precision fused_optimizer"""
    assert changes == [{name} for name in names.split()]
    last = order[-1]
    assert last == Mode(precision="bf16", attention="auto", fused_optimizer=True, **model)
    alone = [variant for variant in found if variant.group == ALONE]
    assert {variant.batch_size for variant in alone} == {2}
    assert {v.mode.asvs_per_sample for v in alone[1:-1]} == {40, 0, None}
    assert [differing(order[0], variant.mode) for variant in alone[1:-1]] == changes
    assert [alone[0].mode, alone[-1].mode] == [order[0], last]
    batch = [variant for variant in found if variant.group == BATCH]
    assert {variant.batch_size for variant in batch} == {8}
    assert batch[-1].mode == last
    assert replace(last, precision="fp32") in [variant.mode for variant in batch]
    assert len({str(variant) for variant in found}) == len(found)
    assert not any(mode.workers for mode in order)


@pytest.mark.parametrize(
    ("asked", "hardware", "last"),
    [
        ({}, GPU, {"workers": 3, "pinned": True}),
        ({"compile": "max-autotune"}, GPU,
         {"compile": "max-autotune", "workers": 3, "pinned": True}),
        ({"compile": "max-autotune"}, Hardware(compiles=True), {"compile": "max-autotune"}),
        ({"compile": "max-autotune"}, CPU, {}),
        ({}, replace(CPU, bf16=False), {"precision": "fp32"}),
        ({"precision": "fp16"}, CPU, {}),
        ({"precision": "fp16", "checkpointing": True}, GPU,
         {"precision": "fp16", "checkpointing": True, "workers": 3, "pinned": True}),
        ({"deterministic": True}, CPU, {"deterministic": True}),
    ],
)  # fmt: skip
def test_the_last_mode_is_what_a_training_does_on_the_machine(
    speed_settings, asked, hardware, last
):
    found = variants(speed_settings(optimization=asked), hardware)
    usual = Mode(patch_bp=5, precision="bf16", attention="auto", fused_optimizer=True)
    (mode,) = {variant.mode for variant in found if variant.name == "all together"}
    assert mode == replace(usual, **last) == [v.mode for v in found if v.group == ORDER][-1]


def test_further_options_differ_in_one_thing_and_are_in_no_other_group(speed_settings):
    settings = speed_settings()
    found, more = variants(settings, GPU), options(settings, GPU, EVERY_OPTION)
    base = next(variant.mode for variant in found if variant.name == "all together")
    assert {(variant.group, variant.batch_size) for variant in more} == {(OPTION, 8)}
    assert more[0] == Variant(OPTION, "naive", 8, found[0].mode)
    modes = [variant.mode for variant in more]
    assert all(len(differing(base, mode)) == 1 for mode in modes[1:])
    assert len(set(modes)) == len(modes)
    assert not {variant.mode for variant in found if variant.batch_size == 8} & set(modes)
    assert {mode.name for mode in options(settings, GPU, ["checkpointing"])} == {
        "checkpointing: on"
    }
    said = {value for mode in modes for value in (mode.compile, mode.attention, mode.precision)}
    assert said >= {"reduce-overhead", "max-autotune", "flash", "memory_efficient", "math", "fp16"}
    assert "fp16" not in {variant.mode.precision for variant in options(settings, CPU, OPTIONS)}
