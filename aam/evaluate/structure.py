"""Which samples belong together: the one definition that scores, tests and intervals share."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aam.data.folds import units_of

LEAST_UNITS = 10
"""Groups, or samples without groups, below which there is no interval."""


@dataclass(frozen=True)
class Structure:
    """The groups of the samples that a score rests on, as `metrics.json` holds them."""

    column: str | None
    """Metadata column that keeps samples together; None: none was named."""
    groups: int | None
    """Number of groups; None where the samples have none."""
    independent: bool
    """No two samples share a group, so that tests over samples are valid."""
    stated: bool
    """The user named a column, or said that every sample is of its own."""

    @classmethod
    def read(cls, group: ArrayLike, settings: Mapping[str, Any]) -> "Structure":
        """Return the structure of scored samples.

        Parameters
        ----------
        group
            The column `group` of the samples' folds, [N]: "" for a sample without a group.
        settings
            `column` and `stated`, from the slice `score`.
        """
        names = np.asarray(group, dtype=np.str_)
        named = names[names != ""]
        groups = len(np.unique(named))
        return cls(
            column=settings["column"],
            groups=groups or None,
            independent=groups == len(named),
            stated=settings["stated"],
        )

    def plain(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return asdict(self)


def unit_codes(group: ArrayLike) -> NDArray[np.int64]:
    """Return the number of each sample's unit, int64 [N]: its group, or the sample itself.

    Parameters
    ----------
    group
        Group of each sample, [N]; "" for a sample without a group.
    """
    names = np.asarray(group, dtype=np.str_)
    rows = pd.RangeIndex(len(names)).astype(str)
    unit_N = units_of(pd.Series(names, rows)).to_numpy(np.str_)
    return np.unique(unit_N, return_inverse=True)[1]
