"""How often the page claims to tell people apart, or their changes, where that is true and not.

`python -m benchmarks.people DRAWS TABLE` draws samples of people, each of whom moves the reads of
all its samples and has one to eight visits at times of its own. In four cases the reads follow
nothing; the person's mean of the label alone; what differs from that mean alone; the time alone,
with which the label drifts in everybody. So each claim is false in some of the cases. In two more,
the state of the community at a visit decides by how much the label is then away from the person's
level, which no earlier value, mean or trend knows: the reads follow the label, twice as strongly in
the last case. One learner answers, with people in folds, and from earlier samples for later ones.
TABLE keeps a row per draw.

Shape suffixes: N samples, P people, F features.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.folds import TEST
from aam.evaluate.forecast import compare_forecast
from aam.evaluate.people import compare_people
from aam.evaluate.scores import is_better
from aam.evaluate.task_report import Forecast, Forecasted, Guessing, OfPeople, People
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import JOINT_PREDICTORS
from aam.learners.nested_predictions import fold_predictions, split_of_fold, table_of
from aam.util.atomic import write_tsv
from benchmarks.speed.tables import markdown_table

PEOPLE = 40
MOST_VISITS = 8
CASES = (
    "no signal",
    "between people alone",
    "within people alone",
    "time alone",
    "the state of each visit",
    "the state of each visit, strongly",
)
TARGETS = ("two classes", "numbers")
FEATURES = 40
READS = 1000
FOLDS = 5
LEARNER = "kernel_clr"
"""The quickest method, whose penalty is tuned within the training folds."""
OWN = 1.0
"""Standard deviation of how a person moves the logarithm of a feature."""
EFFECT = 0.5
"""Standard deviation of how what is followed moves it, of a quarter of the features."""
DRIFT = 2.0
"""How much the label moves from the first time to the last where it drifts."""
AFTER = 0.6
"""The time after which samples are forecast."""
UNTIMED = 0.05
"""Share of the samples whose time is missing."""
LEVEL = 0.05
CLAIMS = {
    "between": "told apart between people",
    "within": "change told within",
    "change": "step told",
    "time": "more than time within",
    "known": "forecast beats rivals, known people",
    "new": "the same, new people",
}
"""What the page says, in words, by the name of its test."""


def draw_people(case: str, target: str, rng: np.random.Generator) -> tuple[Problem, pd.Series]:
    """Return samples of people in folds that keep these together, and when they were taken.

    Parameters
    ----------
    case
        One of `CASES`.
    target
        One of `TARGETS`.
    rng
        What draws them.
    """
    size_P = rng.integers(1, MOST_VISITS + 1, size=PEOPLE)
    person_N = np.repeat(np.arange(PEOPLE), size_P)
    time_N = rng.random(len(person_N))
    value_N = rng.normal(size=PEOPLE)[person_N] + rng.normal(size=len(person_N))
    if case == "time alone":
        value_N += DRIFT * (time_N - 0.5)
    mean_P = np.bincount(person_N, weights=value_N) / size_P
    followed_N = {
        "no signal": np.zeros(len(person_N)),
        "between people alone": mean_P[person_N],
        "within people alone": value_N - mean_P[person_N],
        "time alone": 4.0 * (time_N - 0.5),
        "the state of each visit": value_N,
        "the state of each visit, strongly": 2.0 * value_N,
    }[case]
    loading_F = EFFECT * rng.normal(size=FEATURES) * (rng.random(FEATURES) < 0.25)
    log_NF = 1.5 * rng.normal(size=FEATURES) + OWN * rng.normal(size=(PEOPLE, FEATURES))[person_N]
    log_NF += np.outer(followed_N, loading_F)
    share_NF = np.exp(log_NF + rng.normal(size=log_NF.shape))
    share_NF /= share_NF.sum(axis=1, keepdims=True)
    counts_NF = np.stack([rng.multinomial(READS, share_F) for share_F in share_NF])
    is_number = target == "numbers"
    task = Problem(
        kind="regression" if is_number else "classification",
        target=value_N if is_number else np.where(value_N > 0, "ill", "well"),
        classes=[] if is_number else ["ill", "well"],
        fold=rng.permutation(np.arange(PEOPLE) % FOLDS)[person_N],
        group=person_N.astype(str),
        counts=csr_array(counts_NF.astype(np.float64)),
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((FEATURES, 0)),
        lengths=np.zeros(0),
        seed=0,
    )
    time = pd.Series(time_N, [f"s{row}" for row in range(len(time_N))])
    return task, time


def answer(task: Problem, time: pd.Series, missing_N: NDArray[np.bool_]) -> tuple[People, Forecast]:
    """Return the scores between and within people, and of later samples from earlier ones."""
    person = pd.Series(task.group, time.index)
    given = time.mask(missing_N)
    columns: dict[str, Any] = {"person": person, "time": given}
    people = compare_people(task.kind, "person", "time", predictions=_predict(task), **columns)
    # A forecast leaves out samples without a time.
    kept_N = np.flatnonzero(~missing_N)
    fold_N = np.where(time.to_numpy() > AFTER, TEST, task.fold)
    later = replace(task, fold=np.where(missing_N, TEST - 1, fold_N))
    predicted = _predict(later)
    predicted = predicted[predicted["sample-id"].isin(time.index[kept_N])]
    forecast = compare_forecast(
        task.kind, "person", "time", after=str(AFTER), predictions=predicted, **columns
    )
    return people, forecast


def _predict(task: Problem) -> pd.DataFrame:
    """Return what one learner, tuned within the training folds, predicts for each fold."""
    encoded = task.encode()
    folds = np.unique(task.fold[task.fold >= TEST]).tolist()
    splits = [split_of_fold(encoded, fold) for fold in folds]
    predicted = JOINT_PREDICTORS[LEARNER](encoded, splits)
    tables = [
        table_of(encoded, rows, one) for (_, rows), one in zip(splits, predicted, strict=True)
    ]
    table = fold_predictions(task, LEARNER, tables)
    table["sample-id"] = table.pop("row").map("s{}".format)
    return table


def measure_draw(case: str, target: str, draw: int) -> dict[str, Any]:
    """Return what the page would say of one draw."""
    rng = np.random.default_rng([draw, CASES.index(case), TARGETS.index(target)])
    task, time = draw_people(case, target, rng)
    people, forecast = answer(task, time, rng.random(len(time)) < UNTIMED)
    time_alone = None if people.within is None else people.within.time
    claims = {
        "between": _is_claimed(task.kind, _guessing_of(people.between)),
        "within": _is_claimed(task.kind, _guessing_of(people.within)),
        "change": _is_claimed(task.kind, _guessing_of(people.change)),
        "time": _is_claimed(task.kind, time_alone),
        "known": _beats_rivals(task.kind, forecast.known),
        "new": _beats_rivals(task.kind, forecast.new),
    }
    return {"case": case, "target": target, "draw": draw, **claims}


def _guessing_of(part: OfPeople | None) -> Guessing | None:
    return None if part is None else part.guessing


def _is_claimed(kind: str, against: Guessing | None) -> bool:
    if against is None or against.p is None:
        return False
    return against.p < LEVEL and is_better(kind, against.difference)


def _beats_rivals(kind: str, part: Forecasted | None) -> bool:
    if part is None or part.rivals[0].holm_p is None:
        return False
    return part.rivals[0].holm_p < LEVEL and is_better(kind, part.rivals[0].difference)


def summarize(table: pd.DataFrame) -> str:
    """Return how often each claim is made in each case, as Markdown."""
    rows = []
    for target in TARGETS:
        for case in CASES:
            part = table[(table["target"] == target) & (table["case"] == case)]
            rates = [f"{part[name].astype(float).mean():.1%}" for name in CLAIMS]
            rows.append([target, case, str(len(part)), *rates])
    return markdown_table(["target", "signal", "draws", *CLAIMS.values()], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the draws, and print how often each claim is made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("draws", type=int)
    parser.add_argument("table", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    for draw in range(given.draws):
        for case in CASES:
            rows += [measure_draw(case, target, draw) for target in TARGETS]
        write_tsv(given.table, pd.DataFrame(rows))
    print(summarize(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
