"""The scores of a task's baselines, one of them in the place of a model: a first answer."""

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.evaluate.first_answer import PREFERRED, leading_baseline
from aam.evaluate.labels import KERNEL_MACHINE, row_label
from aam.evaluate.predictions import read_predictions, write_predictions
from aam.evaluate.task_report import task_report
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import provenance

LABELS = {PREFERRED: KERNEL_MACHINE}
"""What the page calls it, where that is not its label among the baselines."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Score one baseline as a model is scored, beside the others and mixed with them.

    `metrics.json` is that of the stage `score` without what is said of networks, and
    `is_baseline` in it says that none was trained.
    """
    baselines = read_predictions(inputs["baselines"])
    nested_baselines = pd.read_parquet(inputs["nested_baselines"])
    chosen = leading_baseline(baselines["baseline"])
    label = LABELS.get(chosen, row_label(chosen, "baseline"))
    is_chosen = baselines["baseline"] == chosen
    is_nested = nested_baselines["baseline"] == chosen
    predictions = baselines[is_chosen].drop(columns="baseline").reset_index(drop=True)
    report, intervals = task_report(
        {**cfg, "names": {**cfg["names"], "model": label}, "labels": 1.0},
        predictions,
        nested_baselines[is_nested].drop(columns="baseline"),
        baselines=baselines[~is_chosen],
        nested_baselines=nested_baselines[~is_nested],
        group=read_folds(inputs["folds"])["group"],
        metadata=read_metadata(inputs["metadata"]),
    )
    write_predictions(outputs["predictions"], predictions)
    write_predictions(outputs["intervals"], intervals)
    settings = {key: cfg[key] for key in ("kind", "column", "bounds")}
    made_from = {"provenance": provenance(cfg, inputs)}
    write_json(outputs["metrics"], {**report, **settings, "is_baseline": True, **made_from})
