"""Scores between and within people: what each asks, and what has none."""

import numpy as np
import pandas as pd
import pytest
from reference_statistics import compare_errors, compare_share

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
    person = np.repeat(np.arange(12), 4)
    truth = np.tile(["low", "high", "low", "mid"], 12)
    share = pd.DataFrame(0.3, index=range(48), columns=["high", "low", "mid"])
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
    assert found.within.n == 12 * 5
    assert found.within.score == pytest.approx((4 + 0.5) / 5)
    assert found.within.guessing.score == 0.5
    # All people have the same share, which is tested as if one of them had the opposite.
    assert 1e-4 < found.within.guessing.p < 0.05
    low, high = found.within.guessing.interval
    assert 0.5 < low < 0.8
    assert high > found.within.score
    assert found.change.n == 12 * 3
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


def weights(person):
    """Return weights with which people count alike."""
    size = np.bincount(person)
    return 1 / (len(np.unique(person)) * size[person])


def centred(value, person):
    """Return differences from the mean of each person."""
    means = np.bincount(person, weights=value) / np.maximum(np.bincount(person), 1)
    return value - means[person]


def line_of_others(change, time, fold):
    """Return what a line through zero expects, by the slope of the other folds."""
    line = np.empty(len(change))
    for number in np.unique(fold):
        there = fold != number
        line[fold == number] = time[fold == number] * (
            (time[there] * change[there]).sum() / (time[there] ** 2).sum()
        )
    return line


def compare_people_alike(error, rival, person):
    """Return the p-value of two mean errors over people, and ends of the first."""
    return compare_errors(error, rival, weights(person), person)


def test_numbers_between_people_are_their_means_next_to_the_median_of_other_folds(person, rng):
    observed = rng.normal(size=len(person))
    predicted = observed + rng.normal(size=len(person))
    found = compare(observed, predicted, person).between
    size = np.array(SIZES)
    mean, said = (np.bincount(person, weights=one) / size for one in (observed, predicted))
    fold = np.arange(12) % 4
    guess = np.array([np.median(mean[fold != number]) for number in fold])
    error, rival = np.abs(mean - said), np.abs(mean - guess)
    assert (found.people, found.n) == (12, 12)
    assert found.score == pytest.approx(error.mean())
    assert found.guessing.score == pytest.approx(rival.mean())
    p, ends = compare_people_alike(error, rival, np.arange(12))
    assert found.guessing.p == pytest.approx(p)
    assert found.guessing.interval == pytest.approx(ends)
    one_fold = person % 4 == 0
    assert compare(observed[one_fold], predicted[one_fold], person[one_fold]).between is None


def test_numbers_within_people_are_compared_with_no_change_and_a_line_of_time(person, rng):
    time = rng.uniform(0, 10, len(person))
    # A single sample of the second person has a time, which cannot be compared with another.
    time[np.flatnonzero(person == 1)[0]] = np.nan
    time[np.flatnonzero(person == 7)[:2]] = np.nan
    observed = 5.0 * person + np.nan_to_num(time) + rng.normal(size=len(person))
    predicted = observed + rng.normal(size=len(person))
    found = compare(observed, predicted, person, time).within
    repeated = np.array(SIZES)[person] > 1
    change, said = (centred(one, person)[repeated] for one in (observed, predicted))
    error, still = np.abs(change - said), np.abs(change)
    weight = weights(person[repeated])
    assert (found.people, found.n) == (11, sum(SIZES) - 1)
    assert found.score == pytest.approx(weight @ error)
    assert found.guessing.score == pytest.approx(weight @ still)
    assert found.guessing.difference == pytest.approx(weight @ (error - still))
    p, _ = compare_people_alike(error, still, person[repeated])
    assert found.guessing.p == pytest.approx(p)
    timed = ~np.isnan(time) & repeated & (person != 1)
    own = person[timed]
    change, said, at = (centred(one[timed], own) for one in (observed, predicted, time))
    line = np.abs(change - line_of_others(change, at, own % 4))
    error = np.abs(change - said)
    assert found.time.score == pytest.approx(weights(own) @ line)
    assert found.time.difference == pytest.approx(weights(own) @ (error - line))
    assert found.time.p == pytest.approx(compare_people_alike(error, line, own)[0])
    assert not found.follows_time


def test_steps_are_compared_with_no_change_and_a_line_of_time(person, rng):
    time = rng.permutation(len(person)).astype(float)
    observed = 5.0 * person + 0.1 * time + rng.normal(size=len(person))
    predicted = observed + rng.normal(size=len(person))
    found = compare(observed, predicted, person, time).change
    order = np.lexsort((time, person))
    is_step = np.diff(person[order]) == 0
    change, said, at = (np.diff(one[order])[is_step] for one in (observed, predicted, time))
    own = person[order][1:][is_step]
    error, still = np.abs(change - said), np.abs(change)
    assert (found.people, found.n) == (11, sum(SIZES) - 12)
    assert found.score == pytest.approx(weights(own) @ error)
    assert found.guessing.score == pytest.approx(weights(own) @ still)
    assert found.guessing.p == pytest.approx(compare_people_alike(error, still, own)[0])
    line = np.abs(change - line_of_others(change, at, own % 4))
    assert found.time.score == pytest.approx(weights(own) @ line)
    assert found.time.p == pytest.approx(compare_people_alike(error, line, own)[0])


@pytest.mark.parametrize(("share", "follows"), [(0.04, True), (0.06, False)])
def test_a_label_follows_time_where_a_line_leaves_a_twentieth_of_its_change(share, follows):
    person = np.repeat(np.arange(12), 4)
    time = np.tile([0.0, 1.0, 2.0, 3.0], 12)
    # Each sample is off the line by a share of the mean change, which is one.
    observed = time + share * np.tile([1.0, -1.0, -1.0, 1.0], 12)
    found = compare(observed, observed + 1, person, time).within
    assert found.guessing.score == pytest.approx(1.0)
    assert found.time.score == pytest.approx(share)
    assert found.follows_time == follows


def test_people_without_times_have_scores_but_no_steps_and_no_line_of_time(person, rng):
    nothing = np.full(len(person), np.nan)
    observed = rng.normal(size=len(person))
    found = compare(observed, observed, person, nothing)
    assert (found.untimed, found.change, found.within.time) == (sum(SIZES), None, None)
    assert not found.within.follows_time
    truth = np.where(observed > 0, "ill", "well")
    shares = (truth == "ill") * 1.0
    columns = {"probability:ill": shares, "probability:well": 1 - shares}
    found = compare(truth, truth, person, nothing, kind="classification", **columns)
    assert (found.untimed, found.change, found.within.time) == (sum(SIZES), None, None)
    assert found.within.score == 1.0


def test_shares_of_people_are_tested_on_the_scale_of_the_arcsine():
    person = np.repeat(np.arange(8), 2)
    truth = np.tile(["ill", "well"], 8)
    # The samples of two of eight people are in the wrong order, and those of one are not ordered.
    certainty = np.tile([0.8, 0.2], 8)
    certainty[:4] = 1 - certainty[:4]
    certainty[4:6] = 0.5
    columns = {"probability:ill": certainty, "probability:well": 1 - certainty}
    found = compare(truth, "ill", person, kind="classification", **columns).within
    shares = np.array([0, 0, 0.5, 1, 1, 1, 1, 1])
    assert (found.n, found.people, found.score) == (8, 8, shares.mean())
    assert found.guessing.difference == pytest.approx(shares.mean() - 0.5)
    added = (shares - shares.mean()) / 8
    p, ends = compare_share(shares.mean(), added, np.arange(8), units=8)
    assert found.guessing.p == pytest.approx(p)
    assert found.guessing.interval == pytest.approx(ends)


def test_people_who_are_all_right_are_tested_as_if_one_were_not():
    person = np.repeat(np.arange(6), 2)
    truth = np.tile(["ill", "well"], 6)
    shares = (truth == "ill") * 1.0
    right = {"probability:ill": shares, "probability:well": 1 - shares}
    wrong = {"probability:ill": 1 - shares, "probability:well": shares}
    found = compare(truth, truth, person, kind="classification", **right).within
    one = np.where(person == 0, 1 - shares, shares)
    less = {"probability:ill": one, "probability:well": 1 - one}
    expected = compare(truth, truth, person, kind="classification", **less).within
    assert found.guessing.p == pytest.approx(expected.guessing.p)
    assert found.guessing.interval == (pytest.approx(expected.guessing.interval[0]), 1.0)
    none = compare(truth, truth, person, kind="classification", **wrong).within
    assert none.score == 0.0
    assert none.guessing.p == pytest.approx(found.guessing.p)
    assert none.guessing.interval[0] == 0.0
    few = person < 4
    of_four = {name: values[few] for name, values in right.items()}
    found = compare(truth[few], truth[few], person[few], kind="classification", **of_four)
    assert (found.within.guessing.p, found.within.guessing.interval) == (None, None)


def test_pairs_of_classes_are_compared_with_their_order_in_people_of_other_folds():
    person = np.repeat(np.arange(10), 2)
    time = np.tile([1.0, 2.0], 10)
    # In eight of ten people the second is ill; the two others are in folds of their own.
    is_ill = np.tile([False, True], 10)
    is_ill[:4] = ~is_ill[:4]
    truth = np.where(is_ill, "ill", "well")
    certainty = np.where(np.isin(person, [0, 5, 6]), 1 - is_ill, is_ill * 1.0)
    columns = {"probability:ill": certainty, "probability:well": 1 - certainty}
    found = compare(truth, truth, person, time, kind="classification", **columns).within
    assert found.score == pytest.approx(0.7)
    assert found.time.score == pytest.approx(0.8)
    assert found.time.difference == pytest.approx(-0.1)
    own = np.arange(10)
    wrong = np.isin(own, [0, 5, 6]) * 1.0
    p, (low, high) = compare_people_alike(wrong, np.isin(own, [0, 1]) * 1.0, own)
    assert found.time.p == pytest.approx(p)
    assert found.time.interval == pytest.approx((1 - high, 1 - low))
    assert not found.follows_time
    same_time = compare(truth, truth, person, time * 0, kind="classification", **columns).within
    assert (same_time.time, same_time.score) == (None, pytest.approx(0.7))


def test_ordered_classes_are_told_apart_by_their_mean_rank():
    person = np.repeat(np.arange(6), 2)
    truth = np.tile(["low", "high"], 6)
    # No sample is predicted to be high, but each second one has a higher mean rank.
    shares = {
        "probability:low": np.tile([0.8, 0.3], 6),
        "probability:mid": np.tile([0.2, 0.7], 6),
        "probability:high": 0.0,
    }
    found = compare(truth, truth, person, kind="ordinal", **shares)
    assert (found.within.score, found.change.score) == (1.0, 1.0)
    assert found.between is None, "each person has two classes as often"
    turned = shares | {
        "probability:low": shares["probability:low"][::-1],
        "probability:mid": shares["probability:mid"][::-1],
    }
    found = compare(truth, truth, person, kind="ordinal", **turned)
    assert found.within.score == 0.0


def test_ordered_classes_of_people_have_no_errors_of_ranks():
    person = np.repeat(np.arange(12), 2)
    truth = np.array(["low", "mid", "high"] * 4)[person]
    shares = {f"probability:{name}": (truth == name) * 1.0 for name in ("low", "mid", "high")}
    found = compare(truth, truth, person, kind="ordinal", **shares)
    assert (found.between.score, found.between.people, found.between.n) == (1.0, 12, 12)
    assert found.between.guessing.score == pytest.approx(1 / 3)
    assert found.between.guessing.ranks is None
    assert (found.within, found.change) == (None, None)


def test_all_samples_of_one_time_come_before_all_of_the_next():
    person = np.repeat(np.arange(6), 4)
    time = np.tile([1.0, 1.0, 2.0, 4.0], 6)
    truth = np.tile(["a", "b", "c", "a"], 6)
    shares = {f"probability:{name}": (truth == name) * 1.0 for name in "abc"}
    found = compare(truth, truth, person, time, kind="classification", **shares)
    # a and b are each followed by c, and c by a.
    assert found.change.n == 6 * 3
    assert found.within.n == 6 * 5


def test_samples_that_are_set_aside_for_testing_are_left_out(person, rng):
    observed = rng.normal(size=len(person))
    names = [f"s{i}" for i in range(len(person))]
    fold = np.where(person == 11, -1, person % 4)
    table = pd.DataFrame(
        {"sample-id": names, "fold": fold, "observed": observed, "predicted": observed}
    )
    times = pd.Series(np.arange(len(person), dtype=float), names)
    found = compare_people(
        "regression",
        "host",
        "day",
        predictions=table,
        person=pd.Series(person.astype(str), names),
        time=times,
    )
    assert (found.people, found.samples) == (11, len(person) - 2)


def test_a_value_that_never_changes_in_a_person_has_no_change(rng):
    """Three times 3421.7 has a mean that differs from it in the last bit."""
    person = np.repeat(np.arange(40), 3)
    weight = np.round(rng.normal(3400, 500, 40), 1)[person]
    found = compare(weight, weight + rng.normal(0, 100, len(person)), person)
    assert found.within is None
