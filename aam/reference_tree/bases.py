"""Sequences as small integers, and packed.

Shape suffixes: U sequences, S positions, C bytes of four bases.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 4
"""Stands for an ambiguous base, and for what lies outside of a sequence."""
BITS = (0, 2, 4, 6)
"""Where the four bases of a byte begin."""
_BASE_OF_BYTE = np.full(256, UNKNOWN, np.uint8)
_BASE_OF_BYTE[list(b"ACGTacgt")] = [0, 1, 2, 3] * 2
_BASE_OF_BYTE[list(b"Uu")] = 3


def encode(sequences: Sequence[str], length: int) -> NDArray[np.uint8]:
    """Return the first bases of some sequences.

    Parameters
    ----------
    sequences
        Nucleotides of any length.
    length
        Number of bases that are taken.

    Returns
    -------
    numpy.ndarray
        0 to 3 for A, C, G and T or U, `UNKNOWN` for every other letter and behind the end,
        [U, length].
    """
    rows = [sequence[:length].ljust(length, "-") for sequence in sequences]
    letters = np.frombuffer("".join(rows).encode("latin-1", "replace"), np.uint8)
    return _BASE_OF_BYTE[letters].reshape(len(rows), length)


def decode(bases_US: NDArray[np.uint8]) -> list[str]:
    """Return sequences without what is `UNKNOWN` behind them; within them it is N.

    Parameters
    ----------
    bases_US
        What `encode` returns.

    Returns
    -------
    list of str
        Upper-case letters.
    """
    letters_US = np.frombuffer(b"ACGTN", np.uint8)[bases_US]
    return [row_S.tobytes().decode("ascii").rstrip("N") for row_S in letters_US]


def pack(bases_US: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return bases, four a byte.

    Parameters
    ----------
    bases_US
        What `encode` returns. `UNKNOWN` ones are lost: they become A.

    Returns
    -------
    numpy.ndarray
        [U, C], uint8.
    """
    bases_US = np.where(bases_US == UNKNOWN, 0, bases_US).astype(np.uint8)
    bases_US = np.pad(bases_US, ((0, 0), (0, -bases_US.shape[1] % len(BITS))))
    quads = bases_US.reshape(len(bases_US), -1, len(BITS))
    return (quads << np.array(BITS, np.uint8)).sum(axis=2).astype(np.uint8)


def unpack(packed_UC: NDArray[np.uint8], length_U: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Return the bases that `pack` packed.

    Parameters
    ----------
    packed_UC
        Bytes of four bases.
    length_U
        Length of each sequence.

    Returns
    -------
    numpy.ndarray
        [U, S], uint8, `UNKNOWN` behind the end of each sequence.
    """
    quads = np.stack([(packed_UC >> bits) & 3 for bits in BITS], axis=2)
    bases_US = quads.reshape(len(packed_UC), -1)[:, : int(length_U.max(initial=0))]
    bases_US[np.arange(bases_US.shape[1]) >= length_U[:, None]] = UNKNOWN
    return bases_US


def reverse_complement(sequence: str) -> str:
    """Return the other strand of a sequence; letters that are no base become N.

    Parameters
    ----------
    sequence
        Nucleotides.

    Returns
    -------
    str
        Upper-case letters, as many as `sequence` has.
    """
    bases_S = encode([sequence], len(sequence))[0]
    other_S = np.where(bases_S == UNKNOWN, UNKNOWN, 3 - bases_S.astype(np.int64))[::-1]
    letters_S = np.frombuffer(b"ACGTN", np.uint8)[other_S]
    return letters_S.tobytes().decode("ascii")
