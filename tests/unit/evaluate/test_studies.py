"""Scores by study: what they ask, and what has none."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from reference_statistics import (
    compare_errors,
    compare_share,
    effective_number,
    median_elsewhere,
)

from aam.evaluate.studies import compare_studies
from aam.evaluate.task_report import Studies

STUDIES = 6
SIZE = 20


def samples(observed, predicted, study, fold=None) -> pd.DataFrame:
    names = [f"s{i}" for i in range(len(observed))]
    folds = np.unique(study, return_inverse=True)[1] if fold is None else fold
    columns = {"sample-id": names, "fold": folds, "observed": observed, "predicted": predicted}
    return pd.DataFrame(columns)


def compare(within: pd.DataFrame, unseen: pd.DataFrame, study, kind="classification"):
    names = within["sample-id"].tolist()
    return compare_studies(
        kind,
        "cohort",
        within=within,
        unseen=unseen,
        group=pd.Series("", names),
        study=pd.Series(study, names),
    )


@pytest.fixture
def study() -> np.ndarray:
    return np.repeat([f"study{s}" for s in range(STUDIES)], SIZE)


def test_recognizing_studies_with_many_cases_gains_nothing(study):
    # In half of the studies, three in four samples are cases; the model knows that half.
    is_rich = np.repeat([True, False] * (STUDIES // 2), SIZE)
    place = np.arange(len(study)) % SIZE
    truth = np.where(place < np.where(is_rich, 15, 5), "case", "control")
    guess = np.where(is_rich, "case", "control")
    assert (truth == guess).mean() == 0.75
    table = samples(truth, guess, study)
    found = compare(table, table, study)
    assert found.unseen.score == pytest.approx(0.5)
    assert found.within.score == pytest.approx(0.5)
    assert found.unseen.guessing.p == 1.0
    assert found.unseen.guessing.interval is None, "there is no spread to make one of"


def test_studies_count_alike_and_are_the_units_of_the_second_score(study):
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(len(study)) % 2, "case", "control")
    flipped = np.where(truth == "case", "control", "case")
    # Every second study is predicted right, the others as if labels were exchanged.
    is_right = np.repeat([True, False] * (STUDIES // 2), SIZE)
    good = np.where(rng.random(len(study)) < 0.9, truth, flipped)
    found = compare(
        samples(truth, good, study),
        samples(truth, np.where(is_right, truth, flipped), study),
        study,
    )
    assert found.unseen.score == pytest.approx(0.5)
    low, high = found.unseen.guessing.interval
    assert high - low > 0.8, "six studies that contradict each other say nothing"
    low, high = found.within.guessing.interval
    assert 0.7 < low < found.within.score < high < 0.97, "120 samples are many"
    assert [one.unseen for one in found.studies] == pytest.approx([1.0, 0.0] * (STUDIES // 2))


def test_perfect_scores_of_studies_of_any_sizes_are_tested():
    """Weights of studies may sum to a little more than 1."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        study = np.repeat([f"study{s}" for s in range(7)], rng.integers(4, 30, 7))
        truth = np.where(rng.random(len(study)) < 0.4, "case", "control")
        table = samples(truth, truth, study)
        found = compare(table, table, study).unseen
        assert found.score == pytest.approx(1.0)
        assert found.guessing.p is None or 0 < found.guessing.p < 0.2


def test_studies_that_are_all_as_good_are_tested_as_if_one_sample_differed(study):
    """The same share in each study has no spread, and is no proof."""
    place = np.arange(len(study)) % SIZE
    truth = np.where(place % 2, "case", "control")
    # A quarter of each class is wrong.
    is_right = place % 8 > 1
    guess = np.where(is_right, truth, np.where(truth == "case", "control", "case"))
    table = samples(truth, guess, study)
    found = compare(table, table, study).unseen
    assert 0 < found.guessing.p < 0.05
    low, high = found.guessing.interval
    assert 0.5 < low < found.score <= high
    few = place < 4
    found = compare(table[few], table[few], study[few]).unseen
    assert found.guessing.p > 1e-4


def test_a_study_of_one_class_has_no_score_and_changes_none(study):
    truth = np.where(np.arange(len(study)) % 2, "case", "control")
    truth[:SIZE] = "case"
    guess = truth.copy()
    guess[:SIZE] = "control"
    table = samples(truth, guess, study)
    found = compare(table, table, study)
    alone = next(one for one in found.studies if one.study == "study0")
    assert (alone.n, alone.unseen, alone.within) == (SIZE, None, None)
    assert found.unseen.score == pytest.approx(1.0)
    assert len(found.scored) == STUDIES - 1
    assert 0 < found.unseen.guessing.p < 0.05, "one sample that differs would leave it so"


def test_few_studies_have_scores_but_neither_interval_nor_test(study):
    few = study[: 4 * SIZE]
    truth = np.where(np.arange(len(few)) % 2, "case", "control")
    table = samples(truth, truth, few)
    found = compare(table, table, few)
    assert found.unseen.score == pytest.approx(1.0)
    assert found.unseen.guessing.p is None
    assert found.unseen.guessing.interval is None
    assert found.within.guessing.interval is not None


def test_numbers_are_guessed_by_their_study_only_where_it_was_seen(study):
    rng = np.random.default_rng(1)
    level = np.repeat(10.0 * np.arange(STUDIES), SIZE)
    observed = level + rng.normal(size=len(study))
    table = samples(observed, level, study, fold=np.arange(len(study)) % 4)
    unseen = samples(observed, observed.mean() + 0 * level, study)
    found = compare(table, unseen, study, kind="regression")
    assert found.within.guessing.score < 1.2, "the median of the study is near"
    assert found.unseen.guessing.score > 10.0, "other studies are far"
    assert found.within.guessing.difference > -0.2, "to know the level of a study is guessing"
    assert found.unseen.score > 10.0


def test_guessing_knows_no_study_that_is_left_out_together_with_the_one_it_guesses(study):
    level = np.repeat(10.0 * (np.arange(STUDIES) // 2), SIZE)
    table = samples(level, level, study, fold=np.arange(len(study)) % 4)
    unseen = samples(level, level, study, fold=np.repeat(np.arange(STUDIES) // 2, SIZE))
    found = compare(table, unseen, study, kind="regression")
    assert [one.guessing for one in found.studies] == pytest.approx([15, 15, 0, 0, 15, 15])


def test_samples_set_aside_for_testing_take_no_part(study):
    truth = np.where(np.arange(len(study)) % 2, "case", "control")
    fold = np.unique(study, return_inverse=True)[1]
    fold[:5] = -1
    table = samples(truth, truth, study, fold)
    found = compare(table, samples(truth, truth, study), study)
    assert sum(one.n for one in found.studies) == len(study) - 5


@dataclass(frozen=True)
class TwoAnswers:
    """Cases and controls of six studies, predicted with samples of their study and without."""

    report: Studies
    study: np.ndarray
    """Number of the study of each sample."""
    truth: np.ndarray
    weight: np.ndarray
    """Share of each sample in a score in which studies, and the classes of a study, count alike."""
    is_right: dict[str, np.ndarray]
    """By answer, whether each sample is predicted right."""


@pytest.fixture(scope="module")
def two_answers() -> TwoAnswers:
    rng = np.random.default_rng(3)
    sizes = [30, 24, 18, 12, 12, 6]
    code = np.repeat(np.arange(6), sizes)
    truth = np.where(rng.random(102) < 0.3, "case", "control")
    flipped = np.where(truth == "case", "control", "case")
    known, new = (np.where(rng.random(102) < share, truth, flipped) for share in (0.9, 0.7))
    names = [f"s{i}" for i in range(102)]
    group = pd.Series([f"g{i // 2}" for i in range(102)], names)
    study = pd.Series([f"study{one}" for one in code], names)
    within = samples(truth, known, code, fold=np.arange(102) // 2 % 5)
    report = compare_studies(
        "classification",
        "cohort",
        within=within,
        unseen=samples(truth, new, code),
        group=group,
        study=study,
    )
    cells = [(code == one) & (truth == name) for one in range(6) for name in ("case", "control")]
    weight = sum(cell / (6 * 2 * cell.sum()) for cell in cells)
    return TwoAnswers(
        report, code, truth, weight, {"within": known == truth, "unseen": new == truth}
    )


@pytest.mark.parametrize("answer", ["within", "unseen"])
def test_studies_and_the_classes_of_a_study_count_alike(two_answers, answer):
    is_right = two_answers.is_right[answer]
    found = getattr(two_answers.report, answer)
    assert found.score == pytest.approx(two_answers.weight[is_right].sum())
    assert found.guessing.score == pytest.approx(0.5)
    assert found.guessing.difference == pytest.approx(found.score - 0.5)
    third = two_answers.report.studies[2]
    assert (third.study, third.n, third.guessing) == ("study2", 18, 0.5)
    share = 6 * two_answers.weight[is_right & (two_answers.study == 2)].sum()
    assert getattr(third, answer) == pytest.approx(share)


def test_classes_are_tested_over_groups_where_their_study_was_seen(two_answers):
    found = two_answers.report.within
    weight, is_right = two_answers.weight, two_answers.is_right["within"] * 1.0
    cells = pd.Series(is_right).groupby([two_answers.study, two_answers.truth])
    added = weight * (is_right - cells.transform("mean").to_numpy())
    pairs = np.arange(102) // 2
    p, ends = compare_share(found.score, added, pairs, effective_number(weight, pairs))
    assert found.guessing.p == pytest.approx(p)
    assert found.guessing.interval == pytest.approx(ends)


def test_classes_are_tested_over_studies_where_their_study_was_not_seen(two_answers):
    found = two_answers.report.unseen
    added = two_answers.weight * (two_answers.is_right["unseen"] - found.score)
    p, ends = compare_share(found.score, added, two_answers.study, units=6)
    assert found.guessing.p == pytest.approx(p)
    assert found.guessing.interval == pytest.approx(ends)


def test_studies_are_in_the_order_of_their_size_and_of_their_names_where_these_are_equal():
    code = np.array(["b"] * 4 + ["c"] * 6 + ["a"] * 4 + ["d"] * 2)
    truth = np.array(["case", "control"] * 8)
    table = samples(truth, truth, code)
    found = compare(table, table, code)
    assert [(one.study, one.n) for one in found.studies] == [("c", 6), ("a", 4), ("b", 4), ("d", 2)]


def test_classes_are_guessed_by_the_number_of_classes_of_their_study():
    code = np.repeat(np.arange(5), 6)
    truth = np.array(["a", "b", "c"] * 10)
    truth[code == 0] = ["a", "b"] * 3
    truth[code == 1] = "a"
    table = samples(truth, "a", code)
    found = compare(table, table, [f"study{one}" for one in code])
    assert [one.guessing for one in found.studies] == [0.5, None, *[pytest.approx(1 / 3)] * 3]
    assert [one.unseen for one in found.studies] == [0.5, None, *[pytest.approx(1 / 3)] * 3]
    assert found.unseen.guessing.score == pytest.approx((0.5 + 1) / 4)
    assert found.unseen.guessing.difference == pytest.approx(0)


def test_studies_of_one_class_alone_have_no_scores_and_no_test():
    code = np.repeat(np.arange(5), 6)
    table = samples(np.full(30, "a"), np.full(30, "a"), code)
    found = compare(table, table, code.astype(str))
    assert found.scored == ()
    assert found.unseen.guessing.p is None


@pytest.mark.parametrize("is_right", [True, False])
def test_shares_without_a_spread_are_tested_as_if_the_largest_group_were_another(is_right):
    code = np.repeat(np.arange(6), 8)
    truth = np.where(np.arange(48) % 2, "case", "control")
    flipped = np.where(truth == "case", "control", "case")
    names = [f"s{i}" for i in range(48)]
    # The groups are pairs, but for one of four.
    group = np.arange(48) // 2
    group[[2, 3]] = 0

    def compared(guess):
        table = samples(truth, guess, code, fold=np.arange(48) // 8)
        return compare_studies(
            "classification",
            "cohort",
            within=table,
            unseen=table,
            group=pd.Series([f"g{one}" for one in group], names),
            study=pd.Series(code.astype(str), names),
        )

    guess, other = (truth, flipped) if is_right else (flipped, truth)
    found = compared(guess)
    nearly = compared(np.where(group == 0, other, guess))
    for answer, expected in ((found.within, nearly.within), (found.unseen, nearly.unseen)):
        assert answer.score == float(is_right)
        assert answer.guessing.p == pytest.approx(expected.guessing.p)
        low, high = answer.guessing.interval
        ends = expected.guessing.interval
        assert (low, high) == pytest.approx((ends[0], 1.0) if is_right else (0.0, ends[1]))


def test_numbers_of_studies_are_mean_errors_in_which_studies_count_alike():
    rng = np.random.default_rng(4)
    code = np.repeat(np.arange(6), [4, 8, 12, 16, 20, 24])
    count = len(code)
    observed = rng.normal(50, 10, count)
    known, new = (observed + rng.normal(0, sd, count) for sd in (2, 6))
    fold = np.arange(count) % 3
    # The first study is in one fold, and has no others to guess by.
    fold[:4] = 1
    table = samples(observed, known, code, fold=fold)
    found = compare(table, samples(observed, new, code), code.astype(str), kind="regression")
    weight = 1 / (6 * np.bincount(code)[code])
    errors = {"within": np.abs(observed - known), "unseen": np.abs(observed - new)}
    assert found.within.score == pytest.approx(weight @ errors["within"])
    assert found.unseen.score == pytest.approx(weight @ errors["unseen"])
    elsewhere = np.array([np.median(observed[code != one]) for one in code])
    guess = np.abs(observed - elsewhere)
    assert found.unseen.guessing.score == pytest.approx(weight @ guess)
    of_all = median_elsewhere(observed, np.zeros(count), fold)
    of_study = median_elsewhere(observed, code, fold)
    guesses = [weight @ np.abs(observed - one) for one in (of_all, of_study)]
    assert found.within.guessing.score == pytest.approx(min(guesses))
    largest = found.studies[0]
    assert (largest.study, largest.n) == ("5", 24)
    assert largest.within == pytest.approx(errors["within"][code == 5].mean())
    assert largest.unseen == pytest.approx(errors["unseen"][code == 5].mean())
    assert largest.guessing == pytest.approx(guess[code == 5].mean())
    p, _ = compare_errors(errors["unseen"], guess, weight, code)
    assert found.unseen.guessing.p == pytest.approx(p)
