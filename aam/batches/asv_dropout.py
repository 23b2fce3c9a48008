"""ASVs left out of a step: a function of seed and step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.util.seeds import generator


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
