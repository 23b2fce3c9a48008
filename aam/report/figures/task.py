"""Cross-validated predictions of one task: of its answer, and of every other method."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.metrics import auc, roc_curve

from aam.config.names import AAM
from aam.data.predictions import PROBABILITY, by_baseline, by_target, class_probabilities, numbers
from aam.evaluate.score_functions import reliability
from aam.evaluate.task_report import (
    ClassScores,
    Confusion,
    MethodReport,
    TargetKey,
    TargetReport,
    TaskReport,
)
from aam.report.figures.bars import draw_bars, draw_headlines, share_axis
from aam.report.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    add_tooltips,
    colors,
    draw_cells,
    saved_figure,
    saved_panels,
)
from aam.report.labels import (
    SCORES,
    format_percent,
    format_quantity,
    format_score,
    row_label,
    shorten,
    to_words,
)

LEGEND_FOLDS = 10
"""Most folds that have a colour each."""
ANNOTATED_CLASSES = 12
"""Most classes whose confusion matrix has its counts written into it."""
ROC_CLASSES = 7
"""Most classes that have a ROC curve: those of the most samples."""
MOST_POINTS = 5000
"""Most samples that have a point: each adds 350 bytes to the page."""
COUNTED_CLASSES = 6
"""Most classes whose counts are written into the small confusion matrices of other methods."""


def draw(predictions: pd.DataFrame, report: TaskReport, path: Path) -> None:
    """Draw predictions of the leading method by the kind of task.

    Parameters
    ----------
    predictions
        Its cross-validated predictions with intervals or sets; rows of fold -1 are drawn where they
        are numbers.
    report
        The scores of the task.
    path
        The figure to write.
    """
    if report.kind == "regression":
        _draw_regression(predictions, report, path)
    else:
        _draw_classes(predictions[predictions["fold"] >= 0], report, path)


def draw_others(
    baselines: pd.DataFrame,
    report: TaskReport,
    path: Path,
    networks: pd.DataFrame | None = None,
) -> None:
    """Draw a panel per method that learns and does not lead, the best first.

    Classes have confusion matrices, numbers are predicted against observed ones. Points and cells
    are pixels, so that the file stays small.

    Parameters
    ----------
    baselines
        Predictions of all baselines for the samples of all folds.
    report
        The scores of the task.
    path
        The figure to write; where no method is left, it says so.
    networks
        Predictions of the networks; None: there are none.
    """
    shown = [
        (key, method) for key, target in report.by_key() for method in _rank(report, target.others)
    ]
    if not shown:
        with saved_figure(path, 0.6) as (_, (axes,)):
            axes.set_axis_off()
            axes.text(0, 0.5, "No other method that learns predicts this task.", va="center")
        return
    predicted = by_baseline(baselines)
    if networks is not None:
        predicted[report.answer] = by_target(networks)
    row_in = 3.1 if report.kind == "regression" else 2.9
    with saved_panels(path, len(shown), row_in, extra_in=0.4, columns=3) as (figure, all_axes):
        _, target = next(report.by_key())
        title = f"{shorten(to_words(report.task), 30)}: all methods but {_owner(target)}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for axes, (key, method) in zip(all_axes, shown, strict=True):
            if report.kind == "regression":
                _draw_small_scatter(axes, predicted[method.name][key.column])
            else:
                _draw_small_confusion(axes, method)
            axes.set_title(_title_of_method(report, key, method), fontsize=8)


def _rank(report: TaskReport, methods: Sequence[MethodReport]) -> list[MethodReport]:
    """Return methods by their headline score, the best first."""
    sign = 1 if report.kind == "regression" else -1

    def score(method: MethodReport) -> float:
        value = method.scores[report.headline]
        assert value is not None, "a headline score is defined for any sample"
        return sign * value

    return sorted(methods, key=score)


def _title_of_method(report: TaskReport, key: TargetKey, method: MethodReport) -> str:
    """Return the name of a method, its headline score, and above them one of several targets."""
    name = AAM if method.role == "network" else row_label(method.name, method.role)
    label = "MAE" if report.kind == "regression" else SCORES[report.headline]
    of_target = f"{shorten(to_words(key.column), 30)}\n" if key.column else ""
    return f"{of_target}{name}\n{label} {format_score(method.scores[report.headline])}"


def _draw_small_scatter(axes: Axes, predictions: pd.DataFrame) -> None:
    """Draw predicted against observed numbers of all folds as pixels."""
    scored = predictions[predictions["fold"] >= 0]
    observed_N = numbers(scored["observed"])
    predicted_N = numbers(scored["predicted"])
    both = np.concatenate([observed_N, predicted_N])
    margin = 0.04 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    axes.plot(limits, limits, color=BLACK, linewidth=0.8, linestyle="--", zorder=1)
    size = float(np.clip(3000 / len(observed_N), 2, 10))
    axes.scatter(
        observed_N, predicted_N, s=size, color=BLUE, alpha=0.5, linewidths=0, rasterized=True
    )
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel="observed", ylabel="predicted")


def _draw_small_confusion(axes: Axes, method: MethodReport) -> None:
    """Draw a confusion matrix of pixels, with the counts of few classes."""
    confusion = method.confusion
    assert confusion is not None, "classes have a confusion matrix"
    counts_CC = np.array(confusion.counts)
    shares_CC = _share_rows(counts_CC)
    axes.imshow(shares_CC, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    if len(counts_CC) <= COUNTED_CLASSES:
        _write_counts(axes, counts_CC, shares_CC)
    _name_classes(axes, [shorten(name, 12) for name in confusion.classes])
    axes.set(xlabel="predicted", ylabel="observed")


def _draw_comparison(axes: Axes, report: TaskReport, target: TargetReport) -> None:
    """Draw the headline score of all methods as bars, the best on top."""
    rows = []
    for method in target.methods:
        name = AAM if method.role == "network" else method.name
        rows.append({**method.scores, "role": method.role, "name": name})
    if target.addition is not None:
        # The features alone are the leading method, which has a bar of its own.
        for name, part in (
            ("covariates alone", target.addition.alone),
            ("covariates and features", target.addition.both),
        ):
            bar = {report.headline: part.score, "mae_fold_sd": np.nan}
            rows.append({**bar, "role": "baseline", "name": name})
    # Reversing a list would reverse equal scores, too: they stay in their order.
    sign = 1 if report.kind == "regression" else -1
    draw_headlines(axes, report.kind, sorted(rows, key=lambda row: sign * row[report.headline]))
    title = "Compared with the baselines"
    if target.best.interval is not None:
        low, high = map(format_score, target.best.interval)
        title += f"\n{shorten(_owner(target), 20)}: {low} to {high} (95 %)"
    axes.set_title(title)


def _owner(target: TargetReport) -> str:
    """Return whose predictions a figure draws."""
    best = target.best
    if best.role == "network":
        return AAM
    return f"the {row_label(best.name, best.role)}"


def _title(report: TaskReport, target: TargetReport) -> str:
    key = next(key for key, one in report.by_key() if one is target)
    name = f"{key.task}, {key.column}" if key.column else key.task
    return f"{shorten(to_words(name), 30)}: {target.best.n} samples"


def _draw_regression(predictions: pd.DataFrame, report: TaskReport, path: Path) -> None:
    """Draw a row of panels per target."""
    tables = by_target(predictions)
    targets = list(report.by_key())
    grid: dict[str, Any] = {"rows": len(targets), "columns": 2, "width_ratios": (5, 4)}
    with saved_figure(path, 4.2 * len(targets), **grid) as (_, all_axes):
        left = all_axes[::2]
        right = all_axes[1::2]
        for scatter_axes, bar_axes, (key, target) in zip(left, right, targets, strict=True):
            _draw_scatter(scatter_axes, tables[key.column], report, target)
            _draw_comparison(bar_axes, report, target)


def _draw_scatter(
    axes: Axes, predictions: pd.DataFrame, report: TaskReport, target: TargetReport
) -> None:
    """Draw predicted against observed numbers, coloured by fold, with what the intervals cover."""
    are_all_drawn = len(predictions) <= MOST_POINTS
    predictions = predictions.iloc[np.sort(_spread(len(predictions))[:MOST_POINTS])]
    observed_N = pd.to_numeric(predictions["observed"]).to_numpy()
    predicted_N = pd.to_numeric(predictions["predicted"]).to_numpy()
    both = np.concatenate([observed_N, predicted_N])
    margin = 0.04 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    _draw_intervals(axes, predictions, observed_N)
    axes.plot(limits, limits, color=BLACK, linewidth=1, linestyle="--", zorder=1)
    _draw_points(axes, observed_N, predicted_N, predictions)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.set(xlabel="observed", ylabel="predicted by a method that never saw its label")
    scores = target.best.scores
    level = format_percent(target.coverage.level)
    coverage = format_percent(target.coverage.coverage, 1)
    held = f"{level} intervals (grey) contain {coverage} of samples\n"
    if target.coverage.size is None:
        held = ""
    mae = format_score(scores["mae_fold_mean"])
    pooled = format_score(scores["mae_pooled"])
    r2 = format_score(scores["r2_pooled"])
    r = format_score(scores["pearson"])
    axes.set_title(
        f"{_title(report, target)}, {len(target.best.folds)} folds"
        f"{'' if are_all_drawn else f'; {len(predictions)} are drawn'}\n"
        f"MAE {mae}, pooled {pooled}; R² {r2}, r {r}\n"
        f"{held}"
        f"Predicted by {_owner(target)}"
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
    order = _spread(len(fold_N))
    return order[fold_N[order] >= 0]


def _spread(rows: int) -> NDArray[np.intp]:
    """Return rows in an order of which every beginning is spread over all."""
    # Multiples of the golden ratio, less their whole part, are spread evenly.
    return np.argsort(np.arange(rows) * 0.6180339887 % 1)


def _draw_intervals(axes: Axes, predictions: pd.DataFrame, observed_N: NDArray[np.float64]) -> None:
    """Draw the interval of each sample as a line; there are none of too few samples."""
    lower_N = predictions["lower"].to_numpy(np.float64)
    upper_N = predictions["upper"].to_numpy(np.float64)
    if not np.isfinite([lower_N, upper_N]).all():
        return
    line = float(np.clip(300 / len(observed_N), 0.3, 1.2))
    axes.vlines(observed_N, lower_N, upper_N, color=GREY, alpha=0.4, linewidth=line, zorder=0)


def _draw_classes(predictions: pd.DataFrame, report: TaskReport, path: Path) -> None:
    """Draw confusion, recall, ROC curves and calibration of classes, and the comparison below."""
    (target,) = report.targets
    confusion = target.best.confusion
    assert confusion is not None, "classes have a confusion matrix"
    matrix_in = float(np.clip(1.2 + 0.17 * len(confusion.classes), 3.1, 8))
    heights_in = (matrix_in, 3.1, 0.9 + 0.2 * len(target.methods))
    with saved_figure(path, sum(heights_in), 3, 2, height_ratios=heights_in) as (figure, all_axes):
        matrix, recall, roc, calibration, left, right = all_axes
        _draw_confusion(matrix, report, target, confusion)
        _draw_recall(recall, target, confusion.classes)
        _draw_roc(roc, predictions, target, confusion.classes)
        _draw_reliability(calibration, predictions, target, confusion.classes)
        grid = left.get_gridspec()
        assert grid is not None
        left.remove()
        right.remove()
        _draw_comparison(figure.add_subplot(grid[2, :]), report, target)


def _draw_reliability(
    axes: Axes, predictions: pd.DataFrame, target: TargetReport, classes: Sequence[str]
) -> None:
    """Draw how often the likeliest class is right against its probability, a point per bin."""
    best = target.best
    assert best.calibrated is not None, "probabilities of classes are calibrated"
    calibrated_NC = class_probabilities(predictions, list(classes))
    calibrated = reliability(predictions["observed"], calibrated_NC, classes)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for label, bins, error, color in (
        ("as predicted", target.reliability, best.scores["ece"], BLUE),
        ("calibrated", calibrated, best.calibrated.ece, ORANGE),
    ):
        axes.plot(
            [one.confidence for one in bins],
            [one.accuracy for one in bins],
            color=color,
            marker="o",
            markersize=3,
            label=f"{label}  {format_score(error)}",
        )
    axes.legend(loc="best", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    x = "probability of the likeliest class"
    y = "share of samples in that class"
    axes.set(xlabel=x, ylabel=y, title=f"Calibration and its error\n{_owner(target)}")


def _label_size(count: int) -> float:
    """Return the font size of so many labels along an axis."""
    return float(np.clip(130 / count, 4, 8))


def _draw_confusion(
    axes: Axes, report: TaskReport, target: TargetReport, confusion: Confusion
) -> None:
    """Draw the confusion matrix; the darkness of a cell is its share of the observed class."""
    names = confusion.classes
    classes = [shorten(name, 16) for name in names]
    counts_CC = np.array(confusion.counts)
    shares_CC = _share_rows(counts_CC)
    texts = [
        f"{count} of {names[row]}, predicted as {names[column]}: {shares_CC[row, column]:.0%}"
        for (row, column), count in np.ndenumerate(counts_CC)
    ]
    draw_cells(axes, shares_CC, "Blues", (0, 1), texts)
    axes.set_aspect("equal")
    if len(classes) <= ANNOTATED_CLASSES:
        _write_counts(axes, counts_CC, shares_CC)
    _name_classes(axes, classes)
    title = f"{_title(report, target)}\nPredicted by {_owner(target)}"
    axes.set(xlabel="predicted", ylabel="observed", title=title)


def _share_rows(counts_CC: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each count as a share of its row."""
    return counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)


def _write_counts(axes: Axes, counts_CC: NDArray[np.int64], shares_CC: NDArray[np.float64]) -> None:
    """Write the counts of a confusion matrix into its cells."""
    for (row, column), count in np.ndenumerate(counts_CC):
        color = ON_DARK if shares_CC[row, column] > 0.55 else ON_LIGHT
        axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=8)


def _name_classes(axes: Axes, classes: Sequence[str]) -> None:
    """Name the rows and columns of a confusion matrix."""
    ticks = np.arange(len(classes))
    size = _label_size(len(classes))
    axes.set_yticks(ticks, classes, fontsize=size)
    turn: dict[str, Any] = {}
    if max(map(len, classes)) * len(classes) > 24:
        turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(ticks, classes, fontsize=size, **turn)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _draw_recall(axes: Axes, target: TargetReport, classes: Sequence[str]) -> None:
    """Draw the recall of each class as a bar."""
    table = _scores_by_class(target, classes)
    recalls = [scores.recall for scores in table.values()]
    draw_bars(
        axes,
        [f"{shorten(name, 16)} (n={scores.n})" for name, scores in table.items()],
        [np.nan if recall is None else recall for recall in recalls],
        [format_score(recall) for recall in recalls],
        [BLUE] * len(table),
    )
    axes.tick_params(axis="y", labelsize=_label_size(len(table)))
    share_axis(axes, "recall: share of the class that is found")
    accuracy = format_score(target.best.scores["accuracy"])
    balanced = format_score(target.best.scores["balanced_accuracy"])
    axes.set_title(f"Balanced accuracy {balanced}\n{_owner(target)}; accuracy {accuracy}")


def _scores_by_class(target: TargetReport, classes: Sequence[str]) -> dict[str, ClassScores]:
    """Return the scores of each class by the leading method, in the order of the classes."""
    per_class = target.best.per_class
    assert per_class is not None, "classes have scores of their own"
    # The keys of `per_class` are sorted as text; classes have an order of their own.
    return {name: per_class[name] for name in classes}


def _draw_roc(
    axes: Axes, predictions: pd.DataFrame, target: TargetReport, classes: Sequence[str]
) -> None:
    """Draw the ROC curve of each class against the rest, as far as it has one."""
    table = _scores_by_class(target, classes)
    defined = [name for name, scores in table.items() if scores.roc_auc is not None]
    shown = sorted(defined, key=lambda name: -table[name].n)[:ROC_CLASSES]
    if len(table) == 2:
        # The curves of two classes mirror each other.
        shown = shown[-1:]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    shown = sorted(shown, key=classes.index)
    for name, color in zip(shown, colors(len(shown)), strict=True):
        is_class = (predictions["observed"].astype(str) == name).to_numpy()
        # The probabilities at hand are calibrated, and those of the table of scores are not: the
        # area of a curve is its own.
        false, true, _ = roc_curve(is_class, predictions[PROBABILITY + name])
        area = format_score(auc(false, true))
        # Matplotlib leaves out what begins with an underscore from a legend.
        label = re.sub("^_", " _", shorten(name, 14))
        lines = axes.plot(false, true, color=color, label=f"{label}  {area}")
        add_tooltips(lines, [f"{name}: area {area}"])
    if shown:
        axes.legend(loc="lower right", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
    which = f"{len(shown)} largest classes" if len(table) > ROC_CLASSES else "one against the rest"
    axes.set_title(f"ROC and its area, {which}\n{_owner(target)}, calibrated")
