"""Sequences of the user: FASTA, QIIME 2 artifacts, or the feature IDs themselves."""

import re
from collections.abc import Iterator
from pathlib import Path

from aam.data.importing.files import find_duplicates, lines_of, read_text, refuse, report_names
from aam.data.importing.qza import ArtifactKind
from aam.data.sequences import IUPAC_NUCLEOTIDES
from aam.data.table import FeatureTable
from aam.util.errors import InputError, count_names, first_names, problem

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
_KEY = "configuration key datasets.<name>.sequences; `--sequences` of `init`"
OTU_NUMBERS = "feature IDs that look like OTU numbers"
_LETTERS = "".join(sorted(IUPAC_NUCLEOTIDES))
_SEQUENCE_ID = re.compile(f"[{_LETTERS}]{{{SHORTEST_SEQUENCE_ID},}}")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)


def load_sequences(path: Path) -> dict[str, str]:
    """Read sequences of the user.

    Parameters
    ----------
    path
        FASTA, or a .qza of type FeatureData[Sequence].

    Returns
    -------
    dict
        Upper-case sequences, U as T, by feature ID, which is the header up to the first space.

    Raises
    ------
    InputError
        The file holds no nucleotide sequences; all its problems are named at once.
    """
    records = _records(path, lines_of(read_text(path, EXPECTED, _ARTIFACT, key="sequences")))
    refuse(_problems(path, records))
    return dict(records)


def feature_sequences(table: FeatureTable, table_path: Path, path: Path | None) -> dict[str, str]:
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

    Returns
    -------
    dict
        Sequence by feature ID, in the order of the table.

    Raises
    ------
    InputError
        A feature has no sequence.
    """
    given = load_sequences(path) if path is not None else {}
    sequences = {
        name: given[name] if name in given else _normalised(name)
        for name in table.feature_ids
        if name in given or is_sequence(name)
    }
    missing = [name for name in table.feature_ids if name not in sequences]
    if missing and path is not None:
        raise problem(
            path,
            f"no sequence for {count_names('feature', missing)} of {len(table.feature_ids)} in "
            f"{table_path}; the file has {first_names(given, limit=1)}",
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


def _likeness(table: FeatureTable, missing: list[str]) -> str:
    """Say what feature IDs without a sequence look like."""
    if all(map(is_sequence, table.sample_ids)):
        return (
            "sample IDs that are sequences (is the table transposed?) and feature IDs that are not"
        )
    if all(map(_HASH.fullmatch, missing)):
        return "feature IDs that look like hashes of sequences"
    if all(name.isdigit() or name.upper().startswith(("OTU", "ZOTU")) for name in missing):
        return OTU_NUMBERS
    return "feature IDs that are no sequences"


def _normalised(sequence: str) -> str:
    return sequence.upper().replace("U", "T")


def _records(path: Path, lines: list[str]) -> list[tuple[str, str]]:
    records: list[tuple[str, list[str]]] = []
    for line in map(str.strip, lines):
        if line.startswith(">"):
            name, *_ = line[1:].split(maxsplit=1) or [""]
            records.append((name, []))
        elif line and not records:
            actual = f"{line[:40]!r} before the first header"
            hint = "check the path; every FASTA header starts with '>'"
            raise problem(path, actual, EXPECTED, hint)
        elif line:
            records[-1][1].append(line)
    return [(name, _normalised("".join(parts))) for name, parts in records]


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
    gaps = any(set(letters) & set("-.") for letters in strange.values())
    hint = "give the sequences before the alignment" if gaps else "give nucleotide sequences"
    shown = [f"{letters!r} in '{name}'" for name, letters in strange.items()]
    actual = "letters that are no IUPAC nucleotides:"
    yield from report_names(path, shown, actual, _LETTERS, hint, quoted=False)
