"""Which models a nested cross-validation fits: those that the weights of a mixture rest on.

A mixture for a fold needs to know how well each method predicts what it has not seen, without any
help from the labels of the fold. So every method is fitted once more without the fold and without
some other samples, and the weights are fitted to its predictions of these. A fit without two blocks
of folds serves both: the second block is predicted for the first, and the first for the second.

Shape suffixes: N samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import TEST

BLOCKS = 5
"""Blocks that folds are joined to, at most: the number of fits grows with its square."""
PARTS = 5
"""Parts of the samples outside of a block, at most, where there are too few blocks for pairs."""
RING_PARTS = 2
"""Parts that a method that takes long is fitted without, where there are too few blocks."""
LEAST_BLOCKS = 4
"""Blocks from which on pairs of them are left out: of three, a pair leaves a third to train on."""


@dataclass(frozen=True, eq=False)
class InnerFit:
    """A fit of a nested cross-validation.

    Attributes
    ----------
    name
        What identifies the fit, for seeds and folders: `0+3` without the blocks 0 and 3.
    is_training_N
        The samples that are learned from.
    predicted
        By block: the rows that are predicted for its weights. The fit has seen no label of the
        block, and none of these rows.
    """

    name: str
    is_training_N: NDArray[np.bool_]
    predicted: Mapping[int, NDArray[np.intp]]

    @property
    def rows(self) -> NDArray[np.intp]:
        """All rows that are predicted, ascending."""
        return np.unique(np.concatenate(list(self.predicted.values())))


def blocks_of_folds(fold_N: NDArray[np.int64]) -> dict[int, int]:
    """Return the block of every fold; the folds are their own blocks where they are few enough.

    More folds than `BLOCKS` are joined to blocks of about the same number of samples.

    Parameters
    ----------
    fold_N
        Fold of each sample; `TEST` is in no block.

    Returns
    -------
    dict
        Number of the block, from 0, by fold.
    """
    folds, sizes = np.unique(fold_N[fold_N != TEST], return_counts=True)
    if len(folds) <= BLOCKS:
        return {int(fold): block for block, fold in enumerate(folds)}
    samples = np.zeros(BLOCKS, np.int64)
    blocks = {}
    # The largest folds come first, each into the block that is the smallest so far.
    for index in np.argsort(-sizes, kind="stable"):
        smallest = int(samples.argmin())
        blocks[int(folds[index])] = smallest
        samples[smallest] += sizes[index]
    return blocks


def ring_size(folds: int) -> int:
    """Return the number of fits of a ring.

    Parameters
    ----------
    folds
        Number of folds of the cross-validation.
    """
    if folds < LEAST_BLOCKS:
        return RING_PARTS * folds
    return min(folds, BLOCKS)


def inner_fits(
    fold_N: NDArray[np.int64], unit_N: NDArray[np.str_], *, ring: bool = False
) -> list[InnerFit]:
    """Return the fits that the weights of all blocks rest on.

    With `LEAST_BLOCKS` blocks and more, every fit leaves out a pair of them. With fewer, it leaves
    out one, and one of up to `PARTS` parts of all other samples, made of whole groups where there
    are several.

    Parameters
    ----------
    fold_N
        Fold of each sample; samples of `TEST` take no part.
    unit_N
        Group of each sample, or its own name where it has none.
    ring
        Fit as few as possible, for methods that take long: each block is paired with the next one
        alone, or `RING_PARTS` parts of all others are left out.

    Returns
    -------
    list of InnerFit
        K (K - 1) / 2 fits for K blocks, or K of a ring; with few blocks one for each block and
        part.
    """
    blocks = blocks_of_folds(fold_N)
    block_N = np.array([blocks.get(int(fold), TEST) for fold in fold_N], np.int64)
    names = sorted(set(blocks.values()))
    if len(names) < LEAST_BLOCKS:
        return _fits_without_parts(block_N, unit_N, most=RING_PARTS if ring else PARTS)
    pairs = [(first, second) for first in names for second in names if first < second]
    if ring:
        last = names[-1]
        pairs = [pair for pair in pairs if pair[1] - pair[0] == 1 or pair == (0, last)]
    return [_fit_without_pair(block_N, *pair) for pair in pairs]


def _fit_without_pair(block_N: NDArray[np.int64], first: int, second: int) -> InnerFit:
    is_first_N = block_N == first
    is_second_N = block_N == second
    return InnerFit(
        name=f"{first}+{second}",
        is_training_N=(block_N != TEST) & ~is_first_N & ~is_second_N,
        predicted={first: np.flatnonzero(is_second_N), second: np.flatnonzero(is_first_N)},
    )


def _fits_without_parts(
    block_N: NDArray[np.int64], unit_N: NDArray[np.str_], most: int
) -> list[InnerFit]:
    """Return fits without a block and a part of all other samples, for the first `most` parts."""
    fits = []
    for block in np.unique(block_N[block_N != TEST]).tolist():
        others = np.flatnonzero((block_N != block) & (block_N != TEST))
        # Where there is a single group, only its samples are left to divide.
        # Groups are numbered in the order of the samples, so that the names of lone samples do not
        # change the parts.
        units = pd.factorize(unit_N[others])[0]
        if len(set(units)) == 1:
            units = np.arange(len(others))
        parts = min(PARTS, len(set(units)))
        if parts < 2:
            continue
        # scikit-learn is imported here, as it takes a second and few callers draw parts.
        from sklearn.model_selection import GroupKFold

        splits = list(GroupKFold(parts).split(others, groups=units))
        for number, (inner, left_out) in enumerate(splits[:most]):
            is_training_N = np.zeros(len(block_N), np.bool_)
            is_training_N[others[inner]] = True
            name = f"{block}+part{number}"
            fits.append(InnerFit(name, is_training_N, {block: others[left_out]}))
    return fits
