import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from stage_calls import as_outputs

from aam.config.figures import PLOTS
from aam.config.settings.plot import PlotSettings
from aam.config.settings.training import SpeedSettings
from aam.distributed import devices
from aam.model.batch import Batch
from aam.stages.plot import draw_figures
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.run_options import RunOptions
from benchmarks.speed import measurements
from benchmarks.speed.ablation import COLUMNS, Ablation, measure_speed, run_ablation, steps_request
from benchmarks.speed.measurements import StepTimes
from benchmarks.speed.subprocess_runner import SubprocessRunner
from benchmarks.speed.variants import ALONE, BATCH, ORDER, Hardware, Mode, variants

CONTRACT = """name batch_size step_ms_median step_ms_iqr samples_per_s peak_memory_mb speedup
loss_after_steps""".split()
NAIVE = Mode(True, True, True, 40, True)
OPTIMIZED = Mode(patch_bp=5)


def request_steps(mode: Mode, settings: SpeedSettings, files, batch_size=4) -> dict:
    return steps_request(settings.training, files, mode, batch_size, settings.seconds, RunOptions())


def run_mode(mode: Mode, settings: SpeedSettings, files, batch_size=4) -> dict:
    request = request_steps(mode, settings, files, batch_size)
    return measurements.run(json.loads(json.dumps(request, default=str)))


def test_every_kind_of_batch_learns_the_same(files, speed_settings, monkeypatch):
    monkeypatch.setattr(measurements, "MOST_STEPS", 3)
    settings = speed_settings(
        pretraining={"nucleotide_weight": 0}, optimization={"precision": "fp32"}
    )
    modes = {
        "naive": NAIVE,
        "copied": Mode(copies=True, chunks=True),
        "padded": Mode(asvs_per_sample=40),
        "optimized": Mode(),
        "checkpointing": Mode(checkpointing=True),
    }
    results = {name: run_mode(mode, settings, files) for name, mode in modes.items()}
    expected = results["optimized"]
    assert len(set(expected["losses"])) == 4
    for result in results.values():
        np.testing.assert_allclose(result["losses"], expected["losses"], rtol=1e-3)
        assert result["parameters"] == expected["parameters"]
        times = zip(result["loading_s"], result["step_s"], strict=True)
        assert [0 < loading_s < step_s for loading_s, step_s in times] == [True] * 3
        assert result["peak_memory_mb"] > 0
        assert (result["precision"], result["recompilations"]) == ("fp32", 0)
    assert results["naive"]["distinct_asvs"] == [4 * 40] * 3
    encoded = {name: sum(result["distinct_asvs"]) for name, result in results.items()}
    assert encoded["optimized"] == encoded["padded"] < encoded["copied"] < encoded["naive"]
    flops = {name: sum(result["flops"]) for name, result in results.items()}
    assert results["checkpointing"]["launches"] > expected["launches"] > 400
    assert flops["checkpointing"] == flops["optimized"] < flops["padded"] < flops["naive"]


def test_a_model_that_is_used_as_it_came_is_timed_with_the_default_epochs(
    files, speed_settings, monkeypatch
):
    monkeypatch.setattr(measurements, "MOST_STEPS", 2)
    settings = speed_settings()
    pretraining = settings.training.pretraining.model_copy(update={"epochs": 0})
    training = settings.training.model_copy(update={"start": "other", "pretraining": pretraining})
    expected = run_mode(OPTIMIZED, settings, files)
    result = run_mode(OPTIMIZED, settings.model_copy(update={"training": training}), files)
    assert result["losses"] == expected["losses"]


def test_a_request_has_the_exponent_of_unifrac_and_needs_no_start(speed_settings):
    settings = speed_settings(
        unifrac={"metrics": ["generalized"], "alpha": 0.25}, pretraining={"targets": "batch"}
    )
    training = settings.training.model_copy(
        update={"start": "other", "studies": {"column": "study"}}
    )
    timed = request_steps(OPTIMIZED, settings.model_copy(update={"training": training}), {})[
        "settings"
    ]
    assert timed["alpha"] == 0.25
    assert timed.keys() == {"alpha", "model", "pretraining", "optimization"}


def test_a_mode_is_what_the_step_gets(files, speed_settings, monkeypatch):
    monkeypatch.setattr(devices, "has_fast_bf16", lambda: True)
    seen, real = [], measurements.train_step
    monkeypatch.setattr(measurements, "MOST_STEPS", 2)
    monkeypatch.setattr(measurements, "train_step", lambda *a, **k: seen.append(a) or real(*a, **k))
    options = {"precision": "bf16", "optimizer": "muon", "attention": "flash"}
    mode = replace(OPTIMIZED, **options, checkpointing=True, fused_optimizer=True)
    result = run_mode(mode, speed_settings(), files, batch_size=8)
    encoder, optimizer = seen[0][0].module.encoder, seen[0][1].optimizer
    assert (result["precision"], result["sizes"][0]) == ("bf16", 8)
    assert (encoder.backend, encoder.shape.patch_bp) == ("flash", 5)
    assert (encoder.asv.keeps_layers, encoder.keeps_blocks) == (False, True)
    assert [type(part).__name__ for part in optimizer.parts] == ["AdamW", "BatchedMuon"]
    assert optimizer.parts[0].defaults["fused"] is True
    run_mode(NAIVE, speed_settings(), files)
    assert not seen[-1][0].module.encoder.keeps_blocks


@pytest.mark.parametrize(
    ("step_s", "seconds", "timed", "eager"),
    [
        (0.1, 60.0, measurements.MOST_STEPS, True),
        (0.1, 0.35, 4, False),
        (0.3, 0.35, 2, False),
        (2.0, 1.0, 1, False),
    ],
)
def test_when_steps_end(step_s, seconds, timed, eager, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    batch = Batch([], [], torch.arange(4), {}, {})
    seen = StepTimes(torch.device("cpu"), seconds, eager=eager)
    while seen.go_on():
        # The first step of a compiled model takes long, however fast the model is.
        now[0] += step_s if eager or seen.step else 100.0
        seen.add(batch, torch.tensor(1.5), 0.25 * step_s, 7)
    result = seen.result()
    np.testing.assert_allclose(result["step_s"], [step_s] * timed)
    assert (result["sizes"], result["flops"]) == ([4] * timed, [7] * timed)
    warm_up = len(result["losses"]) - timed
    assert warm_up == (1 if eager else 2 if step_s > seconds else min(5, 2 + int(seconds / step_s)))


def ablation(settings, measure) -> Ablation:
    return run_ablation(measure, settings, {}, RunOptions())


def test_the_table_compares_samples_per_second_and_losses_at_one_step(speed_settings, stand_in):
    table = ablation(speed_settings(), stand_in).table
    assert list(table.columns) == COLUMNS
    assert COLUMNS[: len(CONTRACT)] == CONTRACT
    by_group = dict(list(table.groupby("group")))
    naive, order, alone = table.iloc[0], by_group[ORDER], by_group[ALONE]
    expected = {
        "step_ms_median": 1100,
        "samples_per_s": 4 / 1.1,
        "speedup": 1,
        "timed_steps": 4,
        "launches_per_step": 900,
        "loading_share": 0.1 / 1.1,
        "gflop_per_step": 0.2,
        "gflop_per_s": 0.2 / 1.1,
        "roofline_share": 0.2 / 1.1 / 5,
    }
    assert naive["name"] == "naive"
    assert naive[list(expected)].to_dict() == pytest.approx(expected)
    assert by_group[BATCH]["speedup"].isna().all()
    assert alone.iloc[0]["speedup"] == 1
    assert alone.iloc[-1]["speedup"] == pytest.approx(2 / 0.05 / (2 / 1.1))
    assert set(order["loss_step"].dropna()) == {2}
    assert order["loss_after_steps"].dropna().tolist() == pytest.approx([3.95] * 10)
    assert set(by_group[BATCH]["loss_step"]) == {4}


def test_a_variant_that_cannot_run_leaves_the_others_their_figures(speed_settings, stand_in):
    settings = speed_settings(benchmark={"alone_batch_size": None})
    expected = variants(settings, Hardware())
    copied = [v for v in expected if v.mode.copies]

    def fails_for_copies(request):
        return None if request.get("batch", {}).get("copies") else stand_in(request)

    found = ablation(settings, fails_for_copies)
    ran = found.table["step_ms_median"].notna()
    assert found.table["name"][~ran].tolist() == [v.name for v in copied]
    assert found.table["speedup"].isna().all()
    assert "| order | naive | 4 | not run |" in found.page({})


def test_the_stage_interleaves_repeats_and_writes_table_page_and_roofline(
    files, speed_cfg, stand_in, instead_of_processes, tmp_path
):
    asked, plain_settings = [], speed_cfg()
    instead_of_processes(lambda request: asked.append(request) or stand_in(request))
    outputs = {name: tmp_path / name for name in ("table", "text", "roofline")}
    settings = SpeedSettings.model_validate(plain_settings)
    assert settings.plain() == plain_settings, "by whose digest the table is known"
    measure_speed(
        inputs=PretrainInputs.model_validate(files),
        settings=settings,
        runtime=RunOptions(),
        **as_outputs(outputs),
    )
    expected = variants(settings, Hardware())
    steps = len(expected)
    kinds = [request["kind"] for request in asked]
    assert kinds == ["device", "roofline", *["steps"] * steps * 2]
    assert asked[2 : 2 + steps] == asked[2 + steps :]
    assert asked[1]["precisions"] == ["bf16", "fp32"]
    assert len(pd.read_csv(outputs["table"], sep="\t")) == len(expected)
    text = outputs["text"].read_text()
    assert text.count("\n| ") == len(expected) + 1
    for words in (
        "| order | naive | 4 | 1,100 (",
        "- matrix products, bf16: 5 GFLOP/s, IQR",
        "3 measurements of 8 x 8 x 8",
        *(f"\n- {name}: " for name in ("commit", "processor", "aam.settings")),
        *(f"\n- {fact}\n" for fact in ("device: none", "threads: 1")),
    ):
        assert words in text
    roofline = json.loads(outputs["roofline"].read_text())
    assert (roofline["fp32"]["median"], roofline["fp32"]["count"]) == (pytest.approx(5e9), 3)
    assert set(roofline) == {"fp32", "bf16", "copy", "about"}


def test_requests_run_in_processes_of_their_own(files, speed_settings):
    settings = speed_settings(benchmark={"seconds": 1e-9})
    good = request_steps(OPTIMIZED, settings, files)
    bad = request_steps(Mode(asvs_per_sample=1), settings, files)
    with SubprocessRunner() as measure:
        device = measure({"kind": "device", "threads": 1, "compile": False})
        first, failed, last = (measure(request) for request in (good, bad, good))
        measure._server.kill()
        with pytest.raises(RuntimeError, match="has ended"):
            measure(good)
    assert device["about"]["torch"] == torch.__version__
    assert failed is None
    assert first["losses"] == last["losses"]
    assert len(first["losses"]) == 2


LONG = "a_name_that_somebody_made_far_too_long_for_any_figure"


def draw(name, table, figures, folder) -> Figure:
    """Draw a table from its file, and check that the figure is whole and bounded."""
    table.to_csv(folder / "table.tsv", sep="\t", index=False)
    draw_figures(
        settings=PlotSettings(draw=PLOTS[name].draw),
        records={name: folder / "table.tsv"},
        figures_out={name: folder / "drawn.png"},
    )
    height, width = imread(folder / "drawn.png").shape[:2]
    assert width <= 1200
    assert height <= 2200
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= size[0]
    assert drawn.y1 <= size[1]
    return figures[0]


def test_every_mode_has_a_bar_in_the_panel_of_its_group(
    speed_settings, stand_in, figures, tmp_path
):
    speed = run_ablation(stand_in, speed_settings(), {}, RunOptions()).table
    speed.loc[speed.index[-1], "name"] = LONG
    speed.loc[1, "samples_per_s"] = np.nan
    panels = draw("speed", speed, figures, tmp_path).axes[::2]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert [title.split(" (")[1] for title in titles] == ["batch 4)", "batch 2)", "batch 8)"]
    bars = [len(axes.patches) for axes in panels]
    assert bars == speed.groupby("group", sort=False).size().tolist()
    texts = [text.get_text() for text in panels[0].texts]
    assert texts[0].endswith("(1×)")
    assert texts.count("not run") == 1
    assert len({axes.get_xlim() for axes in panels}) == 1
    # A table in which nothing could run is drawn, too.
    empty = speed.assign(samples_per_s=np.nan, peak_memory_mb=np.nan, speedup=np.nan)
    figures.clear()
    figure = draw("speed", empty[empty["group"] == "batch"], figures, tmp_path)
    assert {text.get_text() for text in figure.axes[0].texts} == {"not run"}
