"""The comparison of all models on one dataset: what they cost and what they reach."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.bench.models import models_page, side_by_side, step_costs, with_scores
from aam.bench.page import about_run, write_tsv
from aam.bench.subprocess_runner import SubprocessRunner
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import read_json, write_text
from aam.util.errors import problem


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time a step of every model, and read from the trainings what each had learned by when.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.models`.
    inputs
        `tokens`, `samples`, `distances` (of all metrics that any model learns, metric by metric),
        `histories` (`history.parquet` of the models, in the order of `cfg`), `metrics` (the
        `metrics.json` of their fine-tunings).
    outputs
        `table` and `curves` (TSV: see `aam.bench.models.side_by_side`), `text` (Markdown).
    runtime
        `threads`, `workers`.

    Raises
    ------
    InputError
        If there is no distance that all models learn, or they hold out different samples.
    """
    _require_alike(cfg)
    data = {name: inputs[name] for name in ("tokens", "samples", "distances")}
    reports = [read_json(path) for path in inputs["metrics"]]
    histories = map(pd.read_parquet, inputs["histories"])
    with SubprocessRunner() as measure:
        costs, device = step_costs(
            measure, cfg, data, threads=runtime.threads, workers=runtime.workers
        )
    table, curves = side_by_side(cfg, costs, dict(zip(cfg["models"], histories, strict=True)))
    table = with_scores(table, reports)
    write_tsv(outputs["table"], table)
    write_tsv(outputs["curves"], curves)
    about = {
        **about_run(cfg, inputs, device, runtime.threads),
        **{f"task {r['task']}": f"encoder {r['encoder']}, {r['start']}" for r in reports},
    }
    write_text(outputs["text"], models_page(table, cfg["metric"], about))


def _require_alike(cfg: Mapping[str, Any]) -> None:
    if cfg["metric"] is None:
        raise problem(
            "models",
            "models that learn different distances",
            "one at least that all of them learn",
            "give their `pretraining.distances` one in common",
        )
    if cfg["differing"]:
        keys = " and ".join(f"pretraining.{key}" for key in cfg["differing"])
        raise problem(
            "models",
            f"models that hold out different samples, by {keys}",
            "the same for all of them",
            "set it once, in the section `pretraining`",
        )
