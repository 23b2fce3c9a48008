"""What a super learner of the baselines is worth: fully nested, and where samples are few.

Run as `python -m benchmarks.nested RESULTS TASK KIND`: RESULTS is the folder of a dataset's
results, with folds, sample store, tree and unweighted UniFrac; KIND is regression or
classification. As the report does it, the weights of a fold are fitted to predictions for the other
folds by methods that were trained on this one, too. Nested, the fold takes no part in anything: the
others are cross-validated anew without it.

With `--samples N --draws D` so many samples are drawn, whole groups as long as they last, divided
into five folds anew, and mixed with several strengths of the pull towards equal weights.

With `--groups FILE COLUMN` every value of a metadata column is a group, and a fold of its own, and
with `--label` another column is what is predicted: few and large groups. Mixed is with a pull by
the number of groups, of samples, and of as many independent samples as they are worth (Kish 1965).
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.evaluate import mixture
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.predictions import class_codes, class_names, class_probabilities, numbers
from aam.evaluate.report import CONSTANT, task_metrics
from aam.evaluate.scores import HEADLINE
from aam.evaluate.super_learner import super_learner
from benchmarks.labels import read_problem

THREADS = 2
FOLDS, RIDGES = 5, (0.1, 0.5, 2.0, 8.0, 1e6)


def tables(task: Problem) -> dict[str, pd.DataFrame]:
    """Return the predictions of every baseline but the constant."""
    found = predict_baselines(task, THREADS)
    found.insert(0, "sample-id", found.pop("row").astype(str))
    parts = found.groupby("baseline", sort=False)
    return {
        str(name): part.drop(columns="baseline") for name, part in parts if name not in CONSTANT
    }


def mixed(task: Problem, predictions: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the predictions of the super learner."""
    names = [str(row) for row in range(len(task.target))]
    units = np.where(task.group == "", names, task.group)
    return super_learner(predictions, pd.Series(units, names))[0]


def nested(task: Problem) -> pd.DataFrame:
    """Return the predictions of super learners that know nothing of the fold they predict."""
    parts = []
    for fold in np.unique(task.fold[task.fold >= 0]):
        inner = replace(task, fold=np.where(task.fold == fold, -1, task.fold))
        found = mixed(inner, tables(inner))
        parts.append(found[task.fold == fold].assign(fold=fold))
    return pd.concat(parts)


def cut(task: Problem, samples: int, draw: int) -> Problem:
    """Return a problem of so many samples, in folds of their own."""
    names = np.arange(len(task.target)).astype(str)
    units = np.where(task.group == "", names, task.group)
    order = np.random.default_rng(draw).permutation(np.unique(units))
    place = {unit: number for number, unit in enumerate(order)}
    rows = np.sort(np.argsort([place[unit] for unit in units], kind="stable")[:samples])
    divide = GroupKFold if task.regression else StratifiedGroupKFold
    folds = divide(FOLDS, shuffle=True, random_state=draw)
    fold = np.zeros(len(rows), np.int64)
    for number, (_, out) in enumerate(folds.split(rows, task.target[rows], units[rows])):
        fold[out] = number
    return Problem(
        task.kind,
        task.target[rows],
        [] if task.regression else sorted(set(task.target[rows])),
        fold,
        task.group[rows],
        task.counts[rows],
        task.distances[np.ix_(rows, rows)],
        task.above,
        task.lengths,
        draw,
    )


def few(task: Problem, samples: int, draws: int, name: str) -> None:
    """Print the best baseline, and super learners of several strengths, of small studies."""
    rows = []
    for draw in range(draws):
        part = cut(task, samples, draw)
        own = tables(part)
        single = [task_metrics(task.kind, table)[name] for table in own.values()]
        found = {"best": min(single) if task.regression else max(single)}
        for ridge in RIDGES:
            with patch.object(mixture, "RIDGE", ridge):
                found[f"ridge {ridge:g}"] = task_metrics(task.kind, mixed(part, own))[name]
        rows.append(found)
        print(pd.Series(found).round(4).to_dict(), flush=True)
    print(pd.DataFrame(rows).mean().round(3).to_string())


def regrouped(task: Problem, ids: Sequence[str], file: Path, by: str, label: str) -> Problem:
    """Return a problem whose groups, and folds, are the values of a column."""
    rows = pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False).set_index("sample-id")
    rows = rows.loc[list(ids)]
    groups, fold = np.unique(rows[by].to_numpy(str), return_inverse=True)
    target = task.target
    if label:
        target = rows[label].to_numpy(float if task.regression else str)
    return replace(
        task,
        target=target,
        classes=[] if task.regression else sorted(set(target[task.fold >= 0])),
        fold=np.where(task.fold >= 0, fold, -1),
        group=groups[fold],
    )


def independent(predictions: Mapping[str, pd.DataFrame], unit: NDArray) -> float:
    """Return the number of independent samples that grouped ones are worth.

    By the part of the variance that lies between groups, of the methods' losses against their mean.
    """
    losses = []
    for table in predictions.values():
        classes, observed = class_names(table), table["observed"]
        if classes:
            code = class_codes(observed.to_numpy(str), classes)
            share_N = class_probabilities(table, classes)[np.arange(len(code)), code]
            losses.append(-np.log(np.maximum(share_N, mixture.LEAST_SHARE)))
        else:
            losses.append(np.abs(numbers(table["predicted"]) - numbers(observed)))
    loss_NM = np.stack(losses, axis=1)
    loss_NM -= loss_NM.mean(axis=1, keepdims=True)
    _, place, size_G = np.unique(unit, return_inverse=True, return_counts=True)
    number, groups = len(unit), len(size_G)
    mean_GM = np.stack([np.bincount(place, of) / size_G for of in loss_NM.T], axis=1)
    spread_GM = size_G[:, None] * (mean_GM - loss_NM.mean(axis=0)) ** 2
    between = spread_GM.sum() / (groups - 1)
    within = ((loss_NM - mean_GM[place]) ** 2).sum() / (number - groups)
    typical = (number - (size_G**2).sum() / number) / (groups - 1)
    part = np.clip((between - within) / (between + (typical - 1) * within), 0.0, 1.0)
    return float(number / (1 + ((size_G**2).sum() / number - 1) * part))


def by_units(task: Problem, name: str) -> None:
    """Print the best baseline, and super learners held back by groups, samples and in between."""
    own = {key: table[table["fold"] >= 0] for key, table in tables(task).items()}
    inside = task.fold >= 0
    groups, samples = len(np.unique(task.group[inside])), int(inside.sum())
    single = [task_metrics(task.kind, table)[name] for table in own.values()]
    print(f"best: {min(single) if task.regression else max(single):.4f}")
    worth = independent(own, task.group[inside])
    for label, units in {"groups": groups, "samples": samples, "independent": worth}.items():
        # A mixture divides by the groups that it sees.
        with patch.object(mixture, "RIDGE", mixture.RIDGE * groups / units):
            value = task_metrics(task.kind, mixed(task, own))[name]
        print(f"{label}: {units:.0f}, {name} {value:.4f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of both, and of the best baseline."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("task")
    parser.add_argument("kind", choices=["regression", "classification"])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--groups", nargs=2, metavar=("FILE", "COLUMN"))
    parser.add_argument("--label", default="", metavar="COLUMN")
    given = parser.parse_args(arguments)
    task, ids = read_problem(given.results, given.task, given.kind)
    name = HEADLINE[given.kind]
    if given.groups:
        file, column = given.groups
        return by_units(regrouped(task, ids, Path(file), column, given.label), name)
    if given.samples:
        return few(task, given.samples, given.draws, name)
    own = tables(task)
    rows = {**own, "super learner": mixed(task, own), "nested": nested(task)}
    for label, table in rows.items():
        value = task_metrics(given.kind, table[table["fold"] >= 0])[name]
        print(f"{label}: {name} {value:.4f}", flush=True)
    return None


if __name__ == "__main__":
    main()
