"""Draws of folds and of samples to test: functions of IDs, groups, classes and a seed.

Shape suffixes: N samples, G groups, C classes.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from aam.util.seeds import seed_of

_SEEDS_OF_SKLEARN = 2**32
Names = Sequence[str] | NDArray[np.object_]
"""IDs, groups or classes of samples."""


def held_out_groups(
    sample_ids: Names,
    fraction: float,
    seed: int,
    *,
    classes: Names | None = None,
    groups: Names | None = None,
) -> NDArray[np.bool_]:
    """Choose the samples that are held out for testing, in whole groups.

    Groups are gone through in the order of the digests of (seed, group). One is taken where that
    brings the number of samples taken of each class nearer to the fraction of the class, by the
    squared differences over the wanted numbers. None is taken where even the smallest is too large.

    Parameters
    ----------
    sample_ids
        IDs of the N samples.
    fraction
        Fraction of the samples to hold out.
    seed
        Seed of the order.
    classes
        Class of each sample; None: they do not matter.
    groups
        Group of each sample; None: every sample is a group.

    Returns
    -------
    numpy.ndarray
        Whether each sample is held out, bool [N].
    """
    group_N, names = pd.factorize(np.array(sample_ids if groups is None else groups, object))
    class_N, _ = pd.factorize(np.array([""] * len(group_N) if classes is None else classes, object))
    sizes_GC = pd.crosstab(group_N, class_N).to_numpy(dtype=np.float64)
    wanted_C = fraction * sizes_GC.sum(axis=0)
    missing_C = wanted_C.copy()
    is_chosen = np.zeros(len(names), dtype=np.bool_)
    order = sorted((seed_of("test", seed, name), name, g) for g, name in enumerate(names))
    for _, _, group in order:
        after_C = missing_C - sizes_GC[group]
        if (after_C**2 / wanted_C).sum() < (missing_C**2 / wanted_C).sum():
            missing_C = after_C
            is_chosen[group] = True
    return is_chosen[group_N]


def folds_of_labels(labels: Sequence[str]) -> NDArray[np.int64]:
    """Return numbers [N] for the folds that a metadata column names, from 0, in natural order.

    That puts `fold2` before `fold10`, and `9` before `10`.
    """

    def key(name: str) -> tuple[list[tuple[str, int]], str]:
        words = re.split(r"[0-9]+", name)
        numbers = re.findall(r"[0-9]+", name)
        return list(zip(words, map(int, [*numbers, "-1"]), strict=True)), name

    names = sorted(set(labels), key=key)
    return pd.Index(names).get_indexer(pd.Index(labels)).astype(np.int64)


def assign_folds(
    sample_ids: Names,
    k: int,
    seed: int,
    *,
    classes: Names | None = None,
    groups: Names | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each sample, of folds that are alike in size and classes.

    Parameters
    ----------
    sample_ids
        IDs of the N samples; their order does not matter.
    k
        Number of folds.
    seed
        Seed of the draw.
    classes
        Class of each sample, of which all folds get the same fraction; None: they do not matter.
    groups
        Group of each sample, which lies in one fold as a whole; None: samples are drawn singly.

    Returns
    -------
    numpy.ndarray
        Folds from 0 to k - 1, int64 [N].
    """
    # Samples are divided in the order of their IDs, whatever their order in the table.
    order = np.array(sorted(range(len(sample_ids)), key=sample_ids.__getitem__))
    kind = KFold if classes is None else StratifiedKFold
    if groups is not None:
        # With one class for all, this balances the folds' sizes; GroupKFold, shuffled, does not.
        kind = StratifiedGroupKFold
        groups = np.array(groups, dtype=str)[order]
        classes = [""] * len(order) if classes is None else classes
    ordered = None if classes is None else np.array(classes, dtype=str)[order]
    splitter = kind(k, shuffle=True, random_state=seed % _SEEDS_OF_SKLEARN)
    folds = np.full(len(order), -1, dtype=np.int64)
    for fold, (_, test) in enumerate(splitter.split(np.zeros(len(order)), ordered, groups)):
        folds[order[test]] = fold
    assert set(folds.tolist()) == set(range(k))
    return folds
