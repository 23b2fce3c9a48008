"""The true sketches of the ASVs of a tree, which `aam.model.sketch` explains.

Shape suffixes: F ASVs, S positions, E branches, K numbers of a sketch, C some of them, P branches
above ASVs, ASV after ASV.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.inference.embed import asvs_of
from aam.model.sketch import NEVER, SketchHead, own_noise
from aam.unifrac.in_batch import BatchDistances
from aam.util.seeds import generator

SEED = 0
"""Seed of the variables of all branches: those of other pretrainings are the same."""
SHORTEST = 1e-6
"""Substitutions per site of a branch that has none."""
NUMBERS_AT_ONCE, ASVS_AT_ONCE = 64, 4096


def true_sketches(
    head: SketchHead,
    exact: BatchDistances,
    store: SampleStore,
    tokens: TokenStore,
    training: NDArray[np.int64],
) -> torch.Tensor:
    """Return the sketches [F, K] of all ASVs; the head starts at the mean of the training ASVs."""
    assert exact.above_FE is not None
    assert exact.length_E is not None
    numbers = head.out.out_features - 1
    sketch_FK, own = tree_sketches(exact.above_FE, exact.length_E, tokens, numbers, SEED)
    known = torch.from_numpy(asvs_of(store, training, len(tokens.lengths)))
    head.start(sketch_FK[known].float().mean(dim=0), own)
    return sketch_FK


def tree_sketches(
    above_FE: csr_array,
    length_E: NDArray[np.float64],
    tokens: TokenStore,
    numbers: int,
    seed: int,
) -> tuple[torch.Tensor, float]:
    """Return the sketches [F, K] in fp16, and the mean logarithm of the ASVs' own branches.

    An own branch is what lies above one ASV alone; its variables are those of its sequence.
    """
    is_own_E = np.bincount(above_FE.indices, minlength=len(length_E)) == 1
    log_E = np.log(np.maximum(length_E, SHORTEST)).astype(np.float32)
    own_F = np.log(np.maximum(above_FE @ (length_E * is_own_E), SHORTEST)).astype(np.float32)
    # A first number that is never the largest stands for the branches above nothing but one ASV.
    starts_F = above_FE.indptr[:-1].astype(np.int64) + np.arange(above_FE.shape[0])
    path_P = np.insert(above_FE.indices.astype(np.int64), above_FE.indptr[:-1], len(length_E))
    sketch_FK = torch.empty(above_FE.shape[0], numbers, dtype=torch.float16)
    for first in range(0, numbers, NUMBERS_AT_ONCE):
        width = min(NUMBERS_AT_ONCE, numbers - first)
        gumbel_EC = generator("sketch", seed, first).gumbel(size=(len(length_E), width))
        value_EC = np.full((len(length_E) + 1, width), NEVER, np.float32)
        value_EC[:-1] = np.where(is_own_E[:, None], NEVER, log_E[:, None] + gumbel_EC)
        for asv in range(0, above_FE.shape[0], ASVS_AT_ONCE):
            starts = starts_F[asv : asv + ASVS_AT_ONCE]
            last = starts_F[asv + len(starts)] if asv + len(starts) < len(starts_F) else len(path_P)
            inner = np.maximum.reduceat(value_EC[path_P[starts[0] : last]], starts - starts[0])
            sketch_FK[asv : asv + len(starts), first : first + width] = torch.from_numpy(inner)
    for asv in range(0, above_FE.shape[0], ASVS_AT_ONCE):
        rows = slice(asv, asv + ASVS_AT_ONCE)
        by_length = _by_length(tokens, rows)
        noise_FK = torch.cat([_noise(tokens, row, numbers) for row in by_length])
        order = torch.from_numpy(np.concatenate(by_length))
        own = torch.from_numpy(own_F)[order, None] + noise_FK
        sketch_FK[order] = torch.maximum(sketch_FK[order], own.half())
    return sketch_FK, float(own_F.mean())


def _by_length(tokens: TokenStore, rows: slice) -> list[NDArray[np.int64]]:
    """Return the rows of ASVs of each length: a batch hashes them unpadded."""
    lengths = tokens.lengths[rows]
    return [np.flatnonzero(lengths == length) + rows.start for length in np.unique(lengths)]


def _noise(tokens: TokenStore, rows: NDArray[np.int64], numbers: int) -> torch.Tensor:
    letters_US = tokens.tokens[rows, : int(tokens.lengths[rows[0]])]
    return own_noise(torch.from_numpy(np.ascontiguousarray(letters_US)), numbers)
