import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model_directories import other_reads
from safetensors.numpy import load_file, save_file

from aam.data.table import FeatureTable
from aam.inference import reference
from aam.inference.reference import LEAST_VARIANCE, Reference, write_reference
from aam.util.errors import InputError


def write(path, embedding) -> None:
    write_reference(path, embedding, other_reads(len(embedding), ["ACGT"]), ["ACGT"], "fold0")


def written(folder, embedding) -> Reference:
    write(folder / "reference.safetensors", embedding)
    return Reference.open(folder / "reference.safetensors")


def test_samples_of_training_are_marked_by_their_id_or_else_by_their_reads(tiny, tmp_path):
    """An ID alone is enough, for the same sample may have been sequenced or drawn again."""
    sequences = [*tiny.sequences.values()]
    training = tiny.table.select_samples(np.arange(10))
    texts = [tiny.sequences[name] for name in training.feature_ids]
    path = tmp_path / "reference"
    write_reference(path, np.eye(10, dtype=np.float32), training, texts, "fold0-kernel")
    found = Reference.open(path)
    assert found.model == "fold0-kernel"
    # 000 to 004 under other IDs, 005 to 009 as they are, and others, of which one is called 001.
    ids = [f"new{number}" for number in range(5)] + tiny.table.sample_ids[5:]
    ids[15] = "001"
    table = FeatureTable(ids, [f"hash {name}" for name in sequences], tiny.table.counts)
    marks = found.samples.marks(table, sequences)
    expected = ["reads"] * 5 + ["id"] * 5 + [""] * 5 + ["id"] + [""] * 4
    assert marks["in_training"].tolist() == expected
    assert marks["same_reads"].tolist() == [True] * 10 + [False] * 10
    assert marks.index.tolist() == ids


def test_a_file_of_the_version_before_is_one_message(tmp_path):
    write(tmp_path / "now", np.eye(3, dtype=np.float32))
    parts = load_file(tmp_path / "now")
    old = {name: parts[name] for name in ("embedding", "distance")}
    save_file(old, tmp_path / "old", metadata={"aam": '{"version": 1}'})
    message = "old: got version 1; expected training samples, version 2.*Hint: .*fine-tune again"
    with pytest.raises(InputError, match=message):
        Reference.open(tmp_path / "old")


@given(seed=st.integers(0, 10**6), number=st.integers(2, 40))
@example(seed=296, number=2)  # A dimension that hardly varies.
@settings(deadline=None, max_examples=15)
def test_distances_and_ranks_are_those_of_two_loops(tmp_path_factory, seed, number):
    rng = np.random.default_rng(seed)
    known = rng.normal(size=(number, 5)) * [1, 10, 0.1, 1, 1] + 7
    found = written(tmp_path_factory.mktemp("reference"), known.astype(np.float32))
    variance_D = known.var(axis=0)
    spread_D = np.sqrt(np.maximum(variance_D, LEAST_VARIANCE * variance_D.mean()))
    scaled = known / spread_D
    apart = [np.linalg.norm(np.delete(scaled, i, 0) - row, axis=1) for i, row in enumerate(scaled)]
    nearest = np.array([distances.min() for distances in apart])
    np.testing.assert_allclose(found.distance_R, nearest, rtol=1e-4)
    others = rng.normal(size=(20, 5)) * [1, 10, 0.1, 1, 1] + 7
    for other, rank in zip(others, found.novelty(others), strict=True):
        own = np.linalg.norm(other / spread_D - scaled, axis=1).min()
        assert (nearest < own * 0.999).mean() <= rank <= (nearest < own * 1.001).mean()
    assert not found.novelty(known.astype(np.float32)).any(), "known samples are not new"
    assert (found.novelty(known + 1000) == 1).all()
    assert found.novelty(np.empty((0, 5))).shape == (0,)


def test_a_dimension_that_stands_still_does_not_rule(tmp_path):
    rng = np.random.default_rng(1)
    known = rng.normal(size=(50, 3)).astype(np.float32)
    known[:, 2] = 3
    others = rng.normal(size=(50, 3))
    others[:, 2] = 3 + 1e-6
    flat = written(tmp_path, known[:, :2]).novelty(others[:, :2])
    np.testing.assert_allclose(written(tmp_path, known).novelty(others), flat, atol=0.021)
    same = written(tmp_path, np.ones((3, 2), np.float32))
    assert same.novelty(np.array([[1.0, 1.0], [1.0, 5.0]])).tolist() == [0, 1]


def test_blocks_give_the_same_and_few_of_many_samples_are_kept(tmp_path, monkeypatch):
    known = np.random.default_rng(2).normal(size=(90, 3)).astype(np.float32)
    whole = written(tmp_path, known)
    expected = whole.novelty(known + 0.1)
    monkeypatch.setattr(reference, "ROWS_PER_BLOCK", 7)
    blocks = written(tmp_path, known)
    np.testing.assert_array_equal(blocks.distance_R, whole.distance_R)
    np.testing.assert_array_equal(blocks.novelty(known + 0.1), expected)
    monkeypatch.setattr(reference, "REFERENCES", 10)
    rows = np.linspace(0, 89, 10).astype(int)
    np.testing.assert_array_equal(written(tmp_path, known).embedding_RD, known[rows])


def test_files_that_are_missing_or_something_else_are_named(tmp_path):
    (tmp_path / "text").write_text("no such format, but longer than eight bytes")
    write(tmp_path / "cut", np.eye(3, dtype=np.float32))
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-8])
    for name in ("nothing", "text", "cut"):
        with pytest.raises(InputError, match=f"{name}: got .*Hint"):
            Reference.open(tmp_path / name)
