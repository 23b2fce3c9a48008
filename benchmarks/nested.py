"""What it is worth that the methods behind a super learner have seen the labels of a fold.

Run as `python -m benchmarks.nested RESULTS TASK KIND`: RESULTS is the folder of a dataset's
results, with folds, sample store, tree and unweighted UniFrac; KIND is regression or
classification. As the report does it, the weights of a fold are fitted to predictions for the other
folds by methods that were trained on this one, too. Nested, the fold takes no part in anything: the
others are cross-validated anew without it. Baselines alone are mixed.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines
from aam.evaluate.report import CONSTANT, task_metrics
from aam.evaluate.scores import HEADLINE
from aam.evaluate.super_learner import super_learner
from benchmarks.labels import read_problem


def tables(task: Problem) -> dict[str, pd.DataFrame]:
    """Return the predictions of every baseline but the constant."""
    found = predict_baselines(task, threads=2)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of both, and of the best baseline."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("task")
    parser.add_argument("kind", choices=["regression", "classification"])
    given = parser.parse_args(arguments)
    task, _ = read_problem(given.results, given.task, given.kind)
    own, name = tables(task), HEADLINE[given.kind]
    rows = {**own, "super learner": mixed(task, own), "nested": nested(task)}
    for label, table in rows.items():
        value = task_metrics(given.kind, table[table["fold"] >= 0])[name]
        print(f"{label}: {name} {value:.4f}", flush=True)


if __name__ == "__main__":
    main()
