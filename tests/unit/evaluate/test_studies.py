"""Scores by study: what they ask, and what has none."""

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.studies import compare_studies

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
