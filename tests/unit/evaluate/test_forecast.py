"""Later samples from earlier ones: what the past of a person says, and what is compared."""

import numpy as np
import pandas as pd
import pytest
from task_settings import score_settings

from aam.evaluate.forecast import compare_forecast
from aam.evaluate.task_report import Forecast
from aam.evaluate.task_scores import Samples, _compare_forecast

PEOPLE = 20
EARLY = 4
"""Samples of a person up to the cut; two of each come after it."""
TIMES = np.tile([0.0, 1.0, 3.0, 4.0, 6.0, 9.0], PEOPLE)


def forecast(observed, predicted, person=None, kind="regression", time=TIMES, **others) -> Forecast:
    people = np.repeat(np.arange(PEOPLE), 6) if person is None else person
    names = [f"s{i}" for i in range(len(observed))]
    table = pd.DataFrame(
        {
            "sample-id": names,
            "fold": np.where(time > 5, -1, people % 4),
            "observed": observed,
            "predicted": predicted,
        }
    )
    return compare_forecast(
        kind,
        "host",
        "day",
        after="5",
        predictions=table,
        person=pd.Series(people.astype(str), names),
        time=pd.Series(time, names),
        **others,
    )


def scores(part) -> dict[str, float]:
    return {rival.name: rival.score for rival in part.rivals}


def test_rivals_say_what_they_would_by_hand():
    slope = np.arange(PEOPLE, dtype=float)[np.repeat(np.arange(PEOPLE), 6)]
    found = forecast(slope * TIMES, slope * TIMES + 1.0)
    known = scores(found.known)
    assert found.new is None
    assert (found.known.n, found.known.people) == (2 * PEOPLE, PEOPLE)
    assert found.known.score == pytest.approx(1.0)
    assert known["trend"] == pytest.approx(0, abs=1e-9)
    mean = slope.mean()
    assert known["last value"] == pytest.approx(mean * (7.5 - 4))
    assert known["mean"] == pytest.approx(mean * (7.5 - 2))
    assert found.known.rivals[0].name == "trend"
    assert found.known.rivals[0].difference == pytest.approx(1.0)


def test_bounds_hold_for_rivals_and_one_time_has_no_trend():
    time = TIMES.copy()
    person = np.repeat(np.arange(PEOPLE), 6)
    falling = 10 - 2 * time
    found = forecast(np.maximum(falling, 0.0), np.zeros(len(time)), bounds=(0.0, None))
    assert scores(found.known)["trend"] == pytest.approx(0.0)
    # All earlier samples of a person are of one time: the last value is their mean.
    time[time <= 5] = 2.0
    found = forecast(np.tile([0.0, 2.0, 0.0, 2.0, 5.0, 5.0], PEOPLE), 5.0, person, time=time)
    assert scores(found.known)["trend"] == pytest.approx(4.0)
    assert scores(found.known)["last value"] == pytest.approx(4.0)


def test_new_people_have_no_past():
    person = np.repeat(np.arange(PEOPLE), 6)
    # The last two samples of every second person are of somebody else.
    is_other = (TIMES > 5) & (person % 2 == 1)
    people = np.where(is_other, person + PEOPLE, person)
    rng = np.random.default_rng(0)
    observed = rng.normal(size=len(people))
    found = forecast(observed, observed + 0.1 * rng.normal(size=len(people)), people)
    assert (found.known.people, found.new.people) == (PEOPLE // 2, PEOPLE // 2)
    assert set(scores(found.new)) == {"time alone", "guessing"}
    assert set(scores(found.known)) == {"last value", "mean", "trend", "time alone", "guessing"}
    assert found.new.rivals[0].holm_p < 0.05
    assert found.tests["new"] == found.new.rivals[0].holm_p


def test_covariates_are_a_rival():
    rng = np.random.default_rng(0)
    observed = rng.normal(size=len(TIMES))
    names = [f"s{i}" for i in range(len(observed))]
    told = pd.DataFrame({"sample-id": names, "predicted": observed + 0.01})
    found = forecast(observed, np.zeros(len(observed)), covariates=told)
    assert found.known.rivals[0].name == "covariates"
    assert found.known.rivals[0].difference > 0
    assert found.known.rivals[0].holm_p < 0.05, "the prediction is worse"


@pytest.mark.parametrize("kind", ["classification", "ordinal"])
def test_classes_have_a_last_and_a_most_frequent_one(kind):
    person = np.repeat(np.arange(PEOPLE), 6)
    ill = np.where(person % 2 == 1, "ill", "well").astype(object)
    # The last sample before the cut is another way.
    ill[TIMES == 4] = np.where(ill[TIMES == 4] == "ill", "well", "ill")
    given = {"classes": ["well", "ill"]} if kind == "ordinal" else {}
    found = forecast(ill, "ill", kind=kind, **given)
    assert scores(found.known) == {"most frequent class": 1.0, "guessing": 0.5, "last value": 0.0}
    assert found.known.score == 0.5
    assert forecast(np.full(len(ill), "ill"), "ill", kind=kind, **given).known is None


@pytest.mark.parametrize("fold", range(4))
def test_where_the_time_is_chosen_it_is_that_of_the_last_sample_that_was_learned_from(fold):
    """Whichever fold that sample is in."""
    people = np.repeat(np.arange(PEOPLE), 6)
    time = np.where((TIMES == 4) & (people % 4 == fold), 4.5, TIMES)
    names = pd.Index([f"s{number}" for number in range(len(time))], name="sample-id")
    answer = pd.DataFrame(
        {
            "sample-id": names,
            "fold": np.where(time > 5, -1, people % 4),
            "observed": time,
            "predicted": time + 1.0,
        }
    )
    settings = score_settings(
        task="t@forecast", columns=["height"], question="forecast", time="day", forecast="auto"
    )
    metadata = pd.DataFrame({"day": time.astype(str)}, names)
    samples = Samples(pd.Series(people.astype(str), names), metadata)
    found = _compare_forecast(settings, answer, samples, {})
    assert found.after == "4.5"
    assert found.known.n == 2 * PEOPLE


def error_of_line(observed, is_fitted, is_later):
    """Return the mean error, in later samples, of a line of time through earlier ones."""
    slope, start = np.polyfit(TIMES[is_fitted], observed[is_fitted], 1)
    return np.abs(observed - start - slope * TIMES)[is_later].mean()


def test_a_line_of_time_is_fitted_to_all_earlier_samples_and_a_trend_to_those_of_a_person():
    person = np.repeat(np.arange(PEOPLE), 6)
    observed = 2.0 * TIMES + np.random.default_rng(1).normal(size=len(TIMES))
    known = scores(forecast(observed, observed).known)
    is_later = TIMES > 5
    assert known["time alone"] == pytest.approx(error_of_line(observed, ~is_later, is_later))
    median = np.median(observed[~is_later])
    assert known["guessing"] == pytest.approx(np.abs(observed - median)[is_later].mean())
    trends = [
        error_of_line(observed, (person == one) & ~is_later, (person == one) & is_later)
        for one in range(PEOPLE)
    ]
    assert known["trend"] == pytest.approx(np.mean(trends))


def test_rivals_of_numbers_are_sorted_by_their_error_in_later_samples():
    rng = np.random.default_rng(1)
    observed = 2.0 * TIMES + rng.normal(size=len(TIMES))
    predicted = observed + rng.normal(0, 0.5, len(TIMES))
    found = forecast(observed, predicted)
    error = np.abs(observed - predicted)[TIMES > 5].mean()
    assert found.known.score == pytest.approx(error)
    assert [one.score for one in found.known.rivals] == sorted(scores(found.known).values())
    for rival in found.known.rivals:
        assert rival.difference == pytest.approx(error - rival.score)
    low, high = found.known.interval
    assert low < error < high
    assert (found.column, found.time, found.after) == ("host", "day", "5")


def test_p_values_are_corrected_for_all_rivals():
    rng = np.random.default_rng(2)
    observed = rng.normal(size=len(TIMES))
    found = forecast(observed, observed + rng.normal(0, 0.8, len(TIMES)))
    rivals = sorted(found.known.rivals, key=lambda rival: rival.p)
    assert len(rivals) == 5
    corrected = np.maximum.accumulate([(5 - i) * one.p for i, one in enumerate(rivals)])
    assert [one.holm_p for one in rivals] == pytest.approx(np.minimum(corrected, 1))


def test_people_count_alike_in_the_error_of_later_samples():
    # Somebody has nine later samples that are off by ten, all others two that are off by one.
    person = np.append(np.repeat(np.arange(PEOPLE), 6), [0] * 7)
    time = np.append(TIMES, np.arange(10.0, 17.0))
    observed = np.zeros(len(person))
    found = forecast(observed, np.where(person == 0, 10.0, 1.0), person, time=time)
    assert found.known.n == 2 * PEOPLE + 7
    assert found.known.score == pytest.approx((10 + PEOPLE - 1) / PEOPLE)


def test_classes_are_compared_with_rivals_by_their_balanced_accuracy():
    person = np.repeat(np.arange(PEOPLE), 6)
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(len(TIMES)) < 0.3, "ill", "well")
    predicted = np.where(rng.random(len(TIMES)) < 0.8, truth, "ill")
    found = forecast(truth, predicted, kind="classification").known
    is_later = TIMES > 5

    def balanced(said):
        right = said[is_later] == truth[is_later]
        return np.mean([right[truth[is_later] == name].mean() for name in ("ill", "well")])

    last = truth[TIMES == 4][person]
    assert found.score == pytest.approx(balanced(predicted))
    known = scores(found)
    assert known["last value"] == pytest.approx(balanced(last))
    by_name = {one.name: one for one in found.rivals}
    gained = balanced(predicted) - balanced(last)
    assert by_name["last value"].difference == pytest.approx(gained)
    assert by_name["guessing"].difference == pytest.approx(balanced(predicted) - 0.5)
    assert [one.score for one in found.rivals] == sorted(known.values(), reverse=True)
    low, high = found.interval
    assert low < found.score < high
    assert (found.n, found.people) == (2 * PEOPLE, PEOPLE)
