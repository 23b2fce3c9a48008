"""How many steps a distance matrix is computed in."""

from math import ceil
from typing import Literal

from aam.util.errors import problem

SAMPLES_PER_PARTITION = 5000


def count(setting: int | Literal["auto"], samples: int) -> int:
    """Return the number of steps that `ssu` divides its work into; it never changes a distance.

    Parameters
    ----------
    setting
        `unifrac.partitions` of the configuration; auto: one per 5000 samples.
    samples
        Samples in the table.

    Raises
    ------
    InputError
        If the setting is less than 1.
    """
    if setting == "auto":
        return max(1, ceil(samples / SAMPLES_PER_PARTITION))
    if setting < 1:
        raise problem(
            "unifrac.partitions", str(setting), "auto or at least 1", "set it to auto, or to 1"
        )
    return setting
