import logging
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import predictions_of

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
from aam.util.errors import InputError

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


def test_intervals_reach_as_far_as_nine_of_ten_errors_by_hand():
    # 19 errors from 1 to 19: the 18th of them covers nine tenths of the next. Fold -1 is not used.
    errors = np.arange(1.0, 20.0) * np.where(np.arange(19) % 2, -1, 1)
    table = predictions_of(np.r_[errors, 1000.0], 0.0, np.r_[np.arange(19) % 3, -1])
    calibration = Calibration.fit(table)
    assert (calibration.method, dict(calibration.thresholds)) == ("residual", {"": 18.0})
    assert not calibration.has_learned_nothing
    frame = pd.DataFrame({"predicted": [5.0, 30.0, -15.0]})
    applied = calibration.apply(frame, bounds=(0.0, 40.0))
    assert applied["lower"].tolist() == [0.0, 12.0, 0.0]
    assert applied["upper"].tolist() == [23.0, 40.0, 3.0]
    # Without bounds nothing is cut, and a target that was not calibrated has no ends.
    assert calibration.apply(frame)["lower"].tolist() == [-13.0, 12.0, -33.0]
    assert calibration.apply(frame, "other")[["lower", "upper"]].isna().all(axis=None)


def test_quantiles_are_moved_out_or_in_by_hand():
    # The distance to the nearer quantile: 1 to 8 within, of negative sign, and 2 outside of it.
    observed = np.r_[np.arange(1.0, 9.0), -2.0]
    table = predictions_of(observed, 10.0, np.arange(9) % 3)
    table = table.assign(**{"quantile:0.05": 0.0, "quantile:0.95": 20.0})
    calibration = Calibration.fit(table)
    assert (calibration.method, dict(calibration.thresholds)) == ("quantile", {"": 2.0})
    within = Calibration.fit(table.assign(observed=np.r_[np.arange(1.0, 9.0), 3.0]))
    assert dict(within.thresholds) == {"": -1.0}
    frame = pd.DataFrame({"predicted": [10.0, 1.0], "quantile:0.05": 0.0})
    frame["quantile:0.95"] = [20.0, 1.5]
    assert calibration.apply(frame)[["lower", "upper"]].to_numpy().tolist() == [[-2, 22], [-2, 3.5]]
    # Ends that pass each other meet in the middle.
    expected = [[1, 19], [0.75, 0.75]]
    assert within.apply(frame)[["lower", "upper"]].to_numpy().tolist() == expected
    # One quantile alone bounds no interval.
    assert Calibration.fit(table.drop(columns="quantile:0.95")).method == "residual"


def test_sets_take_what_is_as_likely_as_the_threshold_and_the_likeliest():
    recalibration = Recalibration(slope=1.0, intercept_C=np.zeros(2))
    shares = np.array([[0.25, 0.75], [0.5, 0.5], [0.1, 0.9]])
    table = predictions_of(["a", "b", "b"], "b", [0, 1, 2], shares, ["a", "b"])
    for threshold, expected in ((0.8, ["a|b", "a|b", "b"]), (0.05, ["b", "a", "b"])):
        calibration = Calibration("set", {"": threshold}, recalibration)
        applied = calibration.apply(table)
        assert applied["prediction_set"].tolist() == expected
        assert applied["likeliest"].tolist() == ["b", "a", "b"]
        assert not calibration.has_learned_nothing
    nothing = Calibration("set", {"": 0.8}, Recalibration(0.0, np.zeros(2)))
    assert nothing.has_learned_nothing
    assert nothing.apply(table)["probability:a"].tolist() == [0.5] * 3


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
    # Of 40 samples, ceil(41 * 0.9) = 37.
    assert len(missing) == 40
    assert calibration.thresholds[""] == pytest.approx(missing[36])


def test_groups_of_a_table_say_which_samples_are_alike():
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


def of_two_targets() -> pd.DataFrame:
    return pd.concat([residual(30).assign(target=name) for name in ("age", "bmi")])


@pytest.mark.parametrize(
    ("table", "target", "options"),
    [
        (residual(60), AGE, {}),
        (of_two_targets(), BOTH, {}),
        (with_quantiles(), SURE, {}),
        (residual(60), SURE, {"quantiles": False}),
        (classes(60), SITE, {}),
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
        (residual(60), SURE),
        (with_quantiles().drop(columns="quantile:0.5"), SURE),
        (residual(60), SITE),
        (classes(60).drop(columns="probability:b"), SITE),
        (residual(60), BOTH),
        (of_two_targets(), AGE),
        (of_two_targets().replace("bmi", "weight"), BOTH),
    ],
)
def test_predictions_of_another_task_are_refused(tmp_path, table, target):
    write_predictions(tmp_path / CROSS_VALIDATION, table)
    with pytest.raises(InputError, match="those of another task"):
        load_calibration(tmp_path, target)


def test_a_directory_with_few_predictions_or_none_or_another_file(tmp_path, caplog):
    path = tmp_path / CROSS_VALIDATION
    assert load_calibration(tmp_path, AGE) is None
    assert "is missing: intervals are left out" in caplog.text
    caplog.clear()
    write_predictions(path, residual(11).assign(fold=[0, 1] * 4 + [-1] * 3))
    assert load_calibration(tmp_path, AGE).thresholds == {"": math.inf}
    assert "too few samples in the other folds for intervals of 90 %" in caplog.text
    for text in ("fold\tobserved\nx\t1\n", "observed\tpredicted\n1\t1\n", ""):
        path.write_text(text)
        with pytest.raises(InputError, match="no such table"):
            load_calibration(tmp_path, AGE)
