import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.vocabulary import AMBIGUOUS, MASK, PAD, VOCABULARY_SIZE, tokenize
from aam.util.errors import InputError


def test_every_letter():
    tokens, lengths = tokenize(["ACGTUacgtu", "RYSWKMBDHVN", "ryswkmbdhvn"], 11)
    assert tokens[0].tolist() == [1, 2, 3, 4, 4, 1, 2, 3, 4, 4, PAD]
    assert (tokens[1:] == AMBIGUOUS).all()
    assert lengths.tolist() == [10, 11, 11]
    assert tokens.dtype == np.uint8


@settings(deadline=None)
@given(st.lists(st.text("ACGTUNacgtun", min_size=1, max_size=20), max_size=8))
def test_padding_stands_behind_the_length_and_nowhere_else(sequences):
    tokens, lengths = tokenize(sequences, 12)
    assert tokens.shape == (len(sequences), 12)
    assert lengths.tolist() == [min(len(sequence), 12) for sequence in sequences]
    assert ((tokens == PAD) == (np.arange(12) >= lengths[:, None])).all()
    assert tokens.max(initial=0) < MASK < VOCABULARY_SIZE


@pytest.mark.parametrize("bad", ["AC-GT", "AC.GT", "AC1", "A C", "ACé", "ACΩ", "AC\x00", "EAC"])
def test_other_characters_are_refused(bad):
    with pytest.raises(InputError) as caught:
        tokenize(["ACGT", bad, "AC"], 10)
    letter = next(letter for letter in bad if letter not in "ACGT")
    assert repr(letter) in str(caught.value)
    assert f"1 ({bad})" in str(caught.value)


def test_empty_sequences_are_refused():
    with pytest.raises(InputError, match="1 empty"):
        tokenize(["ACGT", ""], 10)
