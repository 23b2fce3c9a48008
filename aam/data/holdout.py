"""Which samples of pretraining are held out for validation.

SubprocessRunner from the folds of tasks, so that no encoder depends on how these are drawn.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aam.util.errors import problem
from aam.util.seeds import seed_of


def held_out(sample_ids: Sequence[str], share: float, seed: int) -> NDArray[np.bool_]:
    """Return which samples are held out: those with the smallest digests of (seed, ID).

    The choice depends on the set of samples, never on their order.

    Parameters
    ----------
    sample_ids
        IDs of N samples.
    share
        Share to hold out; at least two samples stay on each side.
    seed
        Seed of the choice.

    Returns
    -------
    numpy.ndarray
        bool [N].

    Raises
    ------
    InputError
        If there are fewer than four samples.
    """
    samples = len(sample_ids)
    if samples < 4:
        raise problem(
            "the feature table",
            f"{samples} samples after rarefaction",
            "at least 4, two to train on and two to hold out",
            "lower rarefaction.depth or add samples",
        )
    size = min(max(round(share * samples), 2), samples - 2)
    digests = [(seed_of("held_out", seed, sample), sample) for sample in sample_ids]
    chosen = sorted(range(samples), key=digests.__getitem__)[:size]
    mask = np.zeros(samples, dtype=np.bool_)
    mask[chosen] = True
    return mask
