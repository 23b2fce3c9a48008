import pandas as pd
import pytest

from aam.bench import measurements
from aam.bench.scaling import ScalingPoint, scale, step_requests
from aam.bench.variants import Hardware
from aam.config import slices
from aam.config.configuration import load
from aam.runtime.run_options import RunOptions
from aam.stages import benchmark_scaling

POINTS = {"batch_sizes": [4, 8], "layers": [1, 3], "asvs": [6, 12, 10_000]}
COLUMNS = """experiment mode x unit time_ms_median time_ms_iqr samples_per_s peak_memory_mb
count""".split()


@pytest.fixture
def cfg(new_config) -> dict:
    plain = new_config(benchmark={"scaling": POINTS, "repeats": 2, "steps": 2})
    return slices.scaling(load(plain), "d", "small")


@pytest.fixture
def measured(stand_in):
    """Return the function that stands in for a measurement, slower the deeper the model."""

    def measure(request) -> dict:
        result = stand_in(request)
        if request["kind"] == "steps":
            layers = request["cfg"]["model"]["asv_layers"]
            size = request["cfg"]["pretraining"]["batch_size"]
            result["step_s"] = [0.01 * layers * size] * len(result["step_s"])
            if "pool" in request["batch"]:
                result["distinct_asvs"] = [request["batch"]["pool"] - 1] * 4
        return result

    return measure


def test_points_vary_one_thing_each(cfg, files):
    requests = step_requests(cfg, files, Hardware(), RunOptions())
    asked = {(point.experiment, point.x): request for point, request in requests.items()}
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
    # They really differ in what they vary.
    chosen = ("batch size", 8), ("depth", 1), ("depth", 3), ("distinct ASVs", 6)
    large, flat, deep, few = (measurements.run(requests[ScalingPoint(*name)]) for name in chosen)
    assert set(large["sizes"]) == {8}
    assert deep["parameters"] > 1.5 * flat["parameters"]
    assert max(few["distinct_asvs"]) == 6 < max(large["distinct_asvs"])


def test_the_table_has_a_row_per_point(cfg, files, measured):
    table, _ = scale(measured, cfg, files, RunOptions())
    assert list(table.columns) == COLUMNS
    rows = table.set_index(["experiment", "mode", "x"])
    step = rows.loc["batch size", "training step", 8]
    assert (step["samples_per_s"], step["peak_memory_mb"], step["count"]) == (100, 800, 8)
    assert step["time_ms_median"] == pytest.approx(80)
    assert rows.loc["depth", "training step", 3]["time_ms_median"] == pytest.approx(120)
    assert table[table["experiment"] == "distinct ASVs"]["x"].tolist() == [5, 11]


def test_the_stage_writes_what_could_run(cfg, files, measured, instead_of_processes, tmp_path):
    def fails_when_deep(request):
        deep = request["kind"] == "steps" and request["cfg"]["model"]["asv_layers"] == 3
        return None if deep else measured(request)

    instead_of_processes(fails_when_deep)
    outputs = {name: tmp_path / "benchmark" / name for name in ("table", "text")}
    benchmark_scaling.run(cfg, inputs=files, outputs=outputs, runtime=RunOptions())
    text, table = outputs["text"].read_text(), pd.read_csv(outputs["table"], sep="\t")
    assert table[table["time_ms_median"].isna()]["x"].tolist() == [3]
    assert text.count("\n## ") == table["experiment"].nunique() + 1
    for words in (
        "## Batch size\n\n| samples per step | what |",
        "| 8 | training step | 80 (0) | 100 | 800 | 8 |",
        "| 3 | training step | not run |  |  |  |",
        *(f"\n- {fact}" for fact in ("commit: ", "device: none", "threads: 1", "aam.settings: ")),
    ):
        assert words in text
