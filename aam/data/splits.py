"""Which samples of a task are held out for testing, and in which fold each of the others is."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from aam.util.seeds import seed_of

_SEEDS_OF_SKLEARN = 2**32


def held_out_groups(
    sample_ids: Sequence[str],
    share: float,
    seed: int,
    *,
    classes: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> NDArray[np.bool_]:
    """Return which samples are held out for testing, in whole groups.

    Groups are gone through in the order of the digests of (seed, group). One is taken where that
    brings the number of samples taken of each class nearer to the share of the class, by the
    squared differences over the wanted numbers. The choice depends on the set of samples, never
    on their order.

    Parameters
    ----------
    sample_ids
        IDs of N samples, all different.
    share
        Share of the samples to hold out.
    seed
        Seed of the choice.
    classes
        Class of each sample, to keep the shares of the classes alike on both sides; None: one.
    groups
        Group of each sample; None: each sample by itself.

    Returns
    -------
    numpy.ndarray
        bool [N]; all False where even the smallest group is too large.
    """
    group_rows, names = pd.factorize(np.array(sample_ids if groups is None else groups, object))
    class_rows, kinds = pd.factorize(
        np.array(classes if classes is not None else [""] * len(sample_ids), object)
    )
    sizes_GC = np.zeros((len(names), len(kinds)))
    np.add.at(sizes_GC, (group_rows, class_rows), 1)
    wanted_C = share * sizes_GC.sum(axis=0)
    missing_C = wanted_C.copy()
    is_chosen = np.zeros(len(names), dtype=np.bool_)
    for group in sorted(
        range(len(names)), key=lambda g: (seed_of("test", seed, names[g]), names[g])
    ):
        after_C = missing_C - sizes_GC[group]
        if (after_C**2 / wanted_C).sum() < (missing_C**2 / wanted_C).sum():
            missing_C = after_C
            is_chosen[group] = True
    return is_chosen[group_rows]


def natural_key(text: str) -> tuple[tuple[str, int], ...]:
    """Return a sorting key that puts `fold2` before `fold10`, and `9` before `10`."""
    parts = re.split(r"([0-9]+)", text)
    return tuple(
        (word, int(number)) for word, number in zip(parts[::2], [*parts[1::2], "-1"], strict=True)
    )


def folds_of_labels(labels: Sequence[str]) -> NDArray[np.int64]:
    """Return numbers for the folds that a metadata column names, from 0, in natural order.

    Parameters
    ----------
    labels
        Name of the fold of each of N samples.

    Returns
    -------
    numpy.ndarray
        int64 [N].
    """
    names = sorted(set(labels), key=lambda name: (natural_key(name), name))
    number = {name: position for position, name in enumerate(names)}
    return np.array([number[label] for label in labels], dtype=np.int64)


def assign_folds(
    sample_ids: Sequence[str],
    k: int,
    seed: int,
    *,
    classes: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Divide samples into folds of about the same size.

    The folds depend on the set of samples, never on their order.

    Parameters
    ----------
    sample_ids
        IDs of N samples, all different.
    k
        Number of folds; at most the number of samples, and of groups where there are any.
    seed
        Seed of the draw.
    classes
        Class of each sample, to keep the shares of the classes alike in all folds.
    groups
        Group of each sample; a group stays in one fold.

    Returns
    -------
    numpy.ndarray
        Fold of each sample, int64 [N].
    """
    order = sorted(range(len(sample_ids)), key=sample_ids.__getitem__)
    random_state = seed % _SEEDS_OF_SKLEARN
    sorted_classes = None if classes is None else np.array([classes[row] for row in order])
    sorted_groups = None if groups is None else np.array([groups[row] for row in order])
    if sorted_groups is not None:
        # With one class for all, this balances the folds' sizes; GroupKFold, shuffled, does not.
        splitter = StratifiedGroupKFold(k, shuffle=True, random_state=random_state)
        if sorted_classes is None:
            sorted_classes = np.zeros(len(order), dtype=np.int64)
    elif sorted_classes is not None:
        splitter = StratifiedKFold(k, shuffle=True, random_state=random_state)
    else:
        splitter = KFold(k, shuffle=True, random_state=random_state)
    folds = np.full(len(order), -1, dtype=np.int64)
    tests = splitter.split(np.zeros(len(order)), sorted_classes, sorted_groups)
    for fold, (_, test) in enumerate(tests):
        folds[np.asarray(order)[test]] = fold
    assert set(folds.tolist()) == set(range(k))
    return folds
