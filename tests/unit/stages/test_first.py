"""The scores of baselines, one of which stands in the place of a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from problems import nested_of
from stage_calls import as_outputs

from aam.data.predictions import read_predictions, write_predictions
from aam.evaluate.scored_task import ScoredTask
from aam.stages.first import score_baselines

SETTINGS = {
    "names": {"dataset": "d", "task": "t"},
    "column": "age",
    "structure": {"column": "host", "stated": True},
    "kind": "regression",
    "classes": None,
    "bounds": [None, None],
    "report_by": [],
}


def baseline(name: str, error: float) -> pd.DataFrame:
    """Return predictions of 24 samples that are off by about `error`."""
    noise = np.random.default_rng(len(name)).normal(0, error, 24)
    place = np.arange(24)
    return pd.DataFrame(
        {
            "sample-id": [f"{i:04d}" for i in place],
            "fold": place % 3,
            "baseline": name,
            "observed": 10.0 * place,
            "predicted": 10.0 * place + noise,
        }
    )


@pytest.fixture
def answered(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(*tables: pd.DataFrame) -> dict[str, Any]:
        baselines = pd.concat(tables, ignore_index=True)
        names = ("baselines", "nested_baselines", "folds", "metadata")
        files = {name: tmp_path / name for name in names}
        outputs = {name: tmp_path / name for name in ("metrics", "intervals", "predictions")}
        write_predictions(files["baselines"], baselines)
        learning = baselines[baselines["baseline"] != "median"]
        nested_of(learning).to_parquet(files["nested_baselines"])
        folds = tables[0][["sample-id", "fold", "observed"]].assign(group="")
        folds.to_csv(files["folds"], sep="\t", index=False)
        table = pa.table({"sample_id": folds["sample-id"].to_numpy(object), "study": ["a"] * 24})
        pq.write_table(table, files["metadata"])
        score_baselines(**files, task=ScoredTask.read(SETTINGS), **as_outputs(outputs))
        return json.loads(outputs["metrics"].read_text())

    return run


def test_the_kernel_machine_stands_in_the_place_of_a_model(answered, tmp_path):
    forest, machine = baseline("random_forest", 9.0), baseline("svm_clr", 4.0)
    report = answered(baseline("median", 90.0), forest, machine)
    assert (report["model"], report["is_baseline"]) == ("kernel machine", True)
    assert report["mae_pooled"] == pytest.approx(
        (machine["predicted"] - machine["observed"]).abs().mean(), rel=1e-6
    )
    assert report["baselines"].keys() == {"median", "random_forest"}
    assert report["comparisons"].keys() == {"random_forest"}
    mixed = report["super_learner"]
    assert mixed["weights"].keys() == {"kernel machine", "random_forest"}
    alone = report["baselines"]["random_forest"]["mae_pooled"]
    assert mixed["without_own"]["mae_pooled"] == pytest.approx(alone)
    own = read_predictions(tmp_path / "predictions")
    assert pd.to_numeric(own["predicted"]).tolist() == pytest.approx(machine["predicted"].tolist())
    intervals = pd.read_csv(tmp_path / "intervals", sep="\t", dtype={"sample-id": str})
    assert intervals["sample-id"].tolist() == machine["sample-id"].tolist()
    assert intervals["predicted"].tolist() != pytest.approx(machine["predicted"].tolist())


@pytest.mark.parametrize(
    ("names", "model"),
    [
        (("median", "random_forest", "elastic_net"), "random forest"),
        (("median",), "training median"),
    ],
)
def test_without_it_the_first_baseline_that_learns_does(answered, names, model):
    report = answered(*(baseline(name, 5.0) for name in names))
    assert report["model"] == model
    assert ("super_learner" in report) == (len(names) > 2)
