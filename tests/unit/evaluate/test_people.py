"""Scores between and within people: what each asks, and what has none."""

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.people import compare_people
from aam.evaluate.task_report import People

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 5, 4, 3, 2]
"""Samples of each person."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def person() -> np.ndarray:
    return np.repeat(np.arange(len(SIZES)), SIZES)


def compare(observed, predicted, person, time=None, kind="regression", **columns) -> People:
    names = [f"s{i}" for i in range(len(person))]
    table = pd.DataFrame(
        {
            "sample-id": names,
            "fold": person % 4,
            "observed": observed,
            "predicted": predicted,
            **columns,
        }
    )
    times = np.arange(len(person), dtype=float) if time is None else time
    order = np.random.default_rng(1).permutation(len(person))
    return compare_people(
        kind,
        "host",
        "day",
        predictions=table.iloc[order],
        person=pd.Series(person.astype(str), names),
        time=pd.Series(times, names),
        classes=["low", "mid", "high"] if kind == "ordinal" else (),
    )


def test_levels_of_people_say_nothing_of_their_changes(person, rng):
    level = np.arange(len(SIZES), dtype=float)[person] * 10
    observed = level + rng.normal(size=len(person))
    found = compare(observed, level, person)
    assert found.between.score < 2 < 20 < found.between.guessing.score
    assert found.between.guessing.p < 0.001
    assert found.between.n == len(SIZES)
    assert found.within.score == pytest.approx(found.within.guessing.score), "no change is said"
    assert found.within.guessing.p == 1.0
    assert found.change.guessing.p == 1.0
    assert (found.people, found.single, found.untimed) == (12, 1, 0)


def test_changes_count_whatever_the_error_of_a_persons_level(person, rng):
    change = rng.normal(size=len(person))
    off = rng.normal(size=len(SIZES))[person] * 100
    found = compare(change, change + off, person)
    assert found.within.score == pytest.approx(0, abs=1e-9)
    assert found.change.score == pytest.approx(0, abs=1e-9)
    assert found.within.people == len(SIZES) - 1, "one sample has no change"
    assert found.change.n == sum(SIZES) - len(SIZES)
    assert found.between.score > 20 * found.between.guessing.score


def test_people_count_alike(person):
    # The person of eight samples is wrong by 10 each, in turns; all others are right.
    observed = np.zeros(len(person))
    observed[::2] = 1.0
    predicted = observed.copy()
    many = np.flatnonzero(person == 7)
    predicted[many] += np.where(np.arange(8) % 2, 10.0, -10.0)
    found = compare(observed, predicted, person)
    assert found.within.score == pytest.approx(10 / 11)


def test_a_line_of_time_is_a_rival_and_the_label_may_be_time_itself(person, rng):
    day = rng.uniform(0, 100, size=len(person))
    itself = compare(day, day + rng.normal(size=len(person)), person, day)
    assert itself.within.follows_time
    assert itself.within.time.score == pytest.approx(0, abs=1e-9)
    drift = day + 20 * rng.normal(size=len(person))
    found = compare(drift, day, person, day)
    assert not found.within.follows_time
    assert found.within.guessing.p < 0.05
    assert found.within.time.p > 0.05, "the prediction says no more than the time"


def test_samples_of_one_time_are_one_point_and_those_without_stay_out_of_steps():
    person = np.repeat(np.arange(6), 4)
    time = np.tile([1.0, 1.0, 3.0, np.nan], 6)
    observed = np.tile([0.0, 2.0, 5.0, 9.0], 6)
    found = compare(observed, np.zeros(24), person, time)
    assert found.untimed == 6
    assert found.change.n == 6
    assert found.change.score == pytest.approx(4.0), "from the mean of the first time"
    assert found.within.n == 24


def test_what_does_not_change_has_no_score_within(person, rng):
    level = np.arange(len(SIZES), dtype=float)[person]
    found = compare(level, level + rng.normal(size=len(person)), person)
    assert found.within is None
    assert found.change is None
    few = person < 4
    found = compare(rng.normal(size=few.sum()), np.zeros(few.sum()), person[few])
    assert found.within.guessing.p is None, "three people change"


@pytest.mark.parametrize("kind", ["classification", "ordinal"])
def test_classes_within_people_are_told_apart_by_pairs(kind):
    person = np.repeat(np.arange(8), 4)
    truth = np.tile(["low", "high", "low", "mid"], 8)
    share = pd.DataFrame(0.3, index=range(32), columns=["high", "low", "mid"])
    # A person is said to be mostly high, but changes as it does.
    share.loc[:, "high"] = np.where(truth == "low", 0.6, 0.9)
    share.loc[:, "low"] = np.where(truth == "low", 0.2, 0.02)
    share.loc[:, "mid"] = 1 - share["high"] - share["low"]
    found = compare(
        truth,
        "high",
        person,
        kind=kind,
        **{f"probability:{name}": share[name] for name in share},
    )
    # low and high, low and mid, each twice; mid and high have the same shares.
    assert found.within.n == 8 * 5
    assert found.within.score == pytest.approx((4 + 0.5) / 5)
    assert found.within.guessing.score == 0.5
    assert found.within.guessing.p < 0.05
    assert found.change.n == 8 * 3
    assert found.change.score == 1.0
    assert found.between is None, "all people are mostly low"


def test_people_have_their_most_frequent_class_and_those_of_two_none():
    person = np.repeat(np.arange(16), 3)
    truth = np.where(person % 2 == 1, "ill", "well").astype(object)
    truth[0] = "ill"
    even = np.append(truth, ["ill", "well"])
    people = np.append(person, [16, 16])
    shares = np.where(even == "ill", 0.9, 0.1)
    found = compare(
        even,
        even,
        people,
        kind="classification",
        **{"probability:ill": shares, "probability:well": 1 - shares},
    )
    assert found.between.n == 16
    assert found.between.score == 1.0
    assert found.between.guessing.p < 0.05
    assert found.within.people == 2
    assert found.within.guessing.p is None


def test_people_of_three_classes_have_their_most_frequent_one():
    truth = np.repeat(np.array(["ill", "well", "unsure"] * 5, dtype=object), 3)
    # Two samples of three decide; in the last person two classes are as frequent.
    truth[1::3] = "ill"
    truth = np.append(truth, ["ill", "well", "well", "ill", "unsure"])
    person = np.append(np.repeat(np.arange(15), 3), [15] * 5)
    shares = {f"probability:{name}": (truth == name) * 1.0 for name in ("ill", "unsure", "well")}
    found = compare(truth, truth, person, kind="classification", **shares)
    assert found.between.n == 15
    assert found.between.score == 1.0


def test_classes_that_follow_time_are_told_by_the_time():
    person = np.repeat(np.arange(24), 4)
    time = np.tile([4.0, 1.0, 3.0, 2.0], 24)
    truth = np.where(time > 2, "after", "before")
    shares = np.where(np.random.default_rng(2).random(96) < 0.8, truth == "after", truth != "after")
    found = compare(
        truth,
        truth,
        person,
        time,
        kind="classification",
        **{"probability:after": shares.astype(float), "probability:before": 1.0 - shares},
    )
    assert 0.6 < found.within.score < 1
    assert found.within.time.score == 1.0
    assert found.within.follows_time
    assert found.change.time.score == 1.0
    # In half of the people the order is the other way.
    turned = np.where((person // 4 % 2 == 1) == (time > 2), "after", "before")
    found = compare(
        turned,
        turned,
        person,
        time,
        kind="classification",
        **{
            "probability:after": (turned == "after").astype(float),
            "probability:before": (turned == "before").astype(float),
        },
    )
    assert found.within.score == 1.0
    assert not found.within.follows_time
    assert found.within.time.score < 0.7
    assert found.within.time.p < 0.05
