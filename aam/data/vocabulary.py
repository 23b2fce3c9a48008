"""Nucleotides as small integers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aam.util.errors import first_names, problem

PAD = 0
"""Behind the end of a sequence."""
AMBIGUOUS = 5
"""Any IUPAC letter that stands for more than one nucleotide."""
MASK = 6
"""A nucleotide hidden from the model, which has to guess it."""
VOCABULARY_SIZE = 7

NUCLEOTIDES = {"A": 1, "C": 2, "G": 3, "T": 4, "U": 4}
AMBIGUOUS_LETTERS = "RYSWKMBDHVN"
_REFUSED = 255
_TOKENS = {**NUCLEOTIDES, **dict.fromkeys(AMBIGUOUS_LETTERS, AMBIGUOUS)}
_TOKENS |= {letter.lower(): token for letter, token in _TOKENS.items()}

TOKEN_OF_BYTE = np.full(256, _REFUSED, dtype=np.uint8)
TOKEN_OF_BYTE[list(map(ord, _TOKENS))] = list(_TOKENS.values())


def tokenize(
    sequences: Sequence[str], max_length_bp: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Turn sequences into rows of tokens, cut to `max_length_bp` and padded behind their end.

    The sequences have IUPAC letters, in upper or lower case; an empty one, or another character,
    a gap for instance, is an InputError.

    Returns
    -------
    tuple
        Tokens, uint8 [U, L], and the lengths after cutting, int32 [U].
    """
    encoded = [sequence[:max_length_bp].encode("latin-1", "replace") for sequence in sequences]
    lengths = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
    if not lengths.all():
        raise problem(
            "sequences",
            f"{int((lengths == 0).sum())} empty sequence(s)",
            "at least one nucleotide each",
            "remove the features without a sequence from the table",
        )
    tokens_of_all = TOKEN_OF_BYTE[np.frombuffer(b"".join(encoded), dtype=np.uint8)]
    if (tokens_of_all == _REFUSED).any():
        strange = {text: set(text[:max_length_bp]) - _TOKENS.keys() for text in sequences}
        letters = sorted(set().union(*strange.values()))
        raise problem(
            "sequences",
            f"the characters {', '.join(map(repr, letters[:10]))} in "
            f"{first_names(text for text, found in strange.items() if found)}",
            f"only the IUPAC letters ACGTU and {AMBIGUOUS_LETTERS}",
            "remove gaps and other characters from the sequences",
        )
    tokens = np.full((len(encoded), max_length_bp), PAD, dtype=np.uint8)
    tokens[np.arange(max_length_bp) < lengths[:, None]] = tokens_of_all
    return tokens, lengths


def untokenize(tokens: NDArray[np.uint8], lengths: NDArray[np.int32]) -> list[str]:
    """Return the sequences of rows of tokens [U, L]; every ambiguous letter comes back as N."""
    letters = np.frombuffer(b"-ACGTN?", dtype=np.uint8)[tokens]
    rows = zip(letters, lengths, strict=True)
    return [row[:length].tobytes().decode("ascii") for row, length in rows]
