"""How a target is predicted between people, and within each: a level, and its change over time.

A score over samples mixes two questions. Between people, each has one value: the mean of the label
over the person's samples, or the most frequent class; what is predicted is the mean of the
held-out predictions, or the class of the largest mean probability. Within people, only what differs
from the person's own mean counts, so that neither an error in the level of a person nor a person
whose label is unusual matters. The change since the sample before asks the same of steps.

Zero change is what to beat: a prediction that says nothing of a person's change is no better, and
one that changes at random is worse. So is time where the label drifts alike in all people: a line
through the changes of the people of other folds, which knows nothing of the samples but when they
were taken; for classes, which of two is mostly the later one.

Of classes, pairs of a person's samples of different classes are asked: which of the two is which?
Half are right by chance, whatever is said of the person.

People count alike, however many samples they have, and are the units of tests and intervals, which
are those of `aam.evaluate.comparison`: `python -m benchmarks.people` says how often they err.
Samples of a person at one time are one point of its course. Samples without a time take part in all
but changes and what time says.

Shape suffixes: N samples, P people, D steps or pairs, K classes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.predictions import (
    LEAST_PROBABILITY,
    class_codes,
    class_names,
    class_probabilities,
    numbers,
)
from aam.evaluate.comparison import (
    TINY,
    ShareTest,
    compare_mean_errors,
    compare_with_guessing,
    median_of_other_folds,
    share_test,
)
from aam.evaluate.scores import LEAST_UNITS
from aam.evaluate.task_report import Guessing, OfPeople, People

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
CLOSE_TO_ZERO = 1e-9
"""Part of a person's value below which a change is rounding."""
CLOSE = 0.05
"""Part of the error of zero change that time leaves where the label is said to follow it."""


def compare_people(
    kind: str,
    column: str,
    time_column: str,
    *,
    predictions: pd.DataFrame,
    person: pd.Series,
    time: pd.Series,
    classes: Sequence[str] = (),
) -> People:
    """Score predictions between and within people.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    column, time_column
        Metadata columns of people and of times.
    predictions
        Cross-validated predictions of one target, a row per sample; those of fold -1 are left out.
    person, time
        Person and time of each sample, by sample ID; a time may be NaN.
    classes
        Classes of an ordinal target, the lowest first.
    """
    table = predictions[predictions["fold"] >= 0].reset_index(drop=True)
    names = person.loc[table["sample-id"]].to_numpy(np.str_)
    person_N = np.unique(names, return_inverse=True)[1]
    time_N = time.loc[table["sample-id"]].to_numpy(np.float64)
    size_P = np.bincount(person_N)
    if kind == "regression":
        parts = _score_numbers(table, person_N, time_N)
    else:
        parts = _score_classes(kind, table, person_N, time_N, classes)
    between, within, change = parts
    return People(
        column=column,
        time=time_column,
        people=len(size_P),
        single=int((size_P == 1).sum()),
        samples=len(table),
        untimed=int(np.isnan(time_N).sum()),
        between=between,
        within=within,
        change=change,
    )


_Parts = tuple[OfPeople | None, OfPeople | None, OfPeople | None]
"""Between people, within them, and since the sample before."""


def _score_numbers(table: pd.DataFrame, person_N: Codes, time_N: Floats) -> _Parts:
    observed_N = numbers(table["observed"])
    predicted_N = numbers(table["predicted"])
    fold_N = table["fold"].to_numpy(np.int64)
    return (
        _between_numbers(observed_N, predicted_N, person_N, fold_N),
        _within_numbers(observed_N, predicted_N, person_N, time_N, fold_N),
        _change_of_numbers(observed_N, predicted_N, person_N, time_N, fold_N),
    )


def _between_numbers(
    observed_N: Floats, predicted_N: Floats, person_N: Codes, fold_N: Codes
) -> OfPeople | None:
    """Compare the means of people with the median of those of the other folds."""
    size_P = np.bincount(person_N)
    fold_P = np.zeros(len(size_P), np.int64)
    fold_P[person_N] = fold_N
    if len(np.unique(fold_P)) < 2:
        return None
    mean_P = np.bincount(person_N, weights=observed_N) / size_P
    said_P = np.bincount(person_N, weights=predicted_N) / size_P
    guess_P = median_of_other_folds(mean_P, fold_P)
    unit_P = np.arange(len(size_P))
    return compare_errors(np.abs(mean_P - said_P), np.abs(mean_P - guess_P), unit_P)


def _within_numbers(
    observed_N: Floats, predicted_N: Floats, person_N: Codes, time_N: Floats, fold_N: Codes
) -> OfPeople | None:
    """Compare what differs from the person's mean with zero, and with a line of time."""
    is_repeated_N = np.bincount(person_N)[person_N] > 1
    found = _compare_changes(
        _centred(observed_N[is_repeated_N], person_N[is_repeated_N]),
        _centred(predicted_N[is_repeated_N], person_N[is_repeated_N]),
        person_N[is_repeated_N],
    )
    if found is None:
        return None
    timed_N = np.flatnonzero(~np.isnan(time_N))
    timed_N = timed_N[np.bincount(person_N[timed_N])[person_N[timed_N]] > 1]
    person_T = person_N[timed_N]
    change_T = _centred(observed_N[timed_N], person_T)
    said_T = _centred(predicted_N[timed_N], person_T)
    line_T = _follow_time(change_T, _centred(time_N[timed_N], person_T), fold_N[timed_N])
    return _with_time(found, change_T, said_T, line_T, person_T)


def _change_of_numbers(
    observed_N: Floats, predicted_N: Floats, person_N: Codes, time_N: Floats, fold_N: Codes
) -> OfPeople | None:
    """Compare steps from one time of a person to the next with zero, and with a line of time."""
    points = _points(
        pd.DataFrame(
            {
                "person": person_N,
                "time": time_N,
                "observed": observed_N,
                "predicted": predicted_N,
                "fold": fold_N,
            }
        )
    )
    steps = points.groupby("person").diff().assign(person=points["person"], at=points["fold"])
    steps = steps.dropna()
    person_D = steps["person"].to_numpy(np.int64)
    change_D = steps["observed"].to_numpy()
    said_D = steps["predicted"].to_numpy()
    found = _compare_changes(change_D, said_D, person_D)
    if found is None:
        return None
    line_D = _follow_time(change_D, steps["time"].to_numpy(), steps["at"].to_numpy(np.int64))
    return _with_time(found, change_D, said_D, line_D, person_D)


def _points(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the means of the samples of a person at one time, in the order of times."""
    timed = samples[samples["time"].notna()]
    return timed.groupby(["person", "time"], as_index=False).mean()


def _centred(value_N: Floats, person_N: Codes) -> Floats:
    """Return what differs from the person's own mean."""
    size_P = np.bincount(person_N)
    mean_P = np.bincount(person_N, weights=value_N) / np.where(size_P > 0, size_P, 1)
    change_N = np.asarray(value_N - mean_P[person_N])
    # What is not zero by rounding alone is no change.
    size_N = np.maximum(np.abs(value_N), np.abs(mean_P[person_N]))
    change_N[np.abs(change_N) <= CLOSE_TO_ZERO * size_N] = 0.0
    return change_N


def _follow_time(change_D: Floats, time_D: Floats, fold_D: Codes) -> Floats:
    """Return the changes that a line through zero expects, from the people of other folds."""
    line_D = np.zeros(len(change_D))
    for fold in np.unique(fold_D):
        is_in_fold_D = fold_D == fold
        others_D = time_D[~is_in_fold_D]
        spread = float(others_D @ others_D)
        if spread > 0:
            slope = float(others_D @ change_D[~is_in_fold_D]) / spread
            line_D[is_in_fold_D] = slope * time_D[is_in_fold_D]
    return line_D


def _compare_changes(change_D: Floats, said_D: Floats, person_D: Codes) -> OfPeople | None:
    """Compare predicted changes with zero change; None: nothing changes."""
    if np.abs(change_D).sum() <= TINY:
        return None
    return compare_errors(np.abs(change_D - said_D), np.abs(change_D), person_D)


def _with_time(
    found: OfPeople, change_D: Floats, said_D: Floats, line_D: Floats, person_D: Codes
) -> OfPeople:
    """Return a comparison with that with time, where any time is known."""
    still = np.abs(change_D)
    if still.sum() <= TINY:
        return found
    line = compare_errors(np.abs(change_D - said_D), np.abs(change_D - line_D), person_D)
    mean = float(_weights(person_D) @ still)
    follows_time = line.guessing.score <= CLOSE * mean
    return found.model_copy(update={"time": line.guessing, "follows_time": follows_time})


def compare_errors(error_D: Floats, rival_D: Floats, person_D: Codes) -> OfPeople:
    """Compare mean errors of people, who count alike.

    Parameters
    ----------
    error_D, rival_D
        Errors of the predictions and of a rival.
    person_D
        Person of each, from 0.
    """
    weight_D = _weights(person_D)
    people = len(np.unique(person_D))
    units = float(people) if people >= LEAST_UNITS else None
    guessing = compare_mean_errors(error_D, rival_D, weight_D, person_D, units)
    score = float(weight_D @ error_D)
    return OfPeople(score=score, guessing=guessing, people=people, n=len(error_D))


def _weights(person_D: Codes) -> Floats:
    """Return weights that sum to 1, with which people count alike."""
    size_P = np.bincount(person_D)
    return np.asarray(1.0 / ((size_P > 0).sum() * size_P[person_D]))


def _score_classes(
    kind: str, table: pd.DataFrame, person_N: Codes, time_N: Floats, classes: Sequence[str]
) -> _Parts:
    names = [*classes] if kind == "ordinal" else class_names(table)
    class_N = class_codes(table["observed"], names)
    share_NK = class_probabilities(table, names)
    between = _between_classes(kind, table, person_N, class_N, share_NK, names)
    if kind == "ordinal":
        level_N1 = (share_NK @ np.arange(len(names)))[:, None]
        # The difference of any two classes is that of their ranks.
        level_NK = level_N1 * np.arange(len(names))
    else:
        level_NK = np.log(np.maximum(share_NK, LEAST_PROBABILITY))
    samples = pd.DataFrame({"person": person_N, "class": class_N, "time": time_N})
    pairs_2D = np.concatenate([*_all_pairs(samples)], axis=1)
    timed = [*_steps(samples)]
    steps_2D = np.concatenate(timed, axis=1) if timed else np.zeros((2, 0), np.int64)
    fold_N = table["fold"].to_numpy(np.int64)
    facts = class_N, level_NK, person_N, time_N, fold_N
    within = _compare_pairs(pairs_2D, *facts)
    change = _compare_pairs(steps_2D, *facts)
    return between, within, change


def _between_classes(
    kind: str,
    table: pd.DataFrame,
    person_N: Codes,
    class_N: Codes,
    share_NK: Floats,
    names: Sequence[str],
) -> OfPeople | None:
    """Compare the most frequent class of each person with guessing; None: all have the same.

    People in whom two classes are the most frequent have none, and are left out.
    """
    count_PK = np.zeros((person_N.max() + 1, len(names)))
    np.add.at(count_PK, (person_N, class_N), 1.0)
    sum_PK = np.zeros_like(count_PK)
    np.add.at(sum_PK, person_N, share_NK)
    is_clear_P = (count_PK == count_PK.max(axis=1, keepdims=True)).sum(axis=1) == 1
    named = np.array(names, dtype=object)
    fold_P = np.zeros(len(count_PK), np.int64)
    fold_P[person_N] = table["fold"].to_numpy(np.int64)
    people = pd.DataFrame(
        {
            "observed": named[count_PK.argmax(axis=1)],
            "predicted": named[sum_PK.argmax(axis=1)],
            "fold": fold_P,
        }
    )[is_clear_P]
    if people["observed"].nunique() < 2:
        return None
    guessing = compare_with_guessing(kind, people, [""] * len(people), names)
    score = guessing.score + guessing.difference
    return OfPeople(
        score=score,
        guessing=guessing.model_copy(update={"ranks": None}),
        people=len(people),
        n=len(people),
    )


def _all_pairs(samples: pd.DataFrame) -> Iterator[Codes]:
    """Yield the pairs of each person's samples that are of different classes, rows [2, D]."""
    for _, part in samples.groupby("person"):
        row_I = part.index.to_numpy(np.int64)
        first_D, second_D = np.triu_indices(len(row_I), 1)
        class_I = part["class"].to_numpy(np.int64)
        differs_D = class_I[first_D] != class_I[second_D]
        yield row_I[np.stack([first_D[differs_D], second_D[differs_D]])]


def _steps(samples: pd.DataFrame) -> Iterator[Codes]:
    """Yield the pairs of different classes that follow each other in a person's time, [2, D]."""
    for _, part in samples.dropna(subset="time").groupby("person"):
        row_I = part.index.to_numpy(np.int64)
        at_I = np.unique(part["time"].to_numpy(), return_inverse=True)[1]
        class_I = part["class"].to_numpy(np.int64)
        # Samples of one time are all followed by all of the next.
        is_step_II = (at_I[None, :] - at_I[:, None] == 1) & (class_I[:, None] != class_I[None, :])
        yield row_I[np.stack(np.nonzero(is_step_II))]


def _compare_pairs(
    pairs_2D: Codes,
    class_N: Codes,
    level_NK: Floats,
    person_N: Codes,
    time_N: Floats,
    fold_N: Codes,
) -> OfPeople | None:
    """Compare how often two samples of a person are told apart with a half; None: there are none.

    Parameters
    ----------
    pairs_2D
        Rows of two samples of a person, of different classes.
    class_N
        Class of each sample.
    level_NK
        How much each sample is said to be of each class, [N, K]: of two samples, the one in which
        the first class outweighs the second by more is said to be of the first.
    person_N, time_N, fold_N
        Person, time and fold of each sample.
    """
    if not pairs_2D.size:
        return None
    first_D, second_D = pairs_2D
    one_D, other_D = class_N[first_D], class_N[second_D]
    lead_D = (level_NK[first_D, one_D] - level_NK[first_D, other_D]) - (
        level_NK[second_D, one_D] - level_NK[second_D, other_D]
    )
    right_D = np.where(np.abs(lead_D) <= TINY, 0.5, lead_D > 0)
    person_D = np.unique(person_N[first_D], return_inverse=True)[1]
    share_P = np.bincount(person_D, weights=right_D) / np.bincount(person_D)
    found = OfPeople(
        score=float(share_P.mean()),
        guessing=_compare_with_half(share_P),
        people=len(share_P),
        n=len(first_D),
    )
    # Which of two classes is the later; a pair of one time, or without times, tells neither.
    later_D = np.sign(np.nan_to_num(time_N[first_D] - time_N[second_D])).astype(np.int64)
    is_timed_D = later_D != 0
    if not is_timed_D.any():
        return found
    person_T = person_N[first_D[is_timed_D]]
    order_T = _follow_order(
        np.stack([one_D[is_timed_D], other_D[is_timed_D]]),
        later_D[is_timed_D],
        person_T,
        fold_N[first_D[is_timed_D]],
    )
    wrong = compare_errors(1.0 - right_D[is_timed_D], 1.0 - order_T, person_T)
    time = _as_share(wrong.guessing)
    return found.model_copy(update={"time": time, "follows_time": 1.0 - time.score <= CLOSE / 2})


def _follow_order(classes_2D: Codes, later_D: Codes, person_D: Codes, fold_D: Codes) -> Floats:
    """Return how right each pair is told by the order of its classes in people of other folds.

    Parameters
    ----------
    classes_2D
        The classes of both samples.
    later_D
        1 where the first is the later one, else -1.
    person_D, fold_D
        Person and fold of each pair.
    """
    turned_D = np.where(classes_2D[0] < classes_2D[1], 1, -1)
    low_D, high_D = np.sort(classes_2D, axis=0)
    kind_D = np.unique(low_D * (classes_2D.max() + 1) + high_D, return_inverse=True)[1]
    # Whether the lower class is the later one.
    low_is_later_D = turned_D * later_D
    weight_D = _weights(person_D)
    told_D = np.zeros(len(later_D))
    for fold in np.unique(fold_D):
        is_in_fold_D = fold_D == fold
        added_D = np.where(is_in_fold_D, 0.0, weight_D * low_is_later_D)
        lead_K = np.bincount(kind_D, weights=added_D)
        told_D[is_in_fold_D] = np.sign(lead_K[kind_D[is_in_fold_D]])
    return np.asarray((1 + told_D * low_is_later_D) / 2)


def _as_share(wrong: Guessing) -> Guessing:
    """Return a comparison of shares that are wrong as one of those that are right."""
    ends = None if wrong.interval is None else (1 - wrong.interval[1], 1 - wrong.interval[0])
    return wrong.model_copy(
        update={"score": 1.0 - wrong.score, "difference": -wrong.difference, "interval": ends}
    )


def _compare_with_half(share_P: Floats) -> Guessing:
    """Compare the mean of the shares of people with a half."""
    score = float(share_P.mean())
    guessing = Guessing(score=0.5, difference=score - 0.5)
    if len(share_P) < LEAST_UNITS:
        return guessing
    test = _test_shares(share_P)
    if not test.has_spread and abs(score - 0.5) > TINY:
        # As elsewhere: one person for whom the opposite holds would give the share a spread.
        test = _test_shares(np.append(1.0 - share_P[0], share_P[1:]))
    ends = None
    if test.high - test.low > TINY:
        ends = min(test.low, score), max(test.high, score)
    return guessing.model_copy(update={"p": test.p, "interval": ends})


def _test_shares(share_P: Floats) -> ShareTest:
    """Test the mean of the shares of people against a half."""
    people = len(share_P)
    mean = float(share_P.mean())
    return share_test(mean, 0.5, (share_P - mean) / people, np.arange(people), float(people))
