import dataclasses
import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.sequences import AMBIGUOUS, MASK, PAD, VOCABULARY_SIZE, tokenize
from aam.data.stores import SampleStore, TokenStore, places_of, write_samples, write_tokens


def int32(*values):
    return np.array(values, dtype=np.int32)


IDS = ["one", "zwei", "三"]
STORE = SampleStore(
    sample_ids=["x", "y"],
    views=2,
    row_view=int32(0, 0, 1, 1, -1),
    offsets=np.array([0, 1, 3, 5, 6, 8]),
    asvs=int32(0, 0, 1, 1, 2, 2, 0, 2),
    counts=int32(5, 1, 4, 2, 3, 5, 1, 2),
    parent_offsets=np.array([0, 1, 2, 3, 4, 6]),
    parents=int32(0, 1, 0, 1, 1, 0),
    weights=np.array([1, 1, 1, 1, 0.75, 0.25], dtype=np.float32),
)


@settings(deadline=None)
@given(st.lists(st.text("ACGTUNacgtun", min_size=1, max_size=20), max_size=8))
def test_padding_stands_behind_the_length_and_nowhere_else(sequences):
    tokens, lengths = tokenize(sequences, 12)
    assert tokens.shape == (len(sequences), 12)
    assert lengths.tolist() == [min(len(sequence), 12) for sequence in sequences]
    assert ((tokens == PAD) == (np.arange(12) >= lengths[:, None])).all()
    assert tokens.max(initial=0) < MASK < VOCABULARY_SIZE


def test_every_letter():
    tokens, _ = tokenize(["ACGTUacgtu", "RYSWKMBDHVN", "ryswkmbdhvn"], 11)
    assert tokens[0].tolist() == [1, 2, 3, 4, 4, 1, 2, 3, 4, 4, PAD]
    assert (tokens[1:] == AMBIGUOUS).all()
    assert tokens.dtype == np.uint8


@pytest.mark.parametrize("bad", ["AC-GT", "AC1", "A C", "ACΩ", "AC\x00", "EAC", ""])
def test_other_characters_and_empty_sequences_are_refused(bad):
    with pytest.raises(AssertionError, match="not IUPAC" if bad else "empty"):
        tokenize(["ACGT", bad, "AC"], 10)


def test_tokens_are_read_as_views_of_the_file(tmp_path):
    tokens, lengths = tokenize(["ACGTN", "AC", "GGGGGGG"], 7)
    write_tokens(tmp_path / "a", TokenStore(IDS, lengths, tokens), {"b": "2", "a": "1"})
    # What other tests left is freed first.
    gc.collect()
    before = pa.total_allocated_bytes()
    store = TokenStore.open(tmp_path / "a")
    gc.collect()
    assert store.feature_ids == IDS
    assert np.array_equal(store.tokens, tokens)
    assert np.array_equal(store.lengths, lengths)
    flags = store.tokens.flags
    assert (flags.owndata, flags.writeable, flags.c_contiguous) == (False, False, True)
    assert pa.total_allocated_bytes() == before
    with pa.ipc.open_file(str(tmp_path / "a")) as reader:
        assert reader.schema.metadata == {b"a": b"1", b"b": b"2"}
        assert reader.schema.field("tokens").type == pa.list_(pa.uint8(), 7)


def test_samples_are_read_as_views_of_the_file(tmp_path):
    path = tmp_path / "samples.arrow"
    write_samples(path, STORE, {"aam.version": "1"})
    opened = SampleStore.open(path)
    gc.collect()
    write_samples(tmp_path / "again.arrow", opened, {"aam.version": "1"})
    assert (tmp_path / "again.arrow").read_bytes() == path.read_bytes()
    for field in dataclasses.fields(SampleStore):
        value, expected = getattr(opened, field.name), getattr(STORE, field.name)
        assert np.array_equal(value, expected), field.name
        assert getattr(value, "dtype", None) == getattr(expected, "dtype", None), field.name
        if field.name in ("asvs", "counts", "parents", "weights", "row_view"):
            assert (value.flags.owndata, value.flags.writeable) == (False, False), field.name
    with pa.ipc.open_file(str(path)) as reader:
        assert reader.get_batch(0).column("sample_id").to_pylist() == ["x", "y", "x", "y", "y+x"]


def test_a_view_is_the_counts_of_its_rows():
    first, second = (STORE.view_matrix(view, 4).toarray().tolist() for view in (0, 1))
    assert first == [[5, 0, 0, 0], [1, 4, 0, 0]]
    assert second == [[0, 2, 3, 0], [0, 0, 5, 0]]
    some = STORE.counts_of(np.array([4, 0, 4]), 3)
    assert some.toarray().tolist() == [[1, 0, 2], [5, 0, 0], [1, 0, 2]]
    assert some.dtype == np.int64
    for view in (-1, 2):
        with pytest.raises(AssertionError, match=f"view {view} of 2"):
            STORE.view_matrix(view, 4)


def test_entries_of_rows_are_found_in_the_order_of_the_rows():
    offsets = np.array([0, 2, 2, 5])
    places, numbers = places_of(offsets, np.array([2, 1, 0, 2]))
    assert places.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert numbers.tolist() == [3, 0, 2, 3]


TOKENS, LENGTHS = tokenize(["ACGTN", "AC", "GGGGGGG"], 7)


def test_tokens_are_cut_at_their_ends():
    store = TokenStore(IDS, LENGTHS, TOKENS, are_lineages=True)
    cut = store.cut(3)
    assert cut.lengths.tolist() == [3, 2, 3]
    assert np.array_equal(cut.tokens, TOKENS[:, :3])
    assert (cut.feature_ids, cut.are_lineages) == (IDS, True)


def test_tokens_of_some_features_are_in_the_order_that_is_asked_for():
    store = TokenStore(IDS, LENGTHS, TOKENS, are_lineages=True)
    rows = store.rows(np.array([2, 0]))
    assert rows.feature_ids == ["三", "one"]
    assert rows.lengths.tolist() == [7, 5]
    assert np.array_equal(rows.tokens, TOKENS[[2, 0]])
    assert rows.are_lineages


@pytest.mark.parametrize("are_lineages", [True, False])
def test_a_file_of_tokens_says_whether_they_are_lineages(tmp_path, are_lineages):
    tokens, lengths = tokenize(["ACGT", "AC"], 4)
    store = TokenStore(["a", "b"], lengths, tokens, are_lineages=are_lineages)
    write_tokens(tmp_path / "tokens", store, {"aam.version": "1"})
    assert TokenStore.open(tmp_path / "tokens").are_lineages == are_lineages


@pytest.mark.parametrize(
    "changes",
    [
        {"views": 0},
        {"views": 1},
        {"row_view": int32(0, 0, 1, 1, 1)},
        {"offsets": np.array([0, 1, 3, 5, 6, 7])},
        {"offsets": np.array([0, 1, 3, 5, 8])},
        {"counts": int32(5, 1, 4, 2, 3, 5, 1)},
        {"parent_offsets": np.array([0, 1, 2, 3, 4, 5])},
        {"parents": int32(0, 1, 0, 1, 1)},
    ],
)
def test_a_store_whose_arrays_do_not_fit_is_refused(changes):
    with pytest.raises(AssertionError):
        dataclasses.replace(STORE, **changes)
