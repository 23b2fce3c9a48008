import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import read_distances

from aam.distances import store, stripes
from aam.distances.stripes import Joined, StripeMatrix, Stripes


def distances(samples: int) -> np.ndarray:
    points = np.random.default_rng(samples).random((samples, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=2).astype(np.float32)


def ids(samples: int) -> list[str]:
    return [f"{number:04d}" for number in range(samples)]


class Watched(Stripes):
    """Stripes that note which rows are asked for."""

    asked: list[range]

    def sides(self, rows):
        self.asked.append(range(*rows.indices(self.samples)))
        return super().sides(rows)


def stripes_of(matrix: np.ndarray, start: int, stop: int, kind=Stripes) -> Stripes:
    samples = np.arange(len(matrix))
    result = kind(start, stop, len(matrix))
    for stripe in range(start, stop):
        result.put(stripe, matrix[samples, (samples + stripe + 1) % len(matrix)])
    return result


@pytest.mark.parametrize("samples", [1, 256, 600])
def test_what_is_written_is_read_and_the_file_is_the_documented_one(tmp_path, samples):
    matrix, path = distances(samples), tmp_path / "a.parquet"
    store.write_distances(path, ids(samples), matrix, {"b": "1", "a": "2"})
    sample_ids, read = read_distances(path)
    assert sample_ids == ids(samples)
    assert read.dtype == np.float32
    assert np.array_equal(read, matrix)
    wide = matrix.astype(np.float64)
    store.write_distances(tmp_path / "b.parquet", ids(samples), wide, {"a": "2", "b": "1"})
    assert path.read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert store.read_provenance(path) == {"a": "2", "b": "1"}
    schema, metadata = pq.read_schema(path), pq.read_metadata(path)
    assert schema.names == ["sample_id", "distances"]
    kind = schema.field("distances").type
    assert (kind.list_size, kind.value_type) == (samples, pa.float32())
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert rows == [min(256, samples - start) for start in range(0, samples, 256)]
    assert metadata.row_group(0).column(1).compression == "ZSTD"


@pytest.mark.parametrize(("column", "wrong"), [(3, np.nan), (3, np.inf), (3, -0.5), (290, 0.1)])
def test_no_file_is_left_where_a_distance_is_wrong(tmp_path, column, wrong):
    matrix = distances(300)
    matrix[290, column] = wrong
    with pytest.raises(AssertionError, match="distance is n|itself"):
        store.write_distances(tmp_path / "d.parquet", ids(300), matrix, {})
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(data=st.data(), samples=st.integers(2, 24))
def test_rows_of_stripes_are_rows_of_the_matrix(data, samples):
    matrix = distances(samples)
    jobs = data.draw(st.integers(1, samples // 2))
    made = [stripes_of(matrix, *stripes.job_stripes(part, jobs, samples)) for part in range(jobs)]
    first = data.draw(st.integers(0, samples - 1))
    rows = slice(first, data.draw(st.integers(first + 1, samples + 3)))
    assert np.array_equal(StripeMatrix(Joined(made))[rows], matrix[rows])


def test_a_block_of_rows_is_in_memory_at_a_time(tmp_path, monkeypatch):
    matrix = distances(700)
    whole = stripes_of(matrix, 0, 350, Watched)
    whole.asked = []
    stripes.write_part(tmp_path / "p.parquet", whole, {})
    store.write_distances(tmp_path / "d.parquet", ids(700), StripeMatrix(whole), {})
    assert whole.asked == 2 * [range(0, 256), range(256, 512), range(512, 700)]
    assert np.array_equal(read_distances(tmp_path / "d.parquet")[1], matrix)
    with stripes.open_parts([tmp_path / "p.parquet"]) as [part]:
        read, groups = part._file.read_row_groups, []
        monkeypatch.setattr(
            part._file, "read_row_groups", lambda g, **k: groups.append(g) or read(g, **k)
        )
        found = StripeMatrix(part)
        store.write_distances(tmp_path / "e.parquet", ids(700), found, {})
        assert groups == [[0], [1], [2]]
        for rows in (slice(200, 300), slice(1, 2), slice(255, 257)):
            assert np.array_equal(found[rows], matrix[rows])
    assert (tmp_path / "d.parquet").read_bytes() == (tmp_path / "e.parquet").read_bytes()


@pytest.mark.parametrize("samples", [2, 3, 8, 9])
def test_rows_of_distances_become_stripes(samples):
    matrix = distances(samples)
    start, stop = stripes.count_stripes(samples) // 2, stripes.count_stripes(samples)
    expected = stripes_of(matrix, start, stop)
    found = Stripes(start, stop, samples)
    for first in range(0, samples, 4):
        rows = np.arange(first, min(first + 4, samples))
        columns = np.arange(first + start + 1, first + stop + len(rows)) % samples
        found.put_rows(first, matrix[np.ix_(rows, columns)])
    for own, other in zip(found.sides(slice(0, None)), expected.sides(slice(0, None)), strict=True):
        assert np.array_equal(own, other)


@settings(deadline=None)
@given(samples=st.integers(2, 200_000), start=st.floats(0, 1), memory=st.integers(1, 1 << 34))
def test_steps_stay_within_the_memory(samples, start, memory):
    stop = stripes.count_stripes(samples)
    start = int(start * (stop - 1))
    memory = max(memory, 32 * samples * (stop // 1000 + 1))
    ranges = stripes.divide_stripes(start, stop, 32 * samples, memory)
    assert [ranges[0][0], ranges[-1][1]] == [start, stop]
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
    longest = max(b - a for a, b in ranges)
    assert min(b - a for a, b in ranges) >= max(1, longest - 1)
    assert 32 * samples * longest <= memory


def test_a_value_for_each_sample_is_written_with_its_provenance_and_read(tmp_path):
    path = tmp_path / "f.parquet"
    store.write_faith_pd(path, ["x", "01"], np.array([1.5, 0.1]), {"b": "1", "a": "2"})
    sample_ids, values = store.read_faith_pd(path)
    assert (sample_ids, values.tolist()) == (["x", "01"], [1.5, 0.1])
    assert store.read_ids(path) == ["x", "01"]
    assert store.read_provenance(path) == {"a": "2", "b": "1"}
    schema, metadata = pq.read_schema(path), pq.read_metadata(path)
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        ("sample_id", pa.string(), False),
        ("faith_pd", pa.float64(), False),
    ]
    assert metadata.row_group(0).column(1).compression == "ZSTD"


@pytest.mark.parametrize("wrong", [[1.5], [1.5, np.inf]])
def test_values_that_are_missing_or_infinite_are_not_written(tmp_path, wrong):
    with pytest.raises(AssertionError):
        store.write_faith_pd(tmp_path / "f.parquet", ["x", "01"], np.array(wrong), {})
    assert list(tmp_path.iterdir()) == []


def test_rows_are_read_a_group_at_a_time(tmp_path):
    matrix, path = distances(300), tmp_path / "d.parquet"
    store.write_distances(path, ids(300), matrix, {})
    groups = list(store.distance_rows(path))
    assert [len(names) for names, _ in groups] == [store.ROW_GROUP, 300 - store.ROW_GROUP]
    assert groups[1][0] == ids(300)[store.ROW_GROUP :]
    assert np.array_equal(groups[1][1], matrix[store.ROW_GROUP :])
    assert store.read_ids(path) == ids(300)


def test_distances_are_split_into_bytes_before_they_are_compressed(tmp_path):
    path = tmp_path / "d.parquet"
    store.write_distances(path, ids(300), distances(300), {})
    column = pq.read_metadata(path).row_group(0).column(1)
    assert "BYTE_STREAM_SPLIT" in column.encodings
    assert not any("DICTIONARY" in name for name in column.encodings)
    kind = pq.read_schema(path).field("distances")
    assert not kind.nullable
    assert not kind.type.value_field.nullable


@pytest.mark.parametrize(
    ("names", "matrix"),
    [
        pytest.param(3, distances(4), id="fewer names"),
        pytest.param(3, distances(4)[:3], id="fewer rows"),
        pytest.param(4, distances(3), id="more names"),
    ],
)
def test_a_matrix_of_other_samples_is_not_written(tmp_path, names, matrix):
    with pytest.raises(AssertionError):
        store.write_distances(tmp_path / "d.parquet", ids(names), matrix, {})
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_another_program_has_no_provenance(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "bare.parquet")
    assert store.read_provenance(tmp_path / "bare.parquet") == {}
