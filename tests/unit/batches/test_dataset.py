"""Batches, who meets in them, what is left out of them, and rows of fewer reads in the first steps.

Shape suffixes: B samples of a batch, N samples, R rows of a store.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from unifrac_cases import random_tree

from aam.batches.collate import entries_of
from aam.batches.dataset import BatchDataset, EmbeddingDataset, Subsampling
from aam.batches.masking import AsvDropout, Masker
from aam.config.sections.training import Pretraining
from aam.data.trees import write_newick
from aam.distances.in_batch import BatchDistances
from aam.model.predictor import EMBEDDING

TRAINING = np.array([0, 2, 3, 5, 6, 7, 9, 11, 12, 15, 18])


@pytest.fixture(scope="module")
def dataset_of(augmented, new_feed) -> Callable[..., BatchDataset]:
    def build(kind: type[BatchDataset] = BatchDataset, **changes) -> BatchDataset:
        values = {"age": np.arange(40, dtype=np.float32).reshape(20, 2)}
        options = {"samples": TRAINING, "values": values, "epochs": 3, "seed": 1, "masker": None}
        return new_feed(kind, augmented, **{**options, **changes})

    return build


def parents_of(store, row: int) -> dict[int, float]:
    held = slice(store.parent_offsets[row], store.parent_offsets[row + 1])
    return dict(zip(store.parents[held].tolist(), store.weights[held].tolist(), strict=True))


def rows_of_epoch(dataset: BatchDataset, epoch: int) -> list[np.ndarray]:
    steps = range(epoch * dataset.steps_per_epoch, (epoch + 1) * dataset.steps_per_epoch)
    return [dataset.rows(step)[0] for step in steps]


@pytest.mark.parametrize("batch_size", [2, 4, 64])
def test_every_training_sample_comes_once_per_epoch_in_a_new_order(dataset_of, batch_size):
    dataset = dataset_of(batch_size=batch_size)
    store, orders = dataset.store, []
    for epoch in range(3):
        batches = rows_of_epoch(dataset, epoch)
        sizes = [len(batch) for batch in batches]
        assert 2 <= min(sizes) <= max(sizes) <= max(batch_size, 3)
        assert max(sizes) - min(sizes) <= 1
        orders.append(store.parents[store.parent_offsets[np.concatenate(batches)]].tolist())
        assert sorted(orders[-1]) == TRAINING.tolist()
    assert len(dataset) == 3 * dataset.steps_per_epoch
    assert orders[0] != orders[1] != orders[2]


def test_a_batch_is_a_function_of_the_step(dataset_of):
    forward = [dataset_of(masker=Masker(0.2, 0)) for _ in range(2)]
    backward = {step: forward[1][step] for step in reversed(range(len(forward[1])))}
    for step in range(len(forward[0])):
        here, there = forward[0][step], backward[step]
        assert torch.equal(here.order_B, there.order_B)
        assert torch.equal(here.distances["unweighted"], there.distances["unweighted"])
        assert torch.equal(here.asvs[0].tokens_US, there.asvs[0].tokens_US)
        assert torch.equal(here.asvs[0].masked.base_M, there.asvs[0].masked.base_M)
    whole = dataset_of(batch_size=64, masker=Masker(0.5, 0))
    counts = [[(b.tokens_US == 6).sum().item() for b in whole[step].asvs] for step in range(3)]
    assert counts[0] != counts[1] != counts[2], "masks change with the epoch"


def test_all_rows_but_those_with_a_held_out_parent_are_drawn(dataset_of):
    dataset = dataset_of(epochs=200)
    store, drawn = dataset.store, Counter()
    for step in range(len(dataset)):
        drawn.update(dataset.rows(step)[0].tolist())
    parents = [parents_of(store, row) for row in range(len(store.row_view))]
    allowed = {
        row for row, row_parents in enumerate(parents) if set(row_parents) <= set(TRAINING.tolist())
    }
    assert set(drawn) == allowed
    assert any(len(parents[row]) == 2 for row in drawn)
    views = Counter()
    for row, number in drawn.items():
        views[int(store.row_view[row])] += number
    assert set(views) == {-1, 0, 1}
    assert views[0] == pytest.approx(views[1], rel=0.25)


def test_distances_and_targets_are_those_of_the_parents_in_the_view(dataset_of):
    dataset = dataset_of(epochs=12)
    embedding_RD = torch.arange(len(dataset.store.row_view), dtype=torch.float32)[:, None]
    embedded = dataset_of(EmbeddingDataset, epochs=12, embedding_RD=embedding_RD)
    mixed = 0
    for step in range(len(dataset)):
        rows, view = dataset.rows(step)
        batch, weights = dataset[step], [parents_of(dataset.store, row) for row in rows]
        mixed += sum(len(row_weights) == 2 for row_weights in weights)
        distances = dataset.distances["unweighted"][view]
        for i, one in enumerate(weights):
            expected = sum(w * dataset.values["age"][p] for p, w in one.items())
            np.testing.assert_allclose(batch.values["age"][i], expected, rtol=1e-5)
            for j, other in enumerate(weights):
                pairs = [(w * v, p, q) for p, w in one.items() for q, v in other.items()]
                distance = 0 if i == j else sum(w * float(distances[p, q]) for w, p, q in pairs)
                actual = float(batch.distances["unweighted"][i, j])
                assert actual == pytest.approx(distance, abs=1e-6)
        assert embedded[step].values[EMBEDDING][:, 0].tolist() == rows.tolist()
        assert torch.equal(embedded[step].values["age"], batch.values["age"])
    assert mixed > 5


def test_exact_distances_are_of_the_reads_in_the_batch(dataset_of, tmp_path):
    """So are those of mixed rows; rows are compared one by one."""
    names = dataset_of().tokens.feature_ids
    write_newick(tmp_path / "tree.nwk", random_tree(names, np.random.default_rng(0)))
    metrics = ["weighted_normalized", "bray_curtis", "faith_pd"]
    exact = BatchDistances.from_tree(metrics, tmp_path / "tree.nwk", names, 0.5)
    dataset = dataset_of(distances={}, exact=exact, epochs=4)
    mixed = 0
    for step in range(len(dataset)):
        rows, batch = dataset.rows(step)[0], dataset[step]
        mixed += sum(len(parents_of(dataset.store, row)) == 2 for row in rows)
        entries, distinct, index = entries_of(dataset.store, rows, None, step)
        reads = np.zeros((len(rows), len(names)), np.int64)
        sample = np.repeat(np.arange(len(rows)), entries.richness_B)
        reads[sample, distinct[index]] = entries.counts
        expected = exact(csr_array(reads))
        for name in metrics[:2]:
            np.testing.assert_allclose(batch.distances[name], expected[name], atol=1e-6)
        np.testing.assert_allclose(batch.values["faith_pd"], expected["faith_pd"], rtol=1e-6)
        assert list(batch.distances) == metrics[:2]
    assert mixed > 3


@given(
    richness=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    fraction=st.sampled_from([0.0, 0.1, 0.5, 0.97]),
    step=st.integers(0, 10**6),
)
@settings(deadline=None, max_examples=60)
def test_every_sample_keeps_an_asv(richness, fraction, step):
    kept = AsvDropout(fraction, seed=1).kept(np.array(richness), step)
    left = [part.sum() for part in np.split(kept, np.cumsum(richness)[:-1])]
    assert len(kept) == sum(richness)
    assert min(left) >= 1
    assert fraction or kept.all()


def test_asv_dropout_is_a_function_of_seed_and_step_and_of_the_rate_asked_for():
    richness_B = np.full(40, 500)
    for fraction in (0.1, 0.5, 0.9):
        dropout = AsvDropout(fraction, seed=3)
        assert 1 - dropout.kept(richness_B, 5).mean() == pytest.approx(fraction, abs=0.02)
    at = [(0, 7), (0, 7), (0, 8), (1, 7)]
    drawn = [AsvDropout(0.5, seed).kept(richness_B, step).tobytes() for seed, step in at]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_entries_are_those_of_the_asvs_that_stay(tiny):
    """Against the samples one after the other."""
    store, dropout, rows_R = tiny.store, AsvDropout(0.4, seed=2), np.array([3, 0, 17, 9, 4])
    (counts, richness_B), distinct_U, place = entries_of(store, rows_R, dropout, 11)
    before_B = store.offsets[rows_R + 1] - store.offsets[rows_R]
    stays = np.split(dropout.kept(before_B, 11), np.cumsum(before_B)[:-1])
    asvs, reads = [], []
    for row, keep in zip(rows_R, stays, strict=True):
        held = slice(store.offsets[row], store.offsets[row + 1])
        asvs += store.asvs[held][keep].tolist()
        reads += store.counts[held][keep].tolist()
    assert distinct_U[place].tolist() == asvs
    assert counts.tolist() == reads
    assert richness_B.tolist() == [keep.sum() for keep in stays]
    assert 0 < len(asvs) < before_B.sum()


METRICS = ["unweighted", "weighted_normalized", "bray_curtis", "faith_pd"]


@pytest.fixture
def exact(tiny, tmp_path) -> BatchDistances:
    names = tiny.tokens.feature_ids
    write_newick(tmp_path / "tree.nwk", random_tree(names, np.random.default_rng(0)))
    return BatchDistances.from_tree(METRICS, tmp_path / "tree.nwk", names, 0.5)


@pytest.fixture
def few_reads(monkeypatch):
    """Let rows of few reads be subsampled, too."""
    monkeypatch.setattr(Pretraining, "least_reads", 5)


def row_of(store, row: int) -> dict[int, int]:
    entries = slice(store.offsets[row], store.offsets[row + 1])
    return dict(zip(store.asvs[entries].tolist(), store.counts[entries].tolist(), strict=True))


@pytest.mark.parametrize(("reads", "left"), [(10_000, 1000), (1000, 100), (400, 100), (60, 60)])
def test_a_tenth_of_the_reads_is_left_but_a_hundred_if_there_are_as_many(reads, left):
    assert Pretraining.subsampled_reads(reads, done=0.0) == left
    assert Pretraining.subsampled_reads(reads, done=1.0) == reads


def test_reads_grow_by_the_same_factor():
    grown = [Pretraining.subsampled_reads(10_000, done) for done in (0.0, 0.25, 0.5, 0.75)]
    assert grown == [1000, 1778, 3162, 5623]


@pytest.mark.usefixtures("few_reads")
def test_reads_are_drawn_from_those_of_the_row_anew_in_each_step(tiny, exact):
    rows = np.array([7, 2, 19])
    subsampling = Subsampling(steps=10, seed=3, exact=exact)
    stores = [subsampling.draw(tiny.store, rows, step) for step in (0, 0, 1)]
    for number, row in enumerate(rows):
        before = row_of(tiny.store, row)
        first, again, other = (row_of(store, number) for store in stores)
        assert sum(first.values()) == Pretraining.subsampled_reads(sum(before.values()), 0.0)
        assert sum(other.values()) == Pretraining.subsampled_reads(sum(before.values()), 0.1)
        assert all(0 < count <= before[asv] for asv, count in first.items())
        assert len(first) < len(before)
        assert list(first) == sorted(first)
        assert first == again
    drawn = [[row_of(store, number) for number in range(3)] for store in stores]
    assert drawn[0] != drawn[2]


@pytest.mark.usefixtures("few_reads")
def test_abundant_asvs_are_drawn_in_proportion(tiny, exact):
    before = row_of(tiny.store, 0)
    subsampling = Subsampling(steps=1000, seed=0, exact=exact)
    sums = dict.fromkeys(before, 0)
    for step in range(1000):
        for asv, count in row_of(subsampling.draw(tiny.store, np.array([0]), step), 0).items():
            sums[asv] += count
    total = sum(before.values())
    drawn = sum(Pretraining.subsampled_reads(total, step / 1000) for step in range(1000))
    assert sum(sums.values()) == drawn
    for asv, count in before.items():
        assert sums[asv] / drawn == pytest.approx(count / total, abs=0.02)


@pytest.mark.usefixtures("few_reads")
def test_a_row_that_would_keep_no_length_of_branches_stays_whole(tiny, exact):
    without_length = replace(exact, length_E=np.zeros_like(exact.length_E))
    drawn = Subsampling(steps=1, seed=0, exact=without_length).draw(tiny.store, np.array([4]), 0)
    assert row_of(drawn, 0) == row_of(tiny.store, 4)


@pytest.mark.usefixtures("few_reads")
def test_first_steps_have_the_distances_of_their_reads_and_later_ones_are_as_without(
    tiny, new_feed, exact
):
    scaled = replace(exact, faith_pd_scale=(3.0, 2.0))
    subsampling = Subsampling(steps=4, seed=1, exact=scaled)
    values = {"faith_pd": np.zeros((20, 1), np.float32)}
    plain = new_feed(masker=Masker(0.2, 0), values=values)
    subsampled = replace(plain, subsampling=subsampling)
    for step in range(len(plain)):
        rows, here, there = plain.rows(step)[0], subsampled[step], plain[step]
        whole = subsampled.whole()[step]
        assert torch.equal(whole.distances["unweighted"], there.distances["unweighted"])
        if step >= 4:
            assert torch.equal(here.asvs[0].tokens_US, there.asvs[0].tokens_US)
            assert torch.equal(here.distances["unweighted"], there.distances["unweighted"])
            continue
        store = subsampling.draw(tiny.store, rows, step)
        reads = store.counts_of(np.arange(len(rows)), len(tiny.tokens.lengths))
        expected = scaled(reads)
        for metric in METRICS[:3]:
            np.testing.assert_allclose(here.distances[metric], expected[metric], atol=1e-6)
        np.testing.assert_allclose(here.values["faith_pd"], expected["faith_pd"], atol=1e-6)
        held = sum(int(block.counts_BA.sum()) for block in here.samples)
        assert held == reads.sum() < sum(int(block.counts_BA.sum()) for block in there.samples)
