import math

import numpy as np
import pandas as pd
import pytest
import torch

from aam.train.optimizer import BatchedMuon
from benchmarks.optimizers import (
    GrowingBatches,
    Variant,
    VariantMuon,
    as_class,
    crossing,
)


def move(kind, steps=3) -> list[torch.Tensor]:
    """Return matrices of queries, keys and values, and of other shapes, after some steps."""
    rng = torch.Generator().manual_seed(0)
    shapes = [(24, 8), (8, 8), (8, 24), (24, 8)]
    matrices = [torch.nn.Parameter(torch.randn(shape, generator=rng)) for shape in shapes]
    optimizer = kind(matrices, lr=0.02, weight_decay=0.1)
    for _ in range(steps):
        for matrix in matrices:
            matrix.grad = torch.randn(matrix.shape, generator=rng)
        optimizer.step()
    return [matrix.detach() for matrix in matrices]


def direction(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return the direction of the one step from `start` to `end`, without the decay of 0.1."""
    return (start - end) / 0.02 - 0.1 * start


@pytest.fixture
def muon(monkeypatch):
    """Return the class of a variant."""

    def build(**changes) -> type[VariantMuon]:
        monkeypatch.setattr(VariantMuon, "variant", Variant(**changes))
        monkeypatch.setattr(VariantMuon, "head_width", 2)
        return VariantMuon

    return build


def test_without_a_change_the_updates_are_those_of_the_package(muon):
    for one, other in zip(move(muon()), move(BatchedMuon), strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


def test_pairs_of_heads_are_orthogonal_by_themselves_and_move_as_far(muon):
    start = move(muon(), steps=0)[0]
    split = direction(start, move(muon(is_split_by_heads=True), steps=1)[0])
    whole = direction(start, move(muon(), steps=1)[0])
    assert float(split.norm()) == pytest.approx(float(whole.norm()), rel=0.1)
    for block in split.split(4):
        singular = torch.linalg.svdvals(block)
        assert singular.min() > 0.3
        assert singular.max() < 1.5


def test_normalized_neurons_move_equally_far_in_the_first_step(muon):
    for start, end in zip(
        move(muon(), steps=0), move(muon(is_normalized=True), steps=1), strict=True
    ):
        row = direction(start, end).norm(dim=1)
        torch.testing.assert_close(row, row.mean().expand(len(row)), atol=1e-3, rtol=0)


def test_a_cautious_decay_takes_only_what_the_update_takes_too(muon):
    starts, plain = move(muon(), steps=0), move(muon(is_decay_stronger=True), steps=1)
    cautious = move(muon(is_decay_cautious=True), steps=1)
    for start, one, other in zip(starts, plain, cautious, strict=True):
        update = direction(start, one)
        decayed = torch.where(start * update > 0, start, 0.0)
        torch.testing.assert_close(other, start - 0.02 * (update + 0.1 * decayed))


def test_growing_batches_have_every_sample_once_in_an_epoch(new_feed):
    plain = new_feed(batch_size=4, epochs=6)
    growing = as_class(GrowingBatches, plain)
    rows = [growing.rows(step)[0] for step in range(len(growing))]
    sizes = [len(row) for row in rows]
    assert max(sizes[: len(sizes) // 3]) <= 2
    assert max(sizes) > 4
    samples = np.concatenate(rows) % len(plain.store.sample_ids)
    assert np.bincount(samples)[plain.samples].tolist() == [6] * len(plain.samples)


def test_the_crossing_lies_on_a_line_between_two_validations():
    curve = pd.DataFrame({"step": [0, 10, 20, 30], "unweighted_pearson": [0.5, 0.9, 1.0, 0.9]})
    assert crossing(curve, "step", "unweighted") == pytest.approx(15)
    never = curve.assign(unweighted_pearson=0.9)
    assert math.isnan(crossing(never, "step", "unweighted"))
