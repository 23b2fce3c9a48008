import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aam.unifrac import store


def distances(samples: int) -> np.ndarray:
    points = np.random.default_rng(samples).random((samples, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def ids(samples: int) -> list[str]:
    return [f"{number:04d}" for number in range(samples)]


@pytest.mark.parametrize("samples", [1, 256, 600])
def test_what_is_written_is_read_wherever_the_matrix_lies(tmp_path, samples):
    matrix = distances(samples).astype(np.float32)
    store.write_distances(tmp_path / "a.parquet", ids(samples), matrix, {"b": "1", "a": "2"})
    sample_ids, read = store.read_distances(tmp_path / "a.parquet")
    assert sample_ids == ids(samples)
    assert read.dtype == np.float32
    assert np.array_equal(read, matrix)
    wide = matrix.astype(np.float64)
    store.write_distances(tmp_path / "b.parquet", ids(samples), wide, {"a": "2", "b": "1"})
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_file_is_the_documented_one(tmp_path):
    path = tmp_path / "d.parquet"
    store.write_distances(path, ids(600), distances(600), {"aam.version": "1", "aam.schema": "2"})
    schema = pq.read_schema(path)
    assert schema.names == ["sample_id", "distances"]
    assert pa.types.is_fixed_size_list(schema.field("distances").type)
    assert schema.field("distances").type.list_size == 600
    assert schema.field("distances").type.value_type == pa.float32()
    metadata = pq.read_metadata(path)
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert rows == [256, 256, 88]
    assert metadata.row_group(0).column(1).compression == "ZSTD"
    assert store.read_provenance(path) == {"aam.version": "1", "aam.schema": "2"}


@pytest.mark.parametrize(("column", "wrong"), [(3, np.nan), (3, np.inf), (3, -0.5), (290, 0.1)])
def test_no_file_is_left_where_a_distance_is_wrong(tmp_path, column, wrong):
    matrix = distances(300)
    matrix[290, column] = wrong
    with pytest.raises(AssertionError, match="distance is n|itself"):
        store.write_distances(tmp_path / "d.parquet", ids(300), matrix, {})
    assert list(tmp_path.iterdir()) == []


def test_faith_pd_keeps_all_digits(tmp_path):
    values = np.array([1 / 3, 2.5])
    store.write_faith_pd(tmp_path / "f.parquet", ["01", "2"], values, {"aam.schema": "1"})
    sample_ids, read = store.read_faith_pd(tmp_path / "f.parquet")
    assert sample_ids == ["01", "2"]
    assert read.tolist() == values.tolist()
    assert store.read_provenance(tmp_path / "f.parquet") == {"aam.schema": "1"}
