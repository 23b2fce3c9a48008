import logging
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import predictions_of
from refusals import refused

from aam.data.predictions import CROSS_VALIDATION, write_predictions
from aam.data.target import Target
from aam.evaluate.method_scores import report_coverage
from aam.evaluate.score_functions import calibration_scores
from aam.learners.conformal import (
    Calibration,
    calibrated_probabilities,
    cross_intervals,
    finite_sample_quantile,
    fit_recalibration,
    load_calibration,
)
from aam.learners.recalibration import Recalibration, class_frequencies

CLASSES = ["a", "b", "c"]
RARE = ["no", "yes"]
LOSSES = ["brier", "log_loss"]


def numbers(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    """Return predictions whose error grows with the sample, and quantiles that know it."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.5, 3, samples)
    predicted = rng.normal(0, 10, samples)
    observed = predicted + scale * rng.normal(size=samples)
    table = predictions_of(observed, predicted, np.arange(samples) % 6 - 1)
    return table.assign(**{"quantile:0.05": predicted - scale, "quantile:0.95": predicted + scale})


def classes(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.6] * 3, samples)
    observed = [rng.choice(CLASSES, p=row) for row in shares]
    predicted = np.array(CLASSES)[shares.argmax(axis=1)]
    return predictions_of(observed, predicted, np.arange(samples) % 6 - 1, shares, CLASSES)


def rare(samples: int, signal: float) -> pd.DataFrame:
    """Return predictions of a class of 12 %, by a method that balances classes."""
    rng = np.random.default_rng(0)
    is_rare = rng.permutation(np.arange(samples) < 0.12 * samples)
    score = rng.normal(size=samples) + signal * is_rare
    share = 1 / (1 + np.exp(-signal * (score - signal / 2) - 0.3 * rng.normal(size=samples)))
    shares = np.stack([1 - share, share], axis=1)
    observed = np.where(is_rare, "yes", "no")
    predicted = np.array(RARE)[shares.argmax(axis=1)]
    return predictions_of(observed, predicted, np.arange(samples) % 5, shares, RARE)


def noise_scores(samples: int, seed: int, *, grouped: bool) -> dict[str, float]:
    """Return scores of probabilities that are noise, of groups of five that are alike or not."""
    rng = np.random.default_rng(seed)
    group = np.arange(samples) // 5 if grouped else np.arange(samples)
    groups = group.max() + 1
    shares = rng.dirichlet([1.0] * 3, groups)[group]
    observed = rng.choice(CLASSES, groups, p=[0.6, 0.25, 0.15])[group]
    table = predictions_of(observed, "a", group % 5, shares, CLASSES).assign(group=group)
    calibrated, constant = calibrated_probabilities(table, CLASSES)
    return calibration_scores(observed, calibrated, constant, CLASSES)


def residual(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    return numbers(samples, seed).drop(columns=["quantile:0.05", "quantile:0.95"])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.sampled_from([0.5, 0.7, 0.9]))
def test_the_quantile_is_the_least_score_that_enough_scores_do_not_pass(scores, level):
    quantile = finite_sample_quantile(scores, level)
    need = (len(scores) + 1) * level - 1e-9
    enough = [score for score in scores if sum(other <= score for other in scores) >= need]
    assert quantile == (min(enough) if enough else math.inf)


@pytest.mark.parametrize("make", [residual, numbers, classes])
def test_every_fold_is_calibrated_on_the_other_folds_alone(make):
    table = make(120)
    intervals = cross_intervals(table)
    columns = [name for name in ("lower", "upper", "prediction_set") if name in intervals]
    for fold in table["fold"].unique():
        is_in_fold = table["fold"] == fold
        apart = Calibration.fit(table[~is_in_fold & (table["fold"] >= 0)]).apply(table[is_in_fold])
        pd.testing.assert_frame_equal(intervals.loc[is_in_fold, columns], apart[columns])


@pytest.mark.parametrize("make", [residual, numbers, classes])
def test_intervals_cover_what_they_promise(make):
    table = make(3000)
    report = report_coverage(cross_intervals(table))
    assert report.coverage == pytest.approx(0.9, abs=0.02)
    assert report.test.coverage == pytest.approx(0.9, abs=0.05)
    assert report.test.n == 500
    assert report.by_fold.keys() == {0, 1, 2, 3, 4}
    newcomers = make(3000, seed=1)
    applied = Calibration.fit(table).apply(newcomers.drop(columns=["fold", "observed"]))
    full = applied.assign(fold=0, observed=newcomers["observed"])
    assert report_coverage(full).coverage == pytest.approx(0.9, abs=0.02)


def test_a_set_has_the_likeliest_class_and_those_of_enough_probability():
    table = classes()
    calibration = Calibration.fit(table)
    least = 1 - calibration.thresholds[""]
    for row in calibration.apply(table).to_dict("records"):
        likely = {name for name in CLASSES if row[f"probability:{name}"] >= least - 1e-12}
        assert set(row["prediction_set"].split("|")) == likely | {row["predicted"]}


def test_each_target_has_a_width_of_its_own():
    small, large = residual(), residual(seed=1)
    large["observed"] = large["predicted"] + 100 * (large["observed"] - large["predicted"])
    both = pd.concat([small.assign(target="bmi"), large.assign(target="age")], ignore_index=True)
    intervals = cross_intervals(both)
    first = cross_intervals(small)
    assert intervals["lower"].to_numpy()[: len(small)] == pytest.approx(first["lower"].to_numpy())
    calibration = Calibration.fit(both)
    frame = pd.DataFrame({"predicted": [0.0, 0.0], "target": ["age", "bmi"]})
    age, bmi = calibration.apply(frame)["upper"]
    assert age > 30 * bmi
    alone = calibration.apply(frame.drop(columns="target"), "age")
    assert alone["upper"].tolist() == [age, age]


def test_too_few_samples_have_no_bounds_and_one_warning(caplog):
    with caplog.at_level(logging.WARNING):
        intervals = cross_intervals(residual(9).assign(fold=[0, 1, 2] * 3))
    assert intervals[["lower", "upper"]].isna().all(axis=None)
    assert len(caplog.records) == 1
    report = report_coverage(intervals)
    assert (report.coverage, report.size) == (1.0, None)


def test_calibration_comes_from_the_other_folds():
    table = classes(120)
    changed = table.assign(observed=np.where(table["fold"] == 2, "a", table["observed"]))
    is_in_fold = (table["fold"] == 2).to_numpy()
    before, after = (calibrated_probabilities(rows, CLASSES) for rows in (table, changed))
    for first, second in zip(before, after, strict=True):
        assert np.array_equal(first[is_in_fold], second[is_in_fold])
        assert not np.allclose(first[~is_in_fold], second[~is_in_fold])
        assert first.sum(axis=1) == pytest.approx(1)


def test_predicted_stays_and_likeliest_has_the_highest_calibrated_probability():
    table = rare(300, signal=1.0)
    intervals = cross_intervals(table)
    pd.testing.assert_series_equal(intervals["predicted"], table["predicted"])
    shares = intervals[["probability:no", "probability:yes"]]
    assert (intervals["likeliest"] == np.array(RARE)[shares.to_numpy().argmax(axis=1)]).all()
    # Balanced classes call many samples rare that the frequencies call common.
    assert (intervals["predicted"] == "yes").sum() > 3 * (intervals["likeliest"] == "yes").sum()
    sets = intervals["prediction_set"].str.split("|", regex=False)
    assert all(name in names for name, names in zip(intervals["likeliest"], sets, strict=True))


@pytest.mark.parametrize("signal", [0.0, 1.0, 2.0])
def test_probabilities_are_as_high_as_the_rare_class_is_frequent(signal):
    table = rare(400, signal)
    predicted_mean = table["probability:yes"].mean()
    calibrated_NC, constant_NC = calibrated_probabilities(table, RARE)
    assert predicted_mean > 0.25, "the method itself balances classes"
    assert calibrated_NC[:, 1].mean() == pytest.approx(0.12, abs=0.02)
    scores = calibration_scores(table["observed"], calibrated_NC, constant_NC, RARE)
    assert scores.constant_brier == pytest.approx(0.12 * 0.88, abs=0.002)
    if signal:
        assert scores.brier < scores.constant_brier
        assert scores.log_loss < scores.constant_log_loss


@pytest.mark.parametrize("samples", [40, 100])
@pytest.mark.parametrize("grouped", [False, True])
def test_without_a_signal_calibrated_probabilities_are_as_good_as_the_constant(samples, grouped):
    differences = []
    for seed in range(40):
        scores = noise_scores(samples, seed, grouped=grouped)
        differences.append(
            [getattr(scores, name) - getattr(scores, f"constant_{name}") for name in LOSSES]
        )
    mean = np.mean(differences, axis=0)
    error = np.std(differences, axis=0) / np.sqrt(len(differences))
    assert (mean <= 2 * error + 1e-9).all()
    # Chance makes a slope in a few draws alone.
    assert np.median(np.abs(differences), axis=0) == pytest.approx(0, abs=1e-9)


NEWCOMERS = pd.DataFrame({"predicted": [5.0, 30.0, -15.0]})


def fit_to_nineteen_errors() -> Calibration:
    """Return intervals that reach as far as 18 of the errors 1 to 19 do.

    The next error is as likely to be in any of the twenty gaps between them: eighteen gaps are nine
    tenths. Fold -1, whose error is far larger, is not used.
    """
    errors = np.arange(1.0, 20.0) * np.where(np.arange(19) % 2, -1, 1)
    return Calibration.fit(predictions_of(np.r_[errors, 1000.0], 0.0, np.r_[np.arange(19) % 3, -1]))


def test_intervals_reach_as_far_as_nine_of_ten_errors():
    calibration = fit_to_nineteen_errors()
    assert (calibration.method, dict(calibration.thresholds)) == ("residual", {"": 18.0})
    assert not calibration.has_learned_nothing
    applied = calibration.apply(NEWCOMERS)
    assert applied["lower"].tolist() == [-13.0, 12.0, -33.0]
    assert applied["upper"].tolist() == [23.0, 48.0, 3.0]


def test_intervals_end_at_the_bounds_of_the_target():
    applied = fit_to_nineteen_errors().apply(NEWCOMERS, bounds=(0.0, 40.0))
    assert applied["lower"].tolist() == [0.0, 12.0, 0.0]
    assert applied["upper"].tolist() == [23.0, 40.0, 3.0]


def test_a_target_that_was_not_calibrated_has_no_interval():
    applied = fit_to_nineteen_errors().apply(NEWCOMERS, "other")
    assert applied[["lower", "upper"]].isna().all(axis=None)


def between_quantiles(last: float) -> pd.DataFrame:
    """Return samples between the quantiles 0 and 20, by 1 to 8, and one more."""
    table = predictions_of(np.r_[np.arange(1.0, 9.0), last], 10.0, np.arange(9) % 3)
    return table.assign(**{"quantile:0.05": 0.0, "quantile:0.95": 20.0})


@pytest.mark.parametrize(
    ("last", "threshold", "intervals"),
    [
        # A sample lies outside by 2: nine of ten are covered if both ends move out as far.
        (-2.0, 2.0, [[-2, 22], [-2, 3.5]]),
        # All lie inside by at least 1. Ends that pass each other meet in the middle.
        (3.0, -1.0, [[1, 19], [0.75, 0.75]]),
    ],
)
def test_quantiles_are_moved_until_they_cover_nine_of_ten(last, threshold, intervals):
    calibration = Calibration.fit(between_quantiles(last))
    assert (calibration.method, dict(calibration.thresholds)) == ("quantile", {"": threshold})
    frame = pd.DataFrame({"predicted": [10.0, 1.0], "quantile:0.05": 0.0})
    frame["quantile:0.95"] = [20.0, 1.5]
    assert calibration.apply(frame)[["lower", "upper"]].to_numpy().tolist() == intervals


def test_one_quantile_alone_bounds_no_interval():
    table = between_quantiles(-2.0).drop(columns="quantile:0.95")
    assert Calibration.fit(table).method == "residual"


def three_samples() -> pd.DataFrame:
    shares = np.array([[0.25, 0.75], [0.5, 0.5], [0.1, 0.9]])
    return predictions_of(["a", "b", "b"], "b", [0, 1, 2], shares, ["a", "b"])


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.8, ["a|b", "a|b", "b"]), (0.05, ["b", "a", "b"])]
)
def test_sets_take_what_is_likely_enough_and_the_likeliest(threshold, expected):
    recalibration = Recalibration(slope=1.0, intercept_C=np.zeros(2))
    calibration = Calibration("set", {"": threshold}, recalibration)
    applied = calibration.apply(three_samples())
    assert applied["prediction_set"].tolist() == expected
    assert applied["likeliest"].tolist() == ["b", "a", "b"]
    assert not calibration.has_learned_nothing


def test_with_a_slope_of_zero_every_sample_gets_the_same_probabilities():
    nothing = Calibration("set", {"": 0.8}, Recalibration(0.0, np.zeros(2)))
    assert nothing.has_learned_nothing
    assert nothing.apply(three_samples())["probability:a"].tolist() == [0.5] * 3


def test_the_threshold_of_sets_is_what_the_true_class_lacks_of_one():
    table = classes(48)
    calibration = Calibration.fit(table)
    scored = table[table["fold"] >= 0]
    shares = scored[[f"probability:{name}" for name in CLASSES]].to_numpy()
    ids = scored["sample-id"]
    recalibration = Recalibration.fit(scored["observed"], shares, CLASSES, ids)
    shares = recalibration.apply(shares)
    missing = sorted(
        1 - share[CLASSES.index(name)]
        for share, name in zip(shares, scored["observed"], strict=True)
    )
    # Of 40 samples, ceil(41 * 0.9) = 37 have to be covered.
    assert len(missing) == 40
    assert calibration.thresholds[""] == pytest.approx(missing[36])


def test_samples_of_a_group_count_less_than_samples_of_their_own():
    table = pd.concat([rare(60, signal=1.0)] * 4, ignore_index=True)
    table["sample-id"] = [f"s{number}" for number in range(240)]
    alone = fit_recalibration(table, RARE).slope
    grouped = fit_recalibration(table.assign(group=np.tile(np.arange(60), 4)), RARE).slope
    assert grouped < 0.95 * alone


def test_probabilities_and_the_constant_of_a_fold_are_those_of_a_fit_to_the_others():
    table = classes(90)
    calibrated_NC, constant_NC = calibrated_probabilities(table, CLASSES)
    fold = table["fold"].to_numpy()
    shares = table[[f"probability:{name}" for name in CLASSES]].to_numpy()
    # Fold -1 is not learned from either.
    for number in (-1, 0, 4):
        others = (fold != number) & (fold >= 0)
        observed = table["observed"][others]
        fitted = Recalibration.fit(observed, shares[others], CLASSES, np.flatnonzero(others))
        np.testing.assert_allclose(
            calibrated_NC[fold == number], fitted.apply(shares[fold == number])
        )
        frequencies = class_frequencies(observed, CLASSES)
        assert (constant_NC[fold == number] == frequencies).all()


AGE = Target(kind="regression", columns=("age",), classes=(), loss="mae")
BOTH = Target(kind="regression", columns=("age", "bmi"), classes=(), loss="mae")
SURE = Target(kind="regression", columns=("age",), classes=(), loss="quantile")
SITE = Target(kind="classification", columns=("site",), classes=("a", "b", "c"), loss="ce")


def with_quantiles() -> pd.DataFrame:
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    return residual(60).assign(**{f"quantile:{level}": level for level in levels})


def two_targets() -> pd.DataFrame:
    return pd.concat([residual(30).assign(target=name) for name in ("age", "bmi")])


@pytest.mark.parametrize(
    ("table", "target", "options"),
    [
        pytest.param(residual(60), AGE, {}, id="a number"),
        pytest.param(two_targets(), BOTH, {}, id="two numbers"),
        pytest.param(with_quantiles(), SURE, {}, id="quantiles"),
        pytest.param(residual(60), SURE, {"quantiles": False}, id="quantiles are not asked for"),
        pytest.param(classes(60), SITE, {}, id="classes"),
    ],
)
def test_a_directory_is_calibrated_by_its_predictions(tmp_path, caplog, table, target, options):
    write_predictions(tmp_path / CROSS_VALIDATION, table)
    calibration = load_calibration(tmp_path, target, **options)
    expected = Calibration.fit(table)
    assert calibration.method == expected.method
    assert calibration.thresholds == pytest.approx(expected.thresholds)
    assert not caplog.records


@pytest.mark.parametrize(
    ("table", "target"),
    [
        pytest.param(residual(60), SURE, id="no quantiles"),
        pytest.param(with_quantiles().drop(columns="quantile:0.5"), SURE, id="no median"),
        pytest.param(residual(60), SITE, id="a number for classes"),
        pytest.param(classes(60).drop(columns="probability:b"), SITE, id="a class is missing"),
        pytest.param(residual(60), BOTH, id="one target of two"),
        pytest.param(two_targets(), AGE, id="two targets for one"),
        pytest.param(two_targets().replace("bmi", "weight"), BOTH, id="another target"),
    ],
)
def test_predictions_of_another_task_are_refused(tmp_path, table, target):
    write_predictions(tmp_path / CROSS_VALIDATION, table)
    with refused("those of another task"):
        load_calibration(tmp_path, target)


def test_intervals_are_left_out_where_predictions_are_missing(tmp_path, caplog):
    assert load_calibration(tmp_path, AGE) is None
    assert "is missing: intervals are left out" in caplog.text


def test_intervals_from_eight_samples_are_infinite(tmp_path, caplog):
    table = residual(11).assign(fold=[0, 1] * 4 + [-1] * 3)
    write_predictions(tmp_path / CROSS_VALIDATION, table)
    assert load_calibration(tmp_path, AGE).thresholds == {"": math.inf}
    assert "too few samples in the other folds for intervals of 90 %" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("fold\tobserved\nx\t1\n", id="a fold is no number"),
        pytest.param("observed\tpredicted\n1\t1\n", id="no folds"),
        pytest.param("", id="empty"),
    ],
)
def test_a_file_that_is_no_table_of_predictions_is_refused(tmp_path, text):
    (tmp_path / CROSS_VALIDATION).write_text(text)
    with refused("no such table"):
        load_calibration(tmp_path, AGE)
