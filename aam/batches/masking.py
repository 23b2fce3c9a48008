"""What a step hides of its samples: masked nucleotides, and ASVs that are left out.

Masks are functions of seed, epoch, ASV and position alone; dropped ASVs of seed and step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.config.sections.training import Masking
from aam.data.sequences import MASK
from aam.util.seeds import generator, seed_of

BLOCK_BP = 8
"""Nucleotides of a masked block; two blocks that overlap form a longer one."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Factors of the SplitMix64 finalizer."""


@dataclass(frozen=True)
class Masker:
    """Masks a fraction of the unambiguous nucleotides.

    Attributes
    ----------
    fraction
        Fraction of the nucleotides that are masked, on average.
    seed
        Seed of the draws.
    masking
        ``random``: single nucleotides; ``block``: `BLOCK_BP` in a row; ``patch``: all of a patch.
    patch_bp
        Nucleotides of a patch.
    """

    fraction: float
    seed: int
    masking: Masking = "random"
    patch_bp: int = 1

    def mask(
        self, tokens_US: NDArray[np.uint8], asvs_U: NDArray[np.integer], epoch: int
    ) -> tuple[NDArray[np.uint8], tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Mask nucleotides of some ASVs.

        Parameters
        ----------
        tokens_US
            Tokens of the ASVs.
        asvs_U
            Rows of the ASVs in the store: with seed, epoch and position they decide what is masked.
        epoch
            Number of the epoch, from 0.

        Returns
        -------
        tokens_US : numpy.ndarray
            Tokens with masks, uint8.
        masked : tuple
            Row, position and base (0 to 3) of each masked nucleotide, three arrays in int64.
        """
        chosen_US = self._choose(asvs_U, tokens_US.shape[1], epoch)
        # Tokens 1 to 4 are the bases: padding and ambiguous letters are never masked.
        chosen_US &= (tokens_US >= 1) & (tokens_US <= 4)
        asv_M, position_M = np.nonzero(chosen_US)
        base_M = tokens_US[asv_M, position_M].astype(np.int64) - 1
        return np.where(chosen_US, np.uint8(MASK), tokens_US), (asv_M, position_M, base_M)

    def _choose(self, asvs_U: NDArray[np.integer], length: int, epoch: int) -> NDArray[np.bool_]:
        """Choose positions [U, S], whatever letters stand there."""
        if self.masking == "block":
            # A position is masked if a block begins there or shortly before: at one of `BLOCK_BP`
            # positions.
            start_probability = 1.0 - (1.0 - self.fraction) ** (1.0 / BLOCK_BP)
            starts = self._uniform(asvs_U, length + BLOCK_BP - 1, epoch) < start_probability
            windows = np.lib.stride_tricks.sliding_window_view(starts, BLOCK_BP, axis=1)
            return np.asarray(windows.any(axis=2))
        if self.masking == "patch":
            patches = -(-length // self.patch_bp)
            chosen = self._uniform(asvs_U, patches, epoch) < self.fraction
            return np.repeat(chosen, self.patch_bp, axis=1)[:, :length]
        return self._uniform(asvs_U, length, epoch) < self.fraction

    def _uniform(self, asvs_U: NDArray[np.integer], length: int, epoch: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1), [U, S], by the SplitMix64 finalizer (Steele et al. 2014).

        A generator would depend on the order of the ASVs. This function hashes ASV, position and
        epoch of each number, so that other ASVs of the batch change nothing.
        """
        epoch_key = seed_of("mask", self.seed, epoch)
        asv_U1 = asvs_U.astype(np.uint64)[:, None]
        position_S = np.arange(length, dtype=np.uint64)
        # An ASV has fewer than 2**20 positions, so that no two keys are the same.
        key_US = (asv_U1 << 20) + position_S
        bits = key_US * np.uint64(0x9E3779B97F4A7C15) + np.uint64(epoch_key)
        for shift, factor in ((30, _MIX[0]), (27, _MIX[1])):
            bits = (bits ^ np.right_shift(bits, np.uint64(shift))) * factor
        bits = np.right_shift(bits ^ np.right_shift(bits, np.uint64(31)), np.uint64(11))
        return bits.astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class AsvDropout:
    """Leaves out ASVs, with a new draw in every step.

    Attributes
    ----------
    rate
        Probability with which each ASV of a sample is left out. Every sample keeps one at least.
    seed
        Seed of the draws.
    """

    rate: float
    seed: int

    def kept(self, richness_B: NDArray[np.int64], step: int) -> NDArray[np.bool_]:
        """Return which of the samples' ASVs stay, sample after sample.

        Parameters
        ----------
        richness_B
            Number of ASVs of each sample.
        step
            Number of the step, from 0.

        Returns
        -------
        numpy.ndarray
            bool, one for each ASV of each sample.
        """
        draw = generator("asv_dropout", self.seed, step).random(int(richness_B.sum()))
        kept = draw >= self.rate
        sample = np.repeat(np.arange(len(richness_B)), richness_B)
        is_empty_B = np.bincount(sample, kept, len(richness_B)) == 0
        starts_B = np.cumsum(richness_B) - richness_B
        # An empty sample gets back the ASV that a slightly lower rate would have kept first.
        for row in np.flatnonzero(is_empty_B):
            start = starts_B[row]
            kept[start + draw[start : start + richness_B[row]].argmax()] = True
        return kept
