"""What is warned of where methods are applied to another table.

Shape suffixes: N samples.
"""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.util.errors import first_names

logger = logging.getLogger(__name__)

MUCH_UNSEEN = 0.2
"""Fraction of the reads, of ASVs never seen, that is warned of."""


def warn_of_known(mark_N: pd.Series) -> None:
    """Name the samples that were in training, in a warning.

    Parameters
    ----------
    mark_N
        Mark of each sample, by its ID; empty for new ones.
    """
    marked = mark_N[mark_N != ""]
    if len(marked):
        logger.warning(
            "of %d samples these were in training, by their ID or by their reads: %s; how well "
            "they are predicted says nothing about new samples (column in_training)",
            len(mark_N),
            first_names(marked.index, limit=20),
        )


def warn_of_unseen(unseen_N: NDArray[np.float64]) -> None:
    """Warn of a table with many reads of ASVs that the table of training lacks.

    Parameters
    ----------
    unseen_N
        Fraction of such reads in each sample.
    """
    mean = float(np.mean(unseen_N))
    if mean > MUCH_UNSEEN:
        logger.warning(
            "%.0f %% of the reads are of ASVs that the models never saw: predictions may be worse "
            "than those of cross-validation",
            100 * mean,
        )


def warn_of_long_branches(rarefaction: Mapping[str, Any]) -> None:
    """Say what other tables have to go without, where the table of training did.

    Parameters
    ----------
    rarefaction
        Settings of the table of training.
    """
    if rarefaction.get("long_branches") == "drop":
        logger.warning(
            "the models learned from reads without the ASVs behind long branches: leave such "
            "ASVs out of other tables yourself, as the log of their import names them"
        )
