"""How often the page says that features add to covariates, where they do not and where they do.

`python -m benchmarks.additions DRAWS TABLE` draws studies whose target follows from an age and a
sex, which the reads follow, too: so the reads predict the target, and say nothing beyond the
covariates. Every claim that they add is then false. In other studies the target also follows from
something that the reads alone know, and the claim is right. DRAWS of each are made, with a fifth of
the trees; TABLE keeps a row per draw.

Features alone are what the joint methods say beside a covariate that is the same for all.

Shape suffixes: N samples, U units, F features.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.covariates import Covariates
from aam.evaluate.additions import measure_addition
from aam.evaluate.scores import is_better
from aam.learners import covariate_methods as methods
from aam.learners.baselines.problem import Problem
from aam.learners.covariate_methods import ALONE, JOINT, fit_with_covariates
from aam.learners.super_learner import Learner, learners_by_target
from aam.util.atomic import write_tsv
from benchmarks.speed.tables import markdown_table

STUDIES = ((60, 1), (120, 1), (40, 3))
"""Units, and samples of each."""
TARGETS = ("two classes", "15 % of one class", "numbers", "skewed numbers")
SHAPES = ("a line", "a curve", "an interaction")
"""How a target follows from age and sex."""
ADDED = 1.5
"""Part of the target that the reads alone know, where they do; covariates have about 1."""
FEATURES = 80
READS = 1000
FOLDS = 5
TREES = 20
FEWER = 4
"""Of so many draws one is of studies in which the reads do add."""
LEVEL = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """What a study is drawn from."""

    units: int
    each: int
    target: str
    shape: str
    added: float


def list_designs() -> Iterator[Design]:
    """Yield all designs; the shapes take turns."""
    for added in (0.0, ADDED):
        for number, (units, each) in enumerate(STUDIES):
            for place, target in enumerate(TARGETS):
                shape = SHAPES[(number + place) % len(SHAPES)]
                yield Design(units, each, target, shape, added)


def draw_study(design: Design, rng: np.random.Generator) -> tuple[Problem, Covariates]:
    """Return a study: reads that follow age and sex, and a target that follows them, too."""
    units = design.units
    unit_N = np.repeat(np.arange(units), design.each)
    age_U = rng.normal(size=units)
    is_woman_U = rng.random(units) < 0.5
    hidden_U = rng.normal(size=units)
    known_UF = np.outer(age_U, _loadings(rng)) + np.outer(is_woman_U - 0.5, _loadings(rng))
    log_UF = known_UF + np.outer(hidden_U, _loadings(rng)) + 0.7 * rng.normal(size=known_UF.shape)
    log_NF = 1.5 * rng.normal(size=FEATURES) + log_UF[unit_N]
    share_NF = np.exp(log_NF + rng.normal(size=log_NF.shape))
    share_NF /= share_NF.sum(axis=1, keepdims=True)
    counts_NF = np.stack([rng.multinomial(READS, share_F) for share_F in share_NF])
    value_U = _effect(design.shape, age_U, is_woman_U) + design.added * hidden_U
    value_U = value_U + rng.normal(size=units)
    target_U: NDArray[Any] = np.exp(value_U) if design.target.startswith("skewed") else value_U
    classes = []
    if design.target.endswith(("classes", "class")):
        share = 0.85 if design.target.startswith("15 %") else 0.5
        target_U = np.where(value_U > np.quantile(value_U, share), "ill", "well")
        classes = ["ill", "well"]
    fold_U = rng.permutation(np.arange(units) % FOLDS)
    group_N = np.array([f"person {unit}" if design.each > 1 else "" for unit in unit_N])
    task = Problem(
        kind="classification" if classes else "regression",
        target=target_U[unit_N],
        classes=classes,
        fold=fold_U[unit_N],
        group=group_N,
        counts=csr_array(counts_NF.astype(np.float64)),
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((FEATURES, 0)),
        lengths=np.zeros(0),
        seed=0,
    )
    sex_N = np.where(is_woman_U, "f", "m").astype(object)[unit_N]
    return task, Covariates({"age": age_U[unit_N]}, {"sex": sex_N})


def _loadings(rng: np.random.Generator) -> Floats:
    """Return how much each feature follows something: about a quarter of them do."""
    return rng.normal(size=FEATURES) * (rng.random(FEATURES) < 0.25)


def _effect(shape: str, age_U: Floats, is_woman_U: NDArray[np.bool_]) -> Floats:
    """Return what age and sex say of the target."""
    if shape == "a line":
        return 1.2 * age_U + (is_woman_U - 0.5)
    if shape == "a curve":
        return 1.5 * np.abs(age_U) + 0.5 * is_woman_U
    return 1.5 * age_U * np.where(is_woman_U, 1.0, -1.0)


def measure_draw(design: Design, draw: int) -> dict[str, Any]:
    """Return what the page would say of one study."""
    rng = np.random.default_rng([draw, *map(ord, f"{design}")])
    task, covariates = draw_study(design, rng)
    same = Covariates({}, {"site": np.full(len(task.target), "gut", object)})
    names = [f"s{row}" for row in range(len(task.group))]
    group = pd.Series(task.group, names)
    with mock.patch.object(methods, "TREES", TREES):
        learners = _learners(task, covariates)
        features = _learners(task, same)
    found = measure_addition(
        task.kind,
        covariates=["age", "sex"],
        learners=learners,
        features={name: features[name] for name in JOINT},
        group=group,
    )
    claim = found.of_features
    sign = 1.0 if is_better(task.kind, 1.0) else -1.0
    p = 1.0 if claim.p is None else claim.p
    return {
        **asdict(design),
        "draw": draw,
        "alone": found.alone.score,
        "features": found.features.score,
        "both": found.both.score,
        "gain": sign * claim.difference / found.alone.score,
        "adds": p < LEVEL and sign * claim.difference > 0,
        "costs": p < LEVEL and sign * claim.difference < 0,
    }


def _learners(task: Problem, covariates: Covariates) -> dict[str, Learner]:
    """Return what all methods that look at covariates predict."""
    fitted = fit_with_covariates(task, covariates, threads=1)
    predictions, nested = fitted.predictions, fitted.nested
    for table in (predictions, nested):
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
    found = learners_by_target(predictions, nested)[""]
    assert found.keys() == {*ALONE, *JOINT}
    return found


def summarize(table: pd.DataFrame) -> str:
    """Return how often the page says that features add, or cost, as Markdown."""
    head = ["reads", "units", "target", "draws", "add", "cost", "gain, mean"]
    rows: list[list[str]] = []
    for (added, units, each, target), part in table.groupby(["added", "units", "each", "target"]):
        rows.append([_say(added), f"{units} of {each}", str(target), *_shares(part)])
    for added, part in table.groupby("added"):
        rows.append([_say(added), "all", "all", *_shares(part)])
    return markdown_table(head, rows)


def _say(added: Any) -> str:
    return "know more" if added else "know no more"


def _shares(part: pd.DataFrame) -> list[str]:
    shares = [f"{part['adds'].mean():.1%}", f"{part['costs'].mean():.1%}"]
    return [str(len(part)), *shares, f"{part['gain'].mean():+.1%}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the draws, and print how often features are said to add."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("draws", type=int)
    parser.add_argument("table", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    for draw in range(given.draws):
        for design in list_designs():
            # False claims are rarer than right ones, and take more draws to be counted.
            if not design.added or draw % FEWER == 0:
                rows.append(measure_draw(design, draw))
        write_tsv(given.table, pd.DataFrame(rows))
    print(summarize(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
