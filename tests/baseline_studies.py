"""Files of a tiny study with the predictions of its baselines, and samples that are held out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable, write_biom
from aam.data.trees import find_branches, read_tree
from aam.distances.in_batch import BatchDistances
from aam.distances.store import write_distances
from aam.stages.baselines import fit_baselines

DEPTH, VIEWS, HELD_OUT = 60, 2, 5
RAREFACTION = {"depth": DEPTH, "seed": 0, "views": VIEWS}
ASKED = [
    "random_forest",
    "elastic_net",
    "kernel_clr",
    "kernel_clades",
    "kernel_unifrac",
    "knn_unifrac",
]
CLASSES = ["gut", "skin"]
KINDS = ("regression", "classification", "several")
"""Of a task: one number, two classes, or two numbers."""


@dataclass(frozen=True)
class BaselineStudy:
    """What the stages behind the baselines get."""

    paths: dict[str, Any]
    settings: dict[str, Any]
    table: FeatureTable
    """Reads of the samples held out."""
    folds: pd.DataFrame
    classes: list[str]


def random_tree(names: list[str]) -> str:
    draw, parts = np.random.default_rng(0), list(names)
    while len(parts) > 1:
        one, other = (parts.pop(draw.integers(len(parts))) for _ in range(2))
        parts.append(f"({one}:{draw.random():.3f},{other}:{draw.random():.3f})")
    return parts[0] + ";"


def write_study(
    folder: Path, kind: str, table: FeatureTable, sequences: dict[str, str]
) -> BaselineStudy:
    """Write the files of a study, and fit its baselines; the first samples are in no fold."""
    ids = table.sample_ids
    names = ("tree", "folds", "sequences", "table", "baselines", "nested_baselines")
    paths: dict[str, Any] = {name: folder / name for name in names}
    for name in ("views", "distances"):
        paths[name] = [folder / f"{name}{view}" for view in range(VIEWS)]
    write_biom(paths["table"], table, {})
    paths["tree"].write_text(random_tree(table.feature_ids))
    paths["sequences"].write_text("".join(f">{name}\n{text}\n" for name, text in sequences.items()))
    for view in range(VIEWS):
        drawn = rarefy(table, DEPTH, 0, view)
        above, lengths = find_branches(
            read_tree(paths["tree"], drawn.feature_ids), drawn.feature_ids
        )
        measure = BatchDistances(("unweighted",), 1.0, above.astype(float), lengths)
        write_biom(paths["views"][view], drawn, {})
        distances = measure(drawn.counts)["unweighted"]
        write_distances(paths["distances"][view], drawn.sample_ids, distances, {})
    number = np.arange(len(ids))
    fold = np.where(number < HELD_OUT, -1, number % 3)
    observed = (number + 0.5).astype(str)
    if kind == "classification":
        observed = np.array(CLASSES)[number % 2]
    folds = pd.DataFrame({"sample-id": ids, "fold": fold, "observed": observed, "group": ""})
    folds.loc[fold == 0, "group"] = "host of fold 0"
    if kind == "several":
        # The order of the configuration, which is not that of the alphabet.
        folds["observed:weight"] = folds["observed"] = (500 - 10 * number).astype(str)
        folds["observed:age"] = observed
    folds.to_csv(paths["folds"], sep="\t", index=False)
    settings = {
        "kind": "classification" if kind == "classification" else "regression",
        "classes": None,
        "bounds": [None, None] if kind == "classification" else [0, None],
        "baselines": ASKED,
        "seed": 0,
    }
    fit_baselines(
        **{name: paths[name] for name in ("folds", "views", "tree", "distances")},
        **settings,
        predictions_out=paths["baselines"],
        nested_out=paths["nested_baselines"],
    )
    return BaselineStudy(
        paths=paths,
        settings={**settings, "rarefaction": RAREFACTION},
        table=table.select_samples(np.arange(HELD_OUT)),
        folds=folds,
        classes=CLASSES if kind == "classification" else [],
    )
