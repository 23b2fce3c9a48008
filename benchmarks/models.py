"""All models of a configuration side by side: what they cost, have learned by when, and score.

Run as `python -m benchmarks.models config/<file>.yaml ... DATASET` once the workflow has pretrained
the models and scored the tasks: it times steps of all models in turns, and reads the rest. Later
files are laid over earlier ones. Writes `models.tsv`, `models_curves.tsv`, `models.md` and
`models.svg`.
"""

import argparse
import logging
import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from aam.config import slices
from aam.config.configuration import Config, load, resolved
from aam.config.metrics import METRICS
from aam.config.settings.training import PretrainSettings
from aam.evaluate.scores import HEADLINE
from aam.evaluate.task_report import TaskReport, accuracy_table
from aam.report.figures.bars import draw_bars, share_axis
from aam.report.figures.style import GREY, colors, saved_figure
from aam.report.labels import SCORES, format_quantity, format_score, shorten, to_words
from aam.util.atomic import write_text, write_tsv
from aam.util.errors import problem
from aam.util.run_options import RunOptions
from benchmarks.accelerator import inputs_of, laid_together
from benchmarks.speed.ablation import measure_in_turns, medians, probe_hardware, steps_request
from benchmarks.speed.subprocess_runner import Measure, SubprocessRunner
from benchmarks.speed.tables import about_run, markdown_table, page, spread
from benchmarks.speed.variants import usual

COSTS = ["parameters", "step_ms_median", "step_ms_iqr", "samples_per_s", "peak_memory_mb"]
DRAWN = (
    ("step_ms_median", "one step (ms ± half the IQR)", 1.0),
    ("peak_memory_mb", "peak memory (GiB)", 2**-10),
    ("parameters", "parameters (millions)", 1e-6),
)
"""Columns of costs in the figure, their labels, and the factor to the label's unit."""
HEAD = [
    "model",
    "encoder",
    "level",
    "parameters",
    "batch",
    "step, ms (IQR)",
    "peak memory, MB",
    "steps, and their time",
    "r at the end",
]
"""First columns of the table of models."""
NOTES = """\
- A step is timed in a process of its own, the models in turns, waiting for batches included; the
  peak memory is that of the process, or of the accelerator.
- Time of training: steps times the median step, without validations.
- r: Pearson correlation of the held-out distances, {metric}, at the last validation of one training
  run each, all with the same seed and the same held-out samples. By equal steps and by equal time
  it is read from the curves, straight between two validations: a run that is longer than the
  shortest is not finished then, and its learning rate is still high. A step has `batch` samples.
- s to r: seconds of training until what the least of the models has at its end is reached."""


def settings(config: Config, dataset: str) -> dict[str, Any]:
    """Return the settings of all models, the first distance of all, and how steps are timed.

    InputError where they learn no distance in common, or hold out different samples.
    """
    models = {model: slices.pretrain(config, dataset, model).plain() for model in config.models}
    training = [model["pretraining"] for model in models.values()]
    common = [
        name
        for name in resolved(config, "unifrac", dataset=dataset).metrics
        if not METRICS[name].per_sample
        and all(name in section["distances"] for section in training)
    ]
    if not common:
        raise problem(
            "models",
            "models that learn different distances",
            "one at least that all of them learn",
            "give their `pretraining.distances` one in common",
        )
    differing = [
        key for key in ("held_out", "seed") if len({section[key] for section in training}) > 1
    ]
    if differing:
        keys = " and ".join(f"pretraining.{key}" for key in differing)
        raise problem(
            "models",
            f"models that hold out different samples, by {keys}",
            "the same for all",
            "set it once, in the section `pretraining`",
        )
    return {
        "models": models,
        "metric": common[0],
        "seconds": config.benchmark.seconds,
        "repeats": config.benchmark.repeats,
    }


def step_costs(
    measure: Measure,
    plain_settings: Mapping[str, Any],
    inputs: Mapping[str, Any],
    runtime: RunOptions,
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return `COSTS` by model, of those that could run, and words on what they were measured on.

    `plain_settings` is what `settings` returned, `inputs` has the files of every model.
    """
    models = {
        name: PretrainSettings.model_validate(model)
        for name, model in plain_settings["models"].items()
    }
    hardware, about = probe_hardware(measure, models.values(), runtime)
    requests = {
        name: steps_request(
            model,
            inputs[name],
            usual(model, hardware),
            model.pretraining.batch_size,
            plain_settings["seconds"],
            runtime,
        )
        for name, model in models.items()
    }
    results = measure_in_turns(measure, requests, plain_settings["repeats"])
    measured = {name: medians(runs) for name, runs in results.items() if runs}
    costs = {name: {key: figures[key] for key in COSTS} for name, figures in measured.items()}
    return costs, about


def side_by_side(
    plain_settings: Mapping[str, Any],
    costs: Mapping[str, Mapping[str, float]],
    histories: Mapping[str, pd.DataFrame],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what each model costs and has reached, and the curves that this was read from.

    `equal_steps` and `equal_s` are those of the shortest run, by which correlations are read;
    NaN where no validation came so early, or nothing was timed. `equal_pearson` is what all have
    reached at their end, and `s_equal_pearson` the time that it took.
    """
    rows = []
    curves = {}
    for name, model in plain_settings["models"].items():
        cost = costs.get(name, dict.fromkeys(COSTS, np.nan))
        step_s = cost["step_ms_median"] / 1e3
        history = histories[name]
        is_it = (history["split"] == "validation") & (
            history["name"] == f"{plain_settings['metric']}_pearson"
        )
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
    equal_steps = table["steps"].min()
    equal_s = table["train_s"].min()
    lowest_pearson = table["pearson"].min()
    table["equal_steps"] = equal_steps
    table["pearson_equal_steps"] = [
        _pearson_at(equal_steps, curve, "step") for curve in curves.values()
    ]
    table["equal_s"] = equal_s
    table["pearson_equal_s"] = [_pearson_at(equal_s, curve, "seconds") for curve in curves.values()]
    table["equal_pearson"] = lowest_pearson
    table["s_equal_pearson"] = [_seconds_to(lowest_pearson, curve) for curve in curves.values()]
    return table, pd.concat(curves.values(), ignore_index=True)


def _pearson_at(place: float, curve: pd.DataFrame, axis: str) -> float:
    """Return the correlation of a curve at a step or a second, straight between two validations."""
    if curve[axis].isna().any():
        # The seconds of a model that was not timed are not known.
        return math.nan
    return float(np.interp(place, curve[axis], curve["pearson"], left=math.nan))


def _seconds_to(pearson: float, curve: pd.DataFrame) -> float:
    """Return when a curve reaches a correlation first, straight between two validations."""
    seconds = curve["seconds"].to_numpy(dtype=float)
    values = curve["pearson"].to_numpy(dtype=float)
    after = int(np.argmax(values >= pearson))
    part = slice(max(0, after - 1), after + 1)
    return float(np.interp(pearson, values[part], seconds[part]))


def with_scores(table: pd.DataFrame, reports: Sequence[TaskReport]) -> pd.DataFrame:
    """Return the table of models with a column `<task>:<score>` per task, its headline score."""
    if not reports:
        return table
    accuracy = accuracy_table(reports)
    for task, part in accuracy[accuracy["role"] == "network"].groupby("task", sort=False):
        headline = HEADLINE[part["kind"].iloc[0]]
        scores = part.set_index("name")[headline]
        table = table.assign(**{f"{task}:{headline}": table["model"].map(scores)})
    return table


def _scored(columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the columns with scores, and the labels of their task and score."""
    parts = {column: column.rpartition(":") for column in columns if ":" in column}
    return {column: (to_words(task), SCORES[name]) for column, (task, _, name) in parts.items()}


def models_page(table: pd.DataFrame, metric: str, about: Mapping[str, str]) -> str:
    """Return the Markdown page of a table of models, whose correlations are of a metric."""
    first = table.iloc[0]
    scored = _scored(table.columns)
    head = [
        *HEAD,
        f"r after {first['equal_steps']:.0f} steps",
        f"r after {format_quantity(first['equal_s'])} s",
        f"s to r {first['equal_pearson']:.3f}",
        *(": ".join(labels) for labels in scored.values()),
    ]
    rows = [_cells(row, scored) for row in table.to_dict("records")]
    notes = NOTES.format(metric=to_words(metric))
    return page("Models", notes, markdown_table(head, rows), about=about)


def _cells(row: Mapping[Hashable, Any], scored: Iterable[str]) -> list[str]:
    costs = ["", "", "not run", "", f"{row['steps']:.0f}"]
    if not pd.isna(row["step_ms_median"]):
        costs = [
            f"{row['parameters']:,.0f}",
            str(row["batch_size"]),
            spread(row["step_ms_median"], row["step_ms_iqr"]),
            format_quantity(row["peak_memory_mb"]),
            f"{row['steps']:.0f}, {format_quantity(row['train_s'])} s",
        ]
    return [
        str(row["model"]),
        f"{row['encoder']}, {row['patch_bp']} bp per token",
        str(row["level"]),
        *costs,
        format_score(row["pearson"]),
        format_score(row["pearson_equal_steps"]),
        format_score(row["pearson_equal_s"]),
        "" if pd.isna(row["s_equal_pearson"]) else format_quantity(row["s_equal_pearson"]),
        *(format_score(row[name]) for name in scored),
    ]


def draw(models: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw `curves` of correlation against steps and time, and bars of costs and scores."""
    names = models["model"].tolist()
    shades = dict(zip(names, colors(len(names)), strict=True))
    scored = _scored(models.columns)
    panels = len(DRAWN) + len(scored)
    rows = -(-panels // 2)
    grid: dict[str, Any] = {"height_ratios": (2.6, *[0.75 + 0.3 * len(names)] * rows)}
    height_in = 0.3 + sum(grid["height_ratios"])
    with saved_figure(path, height_in, rows=1 + rows, columns=2, **grid) as (_, all_axes):
        steps, seconds, *below = all_axes
        _draw_curves(steps, curves, "step", models["equal_steps"].iloc[0], shades)
        _draw_curves(seconds, curves, "seconds", models["equal_s"].iloc[0], shades)
        steps.set(xlabel="training steps", ylabel="held-out r")
        seconds.set_xlabel("seconds of training (steps × median step)")
        steps.legend()
        labels = [shorten(name) for name in names]
        bar_colors = list(shades.values())
        _draw_costs(below[: len(DRAWN)], models, labels, bar_colors)
        for axes, (column, (task, name)) in zip(below[len(DRAWN) :], scored.items(), strict=False):
            values = models[column].to_numpy(dtype=float)
            texts = [format_score(value) for value in values]
            draw_bars(axes, labels, values, texts, bar_colors)
            axes.set_title(shorten(task, 30))
            if column.endswith(HEADLINE["regression"]):
                axes.set_xlabel(f"{name} (lower is better)")
            else:
                share_axis(axes, f"{name} (higher is better)")
        for axes in below[panels:]:
            axes.set_visible(False)


def _draw_curves(
    axes: Axes, curves: pd.DataFrame, column: str, equal: float, shades: Mapping[str, Any]
) -> None:
    """Draw a curve per model, and a line where they are compared."""
    for model, shade in shades.items():
        part = curves[curves["model"] == model]
        axes.plot(part[column], part["pearson"], marker="o", markersize=3, color=shade, label=model)
    if np.isfinite(equal):
        axes.axvline(equal, color=GREY, linestyle="--", linewidth=1)
    axes.set_xlim(left=0)


def _draw_costs(
    all_axes: Sequence[Axes], models: pd.DataFrame, labels: Sequence[str], shades: Sequence[Any]
) -> None:
    for axes, (column, label, factor) in zip(all_axes, DRAWN, strict=True):
        values = models[column].to_numpy(dtype=float) * factor
        texts = [format_quantity(value) if np.isfinite(value) else "not run" for value in values]
        is_time = column == "step_ms_median"
        half = models["step_ms_iqr"].to_numpy(dtype=float) / 2 if is_time else None
        draw_bars(axes, labels, values, texts, shades, errors=half)
        axes.set_xlabel(label)


def compare(config: Config, dataset: str, results: Path, folder: Path) -> None:
    """Compare the models by a dataset's folder of results, and write what was found."""
    plain_settings = settings(config, dataset)
    files = {model: inputs_of(config, dataset, model, results) for model in config.models}
    histories = [results / "pretrain" / model / "history.parquet" for model in config.models]
    tasks = [name for name, task in config.tasks.items() if task.dataset == dataset]
    scores = [
        results / "finetune" / model / task / "scores.json"
        for model in config.models
        for task in tasks
    ]
    reports = [TaskReport.read(path) for path in scores]
    learned = dict(zip(config.models, map(pd.read_parquet, histories), strict=True))
    runtime = RunOptions(len(os.sched_getaffinity(0)), workers=config.runtime.workers)
    with SubprocessRunner() as measure:
        costs, device = step_costs(measure, plain_settings, files, runtime)
    table, curves = side_by_side(plain_settings, costs, learned)
    table = with_scores(table, reports)
    write_tsv(folder / "models.tsv", table)
    write_tsv(folder / "models_curves.tsv", curves)
    values = [value for by_task in files.values() for value in by_task.values()]
    trained_from = {path for v in values for path in (v if isinstance(v, list) else [v])}
    inputs = {"files": sorted(trained_from), "histories": histories, "scores": scores}
    about = {
        **about_run(plain_settings, inputs, device, runtime.threads),
        **{f"task {report.task}": _describe_recipe(report) for report in reports},
    }
    write_text(folder / "models.md", models_page(table, plain_settings["metric"], about))
    draw(table, curves, folder / "models.svg")


def _describe_recipe(report: TaskReport) -> str:
    networks = report.targets[0].networks
    assert networks is not None
    assert networks.training is not None
    return f"recipe {networks.training.recipe}, {networks.training.start}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the models that a configuration names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("configuration", type=Path, nargs="+")
    parser.add_argument("dataset")
    parser.add_argument("--results", type=Path, help="default: `results_dir` of the configuration")
    parser.add_argument("--folder", type=Path, help="default: `benchmark` in the dataset's results")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    config = load(laid_together(given.configuration))
    results = Path(given.results or config.results_dir, given.dataset)
    compare(config, given.dataset, results, given.folder or results / "benchmark")


if __name__ == "__main__":
    main()
