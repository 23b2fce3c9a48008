"""The verdict on a task, the answer that says it, and the lights that limit the trust in it."""

import re
from typing import Any

import pytest
from aam.report.page.reports import best_baseline, leading_scores, target_and_unit
from aam.report.page.verdicts import is_stopped, judge, judge_all
from hypothesis import given
from hypothesis import strategies as st
from page_reports import classes, comparison, guessing, mixed, regression

from aam.report.page.answers import write_answer
from aam.report.page.cautions import (
    list_cautions,
    list_encoder_cautions,
    list_prediction_cautions,
    list_rarefaction_cautions,
)

RANK = {"does not work": 0, "doubtful": 1, "works": 2}
probabilities = st.floats(0, 1)


def answer_of(report: dict[str, Any], *others: dict[str, Any]) -> str:
    return write_answer(report, judge_all([report, *others])[0])


def lights(report: dict[str, Any], *others: dict[str, Any]) -> list[str]:
    cautions = list_cautions(report, judge_all([report, *others])[0])
    return [f"{one.light}: {one.text}" for one in cautions]


def cities(p: float | None, difference: float = 0.391) -> dict[str, Any]:
    return classes(guessing=guessing(0.2, difference, p))


def test_a_score_far_above_guessing_is_said_to_work_without_a_light_of_care():
    assert answer_of(cities(0.0006)) == (
        "Works: city is predicted right in 59.1 % of the samples of a class, averaged over the "
        "classes (95 % interval 54.0 % to 64.0 %); guessing: 20.0 %. Better than guessing "
        "(p = 0.0006). The difference to the best baseline, random forest (55.0 %), could be "
        "chance (p = 0.3)."
    )
    assert lights(cities(0.0006)) == ["good: Better than guessing."]


def test_a_p_value_that_the_other_tasks_of_the_page_explain_is_doubtful():
    others = [cities(0.9) for _ in range(7)]
    text = answer_of(cities(0.033), *others)
    assert text.startswith("Doubtful: city is predicted right")
    chance = "The difference to guessing could be chance (p = 0.033; p = 0.26 when corrected for"
    assert f"{chance} the 8 tests of this page)." in text
    (light,) = lights(cities(0.033), *others)
    assert light.startswith("caution: Better than guessing before correction for the 8 tests")
    assert answer_of(cities(0.033)).startswith("Works: ")


def test_a_number_is_off_by_its_unit():
    assert answer_of(regression()) == (
        "Works: host age is off by 4.0 years on average (95 % interval 3.5 to 4.5); guessing: 9.0. "
        "Better than guessing (p = 0.0006). Better than the best baseline, random forest (5.0 "
        "years; p = 0.01)."
    )


@pytest.mark.parametrize(
    ("kind", "difference", "p", "corrected", "outcome"),
    [
        ("regression", -1.0, 0.04, 0.049, "works"),
        ("regression", -1.0, 0.04, 0.05, "doubtful"),
        ("regression", -1.0, 0.05, 0.05, "does not work"),
        ("regression", -1.0, None, None, "doubtful"),
        ("regression", 1.0, 0.001, 0.001, "does not work"),
        ("regression", 1.0, None, None, "does not work"),
        ("regression", 0.0, None, None, "does not work"),
        ("classification", 0.1, 0.001, 0.01, "works"),
        ("classification", -0.1, 0.001, 0.01, "does not work"),
        ("ordinal", 0.1, 0.001, 0.01, "works"),
        ("ordinal", 0.1, 0.001, 0.1, "doubtful"),
    ],
)
def test_a_verdict_follows_sign_and_p_values(kind, difference, p, corrected, outcome):
    assert judge(kind, difference, p, corrected) == outcome


@given(st.lists(probabilities, min_size=1, max_size=6), st.integers(0, 5), probabilities)
def test_no_verdict_improves_when_a_p_value_grows(values, position, other):
    position %= len(values)
    grown = [max(p, other) if number == position else p for number, p in enumerate(values)]
    before, after = (
        [one.outcome for one in judge_all(list(map(cities, ps)))] for ps in (values, grown)
    )
    assert all(RANK[late] <= RANK[early] for early, late in zip(before, after, strict=True))


@given(st.floats(-1, 1), st.none() | probabilities)
def test_what_is_not_better_than_guessing_never_works(difference, p):
    for report, sign in ((cities(p, difference), 1), (regression(), -1)):
        report = {**report, "guessing": guessing(0.2, sign * difference, p)}
        (verdict,) = judge_all([report])
        assert (verdict.outcome == "does not work") >= (difference <= 0)
        assert is_stopped(report) == (verdict.outcome == "does not work")


def test_p_values_are_corrected_for_all_tasks_that_have_one():
    reports = [cities(0.01), cities(None), cities(0.04)]
    verdicts = judge_all(reports)
    assert [one.corrected_p for one in verdicts] == [0.02, None, 0.04]
    assert [one.tests for one in verdicts] == [2, 2, 2]
    assert "The difference to guessing cannot be tested with these folds." in answer_of(
        cities(None)
    )


@pytest.mark.parametrize(
    ("difference", "p", "said", "light"),
    [
        (2.0, 0.001, "Worse than the best baseline, random forest (5.0 years; p = 0.001).", True),
        (-2.0, 0.001, "Better than the best baseline, random forest (5.0 years; p", False),
        (2.0, 0.2, "The difference to the best baseline, random forest (5.0 years), could", False),
        (2.0, None, "random forest (5.0 years), cannot be tested with these folds.", False),
    ],
)
def test_worse_than_the_best_baseline_is_said_and_gets_no_clean_page(difference, p, said, light):
    report = regression(comparisons={"random_forest": comparison(difference, p)})
    assert said in answer_of(report)
    worse = "caution: Worse than the best baseline, random forest: use that one."
    assert (worse in lights(report)) == light
    assert answer_of(report).startswith("Works: ")


@given(st.floats(-5, 5).filter(bool), st.floats(0, 0.049))
def test_the_sign_of_a_difference_decides_the_word(difference, p):
    for report, sign in ((regression(), -1), (classes(), 1)):
        against = {"random_forest": comparison(difference, p)}
        text = answer_of({**report, "comparisons": against})
        is_better = sign * difference > 0
        assert ("Better than the best" in text, "Worse than the best" in text) == (
            is_better,
            not is_better,
        )


def test_the_best_baseline_is_no_constant_and_may_be_missing():
    assert best_baseline(regression()) == "random_forest"
    assert best_baseline(classes()) == "random_forest"
    alone = {**regression(), "comparisons": {}}
    assert best_baseline(alone) is None
    assert answer_of(alone).endswith("(p = 0.0006).")


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        (9.51, "off by 9.4 years on average; guessing: 9.5."),
        (9.44, "off by 9.43 years on average; guessing: 9.44."),
        (9.43, "off by 9.4 years on average; guessing: 9.4."),
    ],
)
def test_errors_that_differ_are_not_read_as_the_same_number(guess, said):
    report = regression(mae_fold_mean=9.43, guessing=guessing(guess, -0.02, 0.9))
    report |= {"bootstrap": {"mae_fold_mean": None}, "comparisons": {}}
    assert said in answer_of(report)


def test_an_answer_is_that_of_the_super_learner():
    alone = regression(guessing=guessing(9.0, 1.0, 0.5))
    report = mixed(alone, mae_fold_mean=3.0, guessing=guessing(9.0, -6.0, 0.001))
    assert leading_scores(report) is report["super_learner"]
    assert answer_of(report).startswith("Works: host age is off by 3.0 years")
    assert answer_of(alone).startswith("Does not work: ")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("host_age_years", ("host age", "years")),
        ("age_Days", ("age", "days")),
        ("days", ("days", None)),
        ("body_mass_index", ("body mass index", None)),
    ],
)
def test_a_unit_is_the_last_word_of_a_name(column, expected):
    assert target_and_unit({"column": column}) == expected
    assert target_and_unit({"column": ["x", column], "task": f"both, {column}"}) == expected


def far(values: list, samples: list, count: int, low: float, high: float) -> dict:
    """Return what `aam.evaluate.far_values` returns of a target."""
    return {"values": values, "samples": samples, "count": count, "low": low, "high": high}


GROUPS = {"groups": 7, "independent": False}
SINGLE = {"column": None, "groups": None, "independent": True}


@pytest.mark.parametrize(
    ("changes", "others", "said"),
    [
        ({}, 0, ["good: Better than guessing."]),
        ({}, 2, ["good: Better than guessing, also when corrected for the 3 tests"]),
        (
            {"guessing": guessing(9.0, 1.0, 0.2)},
            0,
            ["stop: Not better than guessing."],
        ),
        (
            {"guessing": guessing(9.0, 1.0, 0.002)},
            0,
            ["stop: Worse than guessing."],
        ),
        (
            {"guessing": guessing(9.0, -1.0, 0.2)},
            0,
            ["stop: With 5 folds, the difference to guessing could be chance."],
        ),
        (
            {"guessing": guessing(9.0, -1.0, None)},
            0,
            ["caution: Better than guessing, but no test is possible"],
        ),
        (
            {"structure": {**SINGLE, "stated": False}},
            0,
            ["good", "caution: No column of groups is set (folds.groups)"],
        ),
        ({"structure": {**SINGLE, "stated": True}}, 0, ["good"]),
        ({"structure": GROUPS}, 0, ["good", "caution: Only 7 groups (values of host): with other"]),
        ({"structure": {**GROUPS, "groups": 20}}, 0, ["good"]),
        (
            {"structure": GROUPS, "n": 30},
            0,
            ["good", "caution: Only 7 groups (values of host): with other"],
        ),
        ({"structure": {**GROUPS, "independent": True}}, 0, ["good"]),
        (
            {"n": 49},
            0,
            [
                "good",
                "caution: Only 49 samples: with other samples the score could be clearly",
            ],
        ),
        ({"n": 50}, 0, ["good"]),
        (
            {"far_values": far([-9999.0], ["s7"], 1, 4.1, 8.9)},
            0,
            [
                "good",
                "caution: -9999 in sample s7 lies far from all other values, which are between 4.1 "
                "and 8.9",
            ],
        ),
        (
            {"far_values": far([-9999.0, 1e7], ["a", "b", "c"], 5, 4.1, 8.9)},
            0,
            ["good", "caution: -9999 and 10000000 in samples a, b, c and 2 more lie far from all"],
        ),
        (
            {"far_values": far([], ["a", "b"], 2, 0.001, 1e6)},
            0,
            ["good", "caution: Values lie between 0.001 and 1e+06: the largest, such as those of"],
        ),
        (
            {"intervals": {"coverage": 0.8}},
            0,
            [
                "good",
                "caution: 90 % prediction intervals of AAM contain the observed value in only",
            ],
        ),
        ({"intervals": {"coverage": 0.99}}, 0, ["good"]),
        (
            {"confounders": [{"column": "plate", "score": 1.0, "kind": "exact"}]},
            0,
            ["stop: The column plate predicts host age exactly, without any reads: models"],
        ),
        (
            {
                "confounders": [
                    {"column": "run", "score": 0.97, "kind": "nearly"},
                    {"column": "plate", "score": 1.0, "kind": "exact"},
                    {"column": "center", "score": 1.0, "kind": "exact"},
                ]
            },
            0,
            [
                "stop: The columns plate, center each predict host age exactly",
                "stop: The column run predicts host age nearly exactly, without any",
            ],
        ),
        (
            {
                "confounders": [{"column": "plate", "score": 1.0, "kind": "exact"}],
                "guessing": guessing(9.0, 1.0, 0.2),
            },
            0,
            ["stop: The column plate", "stop: Not better"],
        ),
    ],
)
def test_lights_are_those_that_the_numbers_ask_for_the_red_ones_first(changes, others, said):
    texts = lights(regression(**changes), *[regression() for _ in range(others)])
    assert len(texts) == len(said)
    for text, start in zip(texts, said, strict=True):
        assert text.startswith(start)


def test_a_confounded_task_never_works():
    confounder = {"column": "plate", "score": 1.0, "kind": "exact"}
    report = classes(confounders=[confounder])
    assert answer_of(report).startswith("Confounded: city is predicted right")
    assert is_stopped(report)
    assert not any(light.startswith("good") for light in lights(report))
    fails = cities(0.9) | {"confounders": [confounder]}
    assert answer_of(fails).startswith("Does not work: ")


@pytest.mark.parametrize(
    ("structure", "n", "said"),
    [
        (GROUPS, 200, "There is no interval, because 7 groups are too few."),
        (SINGLE, 8, "no interval, because 8 samples are too few."),
        (SINGLE, 200, "no interval: it cannot be estimated for this score."),
        ({"groups": 10}, 200, "no interval: it cannot be estimated for this score."),
        ({"groups": 9, "independent": True}, 9, "no interval, because 9 samples are too few."),
    ],
)
def test_a_score_without_an_interval_says_why(structure, n, said):
    report = regression(structure=structure, n=n, bootstrap={"mae_fold_mean": None})
    assert said in answer_of(report)
    assert "no interval" not in answer_of(regression(structure=structure, n=n))


@pytest.mark.parametrize(
    ("brier", "log_loss", "said"),
    [
        (0.163, 0.8, None),
        (0.166, 1.6, None),
        (0.17, 1.6, "Brier score 0.170 against 0.166."),
        (0.166, 1.7, "log loss 1.70 against 1.60."),
        (0.17, 1.7, "Brier score 0.170 against 0.166, log loss 1.70 against 1.60."),
    ],
)
def test_probabilities_that_lose_to_a_constant_get_a_light(brier, log_loss, said):
    texts = lights(mixed(classes(), calibrated_brier=brier, calibrated_log_loss=log_loss))
    start = (
        "caution: Calibrated probabilities of the super learner are worse than the frequencies of "
    )
    expected = [] if said is None else [f"{start}the classes, given to every sample alike: {said}"]
    assert [text for text in texts if text.startswith("caution: Calibrated")] == expected


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 20))
def test_no_text_says_that_p_is_one(p, holm, others):
    report = regression(
        guessing=guessing(9.0, -1.0, p), comparisons={"random_forest": comparison(-1.0, holm)}
    )
    text = " ".join([answer_of(report, *[report] * others), *lights(report, *[report] * others)])
    assert not re.search(r"p = (1\b(?!\.)|1\.0|0\b(?!\.)|0\.0+\b)", text)


def test_data_encoders_and_predictions_are_told_where_they_are_weak():
    assert (
        list_rarefaction_cautions(1, 100)
        == list_encoder_cautions("m", {"unifrac_pearson": 0.9})
        == []
    )
    assert (
        list_encoder_cautions("m", {}) == list_prediction_cautions("new", 0.1, seen=0, n=20) == []
    )
    assert list_rarefaction_cautions(30, 100)[0].text.startswith(
        "30 samples, 30 %, have too few reads"
    )
    assert (
        "correlation of only 0.500" in list_encoder_cautions("m", {"unifrac_pearson": 0.5})[0].text
    )
    cautions = list_prediction_cautions("new", 0.4, seen=20, n=20)
    assert cautions[0].text.startswith("20 of the 20 samples in new were in training")
    assert cautions[1].text.startswith("40 % of the reads in new")
    assert [caution.light for caution in cautions] == ["caution"] * 2


def test_a_table_with_samples_that_training_hardly_knows_has_a_red_light_before_all_others():
    cautions = list_prediction_cautions("new", 0.4, seen=1, n=20, few=["a", "b"], near=0.9)
    assert [caution.light for caution in cautions] == ["stop", "caution", "caution"]
    assert "2 of the 20 samples in new ('a', 'b'): less than 50 % of their" in cautions[0].text
    assert "although 90 % are of ASVs that it saw or near one" in cautions[2].text
