"""Cross-validated predictions of one task, next to those of its baselines."""

import re
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
from aam.evaluate.scores import HEADLINE, SUPER_LEARNER, split_targets
from aam.learners.conformal import calibrated_probabilities, cross_intervals
from aam.report.figures.accuracy import draw_headlines
from aam.report.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    add_tooltips,
    colors,
    draw_bars,
    draw_cells,
    saved_figure,
    share_axis,
)
from aam.report.labels import format_percent, format_quantity, format_score, shorten, to_words

LEGEND_FOLDS = 10
"""Most folds that have a colour each."""
ANNOTATED_CLASSES = 12
"""Most classes whose confusion matrix has its counts written into it."""
ROC_CLASSES = 7
"""Most classes that have a ROC curve: those of the most samples."""
BAND_POINTS = 400
"""Points at which the edges of a band are drawn."""


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
    rows = [{**report, "role": "model", "name": _model_name(report)}]
    for name, scores in report["baselines"].items():
        rows.append({**scores, "role": "baseline", "name": name})
    if "super_learner" in report:
        rows.append({**report["super_learner"], "role": "model", "name": SUPER_LEARNER})
    # Reversing a list would reverse equal scores, too: they stay in their order.
    sign = 1 if report["kind"] == "regression" else -1
    draw_headlines(axes, report["kind"], sorted(rows, key=lambda row: sign * row[headline]))
    interval = report["bootstrap"][headline]
    title = "Compared with the baselines"
    if interval is not None:
        low, high = map(format_score, interval)
        title += f"\n{shorten(_model_name(report), 20)}: {low} to {high} (95 %)"
    axes.set_title(title)


def _owner(report: Mapping[str, Any]) -> str:
    """Return whose predictions a figure draws; a super learner has others, which it does not."""
    name = shorten(_model_name(report), 20)
    if report.get("is_baseline", False):
        return f"the {name} alone"
    return f"{name} alone, not the super learner" if "super_learner" in report else name


def _model_name(report: Mapping[str, Any]) -> str:
    """Return what people read instead of the name of a model, or the baseline that stands in."""
    return str(report["model"]) if report.get("is_baseline", False) else AAM


def _title(report: Mapping[str, Any]) -> str:
    return f"{shorten(to_words(report['task']), 30)}: {report['n']} samples"


def _draw_regression(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    """Draw a row of panels per target."""
    reports = split_targets([report])
    tables = by_target(predictions)
    # The keys of `targets` are sorted; reports have the order of the configuration.
    columns = report["column"] if "targets" in report else tables
    grid: dict[str, Any] = {"rows": len(reports), "columns": 2, "width_ratios": (5, 4)}
    with saved_figure(path, 4.2 * len(reports), **grid) as (_, all_axes):
        left = all_axes[::2]
        right = all_axes[1::2]
        rows = zip(left, right, columns, reports, strict=True)
        for scatter_axes, bar_axes, column, one in rows:
            _draw_scatter(scatter_axes, tables[column], one)
            _draw_comparison(bar_axes, one)


def _draw_scatter(axes: Axes, predictions: pd.DataFrame, report: Mapping[str, Any]) -> None:
    """Draw predicted against observed numbers, coloured by fold, with what the intervals cover."""
    observed_N = pd.to_numeric(predictions["observed"]).to_numpy()
    predicted_N = pd.to_numeric(predictions["predicted"]).to_numpy()
    both = np.concatenate([observed_N, predicted_N])
    margin = 0.04 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    _draw_intervals(axes, predictions, observed_N, limits, report["bounds"])
    axes.plot(limits, limits, color=BLACK, linewidth=1, linestyle="--", zorder=1)
    _draw_points(axes, observed_N, predicted_N, predictions)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.set(xlabel="observed", ylabel="predicted by a model that never saw its label")
    folds = predictions.loc[predictions["fold"] >= 0, "fold"].nunique()
    intervals = report["intervals"]
    level = format_percent(intervals["level"])
    coverage = format_percent(intervals["coverage"], 1)
    mae = format_score(report["mae_fold_mean"])
    pooled = format_score(report["mae_pooled"])
    r2 = format_score(report["r2_pooled"])
    r = format_score(report["pearson"])
    axes.set_title(
        f"{_title(report)}, {folds} folds\n"
        f"MAE {mae}, pooled {pooled}; R² {r2}, r {r}\n"
        f"{level} intervals (grey) contain {coverage} of samples\n"
        f"Predicted by {_owner(report)}"
    )


def _draw_points(
    axes: Axes,
    observed_N: NDArray[np.float64],
    predicted_N: NDArray[np.float64],
    predictions: pd.DataFrame,
) -> None:
    """Draw a point per sample of a fold and a cross per test sample, with a legend.

    Parameters
    ----------
    axes
        Where to draw.
    observed_N, predicted_N
        Observed and predicted numbers.
    predictions
        The table that they are from, which names samples and folds.
    """
    fold_N = predictions["fold"].to_numpy()
    folds = np.unique(fold_N[fold_N >= 0])
    has_colours = len(folds) <= LEGEND_FOLDS
    palette = colors(len(folds)) if has_colours else [BLUE] * len(folds)
    color_by_fold = dict(zip(folds, palette, strict=True))
    size = float(np.clip(6000 / len(observed_N), 5, 24))
    rows = zip(predictions["sample-id"], observed_N, predicted_N, fold_N, strict=True)
    texts = [
        f"{name}\nobserved {format_quantity(true)}, predicted {format_quantity(guess)}, fold {fold}"
        for name, true, guess, fold in rows
    ]
    order = _mix_folds(fold_N)
    points = axes.scatter(
        observed_N[order],
        predicted_N[order],
        s=size,
        c=[color_by_fold[fold] for fold in fold_N[order]],
        alpha=0.6,
        linewidths=0,
    )
    add_tooltips(points, (texts[row] for row in order))
    test = np.flatnonzero(fold_N < 0)
    if len(test):
        crosses = axes.scatter(
            observed_N[test], predicted_N[test], s=size, marker="x", color=BLACK, linewidths=0.8
        )
        add_tooltips(crosses, (texts[row] for row in test))
        axes.scatter([], [], s=22, marker="x", color=BLACK, label="test")
    if has_colours:
        for fold, color in color_by_fold.items():
            axes.scatter([], [], s=22, color=color, label=str(fold))
    if has_colours or len(test):
        columns = 2 if has_colours and len(folds) > 5 else 1
        title = "fold" if has_colours else None
        axes.legend(title=title, ncols=columns, handletextpad=0.2, columnspacing=0.8)


def _mix_folds(fold_N: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the rows of fold 0 and above, in an order in which the last fold hides no other."""
    # Multiples of the golden ratio, less their whole part, are spread evenly.
    order = np.argsort(np.arange(len(fold_N)) * 0.6180339887 % 1)
    return order[fold_N[order] >= 0]


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
    points = np.linspace(*limits, BAND_POINTS)
    low = np.clip(points - half, *bounds)
    high = np.clip(points + half, *bounds)
    axes.fill_between(points, low, high, color=GREY, alpha=0.2, linewidth=0)


def _draw_classes(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    """Draw confusion, recall, ROC curves and calibration of classes, and the comparison below."""
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
        bins = pd.DataFrame(reliability(predictions["observed"], values_NC, classes))
        text = f"{label}  {format_score(report[key])}"
        axes.plot(
            bins["confidence"], bins["accuracy"], color=color, marker="o", markersize=3, label=text
        )
    axes.legend(loc="best", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    x = "probability of the likeliest class"
    y = "share of samples in that class"
    axes.set(xlabel=x, ylabel=y, title=f"Calibration and its error\n{_owner(report)}")


def _label_size(count: int) -> float:
    """Return the font size of so many labels along an axis."""
    return float(np.clip(130 / count, 4, 8))


def _draw_confusion(axes: Axes, report: Mapping[str, Any]) -> None:
    """Draw the confusion matrix; the darkness of a cell is its share of the observed class."""
    names = report["confusion"]["classes"]
    classes = [shorten(name, 16) for name in names]
    counts_CC = np.array(report["confusion"]["counts"])
    shares_CC = counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)
    texts = [
        f"{count} of {names[row]}, predicted as {names[column]}: {shares_CC[row, column]:.0%}"
        for (row, column), count in np.ndenumerate(counts_CC)
    ]
    draw_cells(axes, shares_CC, "Blues", (0, 1), texts)
    axes.set_aspect("equal")
    if len(classes) <= ANNOTATED_CLASSES:
        for (row, column), count in np.ndenumerate(counts_CC):
            color = ON_DARK if shares_CC[row, column] > 0.55 else ON_LIGHT
            axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=8)
    ticks = np.arange(len(classes))
    size = _label_size(len(classes))
    axes.set_yticks(ticks, classes, fontsize=size)
    turn: dict[str, Any] = {}
    if max(map(len, classes)) * len(classes) > 24:
        turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(ticks, classes, fontsize=size, **turn)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    title = f"{_title(report)}\nPredicted by {_owner(report)}"
    axes.set(xlabel="predicted", ylabel="observed", title=title)


def _draw_recall(axes: Axes, report: Mapping[str, Any]) -> None:
    """Draw the recall of each class as a bar."""
    # The keys of `per_class` are sorted as text; classes have an order of their own.
    table = {name: report["per_class"][name] for name in report["confusion"]["classes"]}
    recalls = [scores["recall"] for scores in table.values()]
    draw_bars(
        axes,
        [f"{shorten(name, 16)} (n={scores['n']})" for name, scores in table.items()],
        [np.nan if recall is None else recall for recall in recalls],
        [format_score(recall) for recall in recalls],
        [BLUE] * len(table),
    )
    axes.tick_params(axis="y", labelsize=_label_size(len(table)))
    share_axis(axes, "recall: share of the class that is found")
    accuracy = format_score(report["accuracy"])
    balanced = format_score(report["balanced_accuracy"])
    axes.set_title(f"Accuracy {accuracy}, balanced {balanced}\n{_owner(report)}")


def _draw_roc(axes: Axes, predictions: pd.DataFrame, report: Mapping[str, Any]) -> None:
    """Draw the ROC curve of each class against the rest, as far as it has one."""
    classes = report["confusion"]["classes"]
    table = {name: report["per_class"][name] for name in classes}
    defined = [name for name, scores in table.items() if scores["roc_auc"] is not None]
    shown = sorted(defined, key=lambda name: -table[name]["n"])[:ROC_CLASSES]
    if len(table) == 2:
        # The curves of two classes mirror each other.
        shown = shown[-1:]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    shown = sorted(shown, key=classes.index)
    for name, color in zip(shown, colors(len(shown)), strict=True):
        is_class = (predictions["observed"].astype(str) == name).to_numpy()
        false, true, _ = roc_curve(is_class, predictions[PROBABILITY + name])
        area = format_score(table[name]["roc_auc"])
        # Matplotlib leaves out what begins with an underscore from a legend.
        label = re.sub("^_", " _", shorten(name, 14))
        lines = axes.plot(false, true, color=color, label=f"{label}  {area}")
        add_tooltips(lines, [f"{name}: area {area}"])
    if shown:
        axes.legend(loc="lower right", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
    which = f"{len(shown)} largest classes" if len(table) > ROC_CLASSES else "one against the rest"
    axes.set_title(f"ROC and its area, {which}\n{_owner(report)}")
