"""Scores against the number of labels: frozen encoders and the baselines.

Run as `python -m benchmarks.labels RESULTS TASK KIND MODEL...`: RESULTS is the folder of a
dataset's results, with folds, sample store, unweighted UniFrac and the embeddings of each MODEL;
KIND is regression or classification. Some samples are drawn, their labels alone are learned from,
and all samples of other groups are predicted; all ways get the same draws. Of an embedding, centred
and scaled as a whole, linear models learn with a ridge penalty, logistic, or of squared or absolute
errors; `with forest` is the mean with a forest.

Shape suffixes: N labelled samples of the task, D width of an embedding.
"""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits

from aam.data.folds import TEST, read_folds
from aam.data.predictions import PROBABILITY
from aam.data.stores import SampleStore, TokenStore
from aam.data.trees import find_branches, read_tree
from aam.distances.store import distance_rows
from aam.learners.baselines.problem import (
    NOWHERE,
    Prediction,
    Problem,
    fit_predict,
    leave_parts_out,
    search,
)
from aam.learners.baselines.registry import predict_others
from aam.util.seeds import generator

NUMBERS = (10, 25, 50, 100)
PARTNERS = ("random_forest_median", "random_forest")
"""Baselines that a model is averaged with; the first that the task has."""
DRAWS = 20
PARTS = 5
"""Parts of the labelled samples that baselines choose their settings by."""
LOGISTIC_COST = 10.0
"""Chosen on body sites of mackerels and towns of houses, two studies of the corpus."""
PENALTIES = np.logspace(-3, 2, 11)
"""Ridge penalties that are tried."""
COSTS = np.logspace(-1, 3, 9).tolist()
"""Costs of support vectors that are tried."""
UNLABELLED = 99
"""Fold of the samples that are predicted."""


def linear(task: Problem, embedding_ND: NDArray[np.float64], loss: str) -> Prediction:
    """Predict by a linear model with a ridge penalty, numbers by squared or absolute errors."""
    train_TD = embedding_ND[task.train]
    scale = np.sqrt(train_TD.var(axis=0).sum()) or 1.0
    scaled_ND = (embedding_ND - train_TD.mean(axis=0)) / scale
    if not task.regression:
        logistic = LogisticRegression(C=LOGISTIC_COST, class_weight="balanced", max_iter=500)
        return fit_predict(task.encode(), logistic, scaled_ND)
    if loss == "squares":
        return fit_predict(task, RidgeCV(PENALTIES), scaled_ND)
    chosen = search(task, SVR(kernel="linear", epsilon=0.0), {"C": COSTS}, leave_parts_out(task))
    model = TransformedTargetRegressor(chosen, transformer=StandardScaler())
    return fit_predict(task, model, scaled_ND)


def average(task: Problem, one: Prediction, other: Prediction) -> Prediction:
    """Return the mean of two predictions."""
    shares_TC = (one[1] + other[1]) / 2
    if task.regression:
        return (one[0] + other[0]) / 2, shares_TC
    return np.asarray(task.classes)[shares_TC.argmax(axis=1)], shares_TC


def keep_labels(task: Problem, number: int, draw: int) -> Problem:
    """Return a problem with the labels of so many samples; those of their groups are left out."""
    rng = generator("labels", number, draw)
    order = rng.permutation(len(task.target))
    if not task.regression:
        # One sample of each class at least, where there are so many labels.
        firsts = [order[task.target[order] == name][0] for name in np.unique(task.target)]
        order = np.concatenate([firsts, np.setdiff1d(order, firsts, assume_unique=True)])
        rng.shuffle(order[len(firsts) :])
    chosen = order[:number]
    has_group = task.group != ""
    is_chosen_N = has_group & np.isin(task.group, task.group[chosen])
    fold = np.where(is_chosen_N, -1, UNLABELLED)
    # Whole groups, where there are enough of them, are left out to choose settings by.
    groups = np.where(has_group[chosen], task.group[chosen], chosen.astype(str))
    names = rng.permutation(np.unique(groups))
    part = {name: position % PARTS for position, name in enumerate(names)}
    fold[chosen] = [part[name] for name in groups]
    return replace(task, fold=fold, seed=draw, held_out=UNLABELLED)


def predict_unlabelled(task: Problem) -> dict[str, Prediction]:
    """Return what each baseline says of the rows without labels."""
    names = {UNLABELLED: TEST, TEST: NOWHERE}
    fold = np.array([names.get(fold, fold) for fold in task.fold.tolist()])
    table = predict_others(replace(task, fold=fold), threads=1)
    return {
        str(name): (part["predicted"].to_numpy(), part.filter(like=PROBABILITY).to_numpy())
        for name, part in table.groupby("baseline", sort=False)
    }


def score(task: Problem, predicted: NDArray) -> float:
    """Return the mean absolute error, or the balanced accuracy, of the predicted samples."""
    observed = task.target[task.test]
    if task.regression:
        return float(np.abs(observed - predicted).mean())
    return float(balanced_accuracy_score(observed, predicted))


def read_problem(results: Path, name: str, kind: str) -> tuple[Problem, list[str]]:
    """Return the labelled samples of a task, and their names."""
    folds = read_folds(results / "folds" / f"{name}.tsv")
    store = SampleStore.open(results / "views/samples.arrow")
    tokens = TokenStore.open(results / "tokens/asvs.arrow")
    folds = folds[folds.index.isin(store.sample_ids)]
    row_of_sample = {sample: row for row, sample in enumerate(store.sample_ids)}
    rows = np.array([row_of_sample[sample] for sample in folds.index])
    names, rows_of_groups = zip(
        *distance_rows(results / "unifrac/unweighted/view0.parquet"), strict=True
    )
    matrix = np.concatenate(rows_of_groups)
    order = {sample: row for row, sample in enumerate(chain.from_iterable(names))}
    at = [order[sample] for sample in folds.index]
    is_number = kind == "regression"
    target = folds["observed"].to_numpy(np.float64 if is_number else np.str_)
    tree = read_tree(results / "inputs/tree.nwk", tokens.feature_ids)
    above, lengths = find_branches(tree, tokens.feature_ids)
    problem = Problem(
        kind=kind,
        target=target,
        classes=[] if is_number else sorted(set(target)),
        fold=folds["fold"].to_numpy(np.int64),
        group=folds["group"].fillna("").to_numpy(np.str_),
        counts=store.counts_of(rows, len(tokens.lengths)),
        distances=np.asarray(matrix[np.ix_(at, at)]),
        above=above,
        lengths=lengths,
        seed=0,
    )
    return problem, list(folds.index)


def embeddings(folder: Path, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the embeddings [N, D] of some samples."""
    table = pd.read_parquet(folder / "embeddings.parquet").set_index("sample_id")["embedding"]
    return np.array(table.loc[list(names)].tolist(), dtype=np.float64)


def curves(task: Problem, features: dict[str, NDArray[np.float64]], draws: int) -> pd.DataFrame:
    """Return the score of every way, number of labels and draw."""
    rows = []
    losses = ("squares", "absolute") if task.regression else ("logistic",)
    for number in [n for n in NUMBERS if n < 0.7 * len(task.target)]:
        for draw in range(draws):
            part = keep_labels(task, number, draw)
            predictions = predict_unlabelled(part)
            partner = next(name for name in PARTNERS if name in predictions)
            for (name, embedding_ND), loss in product(features.items(), losses):
                way = f"{name}, {loss}"
                predictions[way] = linear(part, embedding_ND, loss)
                predictions[f"{way} with forest"] = average(
                    part, predictions[way], predictions[partner]
                )
            rows += [(name, number, draw, score(part, one[0])) for name, one in predictions.items()]
    return pd.DataFrame(rows, columns=["way", "labels", "draw", "score"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the mean score of every way, and its standard error over the draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("task")
    parser.add_argument("kind", choices=["regression", "classification"])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args(arguments)
    task, names = read_problem(given.results, given.task, given.kind)
    folder = given.results / "pretrain"
    features = {model: embeddings(folder / model, names) for model in given.models}
    torch.set_num_threads(1)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        table = curves(task, features, given.draws)
    mean = table.pivot_table(index="way", columns="labels", values="score", aggfunc="mean")
    error = table.pivot_table(index="way", columns="labels", values="score", aggfunc="sem")
    print(mean.round(3).to_string())
    print("standard errors")
    print(error.round(3).to_string())


if __name__ == "__main__":
    main()
