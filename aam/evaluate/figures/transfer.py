"""Distances of studies that encoders were not pretrained on."""

from pathlib import Path

import pandas as pd

from aam.evaluate.figures.style import BLUE, GREY, VERMILION, saved_figure

WAYS = {
    "model": ("the encoders", BLUE, "o"),
    "tree": ("sketches of the true tree", VERMILION, "_"),
    "placed": ("nothing learned: placed ASVs", GREY, "x"),
}
SCORES = {"pearson": "r of unweighted UniFrac", "mae": "mean absolute error"}


def draw(transfer: pd.DataFrame, path: Path) -> None:
    """Draw r and error against the fraction of unseen ASVs, a mark per model and study."""
    with saved_figure(path, 3.4, columns=2) as (_, all_axes):
        for axes, (score, label) in zip(all_axes, SCORES.items(), strict=True):
            for way, (name, color, marker) in WAYS.items():
                values = transfer[f"{way}_{score}"]
                axes.scatter(
                    100 * transfer["unseen"], values, s=28, color=color, marker=marker, label=name
                )
            axes.set_xlim(0, 100)
            axes.set_xlabel("ASVs of the study that the encoder has not seen (%)")
            axes.set_ylabel(label)
        all_axes[1].set_ylim(bottom=0)
        all_axes[0].legend(loc="lower left")
