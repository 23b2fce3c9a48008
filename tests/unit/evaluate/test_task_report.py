"""The report of a task: what it says of its methods, and what a file of it holds."""

import json

import numpy as np
import pandas as pd
import pytest
from page_reports import rival
from problems import predictions_of
from pydantic import ValidationError
from task_reports import GUESSING, method_of, target_of, task_of

from aam.evaluate.task_report import (
    Answered,
    Forecast,
    Forecasted,
    ForecastRival,
    Guessing,
    MethodReport,
    OfPeople,
    OtherGroups,
    People,
    Studies,
    StudyScore,
    TargetKey,
    TargetReport,
    TaskReport,
    accuracy_table,
)
from aam.util.errors import InputError


def regression(error: float = 1.0) -> pd.DataFrame:
    """Return predictions of six numbers that are off by so much."""
    observed = np.arange(6.0)
    return predictions_of(observed, observed + error, np.arange(6) % 2)


def classes(right: int = 6) -> pd.DataFrame:
    """Return predictions of six samples of two classes, the first of which are right."""
    observed = np.array(["a", "b"] * 3)
    predicted = np.where(np.arange(6) < right, observed, observed[::-1])
    shares = np.where(predicted[:, None] == ["a", "b"], 0.8, 0.2)
    return predictions_of(observed, predicted, np.arange(6) % 2, shares, ["a", "b"])


def target_with(*methods: MethodReport, **changes: object) -> TargetReport:
    return target_of(regression(), methods, "age", **changes)


def method(name: str, role: str = "baseline", **changes: object) -> MethodReport:
    return method_of("regression", regression(), name, role, **changes)


def of_people(p: float, time: float | None = None) -> OfPeople:
    against = None if time is None else Guessing(score=1.0, difference=-0.5, p=time)
    return OfPeople(
        score=0.5,
        guessing=Guessing(score=1.0, difference=-0.5, p=p),
        people=6,
        n=12,
        time=against,
    )


def test_skill_is_the_part_of_the_way_from_guessing_to_perfect():
    error = Guessing(score=8.0, difference=-6.0)
    assert error.skill("regression") == 0.75
    assert Guessing(score=8.0, difference=2.0).skill("regression") == -0.25
    assert Guessing(score=0.5, difference=-0.25).skill("regression") == 0.5
    accuracy = Guessing(score=0.25, difference=0.5)
    assert accuracy.skill("classification") == pytest.approx(2 / 3)
    assert accuracy.skill("ordinal") == pytest.approx(2 / 3)
    # Guessing that is right for all samples leaves nothing to gain.
    assert Guessing(score=0.0, difference=1.0).skill("regression") == 0.0
    assert Guessing(score=1.0, difference=-0.5).skill("classification") == 0.0


def test_a_target_gives_its_leading_method_its_networks_its_mixture_and_its_baselines():
    networks = method("m", "network")
    mixed = method("super learner", "super learner")
    median, forest = method("median"), method("random_forest")
    target = target_with(mixed, networks, median, forest)
    assert target.best is mixed
    assert target.super_learner is mixed
    assert target.networks is networks
    assert target.method("median") is median
    assert target.baselines == (median, forest)
    assert target.others == (networks, forest), "a constant learns nothing"
    assert target_with(median).super_learner is None
    assert target_with(median).networks is None
    assert target_with(median).others == ()


def test_an_interval_is_that_of_the_comparison_with_guessing():
    guessing = GUESSING.model_copy(update={"interval": (0.5, 1.5)})
    assert method("m", guessing=guessing).interval == (0.5, 1.5)
    assert method("m").interval is None


def test_a_task_on_studies_is_answered_by_those_that_were_not_seen():
    target = target_with(method("random_forest"))
    assert target.asked_guessing is target.best.guessing
    unseen = Guessing(score=4.0, difference=-1.0)
    known = StudyScore(study="a", n=9, within=1.0, unseen=2.0, guessing=4.0)
    without = StudyScore(study="b", n=2, within=None, unseen=None, guessing=None)
    studies = Studies(
        column="cohort",
        studies=(known, without),
        within=Answered(score=1.0, guessing=GUESSING),
        unseen=Answered(score=3.0, guessing=unseen),
    )
    assert studies.scored == (known,)
    asked = target.model_copy(update={"studies": studies})
    assert asked.asked_guessing is unseen


def test_confounders_are_rivals_that_leave_nothing_and_leaks_are_groups_with_worse_scores():
    rivals = tuple(rival(f"it leaves {left}", left=left) for left in ("nothing", "less", "all"))
    groups = tuple(
        OtherGroups(column=name, groups=5, score=0.5, with_own_folds=0.9, p=0.01, is_worse=is_worse)
        for name, is_worse in (("host", True), ("home", False))
    )
    target = target_with(method("random_forest"), rivals=rivals, other_groups=groups)
    assert [one.name for one in target.confounders] == ["it leaves nothing"]
    assert [one.column for one in target.leaks] == ["host"]


def test_p_values_of_people_are_those_between_and_within_them_of_change_and_against_time():
    people = People(
        column="host",
        time="day",
        people=6,
        single=0,
        samples=12,
        untimed=0,
        between=of_people(0.1),
        within=of_people(0.2, time=0.3),
        change=of_people(0.4),
    )
    assert people.tests == {"between": 0.1, "within": 0.2, "change": 0.4, "time": 0.3}
    untimed = people.model_copy(update={"within": of_people(0.2), "change": None})
    assert untimed.tests == {"between": 0.1, "within": 0.2, "change": None, "time": None}
    alike = people.model_copy(update={"between": None, "within": None})
    assert alike.tests == {"between": None, "within": None, "change": 0.4, "time": None}


def test_the_p_value_of_a_forecast_is_the_corrected_one_against_its_best_rival():
    rivals = tuple(
        ForecastRival(name=name, score=score, difference=-1.0, p=p / 2, holm_p=p)
        for name, score, p in (("trend", 2.0, 0.01), ("guessing", 3.0, 0.2))
    )
    known = Forecasted(n=12, people=6, score=1.0, interval=None, rivals=rivals)
    forecast = Forecast(column="host", time="day", after="5", known=known, new=None)
    assert forecast.tests == {"known": 0.01, "new": None}


def test_a_report_cannot_be_changed_and_has_no_unknown_fields():
    with pytest.raises(ValidationError, match="frozen"):
        GUESSING.score = 1.0
    with pytest.raises(ValidationError, match="extra"):
        Guessing(score=1.0, difference=0.0, interval=None, skill=1.0)


def test_a_report_comes_back_from_its_file_without_parts_that_the_task_lacks(tmp_path):
    path = tmp_path / "scores.json"
    target = target_with(method("m", "network"), method("median"))
    report = task_of("regression", "t", target)
    report.write(path)
    assert TaskReport.read(path) == report
    (written,) = json.loads(path.read_text())["targets"]
    assert not {"addition", "studies", "people", "forecast"} & written.keys()
    assert not any("test_guessing" in one for one in written["methods"])
    assert [one["name"] for one in written["methods"]] == ["m", "median"]
    tested = target_with(method("m", test_guessing=GUESSING))
    task_of("regression", "t", tested).write(path)
    (written,) = json.loads(path.read_text())["targets"]
    assert written["methods"][0]["test_guessing"]["score"] == GUESSING.score
    assert TaskReport.read(path).targets[0].best.test_guessing == GUESSING


def test_a_file_of_another_version_says_what_to_do(tmp_path):
    path = tmp_path / "scores.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"scores.json.*another version.*delete the file"):
        TaskReport.read(path)


def test_targets_have_keys_of_their_own_where_there_are_several():
    one = target_with(method("median"))
    two = one.model_copy(update={"column": "bmi"})
    alone, both = task_of("regression", "t", one), task_of("regression", "t", one, two)
    assert list(alone.by_key()) == [(TargetKey("t"), one)]
    assert list(both.by_key()) == [(TargetKey("t", "age"), one), (TargetKey("t", "bmi"), two)]
    assert TargetKey("t") == ("t", "")
    assert both.columns == ("age", "bmi")
    assert both.headline == "mae_fold_mean"
    assert both.model_copy(update={"kind": "ordinal"}).headline == "balanced_accuracy"


def answered(kind: str, task: str, tables: dict[str, pd.DataFrame]) -> TaskReport:
    """Return the report of a task that is answered by the networks `m`."""
    roles = {"median": "baseline", "random_forest": "baseline", "m": "network"}
    methods = [
        method_of(kind, table, name, roles.get(name, "super learner"))
        for name, table in tables.items()
    ]
    return task_of(kind, task, target_of(tables["m"], methods, task), answer="m")


@pytest.fixture
def two_tasks() -> pd.DataFrame:
    """Return the table of scores of a task of numbers, and of one of classes."""
    small, large = regression(1.0), regression(3.0)
    numbers = {"median": large, "super learner": small, "m": large}
    return accuracy_table(
        [
            answered("regression", "z", numbers),
            answered("classification", "a", {"random_forest": classes(4), "m": classes(6)}),
        ]
    )


def test_the_table_of_scores_ranks_the_methods_of_each_task_the_best_first(two_tasks):
    """A mixture has the name of the model, and names decide among equal scores."""
    assert two_tasks["task"].tolist() == ["z", "z", "z", "a", "a"], "in the order of the reports"
    assert two_tasks["name"].tolist() == ["m", "m", "median", "m", "random_forest"]
    of_numbers = ["super learner", "network", "baseline"]
    assert two_tasks["role"].tolist() == [*of_numbers, "network", "baseline"]
    assert two_tasks["mae_fold_mean"].tolist()[:3] == [1.0, 3.0, 3.0]
    assert two_tasks["balanced_accuracy"].tolist()[3:] == pytest.approx([1.0, 2 / 3])


def test_the_table_of_scores_leaves_empty_what_a_task_does_not_have(two_tasks):
    columns = ["task", "kind", "name", "role", "n", "mae_fold_mean"]
    assert list(two_tasks)[:6] == columns
    assert list(two_tasks)[-2:] == ["headline_low", "headline_high"]
    assert "target" not in two_tasks, "each task has one"
    assert two_tasks.loc[3:, "mae_fold_mean"].isna().all()
    assert two_tasks["headline_low"].isna().all()
    assert two_tasks["n"].tolist() == [6] * 5


def test_of_a_baseline_in_several_reports_the_last_one_counts():
    reports = [
        task_of("regression", "t", target_with(method_of("regression", table, "median")), answer=m)
        for m, table in (("small", regression(1.0)), ("base", regression(2.0)))
    ]
    assert accuracy_table(reports)["mae_pooled"].tolist() == [2.0]


def test_the_table_of_scores_has_the_ends_of_intervals():
    tested = GUESSING.model_copy(update={"interval": (0.5, 1.5)})
    report = task_of("regression", "t", target_with(method("median", guessing=tested)))
    row = accuracy_table([report]).iloc[0]
    assert (row["headline_low"], row["headline_high"]) == (0.5, 1.5)
