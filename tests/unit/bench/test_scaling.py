from math import nan

import pandas as pd
import pytest

from aam.bench import measurements
from aam.bench.scaling import step_requests
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


def test_points_vary_one_thing_each(cfg, files):
    requests = step_requests(cfg, files, Hardware(), RunOptions())
    asked = {(point.experiment, point.x): request for point, request in requests.items()}
    names = {"batch size": (4, 8), "depth": (1, 3), "distinct ASVs": (6, 12)}
    assert list(asked) == [(name, x) for name, values in names.items() for x in values]
    usual = asked["batch size", 4]
    assert asked["depth", 1] == usual
    deep = asked["depth", 3]["cfg"]
    assert (deep["model"]["asv_layers"], deep["model"]["sample_layers"]) == (3, 3)
    assert deep["pretraining"] == usual["cfg"]["pretraining"]
    assert asked["distinct ASVs", 6] == {**usual, "batch": {"pool": 6, "richness": 6}}
    # They really differ in what they vary.
    chosen = ("batch size", 8), ("depth", 1), ("depth", 3), ("distinct ASVs", 6)
    large, flat, deep, few = (measurements.run(asked[name]) for name in chosen)
    assert set(large["sizes"]) == {8}
    assert deep["parameters"] > 1.5 * flat["parameters"]
    assert max(few["distinct_asvs"]) == 6 < max(large["distinct_asvs"])


def test_the_stage_writes_a_row_per_point_and_what_could_run(
    cfg, files, stand_in, instead_of_processes, tmp_path
):
    def measure(request) -> dict | None:
        """Stand in for a measurement that three layers are too much for."""
        result = stand_in(request)
        if request["kind"] == "steps":
            if request["cfg"]["model"]["asv_layers"] == 3:
                return None
            size = request["cfg"]["pretraining"]["batch_size"]
            result["step_s"] = [0.01 * size] * len(result["step_s"])
            if "pool" in request["batch"]:
                result["distinct_asvs"] = [request["batch"]["pool"] - 1] * 4
        return result

    instead_of_processes(measure)
    outputs = {name: tmp_path / "benchmark" / name for name in ("table", "text")}
    benchmark_scaling.run(cfg, inputs=files, outputs=outputs, runtime=RunOptions())
    text, table = outputs["text"].read_text(), pd.read_csv(outputs["table"], sep="\t")
    assert list(table.columns) == COLUMNS
    assert table["x"].tolist() == [4, 8, 1, 3, 5, 11]
    assert table["time_ms_median"].tolist() == pytest.approx([40, 80, 40, nan, 40, 40], nan_ok=True)
    figures = ["samples_per_s", "peak_memory_mb", "count"]
    assert table.loc[1, figures].tolist() == [100, 800, 8]
    assert text.count("\n## ") == table["experiment"].nunique() + 1
    for words in (
        "## Batch size\n\n| samples per step | what |",
        "| 8 | training step | 80 (0) | 100 | 800 | 8 |",
        "| 3 | training step | not run |  |  |  |",
        *(f"\n- {fact}" for fact in ("commit: ", "device: none", "threads: 1", "aam.settings: ")),
    ):
        assert words in text
