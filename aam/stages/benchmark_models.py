"""The comparison of all models on one dataset: what they cost and what they reach."""

import pandas as pd

from aam.bench.models import models_page, side_by_side, step_costs, with_scores
from aam.bench.subprocess_runner import SubprocessRunner
from aam.bench.tables import about_run
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import read_json, write_text, write_tsv
from aam.util.errors import problem


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time a step of every model, and read from the trainings what each had learned by when."""
    _require_comparable(cfg)
    data = {
        name: inputs[name] for name in ("tokens", "samples", "distances", "tree") if name in inputs
    }
    reports = [read_json(path) for path in inputs["metrics"]]
    histories = map(pd.read_parquet, inputs["histories"])
    with SubprocessRunner() as measure:
        costs, device = step_costs(measure, cfg, data, runtime)
    table, curves = side_by_side(cfg, costs, dict(zip(cfg["models"], histories, strict=True)))
    table = with_scores(table, reports)
    write_tsv(outputs["table"], table)
    write_tsv(outputs["curves"], curves)
    about = {
        **about_run(cfg, inputs, device, runtime.threads),
        **{f"task {r['task']}": f"encoder {r['encoder']}, {r['start']}" for r in reports},
    }
    write_text(outputs["text"], models_page(table, cfg["metric"], about))


def _require_comparable(cfg: Cfg) -> None:
    if cfg["metric"] is None:
        got, wanted = "models that learn different distances", "one at least that all of them learn"
        raise problem("models", got, wanted, "give their `pretraining.distances` one in common")
    if cfg["differing"]:
        keys = " and ".join(f"pretraining.{key}" for key in cfg["differing"])
        got, wanted = f"models that hold out different samples, by {keys}", "the same for all"
        raise problem("models", got, wanted, "set it once, in the section `pretraining`")
