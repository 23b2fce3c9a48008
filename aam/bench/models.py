"""Encoders side by side: what a step of each costs, and what each has learned by when."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from aam.bench.ablation import interleaved, probe_hardware, steps_request
from aam.bench.subprocess_runner import Measure
from aam.bench.tables import markdown_table, page, spread
from aam.bench.timing import medians
from aam.bench.variants import usual
from aam.evaluate.labels import plain, quantity, score, score_columns, scored_task
from aam.evaluate.scores import HEADLINE, accuracy_table
from aam.runtime.run_options import RunOptions

COSTS = ["parameters", "step_ms_median", "step_ms_iqr", "samples_per_s", "peak_memory_mb"]
HEAD = """\
model|encoder|level|parameters|batch|step, ms (IQR)|peak memory, MB|steps, and their time|\
r at the end"""
NOTES = """\
- A step is timed in a process of its own, the models in turns, waiting for batches included; the
  peak memory is that of the process, or of the accelerator.
- Time of training: steps times the median step, without validations.
- r: Pearson correlation of the held-out distances, {metric}, at the last validation of one training
  each, all with the same seed and the same held-out samples. By equal steps and by equal time it is
  read from the curves, straight between two validations: a training that is longer than the
  shortest is then on its way, its learning rate not yet down. A step has `batch` samples."""


def step_costs(
    measure: Measure, cfg: Mapping[str, Any], inputs: Mapping[str, Any], runtime: RunOptions
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return `COSTS` by model, of those that could run, and words on what they were measured on."""
    models = cfg["models"]
    hardware, about = probe_hardware(measure, models.values(), runtime)
    requests = {
        name: steps_request(
            {**model, "seconds": cfg["seconds"]},
            {**inputs, "distances": _learned(model, cfg["metrics"], inputs.get("distances", ()))},
            usual(model, hardware),
            model["pretraining"]["batch_size"],
            runtime,
        )
        for name, model in models.items()
    }
    results = interleaved(measure, requests, cfg["repeats"])
    measured = {name: medians(found) for name, found in results.items() if found}
    costs = {name: {key: found[key] for key in COSTS} for name, found in measured.items()}
    return costs, about


def _learned(model: Mapping[str, Any], metrics: Sequence[str], files: Sequence[Any]) -> list[Any]:
    """Return the files of the metrics that a model learns."""
    if model["pretraining"]["targets"] == "batch":
        return []
    views = len(files) // len(metrics)
    chosen = [metrics.index(metric) for metric in model["pretraining"]["distances"]]
    return [files[views * number + view] for number in chosen for view in range(views)]


def side_by_side(
    cfg: Mapping[str, Any],
    costs: Mapping[str, Mapping[str, float]],
    histories: Mapping[str, pd.DataFrame],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what each model costs and has reached, and the curves that this was read from.

    `equal_steps` and `equal_s` are those of the shortest training, by which correlations are read;
    NaN where no validation came so early, or nothing was timed.
    """
    rows, curves = [], {}
    for name, model in cfg["models"].items():
        cost = costs.get(name, dict.fromkeys(COSTS, np.nan))
        step_s = cost["step_ms_median"] / 1e3
        history = histories[name]
        is_it = (history["split"] == "validation") & (history["name"] == f"{cfg['metric']}_pearson")
        curve = history[is_it].sort_values("step", kind="stable")
        curve = curve.assign(model=name, seconds=curve["step"] * step_s, pearson=curve["value"])
        curves[name] = curve[["model", "step", "seconds", "pearson"]]
        row = {
            "model": name,
            **{key: model["model"][key] for key in ("encoder", "patch_bp")},
            "level": model["optimization"]["level"],
            "batch_size": model["pretraining"]["batch_size"],
            **cost,
        }
        reached = {"steps": "step", "train_s": "seconds", "pearson": "pearson"}
        rows.append(row | {key: curve[column].iloc[-1] for key, column in reached.items()})
    table = pd.DataFrame(rows)
    read_at = ("step", "steps", "equal_steps"), ("seconds", "train_s", "equal_s")
    for axis, length, equal in read_at:
        at = table[length].min()
        table[equal] = at
        # Without a time of a step its seconds are NaN, and so is what is read at them.
        table[f"pearson_{equal}"] = [
            np.interp(at, c[axis], c["pearson"], left=np.nan) if c[axis].notna().all() else np.nan
            for c in curves.values()
        ]
    return table, pd.concat(curves.values(), ignore_index=True)


def with_scores(table: pd.DataFrame, reports: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the table of models with a column per task: the headline score in its reports."""
    if not reports:
        return table
    found = accuracy_table(reports)
    found = found[found["role"] == "model"]
    for task, part in found.groupby("task", sort=False):
        headline = HEADLINE[part["kind"].iloc[0]]
        scores = part.set_index("name")[headline]
        table = table.assign(**{f"{task}:{headline}": table["model"].map(scores)})
    return table


def models_page(table: pd.DataFrame, metric: str, about: Mapping[str, str]) -> str:
    """Return the Markdown page of a table of models, whose correlations are of a metric."""
    steps, seconds = table["equal_steps"].iloc[0], table["equal_s"].iloc[0]
    scored = score_columns(table.columns)
    head = (
        *HEAD.split("|"),
        f"r after {steps:.0f} steps",
        f"r after {quantity(seconds)} s",
        *(": ".join(scored_task(name)) for name in scored),
    )
    rows = [_cells(row, scored) for row in table.to_dict("records")]
    notes = NOTES.format(metric=plain(metric))
    return page("Models", notes, markdown_table(head, rows), about=about)


def _cells(row: Mapping[Hashable, Any], scored: Sequence[str]) -> list[str]:
    costs = ["", "", "not run", "", f"{row['steps']:.0f}"]
    if not pd.isna(row["step_ms_median"]):
        costs = [
            f"{row['parameters']:,.0f}",
            str(row["batch_size"]),
            spread(row["step_ms_median"], row["step_ms_iqr"]),
            quantity(row["peak_memory_mb"]),
            f"{row['steps']:.0f}, {quantity(row['train_s'])} s",
        ]
    return [
        str(row["model"]),
        f"{row['encoder']}, {row['patch_bp']} bp per token",
        str(row["level"]),
        *costs,
        *(score(row[name]) for name in ("pearson", "pearson_equal_steps", "pearson_equal_s")),
        *(score(row[name]) for name in scored),
    ]
