"""Distances in memory and mapped from files: the same values, batches and scores.

Shape suffixes: V views, N samples.
"""

import logging
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.config.metrics import FAITH_PD
from aam.train.data import distances, mapped_distances
from aam.train.data.dataset import BatchDataset
from aam.train.data.distances import Maps, load_matrices, pair_variances
from aam.train.data.mapped_distances import MappedMatrix, convert
from aam.train.data.sampler import Blocks
from aam.unifrac import store
from aam.unifrac.store import write_distances, write_faith_pd
from aam.util.errors import InputError

METRICS = ["unweighted", FAITH_PD, "weighted"]
EVERY = np.ix_(np.arange(20), np.arange(20))
TRAINING = np.array([0, 2, 3, 5, 6, 7, 9, 11, 12, 15, 18])


def symmetric(samples: int, seed: int) -> np.ndarray:
    values_NN = np.random.default_rng(seed).random((samples, samples), np.float32)
    values_NN = values_NN + values_NN.T
    np.fill_diagonal(values_NN, 0)
    return values_NN


def blocks_of(samples: np.ndarray, number: int, size: int = 3) -> Blocks:
    drawn = Blocks.of(samples, number, seed=4)
    return Blocks(drawn.line_N, drawn.training, size, pool=2)


@pytest.fixture
def files(augmented, tmp_path, monkeypatch) -> list[Path]:
    """Write two views of two distances and of Faith's PD, in several row groups."""
    monkeypatch.setattr(store, "ROW_GROUP", 7)
    ids, paths = augmented.store.sample_ids, []
    for number, metric in enumerate(METRICS):
        for view in range(2):
            paths.append(tmp_path / f"{metric}{view}.parquet")
            if metric == FAITH_PD:
                write_faith_pd(paths[-1], ids, np.arange(20.0) + view, {})
            else:
                write_distances(paths[-1], ids, symmetric(20, number * 2 + view), {})
    return paths


def load(files, augmented, maps: Maps | None):
    return load_matrices(files, METRICS, 2, augmented.store.sample_ids, None, maps)


@pytest.mark.parametrize("sampler", ["uniform", "blocks"])
def test_mapped_distances_give_the_same_batches_variances_and_blocks(
    augmented, files, tmp_path, sampler
):
    blocks = blocks_of(TRAINING, 20) if sampler == "blocks" else None
    in_memory, values = load(files, augmented, None)
    on_disk, same_values = load(files, augmented, Maps(tmp_path / "maps", 0, blocks))
    assert all(isinstance(part, MappedMatrix) for parts in on_disk.values() for part in parts)
    np.testing.assert_array_equal(values[FAITH_PD], same_values[FAITH_PD])
    line = TRAINING if blocks is None else blocks.training_line
    assert pair_variances(in_memory, line) == pair_variances(on_disk, line)
    common = augmented.store, augmented.tokens, TRAINING, 4, 3, 1
    expected, found = (
        BatchDataset(*common, distances=each, blocks=blocks) for each in (in_memory, on_disk)
    )
    assert {expected.rows(step)[1] for step in range(len(expected))} == {0, 1}
    for step in range(len(expected)):
        here, there = found[step].distances, expected[step].distances
        assert torch.equal(here["unweighted"], there["unweighted"])
        assert torch.equal(here["weighted"], there["weighted"])


@given(
    number=st.integers(1, 23),
    training=st.integers(1, 23),
    size=st.integers(1, 9),
    group=st.integers(1, 24),
    data=st.data(),
)
@settings(deadline=None, max_examples=15)
def test_any_rows_and_columns_are_those_of_the_matrix(
    tmp_path_factory, number, training, size, group, data
):
    folder = tmp_path_factory.mktemp("any")
    expected_NN, ids = symmetric(number, 0), [str(i) for i in range(number)]
    # Not symmetric, so that rows and columns cannot be taken for each other.
    expected_NN = np.triu(expected_NN)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "ROW_GROUP", group)
        write_distances(folder / "d.parquet", ids, expected_NN, {})
    blocks = blocks_of(np.arange(min(training, number)), number, size)
    for chosen in (None, blocks):
        convert(folder / "d.parquet", folder / "d.f32", ids, chosen)
        matrix = MappedMatrix(folder / "d.f32", number, chosen)
        places = st.lists(st.integers(0, number - 1), min_size=1, max_size=9)
        index = np.ix_(np.array(data.draw(places)), np.array(data.draw(places)))
        np.testing.assert_array_equal(matrix[index], expected_NN[index])
        # A worker that is not forked opens the file again.
        copied = pickle.dumps(matrix)
        np.testing.assert_array_equal(pickle.loads(copied)[index], expected_NN[index])
        assert len(copied) < 2000


def test_memory_is_used_as_long_as_it_suffices(augmented, files, tmp_path, caplog):
    maps, needed = tmp_path / "maps", 4 * 20 * 20 * 2 * 2
    with caplog.at_level(logging.INFO):
        in_memory, _ = load(files, augmented, Maps(maps, needed))
        assert not caplog.messages
        assert not maps.exists()
        assert all(isinstance(matrix, np.ndarray) for matrix in in_memory.values())
        load(files, augmented, Maps(maps, needed - 1))
    assert [message for message in caplog.messages if "are mapped" in message]


def test_a_file_is_converted_once_by_whichever_comes_first(augmented, files, tmp_path, monkeypatch):
    converted, slow = [], mapped_distances.convert

    def counting(source, target, *rest):
        converted.append(target.name)
        time.sleep(0.02)
        slow(source, target, *rest)

    monkeypatch.setattr(mapped_distances, "convert", counting)
    maps = Maps(tmp_path / "maps", 0)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: load(files, augmented, maps), range(3)))
    assert len(converted) == len(set(converted)) == 4
    changed_NN = symmetric(20, 99)
    write_distances(files[1], augmented.store.sample_ids, changed_NN, {})
    for number, blocks in ((5, None), (9, blocks_of(TRAINING, 20))):
        found = load(files, augmented, Maps(maps.folder, 0, blocks))[0]["unweighted"][1]
        np.testing.assert_array_equal(found[EVERY], changed_NN)
        assert len(converted) == number, "a changed input or other blocks make another file"
        assert len(list(maps.folder.glob("*.f32"))) == 4, "files of the other inputs are left"


def test_an_interrupted_conversion_is_begun_again(augmented, files, tmp_path, monkeypatch):
    maps, rows = Maps(tmp_path / "maps", 0), mapped_distances.distance_rows

    def failing(path):
        yield from list(rows(path))[:1]
        # What a killed process leaves: nobody removes it.
        (maps.folder / ".partial-1-unweighted-view1-0.f32").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mapped_distances, "distance_rows", failing)
        with pytest.raises(KeyboardInterrupt):
            load(files, augmented, maps)
    assert not list(maps.folder.glob("[!.]*.f32"))
    found, expected = load(files, augmented, maps)[0], load(files, augmented, None)[0]
    for metric, matrix_VNN in expected.items():
        for own, matrix_NN in zip(found[metric], matrix_VNN, strict=True):
            np.testing.assert_array_equal(own[EVERY], matrix_NN)
    assert len(list(maps.folder.iterdir())) == 5, "four files and the lock"


def test_a_full_disk_is_one_message_before_anything_is_written(
    augmented, files, tmp_path, monkeypatch
):
    usage = mapped_distances.shutil.disk_usage(tmp_path)
    needed = 4 * 20 * 20 * 4
    monkeypatch.setattr(
        mapped_distances.shutil, "disk_usage", lambda _: usage._replace(free=needed - 1)
    )
    with pytest.raises(InputError, match=r"GB free; expected .* make room"):
        load(files, augmented, Maps(tmp_path / "maps", 0))
    assert not list((tmp_path / "maps").glob("*.f32"))


@pytest.mark.parametrize("sampler", ["uniform", "blocks"])
def test_little_of_a_mapped_matrix_counts_as_memory(tmp_path, monkeypatch, sampler):
    number = 700
    monkeypatch.setattr(mapped_distances, "HELD_BYTES", 200_000)
    monkeypatch.setattr(distances, "DISTANCES_AT_ONCE", 30_000)
    ids = [str(i) for i in range(number)]
    write_distances(tmp_path / "d.parquet", ids, symmetric(number, 0), {})
    blocks = blocks_of(np.arange(number), number, size=50) if sampler == "blocks" else None
    convert(tmp_path / "d.parquet", tmp_path / "d.f32", ids, blocks)
    matrix = MappedMatrix(tmp_path / "d.f32", number, blocks)
    line = np.arange(number) if blocks is None else blocks.training_line
    assert distances._pair_variance(matrix, line) > 0
    mappings = Path("/proc/self/smaps").read_text(encoding="utf-8").split("d.f32")[-1]
    resident = next(line for line in mappings.splitlines() if line.startswith("Rss:"))
    assert int(resident.split()[1]) * 1024 < 0.3 * (tmp_path / "d.f32").stat().st_size


@pytest.mark.parametrize("is_in", [None, np.arange(20) % 3 > 0], ids=["all", "some"])
def test_faith_pd_is_standardized_by_the_samples_of_training(augmented, files, is_in):
    ids = augmented.store.sample_ids
    distances, values = load_matrices(files, METRICS, 2, ids, is_in)
    np.testing.assert_array_equal(distances["weighted"], [symmetric(20, 4), symmetric(20, 5)])
    mean = np.arange(20) + 0.5
    known = mean if is_in is None else mean[is_in]
    expected = (mean - known.mean()) / known.std()
    np.testing.assert_allclose(values[FAITH_PD][:, 0], expected, rtol=1e-5)


@given(at_once=st.integers(1, 200), number=st.integers(2, 20), seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_variance_over_pairs_is_that_of_all_of_them_at_once(at_once, number, seed):
    rng = np.random.default_rng(seed)
    matrix = (50 + rng.normal(size=(1, 20, 20))).astype(np.float32)
    samples = rng.permutation(20)[:number]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distances, "DISTANCES_AT_ONCE", at_once)
        found = pair_variances({"weighted": matrix}, samples)["weighted"]
    pairs = matrix[0][np.ix_(samples, samples)][np.triu_indices(number, 1)]
    assert found == pytest.approx(max(pairs.astype(np.float64).var(), 1e-6), rel=1e-9)
