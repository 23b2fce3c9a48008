"""Cross-validated predictions of one task, next to those of its baselines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from aam.config.names import AAM
from aam.data.predictions import PROBABILITY, QUANTILE, by_target, class_probabilities
from aam.data.target import Bounds
from aam.evaluate.metrics import reliability
from aam.evaluate.scores import HEADLINE, SUPER_LEARNER, of_each_target
from aam.learners.conformal import calibrated_probabilities, cross_intervals
from aam.report.figures.accuracy import headline_bars
from aam.report.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    bars,
    cells,
    colors,
    saved_figure,
    share_axis,
    tell,
)
from aam.report.labels import percent, plain, quantity, score, short

LEGEND_FOLDS = 10
ANNOTATED_CLASSES = 12
ROC_CLASSES = 7
BAND_POINTS = 400
"""Places at which the edges of a band are drawn."""


def draw(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    """Draw predictions by the kind of task.

    Parameters
    ----------
    predictions
        Cross-validated predictions of the model; rows of fold -1 are drawn where they are numbers.
    report
        The `metrics.json` of the task.
    path
        The figure to write.
    """
    if report["kind"] == "regression":
        _draw_regression(predictions, report, path)
    else:
        _draw_classes(predictions[predictions["fold"] >= 0], report, path)


def _draw_comparison(axes: Axes, report: Mapping[str, Any]) -> None:
    """Draw the headline score of the model and of its baselines as bars, the best on top."""
    headline = HEADLINE[report["kind"]]
    sign = 1 if report["kind"] == "regression" else -1
    rows = [{**report, "role": "model", "name": _model(report)}]
    for name, scores in report["baselines"].items():
        rows.append({**scores, "role": "baseline", "name": name})
    if "super_learner" in report:
        rows.append({**report["super_learner"], "role": "model", "name": SUPER_LEARNER})
    headline_bars(axes, report["kind"], sorted(rows, key=lambda row: sign * row[headline]))
    interval = report["bootstrap"][headline]
    title = "Compared with the baselines"
    if interval is not None:
        low, high = map(score, interval)
        title += f"\n{short(_model(report), 20)}: {low} to {high} (95 %)"
    axes.set_title(title)


def _whose(report: Mapping[str, Any]) -> str:
    """Return whose predictions a figure draws; a super learner has others, which it does not."""
    name = short(_model(report), 20)
    if report.get("is_baseline", False):
        return f"the {name} alone"
    return f"{name} alone, not the super learner" if "super_learner" in report else name


def _model(report: Mapping[str, Any]) -> str:
    """Return what people read instead of the name of a model, or the baseline in its place."""
    return str(report["model"]) if report.get("is_baseline", False) else AAM


def _title(report: Mapping[str, Any]) -> str:
    return f"{short(plain(report['task']), 30)}: {report['n']} samples"


def _draw_regression(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    """Draw a row of panels per target."""
    reports = of_each_target([report])
    of_column = by_target(predictions)
    # The keys of `targets` are sorted; reports have the order of the configuration.
    columns = report["column"] if "targets" in report else of_column
    parts = [of_column[column] for column in columns]
    grid: dict[str, Any] = {"rows": len(reports), "columns": 2, "width_ratios": (5, 4)}
    with saved_figure(path, 4.2 * len(reports), **grid) as (_, all_axes):
        pairs = zip(all_axes[::2], all_axes[1::2], strict=True)
        for (axes, comparison), part, target_report in zip(pairs, parts, reports, strict=True):
            _draw_scatter(axes, part, target_report)
            _draw_comparison(comparison, target_report)


def _draw_scatter(axes: Axes, predictions: pd.DataFrame, report: Mapping[str, Any]) -> None:
    """Draw predicted against observed numbers, coloured by fold, with what the intervals cover."""
    observed = pd.to_numeric(predictions["observed"]).to_numpy()
    predicted = pd.to_numeric(predictions["predicted"]).to_numpy()
    fold = predictions["fold"].to_numpy()
    names = np.unique(fold[fold >= 0])
    distinct = len(names) <= LEGEND_FOLDS
    palette = colors(len(names)) if distinct else [BLUE] * len(names)
    both = np.concatenate([observed, predicted])
    margin = 0.04 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    size = float(np.clip(6000 / len(observed), 5, 24))
    _draw_intervals(axes, predictions, observed, limits, report["bounds"])
    axes.plot(limits, limits, color=BLACK, linewidth=1, linestyle="--", zorder=1)
    # Points are drawn in an order that mixes the folds: the last fold would hide the others.
    order = np.argsort(np.arange(len(fold)) * 0.6180339887 % 1)
    order = order[fold[order] >= 0]
    color_of = dict(zip(names, palette, strict=True))
    shades = [color_of[name] for name in fold[order]]
    rows = zip(predictions["sample-id"], observed, predicted, fold, strict=True)
    texts = [
        f"{name}\nobserved {quantity(true)}, predicted {quantity(guess)}, fold {number}"
        for name, true, guess, number in rows
    ]
    points = axes.scatter(
        observed[order], predicted[order], s=size, c=shades, alpha=0.6, linewidths=0
    )
    tell(points, (texts[row] for row in order))
    is_test = fold < 0
    if is_test.any():
        crosses = axes.scatter(
            observed[is_test], predicted[is_test], s=size, marker="x", color=BLACK, linewidths=0.8
        )
        tell(crosses, (texts[row] for row in np.flatnonzero(is_test)))
        axes.scatter([], [], s=22, marker="x", color=BLACK, label="test")
    if distinct:
        for name in names:
            axes.scatter([], [], s=22, color=color_of[name], label=str(name))
    if distinct or is_test.any():
        columns = 2 if distinct and len(names) > 5 else 1
        title = "fold" if distinct else None
        axes.legend(title=title, ncols=columns, handletextpad=0.2, columnspacing=0.8)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.set(xlabel="observed", ylabel="predicted by a model that never saw its label")
    intervals = report["intervals"]
    level = percent(intervals["level"])
    coverage = percent(intervals["coverage"], 1)
    axes.set_title(
        f"{_title(report)}, {len(names)} folds\n"
        f"MAE {score(report['mae_fold_mean'])}, pooled {score(report['mae_pooled'])}; "
        f"R² {score(report['r2_pooled'])}, r {score(report['pearson'])}\n"
        f"{level} intervals (grey) contain {coverage} of samples\n"
        f"Predicted by {_whose(report)}"
    )


def _draw_intervals(
    axes: Axes,
    predictions: pd.DataFrame,
    observed: NDArray[np.float64],
    limits: tuple[float, float],
    bounds: Bounds,
) -> None:
    """Draw intervals of one width as a band, others as a line per sample.

    Parameters
    ----------
    axes
        Where to draw.
    predictions
        Cross-validated predictions of one target.
    observed
        Its observed numbers, [N].
    limits
        Ends of the axes.
    bounds
        Least and largest number that is predicted; intervals end there.
    """
    intervals = cross_intervals(predictions)
    lower = intervals["lower"].to_numpy()
    upper = intervals["upper"].to_numpy()
    if not np.isfinite(lower).all():
        return
    if any(name.startswith(QUANTILE) for name in map(str, predictions.columns)):
        line = float(np.clip(300 / len(observed), 0.3, 1.2))
        low = np.clip(lower, *bounds)
        high = np.clip(upper, *bounds)
        axes.vlines(observed, low, high, color=GREY, alpha=0.4, linewidth=line, zorder=0)
        return
    half = float((upper - lower).mean()) / 2
    places = np.linspace(*limits, BAND_POINTS)
    low = np.clip(places - half, *bounds)
    high = np.clip(places + half, *bounds)
    axes.fill_between(places, low, high, color=GREY, alpha=0.2, linewidth=0)


def _draw_classes(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    classes = report["confusion"]["classes"]
    matrix_in = float(np.clip(1.2 + 0.17 * len(classes), 3.1, 8))
    heights_in = (matrix_in, 3.1, 0.9 + 0.2 * (1 + len(report["baselines"])))
    with saved_figure(path, sum(heights_in), 3, 2, height_ratios=heights_in) as (figure, all_axes):
        matrix, recall, roc, calibration, left, right = all_axes
        _draw_confusion(matrix, report)
        _draw_recall(recall, report)
        _draw_roc(roc, predictions, report)
        _draw_reliability(calibration, predictions, report)
        grid = left.get_gridspec()
        assert grid is not None
        left.remove()
        right.remove()
        _draw_comparison(figure.add_subplot(grid[2, :]), report)


def _draw_reliability(axes: Axes, predictions: pd.DataFrame, report: Mapping[str, Any]) -> None:
    """Draw how often the likeliest class is right against its probability, a point per bin."""
    classes = report["confusion"]["classes"]
    shares_NC = class_probabilities(predictions, classes)
    calibrated_NC, _ = calibrated_probabilities(predictions, classes)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for label, values_NC, key, color in (
        ("as predicted", shares_NC, "ece", BLUE),
        ("calibrated", calibrated_NC, "calibrated_ece", ORANGE),
    ):
        rows = pd.DataFrame(reliability(predictions["observed"], values_NC, classes))
        text = f"{label}  {score(report[key])}"
        axes.plot(
            rows["confidence"], rows["accuracy"], color=color, marker="o", markersize=3, label=text
        )
    axes.legend(loc="best", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    x = "probability of the likeliest class"
    y = "share of samples in that class"
    axes.set(xlabel=x, ylabel=y, title=f"Calibration and its error\n{_whose(report)}")


def _label_size(count: int) -> float:
    return float(np.clip(130 / count, 4, 8))


def _draw_confusion(axes: Axes, report: Mapping[str, Any]) -> None:
    names = report["confusion"]["classes"]
    classes = [short(name, 16) for name in names]
    counts_CC = np.array(report["confusion"]["counts"])
    shares_CC = counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)
    texts = [
        f"{count} of {names[row]}, predicted as {names[column]}: {shares_CC[row, column]:.0%}"
        for (row, column), count in np.ndenumerate(counts_CC)
    ]
    cells(axes, shares_CC, "Blues", (0, 1), texts)
    axes.set_aspect("equal")
    if len(classes) <= ANNOTATED_CLASSES:
        for (row, column), count in np.ndenumerate(counts_CC):
            color = ON_DARK if shares_CC[row, column] > 0.55 else ON_LIGHT
            axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=8)
    ticks = np.arange(len(classes))
    size = _label_size(len(classes))
    axes.set_yticks(ticks, classes, fontsize=size)
    turned = max(map(len, classes)) * len(classes) > 24
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(ticks, classes, fontsize=size, **(turn if turned else {}))
    axes.tick_params(length=0)
    axes.grid(visible=False)
    title = f"{_title(report)}\nPredicted by {_whose(report)}"
    axes.set(xlabel="predicted", ylabel="observed", title=title)


def _draw_recall(axes: Axes, report: Mapping[str, Any]) -> None:
    table = report["per_class"]
    bars(
        axes,
        [f"{short(name, 16)} (n={scores['n']})" for name, scores in table.items()],
        [np.nan if scores["recall"] is None else scores["recall"] for scores in table.values()],
        [score(scores["recall"]) for scores in table.values()],
        [BLUE] * len(table),
    )
    axes.tick_params(axis="y", labelsize=_label_size(len(table)))
    share_axis(axes, "recall: share of the class that is found")
    axes.set_title(
        f"Accuracy {score(report['accuracy'])}, balanced {score(report['balanced_accuracy'])}\n"
        f"{_whose(report)}"
    )


def _draw_roc(axes: Axes, predictions: pd.DataFrame, report: Mapping[str, Any]) -> None:
    table = report["per_class"]
    shown = [name for name, scores in table.items() if scores["roc_auc"] is not None]
    shown = sorted(shown, key=lambda name: -table[name]["n"])[:ROC_CLASSES]
    if len(table) == 2:
        shown = shown[-1:]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for name, color in zip(sorted(shown), colors(len(shown)), strict=True):
        is_class = (predictions["observed"].astype(str) == name).to_numpy()
        false, true, _ = roc_curve(is_class, predictions[PROBABILITY + name])
        area = score(table[name]["roc_auc"])
        lines = axes.plot(false, true, color=color, label=f"{short(name, 14)}  {area}")
        tell(lines, [f"{name}: area {area}"])
    if shown:
        axes.legend(loc="lower right", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
    which = f"{len(shown)} largest classes" if len(table) > ROC_CLASSES else "one against the rest"
    axes.set_title(f"ROC and its area, {which}\n{_whose(report)}")
