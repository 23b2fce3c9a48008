"""Stripes of a distance matrix, of five and six samples, and the files that hold them."""

import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

from aam.distances import store, stripes
from aam.distances.stripes import (
    Joined,
    StripeMatrix,
    Stripes,
    check_whole,
    compute_in_steps,
    count_stripes,
    divide_range,
    divide_stripes,
    job_stripes,
    open_parts,
    read_partial,
    write_part,
)


def distance(first: int, second: int) -> float:
    """Return a number that names a pair, whatever its order."""
    return 10.0 * min(first, second) + max(first, second)


def matrix_of(samples: int) -> np.ndarray:
    every = range(samples)
    return np.array([[distance(i, j) if i != j else 0.0 for j in every] for i in every])


def stripes_of(samples: int, start: int, stop: int) -> Stripes:
    made = Stripes(start, stop, samples)
    for stripe in range(start, stop):
        others = [(sample + stripe + 1) % samples for sample in range(samples)]
        made.put(stripe, np.array([distance(i, j) for i, j in enumerate(others)]))
    return made


def test_a_stripe_has_the_distances_to_samples_behind_and_before():
    made = stripes_of(5, 1, 2)
    behind, before = made.sides(slice(0, 5))
    # Stripe 1: two samples further, and two samples back.
    assert behind.tolist() == [[2.0], [13.0], [24.0], [3.0], [14.0]]
    assert before.tolist() == [[3.0], [14.0], [2.0], [13.0], [24.0]]
    assert behind.dtype == np.float32


def test_rows_of_stripes_have_a_column_for_each_stripe():
    behind, before = stripes_of(5, 0, 2).sides(slice(1, 3))
    assert behind.tolist() == [[12.0, 13.0], [23.0, 24.0]]
    assert before.tolist() == [[1.0, 14.0], [12.0, 2.0]]


@pytest.mark.parametrize("samples", [2, 3, 5, 6])
def test_stripes_are_the_whole_matrix_together(samples):
    stop = count_stripes(samples)
    whole = stripes_of(samples, 0, stop)
    matrix = StripeMatrix(whole)
    assert matrix.shape == (samples, samples)
    assert matrix[0:samples].tolist() == matrix_of(samples).tolist()
    assert matrix[samples - 1 : samples].tolist() == matrix_of(samples)[-1:].tolist()


@pytest.mark.parametrize("samples", [2, 3, 5, 6])
def test_stripes_of_several_parts_are_joined(samples):
    stop = count_stripes(samples)
    parts = [stripes_of(samples, stripe, stripe + 1) for stripe in range(stop)]
    joined = Joined(parts)
    assert (joined.start, joined.stop, joined.samples) == (0, stop, samples)
    assert StripeMatrix(joined)[0:samples].tolist() == matrix_of(samples).tolist()


def test_stripes_that_are_not_whole_are_no_matrix():
    for start, stop in ((1, 3), (0, 2)):
        with pytest.raises(AssertionError):
            StripeMatrix(stripes_of(6, start, stop))
    with pytest.raises(AssertionError):
        Joined([stripes_of(6, 0, 1), stripes_of(6, 2, 3)])


def test_rows_of_distances_are_diagonals():
    made = Stripes(1, 3, 6)
    for first in (0, 4):
        rows = range(first, min(first + 4, 6))
        columns = [(first + 2 + step) % 6 for step in range(2 + len(rows) - 1)]
        made.put_rows(first, np.array([[distance(i, j) for j in columns] for i in rows]))
    expected = stripes_of(6, 1, 3)
    for own, other in zip(made.sides(slice(0, 6)), expected.sides(slice(0, 6)), strict=True):
        assert own.tolist() == other.tolist()


@pytest.mark.parametrize(("samples", "number"), [(1, 0), (2, 1), (3, 1), (6, 3), (7, 3)])
def test_half_of_the_samples_are_stripes(samples, number):
    assert count_stripes(samples) == number


def test_ranges_are_divided_evenly():
    assert divide_range(2, 9, 3) == [(2, 4), (4, 6), (6, 9)]
    assert divide_range(0, 4, 1) == [(0, 4)]


@pytest.mark.parametrize(
    ("start", "stop", "memory_bytes", "ranges"),
    [
        # A stripe takes ten bytes.
        (0, 5, 29, [(0, 1), (1, 3), (3, 5)]),
        (0, 4, 20, [(0, 2), (2, 4)]),
        (1, 4, 30, [(1, 4)]),
        pytest.param(1, 4, 9, [(1, 2), (2, 3), (3, 4)], id="at least one at a time"),
    ],
)
def test_stripes_are_divided_into_as_few_ranges_as_fit_into_memory(
    start, stop, memory_bytes, ranges
):
    assert divide_stripes(start, stop, 10, memory_bytes) == ranges


def test_jobs_share_all_stripes():
    # Fifteen samples have seven stripes.
    assert [job_stripes(part, 3, 15) for part in range(3)] == [(0, 2), (2, 4), (4, 7)]
    assert job_stripes(6, 7, 15) == (6, 7)


def test_more_jobs_than_stripes_are_refused():
    with refused("got 8 for 15 samples; expected at most half", r", 7\."):
        job_stripes(0, 8, 15)


def partial_file(path, start=1, stop=3, names=("a", "b", "c", "d", "e", "f")) -> bytes:
    """Write a file as `ssu --mode partial` does, by the description of its format."""
    codec = pa.Codec("lz4_raw")
    labels = "".join(f"{name}\0" for name in names).encode()
    packed = codec.compress(labels, asbytes=True)
    header = (0x088ABA02, len(names), stop - start, start, 3, 1, len(labels), len(packed))
    content = struct.pack("<8I", *header) + packed
    for stripe in range(start, stop):
        values = [distance(i, (i + stripe + 1) % len(names)) for i in range(len(names))]
        part = codec.compress(struct.pack(f"<{len(names)}d", *values), asbytes=True)
        content += struct.pack("<I", len(part)) + part
    content += struct.pack("<I", 0x088ABA02)
    path.write_bytes(content)
    return content


def test_stripes_are_read_from_a_file_of_ssu(tmp_path):
    path = tmp_path / "stripes.bin"
    partial_file(path)
    found = read_partial(path, list("abcdef"))
    assert (found.start, found.stop, found.samples) == (1, 3, 6)
    expected = stripes_of(6, 1, 3)
    assert found.sides(slice(0, 6))[0].tolist() == expected.sides(slice(0, 6))[0].tolist()


def test_a_file_of_ssu_for_other_samples_is_an_error(tmp_path):
    path = tmp_path / "stripes.bin"
    partial_file(path)
    with pytest.raises(RuntimeError, match=r"stripes\.bin: ssu left.*: it holds other samples"):
        read_partial(path, list("abcdeg"))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: b"\0" + content[1:], "it does not begin as one"),
        (lambda content: content[:-1] + b"\0", "it does not end as one"),
        (lambda content: content[:-1], "it is too short"),
        # The file ends within the names of the samples.
        (lambda content: content[:40], "it is too short"),
    ],
)
def test_a_damaged_file_of_ssu_is_an_error_with_its_reason(tmp_path, damage, reason):
    path = tmp_path / "stripes.bin"
    path.write_bytes(damage(partial_file(path)))
    with pytest.raises(RuntimeError, match=reason):
        read_partial(path, list("abcdef"))


def test_a_file_that_ssu_has_not_written_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="No such file"):
        read_partial(tmp_path / "stripes.bin", list("abcdef"))


@pytest.fixture
def five_samples(tmp_path, monkeypatch):
    """Return the file of all stripes of five samples, in row groups of two."""
    for module in (store, stripes):
        monkeypatch.setattr(module, "ROW_GROUP", 2)
    path = tmp_path / "part.parquet"
    write_part(path, stripes_of(5, 0, 2), {"aam.inputs": "i", "aam.engine": "ssu"})
    return path


def test_a_part_is_a_file_with_both_sides_of_every_sample(five_samples):
    made = stripes_of(5, 0, 2)
    table = pq.read_table(five_samples)
    assert table.column_names == ["behind", "before"]
    for name, side in zip(table.column_names, made.sides(slice(0, 5)), strict=True):
        assert table.column(name).to_pylist() == side.tolist()
        field = table.schema.field(name)
        assert not field.nullable
        assert field.type == pa.list_(pa.field("element", pa.float32(), nullable=False), 2)
    assert json.loads(store.read_provenance(five_samples)["aam.stripes"]) == [0, 2, 5]


def test_a_part_is_written_without_compression_in_groups_of_rows(five_samples):
    metadata = pq.read_metadata(five_samples)
    assert [metadata.row_group(group).num_rows for group in range(3)] == [2, 2, 1]
    assert {metadata.row_group(0).column(side).compression for side in (0, 1)} == {"UNCOMPRESSED"}
    assert not any("DICTIONARY" in name for name in metadata.row_group(0).column(0).encodings)


def test_any_rows_are_read_from_a_part(five_samples):
    made = stripes_of(5, 0, 2)
    with open_parts([five_samples]) as [part]:
        assert (part.start, part.stop, part.samples, part.engine) == (0, 2, 5, "ssu")
        for rows in (slice(0, 5), slice(1, 2), slice(1, 4), slice(2, 4), slice(4, 5), slice(3, 9)):
            for own, other in zip(part.sides(rows), made.sides(rows), strict=True):
                assert own.tolist() == other.tolist()
        assert StripeMatrix(part)[0:5].tolist() == matrix_of(5).tolist()


def part_file(folder, start, stop, samples=8, inputs="i", engine="ssu"):
    """Write some of the stripes of a matrix; return the file."""
    path = folder / f"{start}-{stop}-{samples}-{inputs}-{engine}.parquet"
    provenance = {"aam.inputs": inputs, "aam.engine": engine}
    write_part(path, stripes_of(samples, start, stop), provenance)
    return path


def check_parts(folder, parts) -> None:
    with open_parts([part_file(folder, *part) for part in parts]) as opened:
        check_whole(opened, 8, "i")


@pytest.mark.parametrize("parts", [[(0, 1), (1, 3), (3, 4)], [(0, 4)]])
def test_parts_of_all_stripes_in_order_are_a_matrix(tmp_path, parts):
    check_parts(tmp_path, parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([(0, 1), (2, 4)], "got stripes 2 to 4 of 8 samples; expected stripes from 1 of 8"),
        ([(1, 4)], "got stripes 1 to 4 of 8 samples; expected stripes from 0 of 8 samples"),
        ([(0, 2), (0, 2)], "got stripes 0 to 2 of 8 samples; expected stripes from 2"),
        ([(0, 4, 9)], "got stripes 0 to 4 of 9 samples; expected stripes from 0 of 8 samples"),
        ([(0, 2, 8, "j"), (2, 4)], "got stripes of another table or tree"),
        ([(0, 2), (2, 4, 8, "j")], "got stripes of another table or tree"),
        ([(0, 2), (2, 4, 8, "i", "products")], "got stripes by products; expected those by ssu"),
        ([(0, 2), (2, 3)], "got stripes up to 3 in the last file; expected stripes up to 4"),
    ],
)
def test_parts_of_another_matrix_or_order_are_refused(tmp_path, parts, message):
    with refused(message):
        check_parts(tmp_path, parts)


@pytest.fixture
def compute_six():
    """Return a function that computes stripes of six samples and records which."""

    def compute(start, stop):
        compute.ranges.append((start, stop))
        return stripes_of(6, start, stop)

    compute.ranges = []
    return compute


def test_a_single_step_is_kept_in_memory(tmp_path, compute_six):
    with compute_in_steps([(0, 3)], compute_six, tmp_path) as whole:
        assert isinstance(whole, Stripes)
        assert compute_six.ranges == [(0, 3)]
        assert list(tmp_path.iterdir()) == []
        assert StripeMatrix(whole)[0:6].tolist() == matrix_of(6).tolist()


def test_several_steps_are_kept_in_files_and_logged(tmp_path, caplog, compute_six):
    with (
        caplog.at_level("INFO"),
        compute_in_steps([(0, 1), (1, 3)], compute_six, tmp_path) as whole,
    ):
        assert StripeMatrix(whole)[0:6].tolist() == matrix_of(6).tolist()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0.parquet", "1.parquet"]
    assert compute_six.ranges == [(0, 1), (1, 3)]
    assert [record.message for record in caplog.records] == ["1 of 2 steps", "2 of 2 steps"]
