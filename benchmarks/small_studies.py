"""How to combine learners where labels are few, compared on studies set apart for development.

`python -m benchmarks.small_studies predict RESULTS FOLDER` cuts the tasks of
`benchmarks/config/leaderboard.yaml` that settings may be chosen on down to some numbers of samples,
whole groups as long as they last, divides these into five folds, and writes the predictions of all
baselines, nested too, into FOLDER. RESULTS is a folder of results with the folds, sample store,
tree and unweighted UniFrac of these studies. `python -m benchmarks.small_studies compare FOLDER`
then prints how far each rule lies behind the best single learner, which nobody can know
beforehand, and behind the one that inner cross-validation chooses.

`python -m benchmarks.small_studies simulate` compares the rules on simulated predictions of eight
methods, and needs no files; `simulate --large` does so with three to sixteen groups of 40 or 250
samples.

Shape suffixes: N samples, M methods, C classes.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.data.folds import units_of
from aam.data.predictions import class_names, mean_recall
from aam.evaluate.method_scores import headline_score
from aam.learners import mixture
from aam.learners import super_learner as super_learner_module
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import cross_validate
from aam.learners.mixture import Mixture
from aam.learners.super_learner import Learner, learners_by_target
from benchmarks.labels import read_problem
from benchmarks.speed.tables import markdown_table

Floats = NDArray[np.float64]
Units = NDArray[np.int64]
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
UNITS = (20, 50, 130)
"""Numbers of simulated groups."""
SAMPLES_PER_UNIT = (1, 4)
CORRELATIONS = (0.5, 0.9)
"""Correlations between the errors of simulated methods."""
WITHIN_UNIT = 0.5
"""Part of the variance of an error that the samples of a group share."""
LARGE_GROUPS = ((3, 250), (4, 250), (8, 250), (16, 40))
"""Numbers of large groups that weights are fitted to, and of samples of each."""
LARGE_WITHIN = (0.0, 0.02, 0.1, 0.5)
"""What samples of a large group share: nothing, as little as those of a published fold, and more.
"""
TESTED = 2000
"""Number of simulated groups, of one sample each, that a mixture is scored on."""
SKILLS = {
    "one good, near": (0.5, *[0.3] * 7),
    "one good, far": (0.5, *[0.1] * 7),
    "one weak": (0.25, *[0.03] * 7),
    "one strong": (0.8, *[0.4] * 7),
    "two good": (*[0.5] * 2, *[0.15] * 6),
    "ladder": tuple(np.linspace(0.5, 0.15, 8)),
    "equal": (0.4,) * 8,
    "equal, weak": (0.1,) * 8,
}
"""Part of the variance of its evidence that each simulated method owes to the target."""
SURENESS = {"numbers": 0.1, "classes": 0.5}
"""Standard deviation, between simulated methods, of the logarithm of how sure they are."""
FREQUENCIES = {
    "numbers": (),
    "two classes": (0.5, 0.5),
    "12 % of one class": (0.88, 0.12),
    "four classes": (0.25,) * 4,
}
"""Frequencies of the classes, by the kind of the target."""
DESIGN = ["kind", "skills", "groups", "per group", "correlation", "within"]
"""What simulated studies differ in."""
FEW = ("random_forest", "random_forest_median", "kernel_clr")
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
                tables = cross_validate(part, THREADS)
                predictions = tables.predictions
                predictions["group"] = part.group[predictions["row"]]
                predictions.to_parquet(stem.with_suffix(".parquet"))
                tables.nested.to_parquet(stem.with_suffix(".nested.parquet"))
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


def pulled(factor: float) -> Rule:
    """Return the rule of the package with so many standard errors as its pull."""

    def rule(
        values: Mapping[str, Floats],
        observed_N: NDArray[Any],
        classes: Sequence[str],
        unit_N: NDArray[Any],
    ) -> Mixture:
        with patch.object(mixture, "PULL", factor):
            return FIT(values, observed_N, classes, unit_N)

    return rule


def ridge(strength: float) -> Rule:
    """Return the rule whose pull is the squared distance from equal weights, over the groups."""

    def weights(loss: Any, unit_N: NDArray[Any]) -> Floats:
        single_M = loss.weight_N @ loss.of_methods()
        methods = len(single_M)
        loss_unit = max(single_M.min(), loss.least_unit)
        pull = strength * methods / len(np.unique(unit_N))

        def penalized(weight_M: Floats) -> tuple[float, Floats]:
            value, slope_M = loss(weight_M)
            away_M = weight_M - 1.0 / methods
            return (
                value / loss_unit + pull * away_M @ away_M,
                slope_M / loss_unit + 2 * pull * away_M,
            )

        minimum = minimize(
            penalized,
            np.eye(methods)[int(single_M.argmin())],
            jac=True,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * methods,
            constraints={"type": "eq", "fun": lambda weight_M: weight_M.sum() - 1.0},
            options={"maxiter": 200, "ftol": 1e-9},
        )
        weight_M = np.clip(minimum.x, 0.0, None)
        return weight_M / weight_M.sum()

    def rule(
        values: Mapping[str, Floats],
        observed_N: NDArray[Any],
        classes: Sequence[str],
        unit_N: NDArray[Any],
    ) -> Mixture:
        with patch.object(mixture, "_fit_weights", weights):
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


def unmoderated(
    values: Mapping[str, Floats],
    observed_N: NDArray[Any],
    classes: Sequence[str],
    unit_N: NDArray[Any],
) -> Mixture:
    """Weight by standard errors that nothing is expected of beforehand."""
    with patch.object(mixture, "SIMILARITY_FREEDOM", 1e-9):
        return FIT(values, observed_N, classes, unit_N)


CHOSEN = "the best one (chosen)"
RULES: dict[str, Rule] = {
    "pull of one standard error (the package's)": FIT,
    "pull of one standard error of groups alone": unmoderated,
    "pull of half a standard error": pulled(0.5),
    "pull of two standard errors": pulled(2.0),
    "squared distance, 0.1 / groups": ridge(0.1),
    "squared distance, 0.5 / groups": ridge(0.5),
    "squared distance, 2 / groups": ridge(2.0),
    CHOSEN: best(1),
    "mean of the best two": best(2),
    "mean of the best three": best(3),
    "mean of the best four": best(4),
    "greedy selection": greedy,
    "weights of four learners": few,
    "mean of all": best(100),
}
"""What may combine learners, by what they predict for samples that they have not seen."""
LARGE_RULES = (CHOSEN, "mean of all")
"""Rules that are compared on large groups, beside those of a pull."""


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
        chosen = scores[CHOSEN]
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


def draw_methods(
    kind: str,
    skill_M: Sequence[float],
    sureness_M: Floats,
    *,
    correlation: float,
    unit_N: Units,
    rng: np.random.Generator,
    within: float = WITHIN_UNIT,
) -> tuple[dict[str, Floats], NDArray[Any], list[str]]:
    """Return what simulated methods predict, the truth, and the classes.

    A method sees the target, or an indicator of each class, with an error that it partly shares
    with the other methods and with the samples of its group. Numbers are shrunk as a regression
    does it, probabilities are those of Bayes' rule with equal frequencies, and both are multiplied,
    on their scale or that of logits, by how sure a method is.
    """
    frequencies = FREQUENCIES[kind]
    classes = [f"c{number}" for number in range(len(frequencies))]
    columns = max(len(frequencies), 1)
    units = len(np.unique(unit_N))

    def noise() -> Floats:
        shared_NC = rng.normal(size=(units, columns))[unit_N]
        alone_NC = rng.normal(size=(len(unit_N), columns))
        return np.sqrt(within) * shared_NC + np.sqrt(1 - within) * alone_NC

    if classes:
        # At least two groups have each class; few groups have all classes among their samples.
        has_one_class = units >= 2 * columns + 2
        drawn = units if has_one_class else len(unit_N)
        least = np.repeat(np.arange(columns), 2)
        others = rng.choice(columns, drawn - len(least), p=frequencies)
        code_N = np.concatenate([least, others])
        code_N = code_N[unit_N] if has_one_class else rng.permutation(code_N)
        truth_N: NDArray[Any] = np.array(classes)[code_N]
        signal_NC = np.sqrt(2) * np.eye(columns)[code_N]
    else:
        signal_NC = noise()
        truth_N = signal_NC[:, 0]
    common_NC = noise()
    values = {}
    for number, (skill, sureness) in enumerate(zip(skill_M, sureness_M, strict=True)):
        variance = 1 / skill - 1
        error_NC = np.sqrt(correlation) * common_NC + np.sqrt(1 - correlation) * noise()
        evidence_NC = signal_NC + np.sqrt(variance) * error_NC
        if classes:
            value_NC = softmax(sureness * np.sqrt(2) * evidence_NC / variance, axis=1)
        else:
            value_NC = sureness * skill * evidence_NC
        values[f"m{number}"] = value_NC
    return values, truth_N, classes


def simulate(draws: int, rules: Mapping[str, Rule], *, large: bool = False) -> pd.DataFrame:
    """Return how far each rule lies behind the chosen method, in percent, on simulated studies.

    Weights are fitted to the predictions for four fifths of the groups, as nested ones are, or, of
    large groups, to those of so many that they are given.
    """
    small = ((round(0.8 * units), per_unit) for units, per_unit in product(UNITS, SAMPLES_PER_UNIT))
    sizes = LARGE_GROUPS if large else tuple(small)
    shares = LARGE_WITHIN if large else (WITHIN_UNIT,)
    rows = []
    cells = product(FREQUENCIES, SKILLS, sizes, CORRELATIONS, shares)
    for number, (kind, name, (units, per_unit), correlation, within) in enumerate(cells):
        for draw in range(draws):
            rng = np.random.default_rng([number, draw])
            spread = SURENESS["classes" if FREQUENCIES[kind] else "numbers"]
            sureness_M = np.exp(rng.normal(0, spread, len(SKILLS[name])))
            methods = {"correlation": correlation, "rng": rng, "within": within}
            unit_N = np.repeat(np.arange(units), per_unit)
            known = draw_methods(kind, SKILLS[name], sureness_M, unit_N=unit_N, **methods)
            tested, truth_N, classes = draw_methods(
                kind, SKILLS[name], sureness_M, unit_N=np.arange(TESTED), **methods
            )
            losses = {
                rule: loss(fit(*known, unit_N).apply(tested), truth_N, classes)
                for rule, fit in rules.items()
            }
            chosen = losses[CHOSEN]
            for rule, value in losses.items():
                behind = 100 * (value - chosen) / abs(chosen)
                rows.append((rule, kind, name, units, per_unit, correlation, within, behind))
    return pd.DataFrame(rows, columns=["rule", *DESIGN, "behind chosen"])


def print_simulated(table: pd.DataFrame) -> None:
    """Print means by groups, by skills, and of what is worst."""
    for columns in ("groups", "within", "skills"):
        means = table.pivot_table(index="rule", columns=columns, values="behind chosen", sort=False)
        rows = [[str(rule), *(f"{value:+.1f}" for value in row)] for rule, row in means.iterrows()]
        print(f"{markdown_table(['behind chosen, %', *map(str, means)], rows)}\n")
    cells = table.pivot_table(index=DESIGN, columns="rule", values="behind chosen", sort=False)
    rows = [
        [str(rule), f"{cell.mean():+.1f}", f"{cell.max():+.1f}", f"{(cell > 3).sum()}"]
        for rule, cell in cells.items()
    ]
    head = ["rule", "mean of the designs", "worst design", f"designs of {len(cells)} above 3 %"]
    print(markdown_table(head, rows))


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
    simulator = commands.add_parser("simulate")
    simulator.add_argument("--draws", type=int, default=20)
    simulator.add_argument("--large", action="store_true", help="few and large groups")
    given = parser.parse_args(arguments)
    if given.command == "simulate":
        # Simulated methods have no names that a rule could know, and a greedy search takes long.
        rules = {name: rule for name, rule in RULES.items() if rule not in (few, greedy)}
        if given.large:
            # The others take long with many samples.
            rules = {n: rule for n, rule in rules.items() if n in LARGE_RULES or "pull" in n}
        print_simulated(simulate(given.draws, rules, large=given.large))
        return
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
