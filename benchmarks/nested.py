"""What a super learner of the baselines is worth: fully nested, and where samples are few.

Run as `python -m benchmarks.nested RESULTS TASK KIND`: RESULTS is the folder of a dataset's
results, with folds, sample store, tree and unweighted UniFrac; KIND is regression or
classification. As the report does it, the weights of a fold are fitted to predictions for the other
folds by methods that were trained on this one, too. Nested, the fold takes no part in anything: the
others are cross-validated anew without it.

With `--samples N --draws D` so many samples are drawn, whole groups as long as they last, divided
into five folds anew, and mixed with several strengths of the pull towards equal weights.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.evaluate import mixture
from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of both, and of the best baseline."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("task")
    parser.add_argument("kind", choices=["regression", "classification"])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args(arguments)
    task, _ = read_problem(given.results, given.task, given.kind)
    name = HEADLINE[given.kind]
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
