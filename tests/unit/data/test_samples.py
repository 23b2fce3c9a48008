import dataclasses
import gc

import numpy as np
import pyarrow as pa
import pytest

from aam.data.samples import SampleStore, write_samples


def int32(*values):
    return np.array(values, dtype=np.int32)


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


@pytest.fixture
def path(tmp_path):
    write_samples(tmp_path / "samples.arrow", STORE, {"aam.schema": "1"})
    return tmp_path / "samples.arrow"


def test_what_was_written_is_read_and_gives_the_same_bytes(path, tmp_path):
    opened = SampleStore.open(path)
    gc.collect()
    write_samples(tmp_path / "again.arrow", opened, {"aam.schema": "1"})
    assert (tmp_path / "again.arrow").read_bytes() == path.read_bytes()
    for field in dataclasses.fields(SampleStore):
        value, expected = getattr(opened, field.name), getattr(STORE, field.name)
        assert np.array_equal(value, expected), field.name
        assert getattr(value, "dtype", None) == getattr(expected, "dtype", None), field.name
        if field.name in ("asvs", "counts", "parents", "weights", "row_view"):
            assert (value.flags.owndata, value.flags.writeable) == (False, False), (
                "views of the file"
            )


def test_view_matrix(path):
    opened = SampleStore.open(path)
    assert opened.view_matrix(0, 3).toarray().tolist() == [[5, 0, 0], [1, 4, 0]]
    assert opened.view_matrix(1, 4).toarray().tolist() == [[0, 2, 3, 0], [0, 0, 5, 0]]
    assert opened.view_matrix(1, 4).dtype == np.int64
    with pytest.raises(AssertionError):
        opened.view_matrix(2, 3)


def test_rows_are_labelled_by_their_parents(path):
    with pa.ipc.open_file(str(path)) as reader:
        batch = reader.get_batch(0)
        assert batch.column("sample_id").to_pylist() == ["x", "y", "x", "y", "y+x"]
        assert reader.schema.metadata == {b"aam.schema": b"1"}


def test_rows_out_of_order_are_refused():
    with pytest.raises(AssertionError):
        dataclasses.replace(STORE, row_view=int32(0, 1, 0, 1, -1))
