"""Sequences of the user: FASTA, QIIME 2 artifacts, or the feature IDs themselves."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aam.data.importing.files import lines_of, read_text
from aam.data.importing.qza import ArtifactKind
from aam.data.sequences import IUPAC_NUCLEOTIDES
from aam.data.table import FeatureTable
from aam.util.errors import InputError, first_names, problem, problems

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
_KEY = "configuration key datasets.<name>.sequences"
_SEQUENCE_ID = re.compile(f"[{''.join(sorted(IUPAC_NUCLEOTIDES))}]{{{SHORTEST_SEQUENCE_ID},}}")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)


def load_sequences(path: Path) -> dict[str, str]:
    """Read the sequences of features.

    Parameters
    ----------
    path
        FASTA, or a `FeatureData[Sequence]` artifact. The ID is the header up to the first space.

    Returns
    -------
    dict
        Sequence by feature ID, in file order, upper-case, with U written as T.

    Raises
    ------
    InputError
        If the file cannot be read, or IDs are missing or doubled, or sequences are empty or hold
        other letters than the IUPAC nucleotides. All of it is said at once.
    """
    names, sequences = _records(path, lines_of(read_text(path, EXPECTED, _ARTIFACT)))
    found = list(_problems(path, names, sequences))
    if found:
        raise problems(found)
    return dict(zip(names, sequences, strict=True))


def feature_sequences(table: FeatureTable, table_path: Path, path: Path | None) -> dict[str, str]:
    """Find the sequence of every feature of a table.

    Where a file is given, it comes first; a feature that it lacks is its own sequence if its ID
    is one.

    Parameters
    ----------
    table, table_path
        The table, and where it came from, for messages.
    path
        The file with the sequences, or None.

    Returns
    -------
    dict
        Upper-case sequence by feature ID, in table order.

    Raises
    ------
    InputError
        If features are without a sequence.
    """
    known = load_sequences(path) if path is not None else {}
    sequences = {
        name: known[name] if name in known else _normalised(name)
        for name in table.feature_ids
        if name in known or is_sequence(name)
    }
    missing = [name for name in table.feature_ids if name not in sequences]
    if missing and path is not None:
        raise problem(
            path,
            f"no sequence for {first_names(missing)} of {len(table.feature_ids)} features of "
            f"{table_path}; the file has {first_names(known, limit=1)}",
            "a sequence for every feature",
            "give the rep-seqs that belong to this table, or filter the table to the file's IDs",
        )
    if missing:
        raise problem(
            table_path,
            f"{_likeness(table, missing)}: {first_names(missing, limit=3)}",
            "IDs that are sequences, or a file with the sequences",
            f"set `sequences` beside `table` ({_KEY}) to rep-seqs, .qza or FASTA",
        )
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
    if all(_HASH.fullmatch(name) for name in missing):
        return "feature IDs that look like hashes of sequences"
    if all(name.isdigit() or name.upper().startswith(("OTU", "ZOTU")) for name in missing):
        return "feature IDs that look like OTU numbers"
    return "feature IDs that are no sequences"


def _normalised(sequence: str) -> str:
    return sequence.upper().replace("U", "T")


def _records(path: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    names: list[str] = []
    parts: list[list[str]] = []
    for line in map(str.strip, lines):
        if line.startswith(">"):
            names.append(line[1:].split(maxsplit=1)[0] if line[1:].strip() else "")
            parts.append([])
        elif line and not names:
            got = f"{line[:40]!r} before the first header"
            hint = "check the path; every FASTA header starts with '>'"
            raise problem(path, got, EXPECTED, hint)
        elif line:
            parts[-1].append(line)
    return names, [_normalised("".join(part)) for part in parts]


def _problems(path: Path, names: list[str], sequences: list[str]) -> Iterator[InputError]:
    unnamed = sum(not name for name in names)
    if unnamed:
        yield problem(path, f"{unnamed} headers without an ID", "'>' and an ID", "name the records")
    doubled = [name for name, count in Counter(names).items() if count > 1 and name]
    if doubled:
        got = f"IDs that occur more than once: {first_names(doubled)}"
        yield problem(path, got, "every ID once", "remove the doubled records")
    empty = [name for name, sequence in zip(names, sequences, strict=True) if not sequence]
    if empty:
        got = f"records without a sequence: {first_names(empty)}"
        yield problem(path, got, "a sequence behind every header", "remove or complete them")
    strange = {
        name: "".join(sorted(letters))
        for name, sequence in zip(names, sequences, strict=True)
        if (letters := set(sequence) - IUPAC_NUCLEOTIDES)
    }
    if strange:
        shown = first_names(f"{name}: {letters!r}" for name, letters in strange.items())
        gaps = any(set(letters) & set("-.") for letters in strange.values())
        hint = "give the sequences before the alignment" if gaps else "give nucleotide sequences"
        got = f"letters that are no IUPAC nucleotides in {shown}"
        yield problem(path, got, "".join(sorted(IUPAC_NUCLEOTIDES)), hint)
