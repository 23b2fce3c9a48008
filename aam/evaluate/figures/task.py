"""Cross-validated predictions of one task beside its baselines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import roc_curve

from aam.evaluate.figures.style import (
    BLACK,
    BLUE,
    GREY,
    bars,
    colors,
    headline_axis,
    picture,
    share_axis,
)
from aam.evaluate.labels import plain, row_label, score, short
from aam.evaluate.metrics import HEADLINE
from aam.evaluate.predictions import PROBABILITY

LEGEND_FOLDS = 10
ANNOTATED_CLASSES = 12
ROC_CLASSES = 7


def draw(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    """Draw the picture of a task's kind.

    Parameters
    ----------
    predictions
        Columns `fold`, `observed`, `predicted`, `probability:<class>`.
    report
        Content of the task's `metrics.json`.
    path
        PNG to write.
    """
    {"regression": _draw_regression, "classification": _draw_classification}[report["kind"]](
        predictions, report, path
    )


def draw_comparison(axes: Axes, report: Mapping[str, Any]) -> None:
    """Draw the headline score of the model and of its baselines as bars, the best on top."""
    kind = report["kind"]
    regression = kind == "regression"
    headline = HEADLINE[kind]
    rows = [("model", report["model"], report)]
    rows += [("baseline", name, scores) for name, scores in report["baselines"].items()]
    rows.sort(key=lambda row: row[2][headline] * (1 if regression else -1))
    spread = [scores.get("mae_fold_sd") or 0.0 for _, _, scores in rows]
    bars(
        axes,
        [short(row_label(name, role), 18) for role, name, _ in rows],
        [scores[headline] for _, _, scores in rows],
        [score(scores[headline]) for _, _, scores in rows],
        [BLUE if role == "model" else GREY for role, _, _ in rows],
        errors=spread if regression else None,
    )
    headline_axis(axes, regression=regression)
    axes.set_title("Beside the baselines")


def _title(report: Mapping[str, Any]) -> str:
    return f"{short(plain(report['task']), 30)}, {short(report['model'], 30)}"


def _draw_regression(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    observed = pd.to_numeric(predictions["observed"]).to_numpy()
    predicted = pd.to_numeric(predictions["predicted"]).to_numpy()
    fold = predictions["fold"].to_numpy()
    names = np.unique(fold)
    distinct = len(names) <= LEGEND_FOLDS
    palette = colors(len(names)) if distinct else [BLUE] * len(names)
    both = np.concatenate([observed, predicted])
    margin = 0.04 * float(np.ptp(both))
    limits = (float(both.min()) - margin, float(both.max()) + margin)
    size = float(np.clip(6000 / len(observed), 5, 24))
    with picture(path, 4.2, columns=2, width_ratios=(5, 4)) as (_, (axes, comparison)):
        axes.plot(limits, limits, color=BLACK, linewidth=1, linestyle="--", zorder=1)
        # Folds in turns rather than one upon the other.
        order = np.argsort(np.arange(len(fold)) * 0.6180339887 % 1)
        color_of = dict(zip(names, palette, strict=True))
        axes.scatter(
            observed[order],
            predicted[order],
            s=size,
            c=[color_of[name] for name in fold[order]],
            alpha=0.6,
            linewidths=0,
        )
        if distinct:
            for name in names:
                axes.scatter([], [], s=22, color=color_of[name], label=str(name))
            axes.legend(
                title="fold", ncols=2 if len(names) > 5 else 1, handletextpad=0.2, columnspacing=0.8
            )
        axes.set(xlim=limits, ylim=limits, aspect="equal")
        axes.set_xlabel("observed")
        axes.set_ylabel("predicted by a model that never saw the sample")
        axes.set_title(
            f"{_title(report)}: {len(observed)} samples, {len(names)} folds\n"
            f"MAE {score(report['mae_fold_mean'])}, pooled {score(report['mae_pooled'])}; "
            f"R² {score(report['r2_pooled'])}, r {score(report['pearson'])}"
        )
        draw_comparison(comparison, report)


def _draw_classification(predictions: pd.DataFrame, report: Mapping[str, Any], path: Path) -> None:
    classes = report["confusion"]["classes"]
    heights_in = (float(np.clip(1.2 + 0.17 * len(classes), 3.1, 9)), 3.1)
    with picture(path, sum(heights_in), 2, 2, height_ratios=heights_in) as (_, all_axes):
        matrix, recall, roc, comparison = all_axes
        _draw_confusion(matrix, report)
        _draw_recall(recall, report)
        _draw_roc(roc, predictions, report)
        draw_comparison(comparison, report)


def _label_size(count: int) -> float:
    return float(np.clip(130 / count, 4, 8))


def _draw_confusion(axes: Axes, report: Mapping[str, Any]) -> None:
    classes = [short(name, 16) for name in report["confusion"]["classes"]]
    counts_CC = np.array(report["confusion"]["counts"])
    shares_CC = counts_CC / np.maximum(counts_CC.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares_CC, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= ANNOTATED_CLASSES:
        for (row, column), count in np.ndenumerate(counts_CC):
            color = "white" if shares_CC[row, column] > 0.55 else BLACK
            axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=8)
    ticks, size = np.arange(len(classes)), _label_size(len(classes))
    axes.set_yticks(ticks, classes, fontsize=size)
    turned = max(map(len, classes)) * len(classes) > 24
    axes.set_xticks(
        ticks,
        classes,
        fontsize=size,
        rotation=45 if turned else 0,
        ha="right" if turned else "center",
        rotation_mode="anchor" if turned else "default",
    )
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("observed")
    axes.set_title(f"{_title(report)}: {report['n']} samples")


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
        f"Accuracy {score(report['accuracy'])}, balanced {score(report['balanced_accuracy'])}"
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
        axes.plot(false, true, color=color, label=f"{short(name, 14)}  {area}")
    if shown:
        axes.legend(loc="lower right", fontsize=7, handlelength=1.2, labelspacing=0.3)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), aspect="equal")
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    which = f"{len(shown)} largest classes" if len(table) > ROC_CLASSES else "one against the rest"
    axes.set_title(f"ROC and its area, {which}")
