"""How to combine learners where labels are few, compared on studies set apart for development.

`python -m benchmarks.small_studies predict RESULTS FOLDER` cuts the tasks of
`benchmarks/config/leaderboard.yaml` that settings may be chosen on down to some numbers of samples,
whole groups as long as they last, divides these into five folds, and writes the predictions of all
baselines, nested too, into FOLDER. RESULTS is a folder of results with the folds, sample store,
tree and unweighted UniFrac of these studies. `python -m benchmarks.small_studies compare FOLDER`
then prints how far each rule lies behind the best single learner, which nobody can know
beforehand, and behind the one that inner cross-validation chooses.

Shape suffixes: N samples.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.data.folds import units_of
from aam.data.predictions import class_names, mean_recall
from aam.evaluate.method_scores import headline_score
from aam.learners import mixture
from aam.learners import super_learner as super_learner_module
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import predict_baselines, predict_nested
from aam.learners.mixture import Mixture
from aam.learners.super_learner import Learner, learners_by_target
from benchmarks.labels import read_problem
from benchmarks.speed.tables import markdown_table

Floats = NDArray[np.float64]
Rule = Callable[[Mapping[str, Floats], NDArray[Any], Sequence[str], NDArray[Any]], Mixture]
"""Returns a mixture for values [N, C] by learner, observed values, classes and units [N]."""
TASKS = {
    "mackerel/mackerel_day_0": "regression",
    "mackerel/mackerel_site_0": "classification",
    "westernization/westernization_rank_0": "regression",
    "westernization/westernization_town_0": "classification",
}
"""Tasks that settings may be chosen on, and their kinds."""
SIZES = (35, 70, 100, 150, 250)
FOLDS = 5
THREADS = 2
GREEDY_STEPS = 15
FIT = Mixture.fit
"""What rules stand in for while they are compared."""
FEW = ("random_forest", "random_forest_median", "svm_clr", "elastic_net")
"""Learners of the rule that weights a few: a forest, a kernel and a linear model."""


def cut(task: Problem, samples: int, draw: int) -> Problem:
    """Return a problem of so many samples, whole groups as long as they last, in new folds."""
    names = np.arange(len(task.target)).astype(str)
    units = np.where(task.group == "", names, task.group)
    order = np.random.default_rng(draw).permutation(np.unique(units))
    rank = {unit: number for number, unit in enumerate(order)}
    rows = np.sort(np.argsort([rank[unit] for unit in units], kind="stable")[:samples])
    divide = GroupKFold if task.regression else StratifiedGroupKFold
    splitter = divide(FOLDS, shuffle=True, random_state=draw)
    fold = np.zeros(len(rows), np.int64)
    for number, (_, left_out) in enumerate(splitter.split(rows, task.target[rows], units[rows])):
        fold[left_out] = number
    return replace(
        task,
        target=task.target[rows],
        classes=[] if task.regression else sorted(set(task.target[rows])),
        fold=fold,
        group=task.group[rows],
        counts=task.counts[rows],
        distances=task.distances[np.ix_(rows, rows)],
        seed=draw,
    )


def predict(results: Path, folder: Path, sizes: Sequence[int], draws: Sequence[int]) -> None:
    """Write the predictions of every task, size and draw that has none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in draws:
        for size in sizes:
            for name, kind in TASKS.items():
                dataset, task_name = name.split("/")
                stem = folder / f"{task_name}-{size}-{draw}"
                if (folder / f"{stem.name}.nested.parquet").exists():
                    continue
                task, _ = read_problem(results / dataset, task_name, kind)
                if len(task.target) < size:
                    continue
                part = cut(task, size, draw)
                predictions = predict_baselines(part, THREADS)
                predictions["group"] = part.group[predictions["row"]]
                predictions.to_parquet(stem.with_suffix(".parquet"))
                predict_nested(part, THREADS).to_parquet(stem.with_suffix(".nested.parquet"))
                print(stem.name, flush=True)


def load(stem: Path) -> tuple[dict[str, Learner], pd.Series]:
    """Return the learners of a cut study, and the group of each sample."""
    predictions = pd.read_parquet(stem.with_suffix(".parquet"))
    nested = pd.read_parquet(stem.with_suffix(".nested.parquet"))
    for table in (predictions, nested):
        table.insert(0, "sample-id", table.pop("row").astype(str))
    first = predictions.drop_duplicates("sample-id").set_index("sample-id")
    learners = learners_by_target(predictions.drop(columns="group"), nested)[""]
    return learners, units_of(first["group"].astype(str))


def loss(value_NC: Floats, observed_N: NDArray[Any], classes: Sequence[str]) -> float:
    """Return the mean absolute error, or the error of the balanced accuracy."""
    if not classes:
        return float(np.abs(observed_N - value_NC[:, 0]).mean())
    return -mean_recall(observed_N, np.array(classes)[value_NC.argmax(axis=1)])


def weighted(ridge: float) -> Rule:
    """Return the rule of the package, with another pull towards equal weights."""

    def rule(
        values: Mapping[str, Floats],
        observed_N: NDArray[Any],
        classes: Sequence[str],
        unit_N: NDArray[Any],
    ) -> Mixture:
        with patch.object(mixture, "RIDGE", ridge):
            return FIT(values, observed_N, classes, unit_N)

    return rule


def best(number: int) -> Rule:
    """Return the rule that takes the mean of the best learners."""

    def rule(
        values: Mapping[str, Floats],
        observed_N: NDArray[Any],
        classes: Sequence[str],
        unit_N: NDArray[Any],
    ) -> Mixture:
        ranked = sorted(values, key=lambda name: loss(values[name], observed_N, classes))
        return Mixture.equal(ranked[:number])

    return rule


def few(
    values: Mapping[str, Floats],
    observed_N: NDArray[Any],
    classes: Sequence[str],
    unit_N: NDArray[Any],
) -> Mixture:
    """Weight a few learners that differ much from each other."""
    kept = {name: value_NC for name, value_NC in values.items() if name in FEW}
    return FIT(kept, observed_N, classes, unit_N)


def greedy(
    values: Mapping[str, Floats],
    observed_N: NDArray[Any],
    classes: Sequence[str],
    unit_N: NDArray[Any],
) -> Mixture:
    """Add the learner that helps most, again and again, from the best three on.

    Caruana et al. (2004), Ensemble selection from libraries of models, doi:10.1145/1015330.1015432.
    """

    def mean_loss(chosen: Sequence[str]) -> float:
        mean_NC = np.mean([values[name] for name in chosen], axis=0)
        return loss(mean_NC, observed_N, classes)

    names = list(values)
    ranked = sorted(names, key=lambda name: mean_loss([name]))
    tried = [ranked[:3]]
    while len(tried[-1]) < GREEDY_STEPS:
        longer = [[*tried[-1], name] for name in names]
        tried.append(min(longer, key=mean_loss))
    chosen = min(tried, key=mean_loss)
    weights = {name: chosen.count(name) / len(chosen) for name in set(chosen)}
    return Mixture(weights, dict.fromkeys(weights, 1.0))


RULES: dict[str, Rule] = {
    "weights, pull 0.1": weighted(0.1),
    "weights, pull 0.5": weighted(0.5),
    "weights, pull 2 (the package's)": weighted(2.0),
    "weights, pull 8": weighted(8.0),
    "the best one (chosen)": best(1),
    "mean of the best two": best(2),
    "mean of the best three": best(3),
    "mean of the best four": best(4),
    "greedy selection": greedy,
    "weights of four learners": few,
    "mean of all": best(100),
}
"""What may combine learners, by what they predict for samples that they have not seen."""


def score(predictions: pd.DataFrame) -> float:
    """Return the headline score, the smaller the better."""
    classes = class_names(predictions)
    kind = "classification" if classes else "regression"
    value = headline_score(kind, predictions)
    return -value if classes else value


def compare(folder: Path) -> pd.DataFrame:
    """Return how far each rule lies behind the best and the chosen learner, in percent."""
    rows = []
    for path in sorted(folder.glob("*.nested.parquet")):
        stem = path.with_suffix("").with_suffix("")
        task, size, draw = stem.name.rsplit("-", 2)
        learners, groups = load(stem)
        scores = {}
        for name, rule in RULES.items():
            with patch.object(super_learner_module.Mixture, "fit", staticmethod(rule)):
                mixed = super_learner_module.super_learner(learners, groups)
            scores[name] = score(mixed.predictions)
        unnested = super_learner_module.super_learner(learners, groups).unnested
        scores["the package's weights, not nested"] = score(unnested)
        hindsight = min(score(learner.predictions) for learner in learners.values())
        chosen = scores["the best one (chosen)"]
        for name, value in scores.items():
            rows.append(
                {
                    "rule": name,
                    "task": task,
                    "samples": int(size),
                    "draw": int(draw),
                    "behind best": 100 * (value - hindsight) / abs(hindsight),
                    "behind chosen": 100 * (value - chosen) / abs(chosen),
                }
            )
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the predictions, or compare the rules."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("predict")
    maker.add_argument("results", type=Path)
    maker.add_argument("folder", type=Path)
    maker.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    maker.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    comparer = commands.add_parser("compare")
    comparer.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "predict":
        predict(given.results, given.folder, given.sizes, given.draws)
        return
    table = compare(given.folder)
    for column in ("behind best", "behind chosen"):
        means = table.pivot_table(index="rule", columns="samples", values=column)
        rows = [[str(rule), *(f"{value:+.1f}" for value in row)] for rule, row in means.iterrows()]
        head = [f"{column}, %", *(f"{size} samples" for size in means)]
        print(f"{markdown_table(head, rows)}\n")
    print(table.groupby("samples")["draw"].count() // len(table["rule"].unique()))


if __name__ == "__main__":
    main()
