"""Samples held out of pretraining; apart, so that no encoder depends on how folds are drawn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aam.util.errors import problem
from aam.util.seeds import seed_of


def held_out(sample_ids: Sequence[str], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which samples are held out, bool [N]: those of the smallest digests of (seed, ID).

    Fewer than four samples are an InputError.
    """
    samples = len(sample_ids)
    if samples < 4:
        raise problem(
            "the feature table",
            f"{samples} samples after rarefaction",
            "at least 4, two to train on and two to hold out",
            "lower rarefaction.depth or add samples",
        )
    size = min(max(round(fraction * samples), 2), samples - 2)
    order = sorted(sample_ids, key=lambda name: (seed_of("held_out", seed, name), name))
    chosen = set(order[:size])
    return np.array([name in chosen for name in sample_ids])
