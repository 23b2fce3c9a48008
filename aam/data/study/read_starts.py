"""Where the sequences of a study begin: with its region, with a primer, or reversed.

Shape suffixes: F features.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from aam.data.table import FeatureTable
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)

V4 = re.compile("[ACGT]AC[AG][ACGT][AG][ACGT]G")
"""Beginning of nearly all 16S sequences behind the primer 515F."""
PRIMER = re.compile("GTG[CT]CAGC[AC]GCCGCGGTAA")
"""The primer 515F."""
COMPLEMENT = str.maketrans("ACGTURYSWKMBDHVN", "TGCAAYRSWMKVHDBN")
UNUSUAL = 0.05
"""Share of the reads that look wrong, from which on a sentence says so."""


def sequence_sentences(table: FeatureTable, sequences: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence on the sequences, and others on what looks wrong with them.

    Parameters
    ----------
    table
        Raw counts.
    sequences
        Sequence by feature ID.
    """
    total_F = np.asarray(table.counts.sum(axis=0)).ravel()
    asvs = [sequences[name] for name in table.feature_ids]
    lengths = sorted(map(len, asvs))
    # Sequences that were read from the other end begin as V4 does once they are turned.
    turned = [text.translate(COMPLEMENT)[::-1] for text in asvs]

    def find_share(pattern: re.Pattern[str], texts: Sequence[str]) -> float:
        """Return the share of the reads whose sequence begins with a pattern."""
        begins_F = [pattern.match(text) is not None for text in texts]
        return float(total_F[begins_F].sum() / total_F.sum())

    in_v4 = find_share(V4, asvs)
    in_reverse = find_share(V4, turned)
    with_primer = find_share(PRIMER, asvs)
    length = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else lengths[0]
    yield (
        f"Sequences of {length} nucleotides; {in_v4:.0%} of the reads begin as 16S does "
        "behind the primer 515F (region V4)."
    )
    if with_primer > UNUSUAL:
        yield f"{with_primer:.0%} of the reads still have the primer 515F: trim it."
    elif in_reverse > UNUSUAL:
        yield f"{in_reverse:.0%} look like reverse complements: complement and reverse them."
    elif 0.5 < in_v4 < 1 - UNUSUAL:
        yield f"{1 - in_v4:.0%} of the reads begin elsewhere: cut them, or leave them out."


def warn_of_odd_reads(path: Path, table: FeatureTable, sequences: Mapping[str, str]) -> None:
    """Log what the sequences are, and warn of what looks wrong with them.

    Parameters
    ----------
    path
        File of the table.
    table, sequences
        As for `sequence_sentences`.
    """
    about, *odd = sequence_sentences(table, sequences)
    logger.info("%s", about)
    for sentence in odd:
        logger.warning("%s: %s", path, sentence, extra=CAUTION)
