"""What is reported of a task: its methods, what leads, and what else is asked of the answer."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from problems import nested_of, predictions_of
from scipy.sparse import csr_array
from task_settings import score_settings

from aam.config.settings.tasks import ScoreSettings
from aam.data.table import FeatureTable
from aam.evaluate.comparison import compare_tested_with_guessing, compare_with_guessing
from aam.evaluate.task_report import Addition, Structure, TargetReport
from aam.evaluate.task_scores import (
    Asked,
    Networks,
    Samples,
    WithCovariates,
    report_task,
)

SIZE = 24
IDS = [f"s{number}" for number in range(SIZE)]
FOLD = np.arange(SIZE) % 3
AGES = 10.0 * np.arange(SIZE)
SIGNS = np.where(np.arange(SIZE) // 3 % 2, 1.0, -1.0)
CLASSES = ["low", "mid", "high"]
TRAINING = {
    "recipe": "auto",
    "start": "pretrained",
    "labels": 1.0,
    "evaluation": "transductive",
    "start_directory": None,
}


def samples_of(**changes: Any) -> Samples:
    """Return samples without groups and metadata."""
    group = pd.Series("", IDS)
    return Samples(**{"group": group, "metadata": pd.DataFrame(index=IDS)} | changes)


def ages(error: Any, fold: Any = FOLD) -> pd.DataFrame:
    """Return predictions of ages that are off by some years."""
    return predictions_of(AGES, AGES + error, fold)


def levels(predicted: Any, names: list[str] = CLASSES) -> pd.DataFrame:
    """Return predictions of three classes in turn, with shares in the order of `names`."""
    observed = np.array(CLASSES)[np.arange(SIZE) % 3]
    guess = np.broadcast_to(np.asarray(predicted, dtype=object), SIZE)
    shares = np.where(guess[:, None] == np.array(names, dtype=object), 0.6, 0.2)
    return predictions_of(observed, guess, np.arange(SIZE) // 3 % 4, shares, names)


def baselines_of(**tables: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return tables of baselines and of nested predictions, which those that learn have."""
    learning = {name: one for name, one in tables.items() if name not in ("median", "majority")}
    nested = [nested_of(one).assign(baseline=name) for name, one in learning.items()]
    empty = pd.DataFrame({"baseline": [], "without": []})
    return {
        "baselines": pd.concat([one.assign(baseline=name) for name, one in tables.items()]),
        "nested_baselines": pd.concat(nested) if nested else empty,
    }


def networks_of(table: pd.DataFrame, recipes: pd.DataFrame | None = None) -> Networks:
    """Return networks that predict so, of one recipe unless tables of several are given."""
    alone = table.assign(recipe="full", weight=1.0)
    return Networks(
        predictions=table,
        nested=nested_of(table),
        recipes=alone if recipes is None else recipes,
    )


def target_of_task(settings: ScoreSettings, **given: Any) -> TargetReport:
    """Return the report of the only target of a task."""
    report, _ = report_task(settings, **{"networks": None, "samples": samples_of()} | given)
    (target,) = report.targets
    return target


def with_networks(table: pd.DataFrame, labels: float = 1.0, **given: Any) -> TargetReport:
    """Return the report of networks next to a median and a forest that is off by two years."""
    settings = score_settings(answer="m", training={**TRAINING, "labels": labels})
    baselines = baselines_of(median=ages(99.0), random_forest=ages(-2.0 * SIGNS))
    return target_of_task(settings, **{"networks": networks_of(table), **baselines, **given})


def test_baselines_that_learn_are_mixed_and_the_mixture_leads():
    tables = {"median": ages(99.0), "random_forest": ages(2.0 * SIGNS), "knn": ages(-2.0 * SIGNS)}
    target = target_of_task(score_settings(), **baselines_of(**tables))
    assert [one.name for one in target.methods] == ["super learner", *tables]
    roles = [one.role for one in target.methods]
    assert roles == ["super learner", "baseline", "baseline", "baseline"]
    assert target.leading == "super learner"
    # Errors of opposite signs: a half of each has none.
    assert target.best.mixing.weights == pytest.approx({"random_forest": 0.5, "knn": 0.5}, abs=1e-3)
    assert target.best.scores["mae_pooled"] == pytest.approx(0.0, abs=0.01)
    scores = [one.scores["mae_fold_mean"] for one in target.baselines]
    assert scores == pytest.approx([99.0, 2.0, 2.0])
    assert target.best.mixing.without_networks is None
    assert target.best.comparisons.keys() == {"random_forest", "knn"}
    assert not any(one.comparisons for one in target.baselines)


def test_a_method_alone_is_not_mixed_and_leads_before_a_constant():
    tables = {"median": ages(99.0), "random_forest": ages(2.0)}
    target = target_of_task(score_settings(), **baselines_of(**tables))
    assert target.leading == "random_forest"
    assert target.super_learner is None


def test_networks_are_mixed_with_baselines_only_where_they_have_all_labels():
    own = ages(2.0 * SIGNS)
    target = with_networks(own)
    assert [one.name for one in target.methods] == [
        *("m", "super learner", "median", "random_forest")
    ]
    assert target.leading == "super learner"
    assert target.best.mixing.weights == pytest.approx({"m": 0.5, "random_forest": 0.5}, abs=1e-3)
    assert target.networks.mixing is None
    assert target.networks.training.labels == 1.0
    few = with_networks(own, labels=0.5)
    assert [one.name for one in few.methods] == ["m", "median", "random_forest"]
    assert few.leading == "m"
    alone = with_networks(own, **baselines_of(median=ages(99.0)))
    assert [one.name for one in alone.methods] == ["m", "median"]


def test_a_mixture_is_compared_with_its_best_method_and_with_baselines_alone():
    own = ages(1.0 * SIGNS)
    target = with_networks(own)
    mixed = target.super_learner
    score = mixed.scores["mae_fold_mean"]
    chosen = mixed.mixing.chosen
    assert chosen.score == pytest.approx(1.0)
    assert chosen.learners == {0: "m", 1: "m", 2: "m"}
    assert chosen.comparison.difference == pytest.approx(score - 1.0)
    assert chosen.comparison.folds_won == 1.0
    without = mixed.mixing.without_networks
    assert without.score == pytest.approx(2.0)
    assert without.comparison.difference == pytest.approx(score - 2.0)
    assert mixed.mixing.unnested.difference == pytest.approx(mixed.mixing.unnested.score - score)
    assert mixed.mixing.temperatures == {"m": 1.0, "random_forest": 1.0}


def test_p_values_are_corrected_for_the_baselines_that_learn():
    rng = np.random.default_rng(0)
    tables = {
        "median": ages(99.0),
        "random_forest": ages(rng.normal(0, 9.0, SIZE)),
        "knn": ages(rng.normal(0, 90.0, SIZE)),
    }
    settings = score_settings(answer="m", training={**TRAINING, "labels": 0.1})
    own = ages(rng.normal(0, 4.0, SIZE))
    target = target_of_task(settings, networks=networks_of(own), **baselines_of(**tables))
    found = target.networks.comparisons
    assert found.keys() == {"random_forest", "knn"}
    large, small = found["random_forest"], found["knn"]
    assert small.p < large.p
    assert small.holm_p == pytest.approx(2 * small.p)
    assert large.holm_p == pytest.approx(max(large.p, 2 * small.p))
    mae = target.networks.scores["mae_fold_mean"]
    assert large.difference == pytest.approx(
        mae - target.method("random_forest").scores["mae_fold_mean"]
    )


def test_recipes_have_their_own_scores_and_mean_weights_of_the_folds():
    fold = np.where(np.arange(SIZE) < 3, -1, FOLD)
    own = ages(1.0, fold)
    # Predictions of the test set, which are the first rows, count in neither.
    error = np.where(fold < 0, 500.0, 4.0)
    weight = np.where(fold < 0, 0.9, np.array([0.1, 0.2, 0.6])[FOLD])
    recipes = pd.concat(
        [
            ages(error, fold).assign(recipe="kernel", weight=weight),
            own.assign(recipe="full", weight=1.0 - weight),
        ]
    )
    found = with_networks(
        own,
        networks=networks_of(own, recipes),
        **baselines_of(median=ages(99.0, fold), random_forest=ages(-2.0 * SIGNS, fold)),
    ).networks.training
    assert list(found.recipes) == ["kernel", "full"]
    assert found.recipes["kernel"].score == pytest.approx(4.0)
    assert found.recipes["kernel"].weight == pytest.approx(0.3)
    assert found.recipes["full"].score == pytest.approx(1.0)
    assert found.recipes["full"].weight == pytest.approx(0.7)
    assert (found.recipe, found.start) == ("auto", "pretrained")
    assert (found.unnested, found.draws) == (None, None)


def test_single_networks_and_weights_that_saw_the_fold_are_scored_apart():
    own = ages(3.0).assign(
        unnested=AGES + 1.0, **{"draw:0": AGES + 2.0, "draw:1": AGES - 6.0, "draw:2": AGES + 7.0}
    )
    found = with_networks(own).networks.training
    assert found.unnested.score == pytest.approx(1.0)
    assert found.unnested.difference == pytest.approx(-2.0)
    assert found.draws.networks == 3
    assert found.draws.mean == pytest.approx(5.0)
    assert found.draws.sd == pytest.approx(np.std([2.0, 6.0, 7.0], ddof=1))


def test_samples_of_no_fold_are_a_test_set_which_is_tested_where_the_user_names_it():
    fold = np.where(np.arange(SIZE) < 9, -1, FOLD)
    tables = {"random_forest": ages(np.where(fold < 0, 5.0, 1.0) * SIGNS, fold)}
    target = target_of_task(score_settings(), **baselines_of(**tables))
    assert (target.best.n, target.best.test.n) == (SIZE - 9, 9)
    assert target.best.scores["mae_pooled"] == pytest.approx(1.0)
    assert target.best.test.scores["mae_pooled"] == pytest.approx(5.0)
    assert target.best.folds.keys() == {0, 1, 2}
    assert target.best.test_guessing is None
    assert target.coverage.test.n == 9
    named = target_of_task(score_settings(names_test=True), **baselines_of(**tables))
    expected = compare_tested_with_guessing("regression", tables["random_forest"], [""] * SIZE)
    assert named.best.test_guessing == expected
    whole = target_of_task(score_settings(names_test=True), **baselines_of(knn=ages(SIGNS)))
    assert (whole.best.test, whole.best.test_guessing) == (None, None)


def test_a_test_set_of_one_class_is_not_compared_with_guessing():
    """Always that class would be right, and nothing is told apart."""
    fold = np.where(np.arange(SIZE) < 9, -1, FOLD)
    observed = np.where((fold < 0) | (np.arange(SIZE) % 2 == 0), "a", "b")
    predicted = np.where(np.arange(SIZE) == 0, "b", observed)
    shares = np.where(predicted[:, None] == np.array(["a", "b"]), 0.9, 0.1)
    table = predictions_of(observed, predicted, fold, shares, ["a", "b"])
    settings = score_settings(kind="classification", names_test=True)
    best = target_of_task(settings, **baselines_of(random_forest=table)).best
    assert best.test.scores["balanced_accuracy"] == pytest.approx(8 / 9)
    assert best.test_guessing is None


def test_predicting_the_majority_scores_as_guessing_and_has_no_p_value():
    tables = {"majority": levels("low"), "random_forest": levels(CLASSES * 8)}
    target = target_of_task(score_settings(kind="classification"), **baselines_of(**tables))
    majority = target.method("majority")
    assert majority.scores["balanced_accuracy"] == pytest.approx(1 / 3)
    assert majority.guessing.score == pytest.approx(1 / 3)
    assert (majority.guessing.difference, majority.guessing.p) == (0.0, None)
    assert majority.interval is None
    assert target.leading == "random_forest"
    assert target.best.scores["balanced_accuracy"] == 1.0
    assert target.best.guessing.difference == pytest.approx(2 / 3)
    assert target.best.interval is not None
    assert target.far_values is None
    assert sum(one.n for one in target.reliability) == SIZE


def test_a_constant_number_is_tested_as_any_other_method():
    target = target_of_task(score_settings(), **baselines_of(median=ages(99.0 + SIGNS)))
    assert target.best.guessing == compare_with_guessing(
        "regression", ages(99.0 + SIGNS), [""] * SIZE
    )
    assert target.best.guessing.p is not None


def test_ordered_classes_keep_their_order_whatever_the_order_of_columns():
    shifted = np.array(["mid", "high", "high"] * 8)
    tables = {
        "majority": levels("low", sorted(CLASSES)),
        "random_forest": levels(shifted, sorted(CLASSES)),
    }
    settings = score_settings(kind="ordinal", classes=CLASSES)
    report, answer = report_task(
        settings, networks=None, samples=samples_of(), **baselines_of(**tables)
    )
    (target,) = report.targets
    assert report.classes == tuple(CLASSES)
    assert target.best.confusion.classes == tuple(CLASSES)
    assert target.best.confusion.counts == ((0, 8, 0), (0, 0, 8), (0, 0, 8))
    assert target.best.scores["mae_ranks"] == pytest.approx(2 / 3)
    assert target.best.guessing.ranks.score == pytest.approx(2 / 3)
    shares = [f"probability:{name}" for name in CLASSES]
    shown = ["sample-id", "fold", "observed", "predicted", "likeliest", "prediction_set"]
    assert list(answer) == [*shown, *shares]


def test_a_constant_leads_where_there_is_no_other_method():
    for kind, table in (("classification", levels("low")), ("ordinal", levels("low"))):
        settings = score_settings(kind=kind, classes=CLASSES if kind == "ordinal" else None)
        assert target_of_task(settings, **baselines_of(majority=table)).leading == "majority"
    target = target_of_task(score_settings(), **baselines_of(median=ages(99.0)))
    assert (target.leading, len(target.methods)) == ("median", 1)


def two_targets(first: float, second: float) -> pd.DataFrame:
    """Return predictions of two numbers that are off by so much each."""
    return pd.concat([ages(first).assign(target="bmi"), ages(second).assign(target="age")])


def test_every_target_is_scored_by_its_own_rows():
    report, answer = report_task(
        score_settings(columns=["bmi", "age"], bounds=(0.0, 500.0)),
        networks=None,
        samples=samples_of(),
        provenance={"code": "abc"},
        **baselines_of(median=two_targets(50.0, 60.0), random_forest=two_targets(1.0, 2.0)),
    )
    assert report.columns == ("bmi", "age")
    assert [one.best.scores["mae_pooled"] for one in report.targets] == pytest.approx([1.0, 2.0])
    medians = [one.method("median").scores["mae_pooled"] for one in report.targets]
    assert medians == pytest.approx([50.0, 60.0])
    assert answer["target"].tolist() == ["bmi"] * SIZE + ["age"] * SIZE
    shown = ["sample-id", "target", "fold", "observed", "predicted", "lower", "upper"]
    assert list(answer) == shown
    assert answer["lower"].min() == 0.0, "no number is below the bound"
    assert (report.bounds, report.provenance) == ((0.0, 500.0), {"code": "abc"})
    assert (report.task, report.answer, report.kind) == ("t", "first", "regression")


def test_groups_are_counted_among_the_samples_in_folds():
    fold = np.where(np.arange(SIZE) < 2, -1, FOLD)
    baselines = baselines_of(random_forest=ages(1.0, fold))

    def structure(group: list[str], **given: Any) -> Structure:
        samples = samples_of(group=pd.Series(group, IDS))
        return target_of_task(score_settings(**given), samples=samples, **baselines).structure

    # The test set alone is of one host.
    hosts = ["h0", "h0", *(f"h{number}" for number in range(2, SIZE))]
    known = {"column": "host", "stated": True}
    assert structure(hosts) == Structure(**known, groups=SIZE - 2, independent=True)
    twins = ["h0", "h0", "h2", "h2", *(f"h{number}" for number in range(4, SIZE))]
    assert structure(twins) == Structure(**known, groups=SIZE - 3, independent=False)
    nobody = {"column": None, "stated": False}
    found = structure([""] * SIZE, structure=nobody)
    assert found == Structure(**nobody, groups=None, independent=True)


def test_scores_within_values_of_columns_that_are_asked_for():
    metadata = pd.DataFrame({"study": ["a", "b"] * (SIZE // 2), "site": "x"}, IDS)
    target = target_of_task(
        score_settings(report_by=["study"]),
        samples=samples_of(metadata=metadata),
        **baselines_of(random_forest=ages(np.where(np.arange(SIZE) % 2, 4.0, 2.0))),
    )
    (by,) = target.best.by.values()
    assert {name: (one.n, one.score) for name, one in by.items()} == {
        "a": (12, 2.0),
        "b": (12, 4.0),
    }


def test_a_number_that_decides_the_scores_is_named():
    observed = np.where(np.arange(SIZE) == 5, -9999.0, np.arange(SIZE))
    table = predictions_of(observed, np.arange(SIZE) + 1.0, FOLD)
    target = target_of_task(score_settings(), **baselines_of(random_forest=table))
    assert target.far_values.values == (-9999.0,)
    assert target.far_values.samples == ("s5",)


def reads_that_grow() -> FeatureTable:
    """Return reads of which later samples have more, of more features, in the reverse order."""
    number = np.arange(SIZE)[:, None]
    counts = (np.arange(40) < 1 + number) * (1 + number)
    return FeatureTable(IDS[::-1], [f"f{i}" for i in range(40)], csr_array(counts[::-1]))


def test_plates_reads_and_richness_are_rivals_of_an_answer():
    plate = [f"p{number // 6}" for number in range(SIZE)]
    metadata = pd.DataFrame({"age": AGES.astype(str), "plate": plate}, IDS)
    baselines = baselines_of(random_forest=ages(5.0 * SIGNS))
    known = {"metadata": metadata, "reads": pd.Series(np.arange(float(SIZE)), IDS)}
    with_reads = target_of_task(
        score_settings(), samples=samples_of(**known, rarefied=reads_that_grow()), **baselines
    )
    names = {one.name: one for one in with_reads.rivals}
    assert names.keys() == {"plate", "reads", "richness"}
    # Ages of a plate are ten years apart, and one sample of the other five is in the same fold.
    others = [np.delete(np.arange(6), [number, (number + 3) % 6]) for number in range(6)]
    errors = [abs(np.median(one) - number) for number, one in enumerate(others)]
    assert names["plate"].score == pytest.approx(10 * np.mean(errors))
    assert with_reads.other_groups == ()
    without = target_of_task(score_settings(), samples=samples_of(metadata=metadata), **baselines)
    assert [one.name for one in without.rivals] == ["plate"]


def test_richness_is_of_the_reads_of_each_sample_whatever_their_order():
    # The richness of a sample says the half that it is in.
    is_late = np.arange(SIZE) >= SIZE // 2
    target = np.where(is_late, "late", "early")
    shares = np.where(target[:, None] == ["early", "late"], 0.9, 0.1)
    table = predictions_of(target, target, FOLD, shares, ["early", "late"])
    found = target_of_task(
        score_settings(kind="classification"),
        samples=samples_of(rarefied=reads_that_grow()),
        **baselines_of(random_forest=table),
    )
    (richness,) = found.rivals
    assert (richness.name, richness.role, richness.exactness) == ("richness", "richness", "exactly")


def repeated_people() -> tuple[pd.DataFrame, pd.DataFrame, FeatureTable]:
    """Return ages of twelve people of four samples, who are known by their reads."""
    person = np.repeat(np.arange(12), 4)
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(2, 1.5, (12, 30)))[person])
    names = [f"s{number}" for number in range(48)]
    value = rng.normal(50, 20, 12)[person]
    table = predictions_of(value, value + rng.normal(0, 1, 48), np.arange(48) % 4)
    metadata = pd.DataFrame(
        {"age": value.astype(str), "host": [f"p{one}" for one in person]}, names
    )
    return table, metadata, FeatureTable(names, [f"f{i}" for i in range(30)], csr_array(counts))


def test_people_who_lie_in_several_folds_are_reported_unless_they_are_the_groups_or_the_target():
    table, metadata, reads = repeated_people()
    samples = Samples(group=pd.Series("", metadata.index), metadata=metadata, rarefied=reads)
    unknown = {"column": None, "stated": False}
    given = {"samples": samples, **baselines_of(random_forest=table)}
    (other,) = target_of_task(score_settings(structure=unknown), **given).other_groups
    assert (other.column, other.groups, other.is_worse) == ("host", 12, True)
    assert target_of_task(score_settings(), **given).other_groups == ()
    by_host = score_settings(structure=unknown, columns=["host"])
    assert target_of_task(by_host, **given).other_groups == ()


def timed(**changes: Any) -> tuple[ScoreSettings, Samples]:
    """Return the settings and samples of eight people of three days."""
    person = pd.Series([f"p{number // 3}" for number in range(SIZE)], IDS)
    day = [str(number % 3) for number in range(SIZE)]
    metadata = pd.DataFrame({"day": day, "host": person}, IDS)
    return score_settings(time="day", **changes), Samples(group=person, metadata=metadata)


def test_people_are_scored_over_time_where_the_task_has_times():
    fold = np.arange(SIZE) // 3 % 4
    baselines = baselines_of(random_forest=ages(SIGNS, fold))
    settings, samples = timed()
    people = target_of_task(settings, samples=samples, **baselines).people
    assert (people.column, people.time) == ("host", "day")
    assert (people.people, people.samples, people.untimed) == (8, SIZE, 0)
    assert people.change.n == 16
    untimed = settings.model_copy(update={"time": None})
    assert target_of_task(untimed, samples=samples, **baselines).people is None


def test_a_forecast_is_of_the_samples_that_no_fold_has():
    day = np.arange(SIZE) % 3
    fold = np.where(day == 2, -1, np.arange(SIZE) // 3 % 4)
    baselines = baselines_of(random_forest=ages(5.0, fold))
    settings, samples = timed(question="forecast", forecast="1")
    target = target_of_task(settings, samples=samples, **baselines)
    assert target.people is None, "the task itself reports them"
    assert (target.forecast.after, target.forecast.known.n) == ("1", 8)
    assert target.forecast.known.score == pytest.approx(5.0)
    scores = {one.name: one.score for one in target.forecast.known.rivals}
    assert scores["last value"] == pytest.approx(10.0)
    assert scores["trend"] == pytest.approx(0.0)
    assert "covariates" not in scores
    settings, samples = timed()
    assert target_of_task(settings, samples=samples, **baselines).forecast is None


def test_times_are_read_of_the_samples_of_the_task_alone():
    """Other samples of a table write them another way, and are more."""
    fold = np.where(np.arange(SIZE) % 3 == 2, -1, np.arange(SIZE) // 3 % 4)
    baselines = baselines_of(random_forest=ages(5.0, fold))
    others = pd.DataFrame({"day": ["7"] * 60, "host": "other"}, [f"x{row}" for row in range(60)])
    for changes in ({}, {"question": "forecast", "forecast": "auto"}):
        settings, samples = timed(**changes)
        weeks = samples.metadata.assign(day="Week " + samples.metadata["day"])
        merged = Samples(group=samples.group, metadata=pd.concat([others, weeks]))
        found = target_of_task(settings, samples=merged, **baselines)
        alone = target_of_task(
            settings, samples=Samples(group=samples.group, metadata=weeks), **baselines
        )
        assert found.people == alone.people
        assert found.forecast == alone.forecast
    assert found.forecast.after == "Week 1"


def test_a_forecast_has_predictions_by_covariates_alone_as_a_rival():
    fold = np.where(np.arange(SIZE) % 3 == 2, -1, np.arange(SIZE) // 3 % 4)
    baselines = baselines_of(random_forest=ages(5.0, fold))
    settings, samples = timed(question="forecast", forecast="1")
    names = ("covariate_spline", "covariate_forest", "joint_ridge", "joint_forest")
    errors = dict(zip(names, (3.0, 3.0, 40.0, 40.0), strict=True))
    given = baselines_of(**{name: ages(error, fold) for name, error in errors.items()})
    covariates = WithCovariates(given["baselines"], given["nested_baselines"])
    target = target_of_task(settings, samples=samples, covariates=covariates, **baselines)
    scores = {one.name: one.score for one in target.forecast.known.rivals}
    assert scores["covariates"] == pytest.approx(3.0), "joint methods look at the features, too"
    assert target.addition is None


def test_studies_are_compared_with_the_answer_to_the_task_itself():
    study = pd.Series([f"study{number // 4}" for number in range(SIZE)], IDS)
    fold = np.arange(SIZE) // 4
    asked = Asked(predictions=ages(1.0), group=pd.Series("", IDS))
    settings = score_settings(question="studies", structure={"column": "cohort", "stated": True})
    samples = samples_of(group=study)
    target = target_of_task(
        settings, samples=samples, asked=asked, **baselines_of(random_forest=ages(6.0, fold))
    )
    assert target.studies.column == "cohort"
    assert target.studies.within.score == pytest.approx(1.0)
    assert target.studies.unseen.score == pytest.approx(6.0)
    assert [one.n for one in target.studies.studies] == [4] * 6
    assert target.asked_guessing is target.studies.unseen.guessing


def addition_of(settings: ScoreSettings, **given: Any) -> Addition | None:
    """Return what features add to covariates that are off by five years."""
    errors = {"covariate_spline": 5.0, "covariate_forest": 5.0}
    errors |= {"joint_ridge": 30.0, "joint_forest": 30.0}
    known = baselines_of(**{name: ages(error * SIGNS) for name, error in errors.items()})
    covariates = WithCovariates(known["baselines"], known["nested_baselines"])
    return target_of_task(settings, covariates=covariates, **given).addition


def test_features_add_to_covariates_what_their_mixture_is_better_by():
    settings = score_settings(covariates=["sex"])
    baselines = baselines_of(median=ages(99.0), random_forest=ages(-2.0 * SIGNS))
    found = addition_of(settings, **baselines)
    assert found.covariates == ("sex",)
    assert found.alone.score == pytest.approx(5.0)
    assert found.features.score == pytest.approx(2.0)
    assert found.both.score < 2.0
    assert found.of_features.difference == pytest.approx(found.both.score - 5.0)
    assert target_of_task(settings, **baselines).addition is None


@pytest.mark.parametrize(("labels", "score"), [(1.0, 0.0), (0.5, 2.0)])
def test_networks_of_few_labels_add_to_covariates_without_baselines(labels, score):
    """With all labels they are mixed with a forest whose errors have the other sign."""
    settings = score_settings(
        answer="m", covariates=["sex"], training={**TRAINING, "labels": labels}
    )
    given = {
        "networks": networks_of(ages(2.0 * SIGNS)),
        **baselines_of(random_forest=ages(-2.0 * SIGNS)),
    }
    found = addition_of(settings, **given)
    assert found.features.score == pytest.approx(score, abs=0.02)


def test_without_nested_predictions_nothing_is_added_to_covariates():
    settings = score_settings(answer="m", covariates=["sex"], training={**TRAINING, "labels": 0.5})
    own = ages(2.0 * SIGNS)
    empty = Networks(
        predictions=own,
        nested=nested_of(own).iloc[:0],
        recipes=own.assign(recipe="full", weight=1.0),
    )
    baselines = baselines_of(random_forest=ages(-2.0 * SIGNS))
    assert addition_of(settings, networks=empty, **baselines) is None


def test_the_answer_has_a_row_for_each_sample_and_ends_with_the_probabilities_of_classes():
    table = levels(CLASSES * 8)
    settings = score_settings(kind="classification")
    _, answer = report_task(
        settings, networks=None, samples=samples_of(), **baselines_of(random_forest=table)
    )
    assert list(answer)[-3:] == [f"probability:{name}" for name in CLASSES]
    assert answer["sample-id"].tolist() == IDS
