"""How a target is predicted in a study never seen, next to studies some of whose samples were.

Two cross-validations are compared, study by study, on the same samples. In the one of the task
itself, other samples of the study are learned from. In the other, the whole study is in one fold.
Each study has a score, and the studies count alike, however large they are.

The score of classes in a study is its balanced accuracy, over the classes that it has: a model that
recognizes studies in which a class is frequent gains nothing from it, since it is asked to tell
apart the samples of one study. A study with one class asks nothing, and has no score. Guessing
reaches one over the number of classes of the study. The score of numbers is the mean absolute
error. Guessing takes the median of the samples that are learned from: of all other folds where the
study is left out, else of the study, or of all samples if that is nearer on average.

The interval of the first score holds for these studies: its units are those of the task. That of
the second holds for studies like these, so that studies are its units, of which it needs
`LEAST_UNITS`. Both are those of `aam.evaluate.comparison`: in a simulation without a signal,
`python -m benchmarks.studies`, the second score is called better at most at its nominal rate.

Shape suffixes: N samples, S studies, C cells (pairs of a study and a class), U units.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import units_of
from aam.data.predictions import numbers
from aam.evaluate.comparison import (
    LEAST_EFFECTIVE,
    TINY,
    ShareTest,
    compare_mean_errors,
    median_of_other_folds,
    share_test,
    unit_codes,
)
from aam.evaluate.scores import LEAST_UNITS
from aam.evaluate.task_report import Answered, Guessing, Studies, StudyScore

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def compare_studies(
    kind: str,
    column: str,
    *,
    within: pd.DataFrame,
    unseen: pd.DataFrame,
    group: pd.Series,
    study: pd.Series,
) -> Studies:
    """Score the same samples by models that saw other samples of their study, and that did not.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    column
        Metadata column of the studies.
    within, unseen
        Predictions of the leading methods, a row per sample: of the task itself, and with folds of
        whole studies. Samples of fold -1 in either are left out.
    group
        Group of each sample in the task itself, by sample ID; "" for a sample of its own.
    study
        Study of each sample, by sample ID.
    """
    within = within[within["fold"] >= 0].set_index("sample-id")
    unseen = unseen[unseen["fold"] >= 0].set_index("sample-id")
    samples = unseen.index.intersection(within.index, sort=False)
    within = within.loc[samples]
    unseen = unseen.loc[samples]
    names, study_N = np.unique(study.loc[samples].to_numpy(np.str_), return_inverse=True)
    unit_N = unit_codes(units_of(group).loc[samples])
    measure = _score_numbers if kind == "regression" else _score_classes
    scored_S, columns, answers = measure(within, unseen, study_N, unit_N)
    size_S = np.bincount(study_N)
    found = []
    for code in np.lexsort((names, -size_S)):
        known, new, guess = (float(values_S[code]) for values_S in columns)
        has_score = bool(scored_S[code])
        found.append(
            StudyScore(
                study=str(names[code]),
                n=int(size_S[code]),
                within=known if has_score else None,
                unseen=new if has_score else None,
                guessing=guess if has_score else None,
            )
        )
    return Studies(column=column, studies=tuple(found), within=answers[0], unseen=answers[1])


_Scores = tuple[NDArray[np.bool_], tuple[Floats, Floats, Floats], tuple[Answered, Answered]]
"""Which studies have a score; their scores within and unseen, and those of guessing; the means."""


def _score_numbers(
    within: pd.DataFrame, unseen: pd.DataFrame, study_N: Codes, unit_N: Codes
) -> _Scores:
    observed_N = numbers(unseen["observed"])
    size_S = np.bincount(study_N)
    weight_N = 1.0 / (len(size_S) * size_S[study_N])
    fold_N = within["fold"].to_numpy()
    error_N = np.abs(observed_N - numbers(unseen["predicted"]))
    known_error_N = np.abs(observed_N - numbers(within["predicted"]))
    unseen_fold_N = unseen["fold"].to_numpy()
    guess_error_N = np.abs(observed_N - median_of_other_folds(observed_N, unseen_fold_N))
    # The median of few samples is worse than that of all where studies are alike.
    guesses = (
        _median_within(observed_N, study_N, fold_N),
        median_of_other_folds(observed_N, fold_N),
    )
    known_guess_error_N = min(
        (np.abs(observed_N - guess_N) for guess_N in guesses),
        key=lambda error_N: float(weight_N @ error_N),
    )
    of_within = compare_mean_errors(
        known_error_N, known_guess_error_N, weight_N, unit_N, _count_units(weight_N, unit_N)
    )
    of_unseen = compare_mean_errors(
        error_N, guess_error_N, weight_N, study_N, _count_units(weight_N, study_N)
    )

    def mean_S(values_N: Floats) -> Floats:
        return np.asarray(np.bincount(study_N, weights=values_N) / size_S)

    return (
        np.ones(len(size_S), np.bool_),
        (mean_S(known_error_N), mean_S(error_N), mean_S(guess_error_N)),
        (
            Answered(score=float(weight_N @ known_error_N), guessing=of_within),
            Answered(score=float(weight_N @ error_N), guessing=of_unseen),
        ),
    )


def _median_within(observed_N: Floats, study_N: Codes, fold_N: Codes) -> Floats:
    """Return the median of each sample's study in the other folds; of all where there is none."""
    guess_N = median_of_other_folds(observed_N, fold_N)
    for study in np.unique(study_N):
        is_study_N = study_N == study
        folds = np.unique(fold_N[is_study_N])
        if len(folds) > 1:
            inside_N = observed_N[is_study_N]
            guess_N[is_study_N] = median_of_other_folds(inside_N, fold_N[is_study_N])
    return guess_N


def _score_classes(
    within: pd.DataFrame, unseen: pd.DataFrame, study_N: Codes, unit_N: Codes
) -> _Scores:
    truth_N = unseen["observed"].to_numpy(np.str_)
    class_N = np.unique(truth_N, return_inverse=True)[1]
    cell_N = study_N * (class_N.max() + 1) + class_N
    cell, cell_N, size_C = np.unique(cell_N, return_inverse=True, return_counts=True)
    classes_S = np.bincount(cell // (class_N.max() + 1))
    is_scored_S = classes_S > 1
    studies = max(int(is_scored_S.sum()), 1)
    share_N = 1.0 / (classes_S[study_N] * size_C[cell_N])
    is_scored_N = is_scored_S[study_N]
    weight_N = np.where(is_scored_N, share_N / studies, 0.0)
    guess_S = 1.0 / classes_S
    guess = float(guess_S[is_scored_S].sum() / studies)
    is_known_N = truth_N == within["predicted"].to_numpy(np.str_)
    is_right_N = truth_N == unseen["predicted"].to_numpy(np.str_)
    # A study is one of many: what it adds is compared with the mean of all.
    no_cell_N = np.zeros(len(cell_N), np.int64)
    return (
        is_scored_S,
        (
            np.bincount(study_N, weights=share_N * is_known_N).astype(np.float64),
            np.bincount(study_N, weights=share_N * is_right_N).astype(np.float64),
            guess_S,
        ),
        (
            _compare_shares(is_known_N, weight_N, cell_N, unit_N, unit_N, guess),
            _compare_shares(is_right_N, weight_N, no_cell_N, study_N, unit_N, guess),
        ),
    )


def _compare_shares(
    is_right_N: NDArray[np.bool_],
    weight_N: Floats,
    cell_N: Codes,
    unit_N: Codes,
    source_N: Codes,
    guess: float,
) -> Answered:
    """Compare a weighted share of right classes with guessing.

    Parameters
    ----------
    is_right_N
        Whether each prediction is right.
    weight_N
        Weights that sum to 1.
    cell_N
        Cells whose shares are given: only what units add within a cell is spread.
    unit_N
        Unit of each sample.
    source_N
        Group of each sample in the task itself: where units do not differ, the one that costs most
        is taken for the opposite, which gives the score a spread.
    guess
        The share of guessing.
    """
    score = float(weight_N @ is_right_N)
    guessing = Guessing(score=guess, difference=score - guess)
    units = _count_units(weight_N, unit_N)
    if units is None:
        return Answered(score=score, guessing=guessing)

    def test(is_right_N: NDArray[np.bool_]) -> ShareTest:
        weight_C = np.bincount(cell_N, weights=weight_N)
        right_C = np.bincount(cell_N, weights=weight_N * is_right_N)
        mean_C = right_C / np.where(weight_C > 0, weight_C, 1.0)
        added_N = weight_N * (is_right_N - mean_C[cell_N])
        return share_test(float(weight_N @ is_right_N), guess, added_N, unit_N, units)

    tested = test(is_right_N)
    if not tested.has_spread and abs(score - guess) > TINY:
        is_ahead_N = is_right_N == (score > guess)
        weight_G = np.bincount(source_N, weights=weight_N * is_ahead_N)
        tested = test(is_right_N ^ (is_ahead_N & (source_N == weight_G.argmax())))
    ends = None
    # The same class for all samples of each study has no spread, and no interval.
    if tested.high - tested.low > TINY:
        ends = min(tested.low, score), max(tested.high, score)
    tested_guessing = guessing.model_copy(update={"p": tested.p, "interval": ends})
    return Answered(score=score, guessing=tested_guessing)


def _count_units(weight_N: Floats, unit_N: Codes) -> float | None:
    """Return how many equal units the units are worth; None: too few for a test."""
    share_U = np.bincount(unit_N, weights=weight_N)
    units = int((share_U > 0).sum())
    effective = float(share_U.sum() ** 2 / (share_U**2).sum()) if units else 0.0
    return None if units < LEAST_UNITS or effective < LEAST_EFFECTIVE else effective
