"""What else predicts a target: columns of the metadata, and numbers of each sample."""

import numpy as np
import pandas as pd
import pytest
from reference_statistics import median_elsewhere
from scipy import stats

from aam.data.confounding import (
    Levels,
    Observed,
    bins_of_number,
    list_others,
    list_rivals,
    measure_alone,
    predict_numbers,
)
from aam.data.folds import units_of
from aam.data.roles import is_technical

SAMPLES = 60
IDS = [f"s{i}" for i in range(SAMPLES)]
NUMBER = np.arange(SAMPLES)
CLASSES = pd.Series(np.where(NUMBER % 2, "ill", "well"), index=IDS)
AGES = pd.Series(20.0 + 10 * (NUMBER % 5), index=IDS)
FOLD = NUMBER // 2 % 5


def observed_of(target, *, kind="classification", fold=FOLD, groups=None):
    group = pd.Series("", index=target.index) if groups is None else groups
    units = units_of(group).to_numpy()
    return Observed.from_values(target, kind=kind, fold=np.asarray(fold), units=units)


def measured(target, column, *, name="plate", **changes):
    """Return what a column alone says of a target; None: it cannot say anything."""
    metadata = pd.DataFrame({name: np.asarray(column, dtype=object)}, index=target.index)
    rivals = list_rivals(metadata, targets=["target"])
    scores = measure_alone(observed_of(target, **changes), rivals, seed=0)
    return scores[0] if scores else None


def exactness(*given, **changes):
    score = measured(*given, **changes)
    return score and score.exactness


def test_a_plate_that_predicts_the_classes_exactly_or_nearly():
    plate = np.where(NUMBER % 2, "p1", "p2")
    found = measured(CLASSES, plate)
    assert (found.score, found.guessing, found.exactness) == (1.0, 0.5, "exactly")
    assert found.predicts
    plate[:4] = "p1"
    nearly = measured(CLASSES, plate)
    assert nearly.exactness == "nearly"
    assert nearly.score == pytest.approx((28 / 30 + 1) / 2)
    plate[:20] = "p1"
    partly = measured(CLASSES, plate)
    assert partly.exactness is None, "two thirds of the well ones are on their own plate"
    assert partly.predicts
    assert partly.score == pytest.approx((20 / 30 + 1) / 2)
    several = [f"{one} {number % 5}" for number, one in enumerate(np.where(NUMBER % 2, "a", "b"))]
    fold = NUMBER // 10 % 5
    assert exactness(CLASSES, several, fold=fold) == "exactly", "ten plates of six"


def test_numbers_that_are_constant_in_a_batch():
    batch = [f"b{number}" for number in NUMBER % 5]
    fold = NUMBER // 12
    assert exactness(AGES, batch, kind="regression", fold=fold) == "exactly"
    noisy = AGES + np.random.default_rng(0).normal(0, 3, SAMPLES)
    found = measured(noisy, batch, kind="regression", fold=fold)
    assert found.exactness == "nearly"
    assert 0 < found.score < 4 < found.guessing, "errors in years"
    wide = AGES + np.random.default_rng(0).normal(0, 20, SAMPLES)
    found = measured(wide, batch, kind="regression", fold=fold)
    assert found.exactness is None
    assert found.predicts
    assert found.score < found.guessing


def test_a_column_with_nearly_as_many_values_as_samples_predicts_nothing():
    assert measured(CLASSES, IDS, name="barcode") is None
    pairs = [f"b{number}" if number < 40 else CLASSES.iloc[number] for number in NUMBER]
    assert exactness(CLASSES, pairs, name="barcode") is None


def test_chance_raises_no_alarm():
    """Twenty columns that are drawn at random for 40 people, some of them by person: 12 draws."""
    person = NUMBER * 40 // SAMPLES
    groups = pd.Series([f"p{one}" for one in person], index=IDS)
    alarms = {"classification": 0, "regression": 0}
    for draw in range(12):
        rng = np.random.default_rng(draw)
        columns = {}
        for number in range(20):
            levels = [2, 5, 12][number % 3]
            by_person = rng.integers(levels, size=40)[person]
            by_sample = rng.integers(levels, size=SAMPLES)
            columns[f"plate {number}"] = np.where(number % 2, by_person, by_sample).astype(str)
        rivals = list_rivals(pd.DataFrame(columns, index=IDS), targets=["target"])
        classes = pd.Series(np.where(rng.random(40) < 0.4, "ill", "well")[person], index=IDS)
        ages = pd.Series(rng.normal(size=40)[person] + 0.3 * rng.normal(size=SAMPLES), index=IDS)
        for kind, target in {"classification": classes, "regression": ages}.items():
            observed = observed_of(target, kind=kind, fold=person % 5, groups=groups)
            found = measure_alone(observed, rivals, seed=draw)
            alarms[kind] += any(one.predicts or one.exactness for one in found)
    # Of 24 draws 5 % are expected to have one; each column without a correction would give 15.
    assert sum(alarms.values()) <= 4


def test_a_sample_is_never_predicted_by_its_own_group():
    """Twelve people of five samples: each has one class, and a plate of their own."""
    person = pd.Series([f"person {number // 5}" for number in NUMBER], index=IDS)
    diagnosis = pd.Series(np.where(NUMBER // 5 % 2, "ill", "well"), index=IDS)
    assert exactness(diagnosis, person, fold=NUMBER % 5) == "exactly"
    fold = NUMBER // 5 % 6
    assert not measured(diagnosis, person, fold=fold, groups=person).skill > 0
    center = np.where(NUMBER // 5 % 2, "north", "south")
    found = measured(diagnosis, center, name="center", fold=NUMBER // 10, groups=person)
    assert found.exactness == "exactly"


def test_sixty_samples_of_two_people_are_no_evidence():
    """Two people alone: whatever is constant in each of them seems to be related."""
    person = pd.Series(np.where(NUMBER < 30, "a", "b"), index=IDS)
    target = pd.Series(np.where(NUMBER < 30, "ill", "well"), index=IDS)
    sex = np.where(NUMBER < 30, "f", "m")
    assert not measured(target, sex, name="sex", fold=NUMBER % 5, groups=person).predicts
    assert measured(target, sex, name="sex", fold=NUMBER % 5).predicts, "sixty people"


def test_what_differs_within_two_people_is_evidence():
    """As on the first day of two people, on which both took antibiotics."""
    person = pd.Series(np.where(NUMBER < 30, "a", "b"), index=IDS)
    day = NUMBER % 5
    target = pd.Series(np.where(day == 0, "yes", "no"), index=IDS)
    fold = NUMBER // 30
    found = measured(target, (7 * day).astype(str), name="day", fold=fold, groups=person)
    assert found.exactness == "exactly"
    assert found.predicts
    drawn = np.random.default_rng(0).permutation(day).astype(str)
    assert not measured(target, drawn, name="day", fold=fold, groups=person).predicts


def test_a_plate_that_all_of_a_rare_class_are_on_is_found():
    """Of 60 samples 6 are ill; their plate has 5 others: most on it are ill, and all ill are."""
    rare = pd.Series(np.where(NUMBER < 6, "ill", "well"), index=IDS)
    found = measured(rare, np.where(NUMBER < 11, "p1", "p2"), fold=NUMBER % 3)
    assert found.exactness == "nearly"
    assert found.score == pytest.approx((1 + 49 / 54) / 2)


def test_a_value_that_is_missing_in_one_class_alone_predicts_it():
    run = np.where(NUMBER % 2, "r1", None)
    assert exactness(CLASSES, run, name="sequencing_run") == "exactly"


def test_rivals_are_technical_columns_circumstances_and_reads_but_no_names_of_the_target():
    columns = (
        "age month_of_birth SEQ plate delivery sex Patient_Sex antibiotic_use severity sample_title"
    )
    few = [str(number % 3) for number in NUMBER]
    metadata = pd.DataFrame(dict.fromkeys(columns.split(), few), index=IDS)
    reads = pd.Series(NUMBER, index=IDS)
    rivals = list_rivals(metadata, targets=["age"], numbers={"reads": reads})
    roles = {rival.name: rival.role for rival in rivals}
    assert roles == {
        "SEQ": "technical",
        "plate": "technical",
        "delivery": "circumstance",
        "sex": "circumstance",
        "Patient_Sex": "circumstance",
        "antibiotic_use": "circumstance",
        "reads": "reads",
    }
    others = {other.name for other in list_others(metadata, targets=["age"])}
    assert others == {"month_of_birth", "severity", "sample_title"}


def roles_of(columns, target="day"):
    """Return the role of each column that may say a target, or is another name of it."""
    metadata = pd.DataFrame(columns, index=IDS).astype(object)
    given = [*list_rivals(metadata, targets=[target]), *list_others(metadata, targets=[target])]
    return {one.name: one.role for one in given}


def test_a_study_id_that_divides_samples_as_people_do_is_no_batch():
    person = np.array([f"{number % 12}" for number in NUMBER])
    sex = np.where(NUMBER % 12 < 7, "f", "m")
    assert roles_of({"studyid": person, "sex": sex})["studyid"] == "other"
    assert roles_of({"studyid": person, "host_subject_id": person})["studyid"] == "other"
    # Nothing is known of people, these differ in what people do not, or several are in a study.
    assert roles_of({"studyid": person})["studyid"] == "technical"
    mixed = np.where(NUMBER // 12 % 2, "f", "m")
    assert roles_of({"studyid": person, "sex": mixed})["studyid"] == "technical"
    hosts = np.array([f"h{number % 12}-{number // 12 % 2}" for number in NUMBER])
    columns = {"studyid": person, "sex": sex, "host_subject_id": hosts}
    assert roles_of(columns)["studyid"] == "technical"


def test_a_plate_for_each_sex_is_a_batch_and_a_plate_for_each_person_is_the_person():
    person = np.array([f"p{number % 12}" for number in NUMBER])
    sex = np.where(NUMBER % 12 < 7, "f", "m")
    plate = np.array([f"{number % 12 // 2}" for number in NUMBER])
    assert roles_of({"plate": plate, "host": person})["plate"] == "technical"
    assert roles_of({"plate": sex, "sex": sex, "host": person})["plate"] == "technical"
    assert roles_of({"plate": person, "sex": sex})["plate"] == "technical"
    assert roles_of({"plate": person, "host": person})["plate"] == "other"


def test_numbers_are_levels_of_about_as_many_samples_and_missing_ones_are_one_of_their_own():
    number = np.arange(100.0)
    number[:7] = np.nan
    bins, sizes = np.unique(
        bins_of_number(np.random.default_rng(0).permutation(number)), return_counts=True
    )
    assert len(bins) == 10
    assert sizes.tolist() == [11, 10, 10, 11, 10, 10, 11, 10, 10, 7]
    hundred = np.random.default_rng(1).permutation(np.arange(100.0))
    assert np.bincount(bins_of_number(hundred)).tolist() == [10] * 10
    assert len(np.unique(bins_of_number(np.arange(25.0)))) == 2, "of at least ten each"
    assert np.unique(bins_of_number(np.full(50, 3.0))).tolist() == [0]
    assert bins_of_number(np.array([0.0, 7.0, np.nan, 7.0, 3.0])).tolist() == [0, 2, 3, 2, 1]
    ages = [f"{value:.1f}" for value in np.linspace(1, 80, SAMPLES)]
    ill = pd.Series(np.where(NUMBER < 30, "ill", "well"), index=IDS)
    found = measured(ill, ages, name="age", fold=NUMBER % 5)
    assert found.score == pytest.approx(0.9, abs=0.11)


def test_of_few_samples_nothing_is_said():
    few = pd.Series(["a", "b"] * 4)
    assert measured(few, few, fold=np.arange(8) // 2) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(
            (name, True)
            for name in (
                *("run", "Run_ID", "run_prefix", "sequencing_run", "plate", "PlateNumber", "batch"),
                *("extraction_kit", "BarcodeSequence", "LinkerPrimerSequence", "center_name"),
                *("centre", "run_center", "qiita_study_id", "study", "instrument_model", "lane"),
            )
        ),
        *(
            (name, False)
            for name in (
                *("platelets", "template", "airplane", "trunk_fat", "running_km", "consequence"),
                *("study_arm", "study_group", "city", "percent_fat", "brunch", "centered_age"),
            )
        ),
    ],
)
def test_technical_columns_are_known_by_their_names(name, expected):
    assert is_technical(name) == expected


def test_a_number_is_predicted_by_the_median_of_its_level_in_other_folds():
    rng = np.random.default_rng(0)
    value, level = rng.normal(size=SAMPLES), rng.integers(12, size=SAMPLES)
    # A level of one sample has nothing in other folds: there all samples predict it.
    level[7] = 12
    expected = median_elsewhere(value, level, FOLD)
    np.testing.assert_allclose(predict_numbers(value, level, FOLD), expected)


def levels_of(level, role="technical"):
    return Levels("plate", role, np.asarray(level))


def test_a_rival_of_numbers_is_scored_by_errors_and_is_nearly_exact_by_squares():
    rng = np.random.default_rng(1)
    level = rng.integers(4, size=SAMPLES)
    value = 50 + 10.0 * level + rng.normal(0, 4, SAMPLES)
    fold = np.repeat([0, 1, 2], [10, 20, 30])
    target = pd.Series(value, IDS)
    (found,) = measure_alone(
        observed_of(target, kind="regression", fold=fold), [levels_of(level)], seed=0
    )
    guess = median_elsewhere(value, np.zeros(SAMPLES), fold)
    predicted = median_elsewhere(value, level, fold)
    score, guessing = (
        np.mean([np.abs(value - one)[fold == number].mean() for number in range(3)])
        for one in (predicted, guess)
    )
    assert found.score == pytest.approx(score)
    assert found.guessing == pytest.approx(guessing)
    assert found.skill == pytest.approx(1 - score / guessing)
    fit = 1 - ((value - predicted) ** 2).sum() / ((value - guess) ** 2).sum()
    assert found.exactness == ("nearly" if fit >= 0.8 else None)
    assert found.p == 1 / 2000, "of 1999 draws and the study, the study alone is as much related"
    assert (found.name, found.role) == ("plate", "technical")


@pytest.mark.parametrize(("wrong", "expected"), [(2, "nearly"), (3, "nearly"), (4, None)])
def test_a_plate_is_nearly_exact_from_four_fifths_of_the_way_to_perfect_on(wrong, expected):
    """Where 2 w of the thirty of a class are on the other plate, the skill is 1 - 2 w / 30."""
    level = NUMBER % 2
    level[: 4 * wrong : 2] = 1
    found = measured(CLASSES, level.astype(str))
    assert found.skill == pytest.approx(1 - 2 * wrong / 30)
    assert found.exactness == expected


def test_a_level_predicts_the_class_of_which_it_holds_the_larger_share():
    """Six of the ten who are ill are on a plate, and ten of the fifty others."""
    rare = pd.Series(np.where(NUMBER < 10, "ill", "well"), IDS)
    plate = np.where((NUMBER < 6) | (NUMBER >= 50), "p1", "p2")
    found = measured(rare, plate, fold=NUMBER % 5)
    assert found.score == pytest.approx((6 / 10 + 40 / 50) / 2)


def test_a_level_that_holds_as_much_of_each_class_is_right_for_a_half():
    even = np.where(NUMBER // 2 % 2, "p1", "p2")
    found = measured(CLASSES, even, fold=NUMBER // 4 % 5)
    assert (found.score, found.skill) == (0.5, 0.0)
    assert not found.predicts


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_p_values_are_near_those_of_the_tests_for_independent_samples(kind):
    """A permutation test and an approximation of sixty samples agree to about a third."""
    rng = np.random.default_rng(3)
    for strength in (0.0, 0.4, 0.7):
        level = rng.integers(3, size=SAMPLES)
        noise = strength * level + rng.normal(size=SAMPLES)
        value = noise if kind == "regression" else np.where(noise > np.median(noise), "a", "b")
        observed = observed_of(pd.Series(value, IDS), kind=kind)
        (found,) = measure_alone(observed, [levels_of(level)], seed=0)
        if kind == "regression":
            expected = stats.kruskal(*(value[level == one] for one in range(3))).pvalue
        else:
            expected = stats.chi2_contingency(pd.crosstab(level, value)).pvalue
        assert found.p == pytest.approx(expected, abs=0.05, rel=0.3)


def test_p_values_are_corrected_for_the_rivals_that_are_measured_together():
    rng = np.random.default_rng(4)
    level = np.where(rng.random(SAMPLES) < 0.3, NUMBER % 2, rng.integers(2, size=SAMPLES))
    observed = observed_of(CLASSES)
    (alone,) = measure_alone(observed, [levels_of(level)], seed=0)
    noise = [levels_of(rng.integers(2, size=SAMPLES)) for _ in range(2)]
    first, *others = measure_alone(observed, [levels_of(level), *noise], seed=0)
    # The rivals have draws of their own, so that p-values differ a little.
    assert first.p == pytest.approx(3 * alone.p, rel=0.25, abs=0.003)
    assert all(other.p == 1.0 for other in others if other.skill <= 0)
    assert measure_alone(observed, [levels_of(level)], seed=0) == [alone], "it is seeded"


def test_without_rivals_or_with_a_constant_target_nothing_is_measured():
    rivals = [levels_of(NUMBER % 2)]
    assert measure_alone(observed_of(CLASSES), [], seed=0) == []
    constant = observed_of(pd.Series(1.0, IDS), kind="regression")
    assert measure_alone(constant, rivals, seed=0) == []


def test_ten_samples_are_enough_to_be_measured():
    for size, found in ((10, 1), (9, 0)):
        target = pd.Series(np.where(np.arange(size) % 2, "a", "b"))
        observed = observed_of(target, fold=np.arange(size) // 2)
        assert len(measure_alone(observed, [levels_of(np.arange(size) % 2)], seed=0)) == found


@pytest.mark.parametrize(("levels", "is_listed"), [(1, False), (2, True), (48, True), (49, False)])
def test_a_column_is_a_rival_where_its_levels_repeat(levels, is_listed):
    """One level says nothing, and more than four fifths of the sixty samples are too many."""
    metadata = pd.DataFrame({"plate": [f"p{number % levels}" for number in NUMBER]}, IDS)
    assert bool(list_rivals(metadata, targets=[])) == is_listed


def test_ten_different_numbers_are_levels_and_more_are_binned():
    assert len(np.unique(bins_of_number(np.tile(np.arange(10.0), 3)))) == 10
    # Thirty samples of eleven numbers make three bins of about ten.
    eleven = np.append(np.tile(np.arange(10.0), 3)[:29], 10.0)
    assert np.bincount(bins_of_number(eleven)).min() >= 9
    assert len(np.unique(bins_of_number(eleven))) == 3


def test_a_number_that_most_samples_have_is_a_bin_by_itself():
    mostly = np.append(np.full(90, 20.0), np.arange(11.0))
    assert np.bincount(bins_of_number(mostly)).tolist() == [11, 90]
