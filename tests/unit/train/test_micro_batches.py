from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches.collate import bucket
from aam.distributed.batch_shards import cut_shard
from aam.model.batch import Batch
from aam.model.encoder import set_dropout
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.memory.micro_batches import MicroBatches

LIMITS = st.none() | st.integers(1, 40)


@pytest.fixture(scope="module")
def batch(mixed_lengths, new_feed) -> Batch:
    """Return 18 samples of three lengths: 30 ASVs in three blocks, two blocks of samples."""
    return new_feed(data=mixed_lengths, samples=np.arange(18), batch_size=18, epochs=1)[0]


@pytest.fixture(scope="module")
def model(new_model) -> PretrainingModel:
    return new_model().train()


def gradients(model, batch, recompute="nothing", seed=0):
    model.encoder.recompute(recompute)
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    loss = model(batch)["loss"]
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def content(batch):
    """Return sequences, samples' counts by ASV, and the masked places numbered among all ASVs."""
    sequences = [row.tolist() for block in batch.asvs for row in block.tokens_US]
    samples = [
        [asvs[present].tolist(), counts[present].tolist()]
        for block in batch.samples
        for asvs, present, counts in zip(
            block.asv_BA, block.present_BA, block.counts_BA, strict=True
        )
    ]
    masked, first = [], 0
    for block in batch.asvs:
        asv_M = block.masked.asv_M
        assert asv_M.numel() == 0 or asv_M.max() < len(block.tokens_US)
        masked_rows = (asv_M + first, block.masked.position_M, block.masked.base_M)
        masked += torch.stack(masked_rows, dim=1).tolist()
        first += len(block.tokens_US)
    return sequences, samples, masked


@given(asvs=LIMITS, samples=LIMITS, processes=st.integers(1, 3))
@settings(deadline=None, max_examples=30)
def test_micro_batches_hold_what_the_batch_held(batch, asvs, samples, processes):
    """And those of a shard what the shard held, in as many blocks as those of the others."""
    shards = [cut_shard(batch, rank, processes) for rank in range(processes)]
    micro_batches = MicroBatches(asvs, samples)
    split_shards = [micro_batches.split(shard) for shard in shards]
    for whole, parts in zip(
        [batch, *shards], [micro_batches.split(batch), *split_shards], strict=True
    ):
        sizes = [len(block.tokens_US) for block in parts.asvs]
        assert asvs is None or max(sizes) <= asvs
        assert asvs is None or len(sizes) == sum(-(-len(b.tokens_US) // asvs) for b in whole.asvs)
        assert samples is None or max(len(block.asv_BA) for block in parts.samples) <= samples
        assert parts.order_B is whole.order_B
        assert parts.distances is whole.distances
        assert content(parts) == content(whole)
    assert len({(len(part.asvs), len(part.samples)) for part in split_shards}) == 1


def test_blocks_have_no_padding_of_others_and_small_enough_ones_stay(batch):
    parts = MicroBatches(4, 3).split(batch)
    for block in parts.samples:
        assert block.present_BA.shape[1] == bucket(int(block.present_BA.sum(dim=1).max()))
        assert block.present_BA.any(dim=1).all()
    plain = replace(batch, asvs=[replace(block, masked=None) for block in batch.asvs])
    assert all(block.masked is None for block in MicroBatches(4, None).split(plain).asvs)
    assert MicroBatches().split(batch) is MicroBatches(1000, 16).split(batch) is batch


def projected_gradients(encoder, batch, recompute):
    """Return the outputs, and the gradients of a projection of them on fixed random directions.

    The embeddings of an untrained model lie so close together that distances magnify rounding.
    """
    encoder.recompute(recompute)
    encoder.zero_grad(set_to_none=True)
    encoded = encoder(batch)
    outputs = [encoded.sample_BD, torch.cat(encoded.nucleotides)]
    directions = torch.Generator().manual_seed(0)
    losses = [(x * torch.randn(x.shape, generator=directions)).sum() for x in outputs]
    torch.stack(losses).sum().backward()
    gradients = {name: p.grad.clone() for name, p in encoder.named_parameters()}
    return [x.detach() for x in outputs], gradients


@given(asvs=LIMITS, samples=LIMITS)
@settings(deadline=None, max_examples=10)
def test_micro_batches_give_the_same_embeddings_and_gradients(batch, model, asvs, samples):
    outputs, expected = projected_gradients(model.encoder, batch, "nothing")
    parts = MicroBatches(asvs, samples).split(batch)
    again, gradients = projected_gradients(model.encoder, parts, "micro-batches")
    torch.testing.assert_close(again, outputs, rtol=1e-5, atol=1e-5)
    for name, gradient in expected.items():
        assert (gradients[name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_what_is_computed_again_draws_the_same_dropout(batch, model):
    parts = MicroBatches(4, 5).split(batch)
    set_dropout(model, 0.3)
    try:
        loss, kept = gradients(model, parts, "nothing", seed=3)
        for recompute in ("layers", "micro-batches"):
            again, computed_again = gradients(model, parts, recompute, seed=3)
            assert again == loss
            assert all(torch.equal(computed_again[name], kept[name]) for name in kept)
        # The masks are drawn block by block: those of other blocks are others, of the same rate.
        whole = gradients(model, batch, "nothing", seed=3)[0]
        assert whole != loss
        assert whole == pytest.approx(loss, rel=0.1)
        assert gradients(model, parts, "nothing", seed=4)[0] != loss
    finally:
        set_dropout(model, 0.0)


def test_halves_end_at_the_smallest_and_say_what_they_are(batch):
    """Blocks of at most 16 ASVs stay as they are."""
    sizes = [MicroBatches(recompute="layers")]
    while (smaller := sizes[-1].halve(batch)) is not None:
        sizes.append(smaller)
    assert [(each.asvs, each.samples) for each in sizes] == [
        (None, limit) for limit in (None, 8, 4, 2, 1)
    ]
    assert {each.recompute for each in sizes[1:]} == {"micro-batches"}
    assert "layers computed again" in str(sizes[0])
    assert "all ASVs of a length and of at most 8 samples" in str(sizes[1])
    assert str(MicroBatches()) == "one micro-batch"
