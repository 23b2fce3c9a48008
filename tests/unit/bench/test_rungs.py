from dataclasses import fields, replace

from aam.bench.variants import (
    BATCH,
    ONE_PROCESS,
    OPTION,
    ORDER,
    Means,
    Mode,
    Variant,
    options,
    variants,
)

GPU = Means(accelerator=True, compiles=True, workers=3)


def differing(one: Mode, other: Mode) -> set[str]:
    return {f.name for f in fields(Mode) if getattr(one, f.name) != getattr(other, f.name)}


def test_rungs_change_one_thing_at_a_time_from_naive_to_configured(ladder_cfg):
    cfg = ladder_cfg()
    ladder = variants(cfg, Means())
    order = [rung.mode for rung in ladder if rung.group == ORDER and rung.mode is not None]
    assert order[0] == Mode(asvs_per_sample=40)
    changes = [differing(one, other) for one, other in zip(order[:-1], order[1:], strict=True)]
    assert changes == [
        {"copies"},
        {"asvs_per_sample"},
        {"attention"},
        {"precision"},
        {"fused_optimizer"},
        {"patch_bp"},
    ]
    last = order[-1]
    assert (last.precision, last.patch_bp, last.attention) == ("bf16", 5, "auto")
    alone = [rung for rung in ladder if rung.group == ONE_PROCESS]
    assert {rung.batch_size for rung in alone} == {2}
    assert [differing(order[0], rung.mode) for rung in alone[1:-1]] == changes
    assert [alone[0].mode, alone[-1].mode] == [order[0], last]
    batch = [rung for rung in ladder if rung.group == BATCH]
    assert {rung.batch_size for rung in batch} == {8}
    assert batch[-1].mode == last
    assert replace(last, precision="fp32", patch_bp=1) in [rung.mode for rung in batch]
    assert len({(rung.group, rung.name, rung.batch_size) for rung in ladder}) == len(ladder)


def test_a_cpu_says_that_it_has_no_loader(ladder_cfg):
    skipped = [rung for rung in variants(ladder_cfg(), Means(workers=3)) if rung.mode is None]
    assert [(rung.group, rung.name) for rung in skipped] == [
        (ORDER, "+ loader: a CPU assembles in the process")
    ]
    assert not any(r.mode.workers for r in variants(ladder_cfg(), Means(workers=3)) if r.mode)


def test_an_accelerator_gets_loader_and_compilation_and_what_the_configuration_says(ladder_cfg):
    ladder = variants(ladder_cfg(), GPU)
    order = {rung.name: rung.mode for rung in ladder if rung.group == ORDER}
    assert order["+ loader: 3 processes"].workers == 3
    assert order["+ compile: default"].compile == "default"
    assert order["+ patch stem of 5 bp"].compile == "default"
    configured = {r.batch_size: r.mode for r in ladder if r.name == "as configured"}
    assert {size: mode.compile for size, mode in configured.items()} == {4: "off", 8: "off"}
    assert {mode.workers for mode in configured.values()} == {3}


def test_a_compiler_that_is_missing_is_a_rung_that_is_not_run(ladder_cfg):
    asked = ladder_cfg(optimization={"compile": "max-autotune"})
    for cfg, means in ((asked, Means()), (ladder_cfg(), replace(GPU, compiles=False))):
        ladder = variants(cfg, means)
        assert [r.name for r in ladder if r.mode is None and "compile" in r.name] == [
            "+ compile: no working compiler"
        ]
        assert all(r.mode.compile == "off" for r in ladder if r.mode is not None)
    ladder = variants(asked, Means(compiles=True))
    assert "+ compile: max-autotune" in [rung.name for rung in ladder]


def test_what_the_configuration_asks_for_is_a_rung(ladder_cfg):
    cfg = ladder_cfg(
        pretraining={"precision": "fp16", "optimizer": "muon"},
        optimization={"checkpointing": True, "attention": "memory_efficient"},
        benchmark={"alone_batch_size": None},
    )
    for means, precision in ((Means(), "bf16"), (GPU, "fp16")):
        ladder = variants(cfg, means)
        names = [rung.name for rung in ladder]
        for name in ("+ attention: memory efficient", f"+ {precision}", "+ muon"):
            assert name in names
        assert {rung.mode.checkpointing for rung in ladder if rung.group == BATCH} == {True}
        assert ONE_PROCESS not in {rung.group for rung in ladder}


def test_where_the_configuration_is_plain_it_is_timed_beside_what_it_leaves(ladder_cfg):
    cfg = ladder_cfg(pretraining={"precision": "fp32"}, optimization={"level": "basic"})
    ladder = variants(cfg, Means())
    order = [rung.mode for rung in ladder if rung.group == ORDER and rung.mode is not None]
    assert (order[-1].precision, order[-1].attention) == ("bf16", "auto")
    configured = [rung for rung in ladder if rung.name == "as configured"]
    assert [rung.batch_size for rung in configured] == [4, 8]
    assert {rung.mode.attention for rung in configured} == {"math"}
    assert {rung.mode.precision for rung in configured} == {"fp32"}


def test_further_options_differ_in_one_thing_and_are_not_in_the_ladder(ladder_cfg):
    cfg = ladder_cfg()
    ladder, more = variants(cfg, GPU), options(cfg, GPU)
    base = next(r.mode for r in ladder if r.name == "as configured")
    assert {rung.group for rung in more} == {OPTION}
    assert {rung.batch_size for rung in more} == {8}
    assert more[0] == Variant(OPTION, "naive", 8, ladder[0].mode)
    for rung in more[1:]:
        assert len(differing(replace(base, patch_bp=rung.mode.patch_bp), rung.mode)) <= 1
    modes = [rung.mode for rung in more]
    assert len(set(modes)) == len(modes)
    assert not {r.mode for r in ladder if r.batch_size == 8} & set(modes)
    values = {name: {getattr(mode, name) for mode in modes} for name in ("compile", "attention")}
    assert {"reduce-overhead", "max-autotune"} <= values["compile"]
    assert {"flash", "memory_efficient", "math"} <= values["attention"]
    assert "fp16" in {mode.precision for mode in modes}
    assert "fp16" not in {rung.mode.precision for rung in options(cfg, Means())}
