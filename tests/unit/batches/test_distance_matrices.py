"""Distances of all samples: read where they fit, standardized, and their variance.

Shape suffixes: N samples.
"""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches import distance_matrices
from aam.batches.distance_matrices import load_matrices, pair_variances
from aam.config.metrics import FAITH_PD
from aam.distances import store
from aam.distances.store import write_distances, write_faith_pd
from aam.util.errors import InputError

METRICS = ["unweighted", FAITH_PD, "weighted"]


def symmetric(samples: int, seed: int) -> np.ndarray:
    values_NN = np.random.default_rng(seed).random((samples, samples), np.float32)
    values_NN = values_NN + values_NN.T
    np.fill_diagonal(values_NN, 0)
    return values_NN


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


def test_distances_without_room_are_one_message_before_anything_is_read(
    augmented, files, monkeypatch
):
    needed, ids = 4 * 20 * 20 * 4, augmented.store.sample_ids
    matrices, *_ = load_matrices(files, METRICS, 2, ids, None, needed)
    np.testing.assert_array_equal(matrices["unweighted"], [symmetric(20, 0), symmetric(20, 1)])
    for name in ("distance_rows", "read_faith_pd"):
        monkeypatch.setattr(distance_matrices, name, None)
    message = r"unweighted0.parquet: got .* 4 such files; .* set pretraining.targets: batch"
    with pytest.raises(InputError, match=message):
        load_matrices(files, METRICS, 2, ids, None, needed - 1)


def test_a_file_with_fewer_samples_than_the_store_is_refused(augmented, files):
    ids = augmented.store.sample_ids
    whole = pq.read_table(files[0])
    pq.write_table(whole.slice(0, 14), files[0], row_group_size=7)
    with pytest.raises(AssertionError, match=r"unweighted0.parquet holds other samples"):
        load_matrices(files, METRICS, 2, ids)


@pytest.mark.parametrize("is_in", [None, np.arange(20) % 3 > 0], ids=["all", "some"])
def test_faith_pd_is_standardized_by_the_samples_of_training(augmented, files, is_in):
    ids = augmented.store.sample_ids
    distances, values, scale = load_matrices(files, METRICS, 2, ids, is_in)
    np.testing.assert_array_equal(distances["weighted"], [symmetric(20, 4), symmetric(20, 5)])
    mean = np.arange(20) + 0.5
    training = mean if is_in is None else mean[is_in]
    assert scale == pytest.approx((training.mean(), training.std()))
    expected = (mean - scale[0]) / scale[1]
    np.testing.assert_allclose(values[FAITH_PD][:, 0], expected, rtol=1e-5)


@given(at_once=st.integers(1, 200), number=st.integers(2, 20), seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_variance_over_pairs_is_that_of_all_of_them_at_once(at_once, number, seed):
    rng = np.random.default_rng(seed)
    matrix = (50 + rng.normal(size=(1, 20, 20))).astype(np.float32)
    samples = rng.permutation(20)[:number]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distance_matrices, "DISTANCES_AT_ONCE", at_once)
        variance = pair_variances({"weighted": matrix}, samples)["weighted"]
    pairs = matrix[0][np.ix_(samples, samples)][np.triu_indices(number, 1)]
    assert variance == pytest.approx(max(pairs.astype(np.float64).var(), 1e-6), rel=1e-9)
