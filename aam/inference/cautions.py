"""What is warned of where methods are applied to another table: see `aam.inference.nearness`, too.

Shape suffixes: N samples.
"""

import logging
from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.nouns import Nouns
from aam.data.predictions import FEW_NEAR, NEAR_READS, UNSEEN_ASVS
from aam.data.table import ASV_READS, TableFacts
from aam.util.errors import first_names
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)

MUCH_UNSEEN = 0.2
"""Fraction of the reads, of ASVs never seen, that is warned of."""


def warn_of_known(mark_N: pd.Series, where: str) -> None:
    """Name the samples that were in training, in a warning.

    Parameters
    ----------
    mark_N
        Mark of each sample, by its ID; empty for new ones.
    where
        What messages call the table.
    """
    marked = mark_N[mark_N != ""]
    if len(marked):
        logger.warning(
            "%s: of %d samples these were in training, by their ID or by their reads: %s; how well "
            "they are predicted says nothing about new samples (column in_training)",
            where,
            len(mark_N),
            first_names(marked.index, limit=20),
        )


def warn_of_unseen(nearness: pd.DataFrame, where: str, facts: TableFacts = ASV_READS) -> None:
    """Warn of a table with many reads of features that the table of training lacks.

    Parameters
    ----------
    nearness
        What `aam.inference.nearness.measure_nearness` returns. Samples with few near reads have a
        warning of their own.
    where
        What messages call the table.
    facts
        What the table of training held.
    """
    many = Nouns.of_table(facts).many
    near = "known ASVs or near one"
    if not facts.has_sequences:
        near = f"known {many} or of a taxon above that was in training"
    others = nearness[nearness[NEAR_READS] >= FEW_NEAR]
    if len(others) and others[UNSEEN_ASVS].mean() > MUCH_UNSEEN:
        logger.warning(
            "%s: %.0f %% of the reads are of %s that the models never saw, although %.0f %% are "
            "of %s: predictions may be worse than those of cross-validation",
            where,
            100 * others[UNSEEN_ASVS].mean(),
            many,
            100 * others[NEAR_READS].mean(),
            near,
        )


def warn_of_nothing_learned(where: str) -> None:
    """Warn that the classes of a table are no better than guessed.

    Parameters
    ----------
    where
        What messages call the table.
    """
    logger.warning(
        "%s: nothing was learned, as in cross-validation the probabilities of the classes did not "
        "follow the samples (calibration slope 0): every sample gets the frequencies of the "
        "classes as probabilities, and the column `predicted` is a guess: do not use it",
        where,
        extra=CAUTION,
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
