"""Import the feature table and the sequences of its features."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from aam.data.importing.counts import import_counts, warn_of_odd_reads
from aam.data.sequences import write_fasta
from aam.data.table import write_biom
from aam.util.atomic import write_tsv
from aam.util.notes import collect_notes, write_notes

logger = logging.getLogger(__name__)


def import_table(
    *,
    table: Path,
    sequences: Path | None = None,
    metadata: Path | None = None,
    values: Literal["reads", "amounts"] | None = None,
    table_out: Path,
    sequences_out: Path,
    dropped_out: Path,
    notes_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Check the user's table and sequences, leave out what adds nothing, and write both.

    Parameters
    ----------
    table
        The user's table: BIOM 2.1, BIOM 1.0, text in columns or `.qza`.
    sequences
        FASTA file or `.qza` with the sequences of the features. None: their IDs are the sequences,
        or a column of the table has them, or they have none.
    metadata
        Metadata of the samples, whose IDs tell the samples of the table from its features; None:
        the table does.
    values
        What the numbers of the table are; None: it is recognized.
    table_out
        BIOM file to write; it has the lineages of features without sequences, where it has any.
    sequences_out
        FASTA file to write, in the order of the table; empty if features have no sequences.
    dropped_out
        TSV file to write: samples and features without reads, totals among them, and features
        whose sequence another has.
    notes_out
        TSV file to write: what was decided for the user.
    provenance
        Metadata of the table that is written (`aam.util.digests`).

    Raises
    ------
    InputError
        A file cannot be read, or the sequences are not those of the features.
    """
    with collect_notes() as notes:
        counts = import_counts(table, sequences, metadata=metadata, values=values)
        kept = counts.table
        warn_of_odd_reads(table, counts.region())
    logger.info(
        "%d samples, %d features, %s; %d samples and features left out",
        len(kept.sample_ids),
        len(kept.feature_ids),
        f"{kept.counts.sum()} reads" if kept.facts.is_counted else "amounts",
        len(counts.left_out),
    )
    write_biom(table_out, kept, provenance, counts.lineages)
    write_fasta(sequences_out, counts.sequences)
    write_tsv(dropped_out, counts.left_out)
    write_notes(notes_out, notes)
