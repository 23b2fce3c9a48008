"""Distances of studies that encoders were not pretrained on."""

from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.figures.style import BLACK, BLUE, GREY, VERMILION, saved_figure, tell
from aam.evaluate.labels import quantity

WAYS = {
    "placed": ("nothing learned: placed ASVs", GREY, "x"),
    "tree": ("sketches of the true tree", BLACK, "_"),
    "model": ("encoders with sketches", BLUE, "o"),
    "plain": ("encoders without", VERMILION, "^"),
}
SCORES = {"pearson": "r of unweighted UniFrac", "mae": "mean absolute error"}


def draw(transfer: pd.DataFrame, path: Path) -> None:
    """Draw r and error against the fraction of unseen ASVs, a mark per model and study."""
    has_sketch = transfer["sketch"] > 0
    shown = dict.fromkeys(("placed", "tree"), transfer)
    shown |= {"model": transfer[has_sketch], "plain": transfer[~has_sketch]}
    with saved_figure(path, 3.7, columns=2) as (figure, all_axes):
        for axes, (score, label) in zip(all_axes, SCORES.items(), strict=True):
            for way, (name, color, marker) in WAYS.items():
                part, column = shown[way], "model" if way == "plain" else way
                unseen, values = 100 * part["unseen"], part[f"{column}_{score}"]
                if len(part):
                    look: dict[str, Any] = {"color": color, "marker": marker, "label": name}
                    points = axes.scatter(unseen, values, s=28, **look)
                    tell(points, part["study"] + ", " + part["model"] + ": " + values.map(quantity))
            axes.set(xlim=(0, 100), ylabel=label)
            axes.set_xlabel("ASVs of the study that the encoder has not seen (%)")
        all_axes[1].set_ylim(bottom=0)
        handles, names = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
