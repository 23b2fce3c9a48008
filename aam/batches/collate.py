"""The batch of some rows of the sample store, in which every distinct ASV is held once.

Shape suffixes: U distinct ASVs, S positions, B samples, A ASVs in a sample, F ASVs of the store.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aam.batches.masking import AsvDropout, Masker
from aam.data.sequences import PAD
from aam.data.stores import SampleStore, TokenStore, places_of
from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock

SAMPLES_PER_BLOCK = 16
"""Most samples of a block on a CPU: samples of similar richness, padded to the richest of them."""
ACCELERATOR_SAMPLES_PER_BLOCK = 256
"""The same number on an accelerator, where starting a kernel costs more than padding."""
BITS = 5
"""Binary digits of block sizes: sizes differ by 3 to 6 %."""


def assemble(
    store: SampleStore,
    tokens: TokenStore,
    rows_B: NDArray[np.int64],
    *,
    masker: Masker | None = None,
    epoch: int = 0,
    asv_dropout: AsvDropout | None = None,
    step: int = 0,
    at_once: int | None = None,
) -> Batch:
    """Build the batch of some rows of the store, without targets.

    Parameters
    ----------
    store
        Samples.
    tokens
        Their ASVs.
    rows_B
        Rows of the store.
    masker
        Masks nucleotides, by the epoch; None: none are masked.
    epoch
        Number of the epoch, from 0.
    asv_dropout
        Leaves out ASVs, by the step; None: all stay.
    step
        Number of the step, from 0.
    at_once
        Most samples of a block; None: `SAMPLES_PER_BLOCK`.

    Returns
    -------
    Batch
        On the host; its samples are in the order of `rows_B`.
    """
    entries, distinct_U, index = entries_of(store, rows_B, asv_dropout, step)
    blocks, number_U = asv_blocks(tokens, distinct_U, masker=masker, epoch=epoch, bucketed=True)
    # Blocks reorder the ASVs, so that the samples point to the numbers that the blocks give them.
    samples, order_B = sample_blocks(number_U[index], entries, at_once)
    return Batch(asvs=blocks, samples=samples, order_B=order_B, distances={}, values={})


class Entries(NamedTuple):
    """The ASVs of some samples, sample after sample."""

    counts: NDArray[np.int32]
    """Reads of each."""
    richness_B: NDArray[np.int64]
    """ASVs of each sample."""


def entries_of(
    store: SampleStore, rows_B: NDArray[np.int64], asv_dropout: AsvDropout | None, step: int
) -> tuple[Entries, NDArray[np.int32], NDArray[np.int64]]:
    """Return the ASVs of some rows, each distinct one once.

    Parameters
    ----------
    store
        Samples.
    rows_B
        Rows of the store.
    asv_dropout
        Leaves out ASVs, by the step; None: all stay.
    step
        Number of the step, from 0.

    Returns
    -------
    entries : Entries
        Reads and richness of the rows.
    distinct_U : numpy.ndarray
        Rows of the token store, ascending.
    index : numpy.ndarray
        Position of the ASV of each entry in `distinct_U`.
    """
    flat, richness_B = places_of(store.offsets, rows_B)
    if asv_dropout is not None:
        kept = asv_dropout.kept(richness_B, step)
        sample = np.repeat(np.arange(len(rows_B)), richness_B)[kept]
        flat = flat[kept]
        richness_B = np.bincount(sample, minlength=len(rows_B))
    distinct_U, index = np.unique(store.asvs[flat], return_inverse=True)
    return Entries(store.counts[flat], richness_B), distinct_U, index


def asv_blocks(
    tokens: TokenStore,
    asvs_U: NDArray[np.integer],
    *,
    masker: Masker | None = None,
    epoch: int = 0,
    bucketed: bool = False,
) -> tuple[list[AsvBlock], NDArray[np.int64]]:
    """Return ASVs in blocks, one per length.

    Parameters
    ----------
    tokens
        ASVs of the store.
    asvs_U
        Rows of some of these.
    masker
        Masks nucleotides, by the epoch; None: none are masked.
    epoch
        Number of the epoch, from 0.
    bucketed
        Whether blocks end with rows that no sample points to, so that their sizes recur.

    Returns
    -------
    blocks : list of AsvBlock
        Tokens [U, S] in uint8, unpadded.
    number_U : numpy.ndarray
        Number of each of `asvs_U` through all blocks, int64.
    """
    lengths_U = tokens.lengths[asvs_U]
    blocks = []
    number_U = np.empty(len(asvs_U), np.int64)
    rows_before = 0
    # ASVs of an amplicon have few lengths: a block for each needs no padding, whose positions would
    # cost time in every layer.
    for length in np.unique(lengths_U):
        members = np.flatnonzero(lengths_U == length)
        tokens_US = tokens.tokens[asvs_U[members], :length]
        masked = None
        if masker is not None:
            tokens_US, (asv_M, position_M, base_M) = masker.mask(tokens_US, asvs_U[members], epoch)
            masked = Masked(
                asv_M=torch.from_numpy(np.ascontiguousarray(asv_M)),
                position_M=torch.from_numpy(np.ascontiguousarray(position_M)),
                base_M=torch.from_numpy(np.ascontiguousarray(base_M)),
            )
        if bucketed:
            unused = bucket(len(members)) - len(members)
            tokens_US = np.pad(tokens_US, ((0, unused), (0, 0)), constant_values=PAD)
        blocks.append(AsvBlock(torch.from_numpy(tokens_US), masked))
        number_U[members] = rows_before + np.arange(len(members))
        rows_before += len(tokens_US)
    return blocks, number_U


def bucket(number: int, bits: int = BITS) -> int:
    """Return the next number with at most `bits` significant binary digits.

    Kernels, above all compiled ones, are made for each shape and kept. With fewer distinct shapes a
    run makes fewer of them and is faster.

    Parameters
    ----------
    number
        Size of a block.
    bits
        Significant binary digits of the result.

    Returns
    -------
    int
        `number` itself, or a little more.
    """
    step = 1 << max(0, number.bit_length() - bits)
    return -(-number // step) * step


def sample_blocks(
    asvs: NDArray[np.int64], entries: Entries, at_once: int | None = None
) -> tuple[list[SampleBlock], torch.Tensor]:
    """Return samples in blocks of similar richness.

    Parameters
    ----------
    asvs
        Number of the ASV of each entry, among those of the batch, int64.
    entries
        ASVs and reads of the samples.
    at_once
        Most samples of a block; None: `SAMPLES_PER_BLOCK`.

    Returns
    -------
    blocks : list of SampleBlock
        The samples, padded to the richest of each block.
    order_B : torch.Tensor
        Position of each sample in the concatenated blocks.
    """
    richness_B = entries.richness_B
    starts_B = np.cumsum(richness_B) - richness_B
    by_richness = np.argsort(richness_B, kind="stable")
    blocks = []
    size = at_once or SAMPLES_PER_BLOCK
    for first in range(0, len(by_richness), size):
        members = by_richness[first : first + size]
        column = np.arange(bucket(int(richness_B[members].max())))
        present_BA = column < richness_B[members, None]
        # Padding points to entry 0, so that the index is valid; what is found there is not used.
        flat_BA = np.where(present_BA, starts_B[members, None] + column, 0)
        asv_BA = np.where(present_BA, asvs[flat_BA], 0)
        counts_BA = np.where(present_BA, entries.counts[flat_BA], 0).astype(np.float32)
        block = SampleBlock(
            asv_BA=torch.from_numpy(asv_BA),
            present_BA=torch.from_numpy(present_BA),
            counts_BA=torch.from_numpy(counts_BA),
        )
        blocks.append(block)
    return blocks, torch.from_numpy(np.argsort(by_richness))
