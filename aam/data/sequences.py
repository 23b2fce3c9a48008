"""Sequences of features, and their file format (FASTA)."""

from collections.abc import Mapping
from pathlib import Path

from aam.util.atomic import write_text

IUPAC_NUCLEOTIDES = frozenset("ACGTURYSWKMBDHVN")
"""Upper-case letters that a nucleotide sequence may hold."""

SAME_SEQUENCE = "same sequence as "
"""Why a feature is left out whose reads another has; the name of that follows."""


def read_fasta(path: Path) -> dict[str, str]:
    """Read a FASTA file of the package.

    Parameters
    ----------
    path
        A file that `write_fasta` wrote.

    Returns
    -------
    dict
        Upper-case sequences by feature ID, in file order.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert all(header.startswith(">") for header in lines[::2]), path
    return {header[1:]: sequence for header, sequence in zip(lines[::2], lines[1::2], strict=True)}


def write_fasta(path: Path, sequences: Mapping[str, str]) -> None:
    """Write sequences as FASTA, atomically, one line per sequence.

    Parameters
    ----------
    path
        File to write.
    sequences
        Sequence by feature ID.
    """
    write_text(path, "".join(f">{name}\n{sequence}\n" for name, sequence in sequences.items()))
