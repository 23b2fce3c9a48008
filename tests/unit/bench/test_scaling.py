import pandas as pd
import pytest

from aam.bench import case, scaling
from aam.bench.scaling import COLUMNS, scale, step_points
from aam.bench.variants import Means
from aam.config import slices
from aam.config.configuration import load
from aam.runtime.run_options import RunOptions
from aam.stages import benchmark_scaling

POINTS = {
    "batch_sizes": [4, 8],
    "layers": [1, 3],
    "asvs": [6, 12, 10_000],
    "samples": [30, 60],
    "held_out": [20],
}


@pytest.fixture
def cfg(new_config) -> dict:
    plain = new_config(benchmark={"scaling": POINTS, "repeats": 2, "steps": 2})
    return slices.scaling(load(plain), "d", "small")


@pytest.fixture
def stubbed(monkeypatch):
    """Stand in for what other modules measure in minutes."""

    def embedding_times(setup, numbers, repeats):
        return [
            {
                "samples": number,
                "cache": cache,
                "wall_s": number / 10,
                "wall_s_iqr": 0.5,
                "peak_memory_mb": 300.0,
                "repeats": repeats,
            }
            for number in numbers
            for cache in ("empty", "filled")
        ]

    def validation_memory(setup, numbers):
        return [{"held_out": number, "wall_s": 2.0, "peak_mb": 77.0} for number in numbers]

    monkeypatch.setattr(scaling.inference, "embedding_times", embedding_times)
    monkeypatch.setattr(scaling.inference, "validation_memory", validation_memory)
    monkeypatch.setattr(scaling, "CHECKPOINTS", 1)
    monkeypatch.setattr(scaling, "LOAD_S", 0.01)


@pytest.fixture
def measured(stand_in):
    """Return the function that stands in for a measurement, slower the deeper the model."""

    def measure(asked) -> dict:
        result = stand_in(asked)
        if asked["kind"] == "steps":
            layers = asked["cfg"]["model"]["asv_layers"]
            size = asked["cfg"]["pretraining"]["batch_size"]
            result["step_s"] = [0.01 * layers * size] * len(result["step_s"])
            if "pool" in asked["batch"]:
                result["distinct_asvs"] = [asked["batch"]["pool"] - 1] * 4
        return result

    return measure


def table_of(cfg, files, folder, measure) -> pd.DataFrame:
    return scale(measure, cfg, files, threads=1, workers=0, folder=folder)[0]


def test_points_vary_one_thing_each(cfg, files):
    points = step_points(cfg, files, Means(), 1)
    asked = {(point.experiment, point.x): point.asked for point in points}
    assert list(asked) == [
        ("batch size", 4),
        ("batch size", 8),
        ("depth", 1),
        ("depth", 3),
        ("distinct ASVs", 6),
        ("distinct ASVs", 12),
    ]
    usual = asked["batch size", 4]
    assert asked["depth", 1] == usual
    deep = asked["depth", 3]["cfg"]
    assert (deep["model"]["asv_layers"], deep["model"]["sample_layers"]) == (3, 3)
    assert deep["pretraining"] == usual["cfg"]["pretraining"]
    assert asked["distinct ASVs", 6] == {**usual, "batch": {"pool": 6, "richness": 6}}
    training = usual["cfg"]["pretraining"]
    assert {name: training[name] for name in cfg["pretraining"]} == cfg["pretraining"]


def test_the_points_really_differ_in_what_they_vary(cfg, files):
    points = step_points(cfg, files, Means(), 1)
    results = {(p.experiment, p.x): case.run(dict(p.asked)) for p in points}
    assert set(results["batch size", 8]["sizes"]) == {8}
    assert max(results["distinct ASVs", 6]["distinct_asvs"]) == 6
    assert 6 < max(results["distinct ASVs", 12]["distinct_asvs"]) <= 12
    deep, flat = (results["depth", layers]["parameters"] for layers in (3, 1))
    assert deep > 1.5 * flat


def test_the_table_has_a_row_per_point_and_gathers_the_other_measurements(
    cfg, files, stubbed, measured, tmp_path
):
    table = table_of(cfg, files, tmp_path / "checkpoints", measured)
    assert list(table.columns) == COLUMNS
    rows = table.set_index(["experiment", "mode", "x"])
    step = rows.loc["batch size", "training step", 8]
    assert step["time_ms_median"] == pytest.approx(80)
    assert step["samples_per_s"] == pytest.approx(100)
    assert step["peak_memory_mb"] == 800
    assert step["count"] == 8
    assert rows.loc["depth", "training step", 3]["time_ms_median"] == pytest.approx(120)
    assert table[table["experiment"] == "distinct ASVs"]["x"].tolist() == [5, 11]
    embedding = rows.loc["embedding", "filled cache", 60]
    assert embedding["time_ms_median"] == pytest.approx(6000)
    assert embedding["samples_per_s"] == pytest.approx(10)
    validation = rows.loc["validation", "in blocks", 20]
    assert validation["peak_memory_mb"] == 77
    checkpoints = table[table["experiment"] == "checkpoint"]
    assert checkpoints["mode"].tolist() == ["synchronous", "background"]
    assert (checkpoints["time_ms_median"] > 0).all()
    assert not (tmp_path / "checkpoints").exists()


def test_a_point_that_cannot_run_leaves_the_others_their_figures(
    cfg, files, stubbed, measured, instead_of_processes, tmp_path
):
    def fails_when_deep(asked):
        deep = asked["kind"] == "steps" and asked["cfg"]["model"]["asv_layers"] == 3
        return None if deep else measured(asked)

    instead_of_processes(fails_when_deep)
    outputs = {name: tmp_path / name for name in ("table", "text")}
    benchmark_scaling.run(cfg, inputs=files, outputs=outputs, runtime=RunOptions())
    table = pd.read_csv(outputs["table"], sep="\t")
    assert table[table["time_ms_median"].isna()]["x"].tolist() == [3]
    assert "| 3 | training step | not run |" in outputs["text"].read_text()


def test_the_stage_writes_a_table_and_a_page(
    cfg, files, stubbed, measured, instead_of_processes, tmp_path
):
    instead_of_processes(measured)
    outputs = {name: tmp_path / "benchmark" / name for name in ("table", "text")}
    benchmark_scaling.run(cfg, inputs=files, outputs=outputs, runtime=RunOptions())
    text, table = outputs["text"].read_text(), pd.read_csv(outputs["table"], sep="\t")
    assert list(table.columns) == COLUMNS
    assert table["time_ms_median"].notna().all()
    assert text.count("\n## ") == table["experiment"].nunique() + 1
    assert "| 60 | empty cache | 6,000 (500) | 10 | 300 | 2 |" in text
    for fact in ("commit: ", "device: none", "threads: 1", "aam.settings: "):
        assert f"\n- {fact}" in text
    assert sorted(path.name for path in outputs["table"].parent.iterdir()) == ["table", "text"]
