"""Sequences of the user: FASTA, QIIME 2 artifacts, or the feature IDs themselves."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aam.data.importing.files import (
    ArtifactKind,
    find_duplicates,
    lines_of,
    read_text,
    refuse,
    report_names,
)
from aam.data.importing.ids import describe_matches
from aam.data.sequences import IUPAC_NUCLEOTIDES
from aam.data.table import FeatureTable
from aam.util.errors import InputError, count_names, first_names, problem

logger = logging.getLogger(__name__)
EXPECTED = "nucleotide sequences: FASTA or a .qza of type FeatureData[Sequence]"
SHORTEST_SEQUENCE_ID = 20
"""Base pairs from which on an ID made of nucleotide letters alone is taken for a sequence."""

_ARTIFACT = ArtifactKind(
    type="FeatureData[Sequence]",
    member="dna-sequences.fasta",
    hints={
        "FeatureData[AlignedSequence]": "give the sequences before the alignment (rep-seqs.qza)",
        "FeatureData[Taxonomy]": "give the sequences of the features (rep-seqs.qza)",
    },
)
_REFERENCE = ArtifactKind(
    type="FeatureData[Sequence]",
    member="dna-sequences.fasta",
    hints={"FeatureData[Taxonomy]": "give the sequences of the reference"},
    further_members={
        "FeatureData[RNASequence]": "rna-sequences.fasta",
        "FeatureData[AlignedSequence]": "aligned-dna-sequences.fasta",
        "FeatureData[AlignedRNASequence]": "aligned-rna-sequences.fasta",
    },
)
_GAPS = str.maketrans("", "", "-.")
_KEY = "configuration key datasets.<name>.sequences; `--sequences` of `init`"
OTU_NUMBERS = "feature IDs that look like OTU numbers"
_LETTERS = "".join(sorted(IUPAC_NUCLEOTIDES))
_SEQUENCE_ID = re.compile(f"[{_LETTERS}]{{{SHORTEST_SEQUENCE_ID},}}")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_AMINO_ACIDS = frozenset("EFILPQ*")
"""Letters of proteins that are no nucleotides, and the stop of a translation."""


@dataclass(frozen=True)
class SequenceFile:
    """Sequences of a file, by the names that other files may use."""

    path: Path
    """The user's file."""
    sequences: dict[str, str]
    """Upper-case sequences, U as T, by ID: the header up to the first white space, or the whole
    header where these are not unique."""
    other_names: dict[str, str]
    """IDs by other names that are unique: the whole header, or up to its first `;` or `|`."""

    def find(self, names: Sequence[str]) -> dict[str, str]:
        """Return the sequences of those names that the file has.

        Programs add annotations such as `;size=100` to names: a name that the file lacks is looked
        for without them, on both sides.

        Parameters
        ----------
        names
            IDs of features.
        """
        found = {}
        plain = Counter(map(_without_annotation, names))
        for name in names:
            bare = _without_annotation(name)
            if name in self.sequences:
                found[name] = self.sequences[name]
            elif name in self.other_names:
                found[name] = self.sequences[self.other_names[name]]
            # Two features that differ in the annotation alone must not get one sequence.
            elif plain[bare] == 1 and (bare in self.sequences or bare in self.other_names):
                found[name] = self.sequences[self.other_names.get(bare, bare)]
        return found


def read_sequence_file(path: Path) -> SequenceFile:
    """Read sequences of the user, with all the names that other files may use for them.

    Parameters
    ----------
    path
        FASTA, or a .qza of type FeatureData[Sequence].

    Raises
    ------
    InputError
        The file holds no nucleotide sequences; all its problems are named at once.
    """
    titles, texts = _records(path, lines_of(read_text(path, EXPECTED, _ARTIFACT, key="sequences")))
    names = [(title.split(maxsplit=1) or [""])[0] for title in titles]
    # Some programs write `ASV 1`, `ASV 2`: only the whole header is an ID there.
    if len(set(names)) < len(names) and len(set(titles)) == len(titles):
        names = titles
    records = list(zip(names, texts, strict=True))
    refuse(_problems(path, records))
    sequences = dict(records)
    others = [
        (other, name)
        for title, name in zip(titles, names, strict=True)
        for other in {title, _without_annotation(name)} - {name}
        if other not in sequences
    ]
    counts = Counter(other for other, _ in others)
    unique = {other: name for other, name in others if counts[other] == 1}
    return SequenceFile(path, sequences, unique)


def load_sequences(path: Path) -> dict[str, str]:
    """Read sequences of the user.

    Parameters
    ----------
    path
        As for `read_sequence_file`.

    Returns
    -------
    dict
        Upper-case sequences, U as T, by feature ID, which is the header up to the first space.

    Raises
    ------
    InputError
        The file holds no nucleotide sequences; all its problems are named at once.
    """
    return read_sequence_file(path).sequences


def load_reference_sequences(path: Path) -> dict[str, str]:
    """Read the sequences of a reference, which may be aligned or RNA: gaps are removed.

    Parameters
    ----------
    path
        FASTA, or a .qza of type FeatureData[Sequence], [RNASequence], [AlignedSequence] or
        [AlignedRNASequence].

    Returns
    -------
    dict
        Upper-case sequences, U as T, by ID, which is the header up to the first space.

    Raises
    ------
    InputError
        The file holds no nucleotide sequences; all its problems are named at once.
    """
    titles, texts = _records(path, lines_of(read_text(path, EXPECTED, _REFERENCE, key="sequences")))
    names = [(title.split(maxsplit=1) or [""])[0] for title in titles]
    records = list(zip(names, (text.translate(_GAPS) for text in texts), strict=True))
    refuse(_problems(path, records))
    return dict(records)


def _without_annotation(name: str) -> str:
    """Return a name without what vsearch and others append: `ASV1` of `ASV1;size=100`."""
    return re.split("[;|]", name, maxsplit=1)[0]


def feature_sequences(
    table: FeatureTable, table_path: Path, path: Path | None, column: Mapping[str, str] = {}
) -> dict[str, str]:
    """Return the sequence of every feature of a table.

    Parameters
    ----------
    table
        The table.
    table_path
        Its file, for messages.
    path
        File of the sequences. A feature that it lacks, or every feature where it is None, has to
        have its sequence as its ID.
    column
        Sequence by feature ID from a column of the table, which are taken where there is no file.

    Returns
    -------
    dict
        Sequence by feature ID, in the order of the table.

    Raises
    ------
    InputError
        A feature has no sequence.
    """
    given = None if path is None else read_sequence_file(path)
    return match_sequences(table, table_path, given, column)


def match_sequences(
    table: FeatureTable,
    table_path: Path,
    given: SequenceFile | None,
    column: Mapping[str, str] = {},
) -> dict[str, str]:
    """Return the sequence of every feature of a table.

    Parameters
    ----------
    table, table_path
        As for `feature_sequences`.
    given
        The file of the sequences, or None.
    column
        Sequence by feature ID from a column of the table, which are taken where there is no file.

    Returns
    -------
    dict
        Sequence by feature ID, in the order of the table.

    Raises
    ------
    InputError
        A feature has no sequence.
    """
    in_column = {name: _normalised(text) for name, text in column.items()}
    in_file = in_column if given is None else given.find(table.feature_ids)
    sequences = {
        name: in_file[name] if name in in_file else _normalised(name)
        for name in table.feature_ids
        if name in in_file or is_sequence(name)
    }
    if given is not None:
        _warn_of_other_names(given, [*in_file])
        odd = [name for name in in_file if in_column.get(name, in_file[name]) != in_file[name]]
        actual = f"other sequences than the column of sequences in {table_path} has, for"
        hint = "give the sequences of this table, or delete its column"
        refuse(report_names(given.path, odd, actual, "the same sequences", hint, limit=3))
    elif column:
        logger.warning(
            "%s: a column of it has the sequences of its features, which are taken; to have "
            "others, give them as a file (%s)",
            table_path,
            _KEY,
        )
    missing = [name for name in table.feature_ids if name not in sequences]
    if missing and given is not None:
        raise problem(
            given.path,
            f"no sequence for {count_names('feature', missing)} of {len(table.feature_ids)} in "
            f"{table_path}; the file has {first_names(given.sequences, limit=2)}"
            f"{describe_matches(missing, given.sequences)}",
            "a sequence for every feature",
            "give the rep-seqs that belong to this table, or filter the table to the file's IDs",
        )
    if missing:
        kind = _likeness(table, missing)
        hint = f"set `sequences` next to `table` ({_KEY}) to rep-seqs, .qza or FASTA"
        if kind == OTU_NUMBERS:
            hint += (
                "; for OTUs of a reference (Greengenes, SILVA) its FASTA of representatives will "
                "do, else they are lost: without sequences AAM can neither pretrain nor predict"
            )
        actual = f"{kind}: {first_names(missing, limit=3)}"
        expected = "IDs that are sequences, or a file with the sequences"
        raise problem(table_path, actual, expected, hint)
    return sequences


def is_sequence(name: str) -> bool:
    """Tell whether a feature ID is itself a nucleotide sequence."""
    return _SEQUENCE_ID.fullmatch(name.upper()) is not None


def is_hash(name: str) -> bool:
    """Tell whether a feature ID looks like the hash of a sequence (MD5, SHA-1 or SHA-256)."""
    return _HASH.fullmatch(name) is not None


def _warn_of_other_names(given: SequenceFile, names: list[str]) -> None:
    """Say which names of the file were taken for others of the table."""
    others = [name for name in names if name not in given.sequences]
    if others:
        known = _without_annotation(others[0])
        header = given.other_names.get(others[0]) or given.other_names.get(known, known)
        logger.warning(
            "%s: %s found without what stands behind the first ';', '|' or space (%r has the "
            "sequence of %r); to have it otherwise, write the same names in both files",
            given.path,
            count_names("feature", others) + (" is" if len(others) == 1 else " are"),
            others[0],
            header,
        )


def _likeness(table: FeatureTable, missing: list[str]) -> str:
    """Say what feature IDs without a sequence look like."""
    if all(map(is_sequence, table.sample_ids)):
        return (
            "sample IDs that are sequences (is the table transposed?) and feature IDs that are not"
        )
    if all(map(is_hash, missing)):
        return "feature IDs that look like hashes of sequences"
    if all(name.isdigit() or name.upper().startswith(("OTU", "ZOTU")) for name in missing):
        return OTU_NUMBERS
    return "feature IDs that are no sequences"


def _normalised(sequence: str) -> str:
    return sequence.upper().replace("U", "T")


def _records(path: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the headers, without `>`, and the sequences."""
    records: list[tuple[str, list[str]]] = []
    for line in map(str.strip, lines):
        if line.startswith(">"):
            records.append((line[1:].strip(), []))
        elif line and not records:
            actual = f"{line[:40]!r} before the first header"
            hint = "check the path; every FASTA header starts with '>'"
            raise problem(path, actual, EXPECTED, hint)
        elif line:
            records[-1][1].append(line)
    titles = [title for title, _ in records]
    return titles, [_normalised("".join(parts)) for _, parts in records]


def _problems(path: Path, records: list[tuple[str, str]]) -> Iterator[InputError]:
    names = [name for name, _ in records]
    unnamed = names.count("")
    if unnamed:
        yield problem(path, f"{unnamed} headers without an ID", "'>' and an ID", "name the records")
    actual = "IDs that occur more than once:"
    hint = "remove the duplicate records"
    yield from report_names(path, find_duplicates(names), actual, "every ID once", hint)
    empty = [name for name, sequence in records if not sequence]
    actual = "records without a sequence:"
    hint = "remove or complete them"
    yield from report_names(path, empty, actual, "a sequence behind every header", hint)
    strange = {}
    for name, sequence in records:
        letters = set(sequence) - IUPAC_NUCLEOTIDES
        if letters:
            strange[name] = "".join(sorted(letters))
    found = set().union(*strange.values())
    hint = "give nucleotide sequences"
    if found & _AMINO_ACIDS:
        hint = "these look like proteins: give the nucleotide sequences of the features"
    elif found & set("-."):
        hint = "give the sequences before the alignment"
    shown = [f"{letters!r} in '{name}'" for name, letters in strange.items()]
    actual = "letters that are no IUPAC nucleotides:"
    yield from report_names(path, shown, actual, _LETTERS, hint, quoted=False)
