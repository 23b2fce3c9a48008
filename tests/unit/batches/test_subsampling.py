"""Rows of fewer reads in the first steps, and what becomes of their distances."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from unifrac_cases import random_tree

from aam.batches.dataset import Subsampling
from aam.batches.masking import Masker
from aam.config.sections.training import Pretraining
from aam.data.trees import write_newick
from aam.distances.in_batch import BatchDistances

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
