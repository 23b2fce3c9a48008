"""ASVs that are left out of a step, and reads that are hidden in it: functions of seed and step.

Shape suffixes: B samples of a batch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.util.seeds import generator

HIDDEN = 0.15
"""Share of the ASVs whose reads are hidden, where they are to be predicted."""


@dataclass(frozen=True)
class AsvDropout:
    """Leaves out ASVs and hides reads, anew in every step.

    Attributes
    ----------
    asv_dropout
        Probability of each ASV of a sample to be left out; every sample keeps one at least.
    hides_reads
        Whether the reads of some ASVs are hidden.
    seed
        Root seed.
    """

    asv_dropout: float
    hides_reads: bool
    seed: int

    def kept(self, richness_B: NDArray[np.int64], step: int) -> NDArray[np.bool_]:
        """Return which of the samples' ASVs stay, sample after sample."""
        draw = generator("asv_dropout", self.seed, step).random(int(richness_B.sum()))
        kept = draw >= self.asv_dropout
        sample = np.repeat(np.arange(len(richness_B)), richness_B)
        is_empty_B = np.bincount(sample, kept, len(richness_B)) == 0
        starts_B = np.cumsum(richness_B) - richness_B
        # The largest draw of a sample is the one that would have been kept longest.
        for row in np.flatnonzero(is_empty_B):
            start = starts_B[row]
            kept[start + draw[start : start + richness_B[row]].argmax()] = True
        return kept

    def hidden(self, richness_B: NDArray[np.int64], step: int) -> NDArray[np.bool_] | None:
        """Return which of the ASVs that stay are shown without their reads; None: all with."""
        if not self.hides_reads:
            return None
        return generator("hidden", self.seed, step).random(int(richness_B.sum())) < HIDDEN


def asv_dropout(asv_dropout: float, hides_reads: bool, seed: int) -> AsvDropout | None:
    """Return what thins batches, or None where nothing is to be done."""
    return AsvDropout(asv_dropout, hides_reads, seed) if asv_dropout or hides_reads else None
