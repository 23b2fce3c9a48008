"""The verdict on a task, the answer that says it, and the lights that limit the trust in it."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_reports import CALIBRATED, answer_to, classes, comparison, guessing, regression, rival

from aam.evaluate.task_report import (
    FarValues,
    OtherGroups,
    RankErrors,
    Rival,
    TaskReport,
    WithinLevels,
)
from aam.report.page.answers import is_stopped, judge, list_answers, write_answer
from aam.report.page.cautions import (
    Caution,
    list_cautions,
    list_encoder_cautions,
    list_prediction_cautions,
)
from aam.report.page.encoders import EncoderReport

RANK = {"does not work": 0, "doubtful": 1, "works, weakly": 2, "works": 3}
probabilities = st.floats(0, 1)


def answer_of(report: TaskReport, *others: TaskReport) -> str:
    return write_answer(answer_to(report, *others))


def lights(report: TaskReport, *others: TaskReport) -> list[Caution]:
    return list_cautions(answer_to(report, *others))


def cities(p: float | None, difference: float = 0.391) -> TaskReport:
    return classes(networks={"guessing": guessing(0.2, difference, p, (0.54, 0.64))})


def missing(facts: Iterable[str], text: str) -> list[str]:
    return [fact for fact in facts if fact not in text]


def test_an_answer_has_the_score_guessing_and_the_best_baseline():
    numbers = answer_of(regression())
    assert numbers.startswith("Works: host age is off by 4.0 years")
    assert missing(["3.5 to 4.5", "9.0", "p = 0.0006", "random forest (5.0 years"], numbers) == []
    cities_answer = answer_of(cities(0.0006))
    assert cities_answer.startswith("Works: city is predicted right in 59.1 %")
    assert missing(["54.0 % to 64.0 %", "20.0 %", "random forest (55.0 %"], cities_answer) == []
    assert [light.light for light in lights(cities(0.0006))] == ["good"]


def test_a_p_value_that_the_other_tasks_of_the_page_explain_is_doubtful():
    others = [cities(0.9) for _ in range(7)]
    text = answer_of(cities(0.033), *others)
    assert text.startswith("Doubtful: city")
    assert missing(["p = 0.033", "p = 0.26 when corrected", "8 tests"], text) == []
    (light,) = lights(cities(0.033), *others)
    assert light.light == "caution"
    assert "8 tests" in light.text
    alone = answer_of(cities(0.033))
    assert alone.startswith("Works: ")
    assert "tests" not in alone


@pytest.mark.parametrize(
    ("kind", "difference", "p", "corrected", "outcome"),
    [
        ("regression", -1.0, 0.04, 0.049, "works"),
        ("regression", -0.89, 0.04, 0.049, "works, weakly"),
        ("regression", -0.89, 0.04, 0.05, "doubtful"),
        ("classification", 0.04, 0.001, 0.01, "works, weakly"),
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
    guess = 9.0 if kind == "regression" else 0.5
    assert judge(kind, guessing(guess, difference, p), corrected) == outcome


@pytest.mark.parametrize(("score", "outcome"), [(0.66, "works"), (0.67, "doubtful")])
def test_ordered_classes_that_a_constant_misses_by_fewer_steps_do_not_work(score, outcome):
    ranks = RankErrors(score=score, constant=0.667)
    against = guessing(1 / 3, 0.3, 0.001, ranks=ranks)
    assert judge("ordinal", against, 0.001) == outcome
    report = classes(networks={"guessing": against})
    assert ("0.667" in " ".join(light.text for light in lights(report))) == (outcome == "doubtful")


def test_what_works_weakly_is_no_green_light_and_says_how_far_it_gets():
    report = regression(networks={"guessing": guessing(4.2, -0.2, 0.001, (3.9, 4.15))})
    facts = ["Works, weakly: host age", "4.00 years", "3.90 to 4.15", "guessing: 4.20"]
    assert missing(facts, answer_of(report)) == []
    (light,) = lights(report)
    assert light.light == "caution"
    assert "5 %" in light.text
    assert not is_stopped(report.kind, report.targets[0])


@given(st.lists(probabilities, min_size=1, max_size=6), st.integers(0, 5), probabilities)
def test_no_verdict_improves_when_a_p_value_grows(values, position, other):
    position %= len(values)
    grown = [max(p, other) if number == position else p for number, p in enumerate(values)]
    before, after = (
        [answer.verdict.outcome for answer in list_answers(list(map(cities, ps)))]
        for ps in (values, grown)
    )
    assert all(RANK[late] <= RANK[early] for early, late in zip(before, after, strict=True))


@given(st.floats(-1, 1), st.none() | probabilities)
def test_what_is_not_better_than_guessing_never_works(difference, p):
    for make, sign in ((classes, 1), (regression, -1)):
        report = make(networks={"guessing": guessing(0.2, sign * difference, p)})
        outcome = answer_to(report).verdict.outcome
        assert (outcome == "does not work") >= (difference <= 0)
        assert is_stopped(report.kind, report.targets[0]) == (outcome == "does not work")


def test_p_values_are_corrected_for_all_tasks_that_have_one():
    verdicts = [one.verdict for one in list_answers([cities(0.01), cities(None), cities(0.04)])]
    assert [one.corrected_p for one in verdicts] == [0.02, None, 0.04]
    assert [one.tests for one in verdicts] == [2, 2, 2]
    of_classes = answer_of(cities(None))
    assert "Neither a test nor an interval" in of_classes
    assert ", 3 in each class." in of_classes
    numbers = regression(networks={"guessing": guessing(9.0, -5.0, None)}, super_learner={})
    assert "each class" not in answer_of(numbers)


@pytest.mark.parametrize(("excess", "is_told"), [(1e-17, False), (0.02, True)])
def test_probabilities_that_are_the_frequencies_are_not_worse_than_these(excess, is_told):
    brier = CALIBRATED.constant_brier + excess
    calibrated = CALIBRATED.model_copy(update={"brier": brier})
    said = [one.text for one in lights(classes(networks={"calibrated": calibrated}))]
    assert any("worse than the frequencies" in text for text in said) == is_told


def test_a_column_of_classes_has_no_unit():
    report = cities(0.0006)
    (target,) = report.targets
    renamed = target.model_copy(update={"column": "antibiotics_last_6_months"})
    answer = answer_to(report.model_copy(update={"targets": (renamed,)}))
    assert (answer.what, answer.unit) == ("antibiotics last 6 months", None)


@pytest.mark.parametrize(
    ("difference", "p", "facts", "expected"),
    [
        (2.0, 0.001, ["Worse", "p = 0.001"], ["good", "caution"]),
        (-2.0, 0.001, ["Better", "p = 0.001"], ["good"]),
        (2.0, 0.2, ["could be chance", "p = 0.2"], ["good"]),
        (2.0, None, ["cannot be tested"], ["good"]),
    ],
)
def test_worse_than_the_best_baseline_is_said_and_gets_a_light(difference, p, facts, expected):
    report = regression(networks={"comparisons": {"random_forest": comparison(difference, p)}})
    answer = answer_of(report)
    assert answer.startswith("Works: ")
    start = answer.index("(p = 0.0006)")
    assert missing([*facts, "random forest (5.0 years"], answer[start + 1 :]) == []
    shown = lights(report)
    assert [caution.light for caution in shown] == expected
    assert all("random forest" in caution.text for caution in shown[1:])


@given(st.floats(-5, 5).filter(bool), st.floats(0, 0.049))
def test_the_sign_of_a_difference_decides_the_word(difference, p):
    for make, sign in ((regression, -1), (classes, 1)):
        against = {"random_forest": comparison(difference, p)}
        text = answer_of(make(networks={"comparisons": against}))
        is_better = sign * difference > 0
        assert ("Better than the best" in text) == is_better
        assert ("Worse than the best" in text) != is_better


def test_the_best_baseline_is_no_constant_and_may_be_missing():
    for report in (regression(), classes()):
        assert answer_to(report).best_baseline.name == "random_forest"
    alone = regression(networks={"comparisons": {}})
    assert answer_to(alone).best_baseline is None
    assert answer_of(alone).endswith("(p = 0.0006).")


@pytest.mark.parametrize(
    ("guess", "shown"),
    [(9.51, ["9.4 years", "9.5."]), (9.44, ["9.43 years", "9.44."]), (9.43, ["9.4 years", "9.4."])],
)
def test_errors_that_differ_are_not_read_as_the_same_number(guess, shown):
    networks = {"scores": {"mae_fold_mean": 9.43}, "interval": None, "comparisons": {}}
    report = regression(networks={**networks, "guessing": guessing(guess, -0.02, 0.9)})
    assert missing(shown, answer_of(report)) == []


def test_an_answer_is_that_of_the_super_learner():
    weak = {"guessing": guessing(9.0, 1.0, 0.5)}
    mixture = {"scores": {"mae_fold_mean": 3.0}, "guessing": guessing(9.0, -6.0, 0.001)}
    mixed = answer_of(regression(networks=weak, super_learner=mixture))
    assert mixed.startswith("Works: host age is off by 3.0 years")
    assert answer_of(regression(networks=weak)).startswith("Does not work: ")


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
    answer = answer_to(regression(column=column))
    assert (answer.what, answer.unit) == expected


def far(values: list, samples: list, count: int, low: float, high: float) -> FarValues:
    """Return numbers that lie far from all others."""
    return FarValues(values=values, samples=samples, count=count, low=low, high=high)


GROUPS = {"groups": 7, "independent": False}
SINGLE = {"column": None, "groups": None, "independent": True}


PLATE = rival("plate")
CENTER = rival("center")
RUN = rival("run", score=0.97, exactness="nearly")
GOOD = [("good",)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, GOOD),
        ({"networks": {"guessing": guessing(9.0, 1.0, 0.2)}}, [("stop", "Not better")]),
        ({"networks": {"guessing": guessing(9.0, 1.0, 0.002)}}, [("stop", "Worse")]),
        ({"networks": {"guessing": guessing(9.0, -1.0, 0.2)}}, [("stop", "40 groups", "chance")]),
        (
            {"networks": {"guessing": guessing(9.0, -1.0, None)}},
            [("caution", "40 groups", "too few")],
        ),
        (
            {"structure": {**SINGLE, "stated": False}},
            [*GOOD, ("caution", "(folds.groups)", "folds.groups: false")],
        ),
        ({"structure": {**SINGLE, "stated": True}}, GOOD),
        ({"structure": GROUPS}, [*GOOD, ("caution", "7 groups", "host")]),
        ({"structure": {**GROUPS, "groups": 20}}, GOOD),
        ({"structure": GROUPS, "networks": {"n": 30}}, [*GOOD, ("caution", "7 groups")]),
        ({"structure": {**GROUPS, "independent": True}}, GOOD),
        ({"networks": {"n": 49}}, [*GOOD, ("caution", "49 samples")]),
        ({"networks": {"n": 50}}, GOOD),
        (
            {"far_values": far([-9999.0], ["s7"], 1, 4.1, 8.9)},
            [*GOOD, ("caution", "-9999 in sample s7 lies", "4.1 and 8.9", "the cell,")],
        ),
        (
            {"far_values": far([-9999.0, 1e7], ["a", "b", "c"], 5, 4.1, 8.9)},
            [*GOOD, ("caution", "-9999 and 10000000 in samples a, b, c and 2 more", "the cells,")],
        ),
        (
            {"far_values": far([], ["a", "b"], 2, 0.001, 1e6)},
            [*GOOD, ("caution", "0.001 and 1e+06", "samples a, b,", "log_zscore")],
        ),
        (
            {"coverage": {"coverage": 0.8}},
            [*GOOD, ("caution", "90 % prediction intervals of AAM", "80.0 %", "narrow")],
        ),
        ({"coverage": {"coverage": 0.99}}, GOOD),
        ({"rivals": [PLATE]}, [("stop", "plate", "host age exactly")]),
        (
            {"rivals": [RUN, PLATE, CENTER]},
            [("stop", "plate, center", "host age exactly"), ("stop", "run", "nearly exactly")],
        ),
        (
            {"rivals": [PLATE], "networks": {"guessing": guessing(9.0, 1.0, 0.2)}},
            [("stop", "plate"), ("stop", "Not better")],
        ),
    ],
)
def test_lights_are_those_that_the_numbers_ask_for_the_red_ones_first(changes, expected):
    shown = lights(regression(**changes))
    assert [caution.light for caution in shown] == [light for light, *_ in expected]
    for caution, (_, *facts) in zip(shown, expected, strict=True):
        assert missing(facts, caution.text) == []


def test_a_long_name_of_a_sample_is_cut():
    (_, caution) = lights(regression(far_values=far([9.0], ["x" * 90], 1, 1, 2)))
    assert "x" * 41 not in caution.text


def test_a_light_names_the_number_of_tests_that_it_was_corrected_for():
    (light,) = lights(regression(), regression(), regression())
    assert "3 tests" in light.text
    (light,) = lights(regression())
    assert "tests" not in light.text


def within(**changes: Any) -> WithinLevels:
    given = {"n": 150, "levels": 2, "score": 0.21, "guessing": 0.25, "p": 0.6}
    return WithinLevels(**{**given, "shrinkage": 0.4, "error": 0.05, **changes})


def circumstance(name: str, **changes: Any) -> Rival:
    """Return a column that predicts cities in part."""
    given = {"role": "circumstance", "score": 0.432, "exactness": None, "within": within()}
    return rival(name, **{**given, **changes})


def test_a_rival_that_leaves_nothing_is_a_red_light_with_its_figures():
    report = classes(rivals=[circumstance("diet")])
    assert answer_of(report).startswith("Confounded: city")
    (light,) = lights(report)
    assert light.light == "stop"
    facts = ["diet alone", "43.2 %", "20.0 %", "59.1 %", "21.0 %", "25.0 %", "p = 0.6"]
    assert missing(facts, light.text) == []


def test_a_rival_that_explains_a_part_is_a_caution_with_its_figures():
    sure = circumstance("diet", left="less", within=within(score=0.4, p=0.001))
    unsure = circumstance("home", left="less", within=within(score=0.3, p=0.2))
    reads = circumstance("reads", role="reads", left="less", within=within(score=0.4, p=0.001))
    silent = circumstance("sex", left="all")
    good, *cautions = lights(classes(rivals=[sure, unsure, reads, silent]))
    assert good.light == "good"
    assert [one.light for one in cautions] == ["caution"] * 3
    assert missing(["diet", "40.0 %", "better than guessing (p = 0.001"], cautions[0].text) == []
    assert missing(["home", "30.0 %", "could be guessing"], cautions[1].text) == []
    assert missing(["number of reads before rarefaction"], cautions[2].text) == []


def test_of_many_rivals_the_first_have_sentences():
    many = [circumstance(f"diet {number}", left="less") for number in range(5)]
    _, *cautions = lights(classes(rivals=many))
    assert len(cautions) == 4
    assert missing(["diet 3", "diet 4"], cautions[-1].text) == []


def test_groups_that_lie_in_several_folds_are_a_red_light_with_both_figures():
    leak = OtherGroups(
        column="HOST_SUBJECT_ID", groups=20, score=0.45, with_own_folds=0.99, p=0.001, is_worse=True
    )
    harmless = leak.model_copy(update={"column": "cage", "is_worse": False})
    report = classes(other_groups=[harmless, leak])
    assert answer_of(report).startswith("Flattered: city")
    assert is_stopped(report.kind, report.targets[0])
    (light,) = lights(report)
    assert light.light == "stop"
    facts = ["HOST_SUBJECT_ID", "(20)", "45.0 %", "99.0 %", "groups: HOST_SUBJECT_ID"]
    assert missing(facts, light.text) == []
    assert "cage" not in light.text


def test_a_confounded_task_never_works():
    report = classes(rivals=[PLATE])
    assert answer_of(report).startswith("Confounded: city")
    assert is_stopped(report.kind, report.targets[0])
    assert not any(caution.light == "good" for caution in lights(report))
    weak = {"guessing": guessing(0.2, 0.391, 0.9)}
    fails = classes(rivals=[PLATE], networks=weak)
    assert answer_of(fails).startswith("Does not work: ")


@pytest.mark.parametrize(
    ("structure", "n", "said"),
    [({**GROUPS, "groups": 2}, 200, "2 groups"), (SINGLE, 4, "4 samples")],
)
def test_a_score_of_too_few_units_is_doubtful_and_says_how_many_they_are(structure, n, said):
    against = {"n": n, "guessing": guessing(9.0, -5.0, None)}
    report = regression(structure=structure, networks=against)
    assert answer_of(report).startswith("Doubtful: ")
    assert said in answer_of(report)
    assert said in lights(report)[0].text


@pytest.mark.parametrize(
    ("brier", "log_loss", "worse"),
    [
        (0.163, 0.8, []),
        (0.166, 1.6, []),
        (0.17, 1.6, ["Brier score 0.170 against 0.166"]),
        (0.166, 1.7, ["log loss 1.70 against 1.60"]),
        (0.17, 1.7, ["Brier score 0.170 against 0.166", "log loss 1.70 against 1.60"]),
    ],
)
def test_probabilities_that_lose_to_a_constant_get_a_light(brier, log_loss, worse):
    calibrated = CALIBRATED.model_copy(update={"brier": brier, "log_loss": log_loss})
    report = classes(super_learner={"calibrated": calibrated})
    text = "\n".join(caution.text for caution in lights(report) if caution.light == "caution")
    losses = "Brier score 0.170 against 0.166", "log loss 1.70 against 1.60"
    assert [loss for loss in losses if loss in text] == worse
    assert ("super learner" in text) == bool(worse)
    assert ("against" in text) == bool(worse)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 20))
def test_no_text_says_that_p_is_one(p, holm, others):
    against = {"random_forest": comparison(-1.0, holm)}
    report = regression(networks={"guessing": guessing(9.0, -1.0, p), "comparisons": against})
    shown = lights(report, *[report] * others)
    text = " ".join([answer_of(report, *[report] * others), *(one.text for one in shown)])
    assert not re.search(r"p = (1\b(?!\.)|1\.0|0\b(?!\.)|0\.0+\b)", text)


def encoder(correlation: float | None) -> EncoderReport:
    return EncoderReport(
        parameters=9,
        steps=1,
        wall_s=1,
        samples_per_s=None,
        held_out_samples=3,
        unifrac_pearson=correlation,
    )


def test_encoders_have_a_light_where_they_are_weak():
    for correlation in (None, 0.9):
        assert list_encoder_cautions("m", encoder(correlation)) == []
    (weak,) = list_encoder_cautions("m", encoder(0.5))
    assert missing(["m", "0.500"], weak.text) == []


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"unseen": 0.1, "seen": 0}, []),
        ({"unseen": 0.1, "seen": 20}, [("caution", "20 of the 20 samples in new")]),
        ({"unseen": 0.4, "seen": 0}, [("caution", "40 %", "new")]),
        ({"unseen": 0.4, "seen": 0, "near": 0.9}, [("caution", "40 %", "new", "90 %")]),
        (
            {"unseen": 0.4, "seen": 1, "few": ["a", "b"]},
            [("stop", "2 of the 20 samples in new ('a', 'b')", "50 %"), ("caution",), ("caution",)],
        ),
    ],
)
def test_predictions_have_lights_where_training_hardly_knows_the_table(known, expected):
    cautions = list_prediction_cautions("new", n=20, **known)
    assert [caution.light for caution in cautions] == [light for light, *_ in expected]
    for caution, (_, *facts) in zip(cautions, expected, strict=True):
        assert missing(facts, caution.text) == []
