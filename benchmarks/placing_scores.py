"""What kernels of clades and of UniFrac predict on v4 and on the tree of full-length sequences.

    aam reference get greengenes
    python -m benchmarks.placing_scores ../shared/data

It takes the two development studies, mackerels (body site; day, by host) and houses (town; its
rank, by house), three draws of five folds each, and prints the mean absolute error of numbers and
the balanced accuracy of classes. v4 holds the ASVs of both studies; "left out" is v4 without them.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.config.references import REFERENCES, TREE
from aam.data.importing.table import load_table
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.data.trees import find_branches
from aam.learners.baselines.kernel_ridge import kernel_clades, kernel_distances
from aam.learners.baselines.problem import Problem
from aam.reference_tree.tree import ReferenceTree, place_sequences
from aam.util.scikit_bio import TreeNode
from benchmarks.leaderboard import labels
from benchmarks.placing import (
    DEPTH,
    OF_CORPUS,
    Greengenes,
    distances,
    find_hits,
    on_greengenes,
    read_study,
)

TASKS = {"mackerel": {"site": True, "day": False}, "westernization": {"town": True, "rank": False}}
"""Whether a column has classes, by study and column."""
DRAWS = 3
FOLDS = 5
METHODS = {"clades": kernel_clades, "unweighted UniFrac": kernel_distances}


def main(data: Path) -> None:
    """Print the table.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    rows: list[dict[str, object]] = []
    metadata = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
    greengenes = Greengenes.open()
    for study in OF_CORPUS:
        corpus = load_table(data / "corpus/table.biom")
        is_study_N = metadata.loc[corpus.sample_ids, "study"] == study
        table = rarefy(corpus.select_samples(np.flatnonzero(is_study_N)), DEPTH, 0, 0)
        hits = find_hits(table.feature_ids, greengenes)
        table = table.without_features(set(table.feature_ids) - set(hits["query"]))
        names = table.feature_ids
        sequences = {name: name for name in names}
        v4 = ReferenceTree.read(REFERENCES["v4"] / TREE)
        trees = {
            "v4": place_sequences(v4, sequences).to_tree(),
            "v4, left out": place_sequences(read_study(study, data)[1], sequences).to_tree(),
            "Greengenes": on_greengenes(names, hits, greengenes, takes_first=False),
        }
        about = labels(study, metadata.loc[table.sample_ids])
        for title, tree in trees.items():
            rows += score_rows(study, title, table, tree, about)
            print(pd.DataFrame(rows).tail(4).to_string(), flush=True)
    table_of_rows = pd.DataFrame(rows).pivot(
        index=["study", "column", "method"], columns="tree", values="score"
    )
    print(table_of_rows.to_markdown(floatfmt=".4f"))


def score_rows(
    study: str, title: str, table: FeatureTable, tree: TreeNode, about: pd.DataFrame
) -> list[dict[str, object]]:
    """Return a row for each column and method.

    Parameters
    ----------
    study, title
        What the rows call study and tree.
    table
        Reads of the samples.
    tree
        The tree of its ASVs.
    about
        Labels and hosts by sample ID.
    """
    distance_NN = distances(table, tree)["unweighted"].astype(np.float32)
    above, lengths = find_branches(tree, table.feature_ids)
    rows: list[dict[str, object]] = []
    for column, has_classes in TASKS[study].items():
        labelled = np.flatnonzero((about[column] != "").to_numpy())
        label = about[column].to_numpy()[labelled]
        part = table.select_samples(labelled)
        column_of = {name: number for number, name in enumerate(table.feature_ids)}
        kept = [column_of[name] for name in part.feature_ids]
        scores: Mapping[str, list[float]] = {method: [] for method in METHODS}
        for draw in range(DRAWS):
            problem = Problem(
                kind="classification" if has_classes else "regression",
                target=label if has_classes else label.astype(float),
                classes=sorted(set(label)) if has_classes else [],
                fold=draw_folds(label, about["host"].to_numpy()[labelled], draw, has_classes),
                group=about["host"].to_numpy()[labelled].astype(str),
                counts=part.counts.astype(np.float64),
                distances=distance_NN[np.ix_(labelled, labelled)],
                above=above[kept],
                lengths=lengths,
                seed=draw,
            ).encode()
            splits = [
                (np.flatnonzero(problem.fold != fold), np.flatnonzero(problem.fold == fold))
                for fold in range(FOLDS)
            ]
            for method, predict in METHODS.items():
                predicted = np.empty(len(label), dtype=object)
                for (_, test), (values, _) in zip(splits, predict(problem, splits), strict=True):
                    predicted[test] = values
                scores[method].append(
                    balanced_accuracy_score(label, predicted.astype(str))
                    if has_classes
                    else float(np.abs(predicted.astype(float) - label.astype(float)).mean())
                )
        rows += [
            {
                "study": study,
                "column": column,
                "method": method,
                "tree": title,
                "score": np.mean(values),
                "spread": np.ptp(values),
            }
            for method, values in scores.items()
        ]
    return rows


def draw_folds(label: np.ndarray, host: np.ndarray, seed: int, has_classes: bool) -> np.ndarray:
    """Return the fold of each sample; those of a host stand in one."""
    if has_classes:
        splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    else:
        splitter = GroupKFold(FOLDS, shuffle=True, random_state=seed)
    fold = np.zeros(len(label), np.int64)
    for number, (_, test) in enumerate(splitter.split(label, label, host)):
        fold[test] = number
    return fold


if __name__ == "__main__":
    main(Path(sys.argv[1]))
