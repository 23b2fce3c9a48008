"""Sequences of features: their letters, their file format (FASTA), and their tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.util.atomic import write_text

IUPAC_NUCLEOTIDES = frozenset("ACGTURYSWKMBDHVN")
"""Upper-case letters that a nucleotide sequence may hold."""

SAME_SEQUENCE = "same sequence as "
"""Why a feature is left out whose reads another has; the name of that follows."""
PAD = 0
"""Behind the end of a sequence."""
AMBIGUOUS = 5
"""Any IUPAC letter that stands for more than one nucleotide."""
MASK = 6
"""A nucleotide hidden from the model, which has to guess it."""
VOCABULARY_SIZE = 7
NUCLEOTIDES = {"A": 1, "C": 2, "G": 3, "T": 4, "U": 4}
AMBIGUOUS_LETTERS = "RYSWKMBDHVN"
# Marks the bytes that are no letter of IUPAC; no token has this number.
_REFUSED = 255
_TOKENS = {**NUCLEOTIDES, **dict.fromkeys(AMBIGUOUS_LETTERS, AMBIGUOUS)}
_TOKENS |= {letter.lower(): token for letter, token in _TOKENS.items()}
TOKEN_OF_BYTE = np.full(256, _REFUSED, dtype=np.uint8)
TOKEN_OF_BYTE[list(map(ord, _TOKENS))] = list(_TOKENS.values())


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
    # A file of the package has one line per sequence. Those of users, which may have several, are
    # read by `aam.data.importing.sequences`.
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


def tokenize(
    sequences: Sequence[str], max_length_bp: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return the tokens of sequences.

    Parameters
    ----------
    sequences
        U sequences of IUPAC letters, none of them empty.
    max_length_bp
        Length L at which they are cut.

    Returns
    -------
    tokens : numpy.ndarray
        uint8 [U, L], `PAD` behind the end of a sequence.
    lengths : numpy.ndarray
        Nucleotides of each after cutting, int32 [U].
    """
    # One byte per letter: what Latin-1 lacks becomes a question mark, which is refused below.
    encoded = [sequence[:max_length_bp].encode("latin-1", "replace") for sequence in sequences]
    lengths = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
    tokens_of_all = TOKEN_OF_BYTE[np.frombuffer(b"".join(encoded), dtype=np.uint8)]
    assert lengths.all(), "an empty sequence"
    assert (tokens_of_all != _REFUSED).all(), "a letter that is not IUPAC"
    tokens = np.full((len(encoded), max_length_bp), PAD, dtype=np.uint8)
    # A mask is filled row by row, which is the order of the joined sequences.
    tokens[np.arange(max_length_bp) < lengths[:, None]] = tokens_of_all
    return tokens, lengths


def untokenize(tokens: NDArray[np.uint8], lengths: NDArray[np.int32]) -> list[str]:
    """Return the sequences of rows of tokens; every ambiguous letter comes back as N.

    Parameters
    ----------
    tokens
        uint8 [U, L], as `tokenize` returns them.
    lengths
        Nucleotides of each row, [U].
    """
    letters = np.frombuffer(b"-ACGTN?", dtype=np.uint8)[tokens]
    rows = zip(letters, lengths, strict=True)
    return [row[:length].tobytes().decode("ascii") for row, length in rows]
