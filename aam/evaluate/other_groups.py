"""Whether another column should keep samples together: nearest neighbours with its groups as folds.

Where one person gave several samples, and they lie in several folds, a method recognizes the person
instead of the target. No score shows it. So every column that could say whose a sample is is tried:
the same method predicts once with the folds of the task, and once with folds that keep the values
of the column together. Nearest neighbours find the sample of the same person if anything does, and
need no training.

Shape suffixes: N samples, R samples that are predicted, K classes, F features, G neighbours, U
groups.
"""

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from aam.data.confounding import CHANCE, LEAST_SAMPLES, Observed, sum_by
from aam.data.study.columns import columns_of, unit_columns
from aam.evaluate.task_report import OtherGroups
from aam.util.seeds import generator, seed_of

MOST_COLUMNS = 5
"""Columns that are tried: the first of `aam.data.study.columns.unit_columns`, in which names of
persons, animals and homes come before those of places and other IDs."""
LEAST_GROUPS = 4
"""Groups below which the folds of a column would train on much less than those of the task."""
MOST_FOLDS = 10
"""Folds of a column; as many as the task has, if these are fewer."""
NEIGHBOURS = 5
MOST_PREDICTED = 1000
"""Samples that are predicted; others of a larger task are neighbours alone."""
ROWS_AT_ONCE = 512
"""Samples whose distances to all others are held at a time."""
LEAST_LOSS = 0.1
"""Share of its skill that a score has to lose to be called worse."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def try_other_groups(
    observed: Observed,
    counts: csr_array,
    metadata: pd.DataFrame,
    *,
    exclude: Collection[str],
    seed: int,
) -> tuple[OtherGroups, ...]:
    """Return what nearest neighbours reach with the groups of each column that could be a unit.

    Tried are columns whose groups lie in several folds of the task, with every class in two groups
    or more. A score is worse where the difference, with groups as units, has a one-sided p < 0.05,
    corrected for the columns tried (Bonferroni), takes a tenth of the skill or more, and the
    neighbours with the folds of the task are better than guessing by the same test.

    Parameters
    ----------
    observed
        The target of the scored samples, with the folds of the task.
    counts
        Rarefied reads of these samples, in their order, [N, F].
    metadata
        Text of these samples, in their order.
    exclude
        Columns that are not tried: the targets, and the one that makes the folds.
    seed
        Seed of folds and of the samples that are predicted.

    Returns
    -------
    tuple of OtherGroups
        In the order of the columns; none of fewer than `aam.data.confounding.LEAST_SAMPLES`
        samples.
    """
    if len(observed.fold_N) < LEAST_SAMPLES:
        return ()
    candidates = list(_find_candidates(observed, metadata, exclude))[:MOST_COLUMNS]
    if not candidates:
        return ()
    folds = [observed.fold_N]
    for name, group_N in candidates:
        folds.append(_folds_of_groups(observed, group_N, seed_of(name, seed)))
    rows = np.arange(len(observed.fold_N))
    if len(rows) > MOST_PREDICTED:
        rows = np.sort(generator("other_groups", seed).choice(rows, MOST_PREDICTED, replace=False))
    losses = _losses_of_neighbours(observed, counts, folds, rows)
    weight_R, guess_R = _weigh(observed, rows)
    guessing = float(weight_R @ guess_R)
    own = float(weight_R @ losses[0])
    tried = []
    for (name, group_N), loss_R in zip(candidates, losses[1:], strict=True):
        score = float(weight_R @ loss_R)
        p = _p_of_loss(weight_R * (loss_R - losses[0]), group_N[rows])
        p = min(1.0, p * len(candidates))
        gain = guessing - own
        # What is no better than guessing has nothing to lose.
        has_gain = _p_of_loss(weight_R * (guess_R - losses[0]), group_N[rows]) < CHANCE
        is_worse = p < CHANCE and has_gain and score - own > LEAST_LOSS * gain
        if not observed.is_number:
            score = 1.0 - score
        tried.append(
            OtherGroups(
                column=name,
                groups=len(np.unique(group_N)),
                score=score,
                with_own_folds=own if observed.is_number else 1.0 - own,
                p=p,
                is_worse=is_worse,
            )
        )
    return tuple(tried)


def _find_candidates(
    observed: Observed, metadata: pd.DataFrame, exclude: Collection[str]
) -> Iterator[tuple[str, Codes]]:
    """Yield the columns to try, with the group of each sample, the likeliest units first."""
    seen = set[bytes]()
    names = metadata.columns.difference([*exclude], sort=False)
    for column in unit_columns(columns_of(metadata[names])):
        # A sample without a value is of its own.
        text = column.values.where(column.values.notna(), "\0" + metadata.index.to_series())
        group_N = pd.factorize(text)[0].astype(np.int64)
        folds_U = pd.Series(observed.fold_N).groupby(group_N).nunique()
        is_apart = bool((folds_U > 1).any())
        if is_apart and _can_predict(observed, group_N) and group_N.tobytes() not in seen:
            seen.add(group_N.tobytes())
            yield column.name, group_N


def _can_predict(observed: Observed, group_N: Codes) -> bool:
    """Return whether enough groups remain to learn from when one is left out, for every class."""
    if len(np.unique(group_N)) < LEAST_GROUPS:
        return False
    if observed.is_number:
        return True
    pairs = np.unique(np.stack([observed.value_NK.argmax(axis=1), group_N]), axis=1)[0]
    return bool(np.bincount(pairs).min() > 1)


def _folds_of_groups(observed: Observed, group_N: Codes, seed: int) -> Codes:
    """Return folds that keep groups together, as alike in classes as they allow."""
    unit, unit_N, size_U = np.unique(group_N, return_inverse=True, return_counts=True)
    k = min(len(np.unique(observed.fold_N)), len(unit), MOST_FOLDS)
    class_U = np.zeros(len(unit), np.int64)
    if not observed.is_number:
        class_U = sum_by(observed.value_NK, unit_N).argmax(axis=1)
    # Groups of a class are dealt out in turn, the large ones first.
    order = np.lexsort((np.random.default_rng(seed).random(len(unit)), -size_U, class_U))
    fold_U = np.empty(len(unit), np.int64)
    fold_U[order] = np.arange(len(unit)) % k
    return fold_U[unit_N]


def _losses_of_neighbours(
    observed: Observed, counts: csr_array, folds: Sequence[Codes], rows: NDArray[np.intp]
) -> list[Floats]:
    """Return the loss of some samples with each division into folds, [R] each.

    Distances are those of Hellinger, between the roots of relative abundances. A class gets the
    neighbours' votes by the inverse of their distance and of how frequent the class is in the other
    folds; a number is the neighbours' median. Losses are absolute errors, and 1 for a wrong class.
    """
    shares = csr_array(counts, dtype=np.float64)
    total_N = np.maximum(shares.sum(axis=1), 1e-300)
    shares = csr_array(shares.multiply(1.0 / total_N[:, None]))
    shares.data = np.sqrt(shares.data)
    losses = [np.empty(len(rows)) for _ in folds]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        product_RN = (shares[part] @ shares.T).toarray()
        distance_RN = np.sqrt(np.maximum(2.0 - 2.0 * product_RN, 0.0))
        for fold_N, loss_R in zip(folds, losses, strict=True):
            loss_R[start : start + len(part)] = _losses(observed, distance_RN, fold_N, part)
    return losses


def _losses(
    observed: Observed, distance_RN: Floats, fold_N: Codes, rows: NDArray[np.intp]
) -> Floats:
    """Return the loss of samples that are predicted from the nearest ones of other folds, [R]."""
    is_own_RN = fold_N[rows][:, None] == fold_N
    masked_RN = np.where(is_own_RN, np.inf, distance_RN)
    neighbours = min(NEIGHBOURS, int((~is_own_RN).sum(axis=1).min()))
    nearest_RG = np.argpartition(masked_RN, neighbours - 1, axis=1)[:, :neighbours]
    value_RGK = observed.value_NK[nearest_RG]
    if observed.is_number:
        predicted_R = np.median(value_RGK[:, :, 0], axis=1)
        return np.abs(observed.value_NK[rows, 0] - predicted_R)
    near_RG = np.take_along_axis(masked_RN, nearest_RG, axis=1)
    weight_RG = 1.0 / np.maximum(near_RG, 1e-6)
    # Samples of a class in the other folds: all but those of the sample's own.
    own_FK = np.stack([observed.value_NK[fold_N == fold].sum(axis=0) for fold in np.unique(fold_N)])
    code_R = np.searchsorted(np.unique(fold_N), fold_N[rows])
    frequency_RK = observed.value_NK.sum(axis=0) - own_FK[code_R]
    vote_RK = np.einsum("rg,rgk->rk", weight_RG, value_RGK) / np.maximum(frequency_RK, 1.0)
    guess_R = vote_RK.argmax(axis=1)
    return (guess_R != observed.value_NK[rows].argmax(axis=1)).astype(np.float64)


def _weigh(observed: Observed, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return what each sample counts in the headline score, and its loss by guessing, [R]."""
    if observed.is_number:
        value_R = observed.value_NK[rows, 0]
        weight_R = np.full(len(rows), 1.0 / len(rows))
        return weight_R, np.abs(value_R - np.median(value_R))
    class_R = observed.value_NK[rows].argmax(axis=1)
    size_K = np.bincount(class_R, minlength=observed.value_NK.shape[1])
    classes = int((size_K > 0).sum())
    return 1.0 / (classes * size_K[class_R]), np.full(len(rows), 1.0 - 1.0 / classes)


def _p_of_loss(loss_R: Floats, group_R: Codes) -> float:
    """Return the one-sided p-value of no loss, by a t-test of the sums of groups."""
    sums = np.bincount(group_R, weights=loss_R)[np.unique(group_R)]
    loss_U = np.asarray(sums, np.float64)
    units = len(loss_U)
    largest = float(np.abs(loss_U).max())
    if units < 2 or largest == 0:
        return 1.0
    # In units of the largest, squares of any numbers are finite.
    loss_U = loss_U / largest
    error = math.sqrt(units) * float(loss_U.std(ddof=1))
    if error <= 1e-9:
        return 0.0 if loss_U.sum() > 0 else 1.0
    return float(stats.t.sf(loss_U.sum() / error, df=units - 1))
