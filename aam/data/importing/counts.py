"""The table and the sequences of a study as every command and stage reads them.

What has no reads is left out, and features of the same sequence become one.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from aam.data.importing.region import ReadRegion, recognize_region
from aam.data.importing.sequences import (
    SequenceFile,
    is_hash,
    is_sequence,
    match_sequences,
    read_sequence_file,
)
from aam.data.importing.table import TableFile, read_table_file, without_empty
from aam.data.importing.values import Values
from aam.data.nouns import PLURALS, find_lineages, name_features, split_lineage
from aam.data.sequences import SAME_SEQUENCE
from aam.data.table import FeatureTable
from aam.util.errors import count_names, first_few
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)
_LEFT_OUT = ("what", "id", "why")
LEAST_FEATURES = 5
"""Features from which on two samples with the same reads are copies of one."""


@dataclass(frozen=True)
class ReadCounts:
    """Reads or amounts of a study, and the sequences or lineages of its features."""

    table: FeatureTable
    """Samples and features with reads; no two features have the same sequence. Its facts say what
    the table can do."""
    sequences: dict[str, str]
    """Sequence by feature ID, in the order of the table; empty if they have none."""
    left_out: pd.DataFrame
    """`what`, `id` and `why` of everything else that the file has."""
    lineages: dict[str, list[str]] = field(default_factory=dict)
    """Ranks of features without sequences by ID, the highest first, as far as they are known."""

    @property
    def other_names(self) -> dict[str, list[str]]:
        """Return the IDs that each feature had in addition."""
        return read_other_names(self.left_out)

    def region(self) -> ReadRegion | None:
        """Return what the sequences are of; None where there are none."""
        if not self.table.facts.has_sequences:
            return None
        texts = [self.sequences[name] for name in self.table.feature_ids]
        return recognize_region(texts, np.asarray(self.table.counts.sum(axis=0)).ravel())


def import_counts(
    table: Path | FeatureTable,
    sequences: Path | None = None,
    metadata: Path | None = None,
    values: Values | None = None,
    known_features: Collection[str] = (),
) -> ReadCounts:
    """Read a table and the sequences of its features, and leave out what adds nothing.

    Parameters
    ----------
    table
        The user's table, or one in memory.
    sequences
        FASTA file or `.qza` of the sequences. None: the feature IDs are the sequences, or a column
        of the table has them, or there are none.
    values
        What the numbers of the table are; None: it is recognized.
    metadata
        File of the metadata, whose sample IDs tell which axis of the table holds the samples where
        no sequences do.
    known_features
        As for `aam.data.importing.layout.orient`.

    Raises
    ------
    InputError
        A file cannot be read, the table could be read in two ways, or only some features have a
        sequence.
    """
    given = None if sequences is None else read_sequence_file(sequences)
    if isinstance(table, FeatureTable):
        # Messages begin with the path of a file, and this table has none.
        where = Path("the table")
        file = TableFile(table, {}, [])
    else:
        where = table
        file = read_table_file(
            table,
            sequences=given,
            metadata=metadata,
            values=values,
            known_features=known_features,
        )
    kept, empty = without_empty(file.table)
    if not _have_sequences(kept, given, file.sequences):
        return _without_sequences(file, kept, empty, where)
    sequence_of = match_sequences(kept, where, given, file.sequences)
    merged, same = merge_same_sequences(kept, sequence_of, where)
    _warn_of_same_reads(merged, where)
    rows = [*file.left_out, *empty.itertuples(index=False, name=None), *same]
    return ReadCounts(
        merged,
        {name: sequence_of[name] for name in merged.feature_ids},
        pd.DataFrame(rows, columns=[*_LEFT_OUT]),
    )


def _have_sequences(
    table: FeatureTable, given: SequenceFile | None, column: Mapping[str, str]
) -> bool:
    """Return whether the features of a table have sequences, or should have.

    IDs that are hashes of sequences stand for these: their file was forgotten.
    """
    if given is not None or any(name in column or is_sequence(name) for name in table.feature_ids):
        return True
    # Where samples are sequences the table is transposed, which `match_sequences` says.
    return all(map(is_hash, table.feature_ids)) or all(map(is_sequence, table.sample_ids))


def _without_sequences(
    file: TableFile, kept: FeatureTable, empty: pd.DataFrame, where: Path
) -> ReadCounts:
    """Return what a table has whose features have no sequences, and say what follows from it."""
    features = kept.feature_ids
    lineages = find_lineages(features)
    noun = file.noun or name_features(features, lineages, of_ids=bool(lineages))
    if not lineages:
        given = {name: split_lineage(file.lineages.get(name, "")) for name in features}
        lineages = {name: ranks for name, ranks in given.items() if ranks}
    table = kept.with_facts(has_sequences=False, has_lineages=bool(lineages), noun=noun)
    _warn_of_same_reads(table, where)
    logger.warning(
        "%s: its %d %s have no sequences, and are told apart by their IDs%s",
        where,
        len(features),
        PLURALS[noun],
        "; their lineages say how they are related" if lineages else " alone",
    )
    rows = [*file.left_out, *empty.itertuples(index=False, name=None)]
    return ReadCounts(table, {}, pd.DataFrame(rows, columns=[*_LEFT_OUT]), lineages)


def merge_same_sequences(
    table: FeatureTable, sequences: Mapping[str, str], where: Path
) -> tuple[FeatureTable, list[tuple[str, str, str]]]:
    """Add up features whose sequences are identical, under the first name, with a warning.

    Sequences of other lengths are other sequences, even where one begins with the other.

    Parameters
    ----------
    table
        Reads.
    sequences
        Upper-case sequence of every feature, U as T.
    where
        File of the table, for the warning.

    Returns
    -------
    merged : FeatureTable
        The same table where there is nothing to merge.
    left_out : list of tuple
        `what`, `id` and `why` of the features whose reads another one has.
    """
    first_of: dict[str, str] = {}
    name_of = {name: first_of.setdefault(sequences[name], name) for name in table.feature_ids}
    others = {name: kept for name, kept in name_of.items() if name != kept}
    if not others:
        return table, []
    example, kept = next(iter(others.items()))
    logger.warning(
        "%s: %s the same sequence as others (%r as %r), whose reads are added up under the first "
        "name: %d of %d features remain; make their sequences differ to keep them apart",
        where,
        count_names("feature", others) + (" has" if len(others) == 1 else " have"),
        example,
        kept,
        len(first_of),
        len(name_of),
    )
    rows = [("feature", name, f"{SAME_SEQUENCE}{kept}") for name, kept in others.items()]
    return table.merge_features(name_of), rows


def _warn_of_same_reads(table: FeatureTable, where: Path) -> None:
    """Warn of samples whose reads are the same, feature by feature: copies, not replicates."""
    samples_by_reads: dict[bytes, list[str]] = {}
    counts = table.counts
    for row, name in enumerate(table.sample_ids):
        entries = slice(counts.indptr[row], counts.indptr[row + 1])
        # Bytes are compared in a dictionary: comparing all pairs of samples would take minutes in
        # large studies.
        key = counts.indices[entries].tobytes() + counts.data[entries].tobytes()
        # A sample of one or two features is like others by chance.
        if entries.stop - entries.start >= LEAST_FEATURES:
            samples_by_reads.setdefault(key, []).append(name)
    copies = [names for names in samples_by_reads.values() if len(names) > 1]
    if copies:
        shown = first_few(" and ".join(map(repr, names[:3])) for names in copies)
        logger.warning(
            "%s: %d samples have the same reads as others, feature by feature: %s. Copies of a "
            "sample in training and test flatter the scores: keep one of each",
            where,
            sum(map(len, copies)) - len(copies),
            shown,
            extra=CAUTION,
        )


def read_other_names(left_out: pd.DataFrame) -> dict[str, list[str]]:
    """Return the IDs that the features of a table had in addition, in the files of the user.

    Parameters
    ----------
    left_out
        `what`, `id` and `why`, as in `ReadCounts` and in the file that importing writes.

    Returns
    -------
    dict
        The other names by the name that is kept; features without any are left out.
    """
    names: dict[str, list[str]] = {}
    for name, why in zip(left_out["id"], left_out["why"], strict=True):
        if why.startswith(SAME_SEQUENCE):
            names.setdefault(why.removeprefix(SAME_SEQUENCE), []).append(name)
    return names


def read_left_out(path: Path) -> pd.DataFrame:
    """Read the file of what importing left out of a table.

    Parameters
    ----------
    path
        TSV file with the columns `what`, `id` and `why`.
    """
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


def warn_of_odd_reads(path: Path, region: ReadRegion | None) -> None:
    """Log what the sequences are of, and warn of what looks wrong with them.

    Parameters
    ----------
    path
        File of the table.
    region
        What the sequences are of; None: there are none.
    """
    logger.info("%s", region or "no sequences")
    for sentence in region.oddities() if region is not None else ():
        logger.warning("%s: %s", path, sentence, extra=CAUTION)
