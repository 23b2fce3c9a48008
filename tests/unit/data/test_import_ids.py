"""IDs that should be the same in two files: paired where that is likely, and named where not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.importing.ids import likely_pairs, match_samples
from aam.util.errors import InputError
from aam.util.notes import collect_notes


@pytest.mark.parametrize(
    ("table_id", "metadata_id", "difference"),
    [
        ("S1 ", "S1", "spaces around it"),
        ("Gut_a", "GUT_A", "case"),
        ("S-1", "S.1", "dashes"),
        ("sample 1", "sample_1", "spaces"),
        ("X1.b", "1-b", "X that R"),
        ("S01", "S1", "zeros"),
        ("0007", "7", "zeros"),
        ("12", "12.0", "number"),
        ("1E+05", "100000", "number"),
        ("11555.A1", "A1", "beginning or end"),
        ("A1_S12_L001", "A1", "beginning or end"),
        ("A1", "A1.fastq.gz", "beginning or end"),
        ("P-9", "P9", "separators"),
    ],
)
def test_what_programs_do_to_an_id_is_recognized(table_id, metadata_id, difference):
    (pair,) = likely_pairs([table_id, "blank"], ["other", metadata_id])
    assert (pair.name, pair.other) == (table_id, metadata_id)
    assert difference in pair.difference


def test_ids_that_could_be_two_others_are_not_paired():
    assert likely_pairs(["S1"], ["S01", "S001"]) == []
    assert likely_pairs(["a.1", "a-1"], ["A_1"]) == []
    assert likely_pairs(["S1", "S2"], ["S1_a", "S1_b"]) == []
    assert likely_pairs(["1", "2"], ["11", "12"]) == []


IDS = st.lists(st.text("aB01.-_ X", min_size=1, max_size=5), max_size=8, unique=True)


@given(ours=IDS, theirs=IDS, order=st.randoms(use_true_random=False))
def test_pairs_are_one_to_one_and_do_not_depend_on_the_order(ours, theirs, order):
    ours = [name for name in ours if name not in theirs]
    pairs = likely_pairs(ours, theirs)
    assert len({pair.name for pair in pairs} & set(ours)) == len(pairs)
    assert len({pair.other for pair in pairs} & set(theirs)) == len(pairs)
    shuffled = order.sample(ours, len(ours)), order.sample(theirs, len(theirs))
    assert {*map(str, likely_pairs(*shuffled))} == {*map(str, pairs)}


def test_samples_without_metadata_are_named_from_both_sides():
    table_ids = [f"S{number:02d}" for number in range(1, 21)]
    metadata_ids = [f"S{number}" for number in range(1, 41)]
    with collect_notes() as notes:
        match_samples(Path("m.tsv"), table_ids, metadata_ids)
    (note,) = notes
    assert note.is_caution
    for fact in (
        "m.tsv: no metadata for 9 of the 20 samples",
        "'S01'",
        "'S1'",
        "zeros before a number",
    ):
        assert fact in note.text
    # A few blanks without metadata limit nothing.
    with collect_notes() as notes:
        match_samples(Path("m.tsv"), [*table_ids, "blank"], table_ids)
    assert [note.is_caution for note in notes] == [False]
    assert "'blank'" in notes[0].text
    # Metadata of a whole project limit nothing either.
    with collect_notes() as notes:
        match_samples(Path("m.tsv"), table_ids, list(dict.fromkeys([*table_ids, *metadata_ids])))
    assert [note.is_caution for note in notes] == [False]
    assert "29 of its 49 rows" in notes[0].text


def test_no_sample_in_common_is_refused_with_the_likely_match():
    with pytest.raises(InputError, match=r"'a-1' and 'a\.1' .*write the IDs alike"):
        match_samples(Path("m.tsv"), ["a-1", "a-2"], ["a.1", "a.2"])
    with pytest.raises(InputError, match="give the metadata of this table"):
        match_samples(Path("m.tsv"), ["a-1"], ["b"])
