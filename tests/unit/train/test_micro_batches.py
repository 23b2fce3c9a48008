from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.batch import Batch
from aam.model.build import set_dropout
from aam.model.encoder import Encoded
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.data.collate import bucket
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.shards import shard_of
from aam.train.micro_batches import FEWEST_ASVS, MicroBatches, split

LIMITS = st.one_of(st.none(), st.integers(1, 40))


@pytest.fixture(scope="module")
def batch(mixed_lengths) -> Batch:
    """Return 18 samples of three lengths: 30 ASVs in three blocks, two blocks of samples."""
    dataset = BatchDataset(
        store=mixed_lengths.store,
        tokens=mixed_lengths.tokens,
        samples=np.arange(18),
        batch_size=18,
        epochs=1,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": mixed_lengths.distances},
    )
    return dataset[0]


@pytest.fixture(scope="module")
def model(new_encoder) -> PretrainingModel:
    return PretrainingModel(
        new_encoder(20),
        weights={"unweighted": 1.0},
        variances={"unweighted": 0.05},
        nucleotide_weight=1.0,
        seed=1,
    ).train()


def gradients(model, batch, recompute="nothing", seed=0):
    model.encoder.recompute(recompute)
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    loss = model(batch)["loss"]
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def by_hand(model, batch):
    """Return the gradients of each block by itself, added up from the last block to the first."""
    encoder = model.encoder
    model.zero_grad(set_to_none=True)

    def asvs_of(block):
        return encoder.asv(block.tokens_US, block.masked, encoder.backend)

    def as_leaf(tensor):
        return tensor.detach().requires_grad_()

    with torch.no_grad():
        outputs = [asvs_of(block) for block in batch.asvs]
    parts = [as_leaf(asv_UD) for asv_UD, _ in outputs]
    nucleotides = [as_leaf(x_MD) for _, x_MD in outputs]
    asv_UD = as_leaf(torch.cat(parts))
    with torch.no_grad():
        embedded = [encoder.sample(asv_UD, block, encoder.backend) for block in batch.samples]
    samples = [as_leaf(part) for part in embedded]
    encoded = Encoded(torch.cat(samples)[batch.order_B].float(), nucleotides, [])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoder, "forward", lambda _: encoded)
        model(batch)["loss"].backward()
    for block, leaf in reversed(list(zip(batch.samples, samples, strict=True))):
        encoder.sample(asv_UD, block, encoder.backend).backward(leaf.grad)
    grads = asv_UD.grad.split([len(part) for part in parts])
    for block, leaf, grad_UD in reversed(list(zip(batch.asvs, nucleotides, grads, strict=True))):
        torch.autograd.backward(asvs_of(block), (grad_UD, leaf.grad))
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("limits", [(0, None), (None, -3)])
def test_a_block_of_nothing_is_refused(batch, limits):
    with pytest.raises(ValueError, match="at least 1"):
        split(batch, *limits)


def test_a_batch_that_is_small_enough_is_returned_itself(batch):
    assert split(batch, None, None) is batch
    assert split(batch, 1000, 16) is batch


@given(asvs=LIMITS, samples=LIMITS, processes=st.integers(1, 3))
@settings(deadline=None, max_examples=30)
def test_micro_batches_hold_what_the_batch_held(batch, asvs, samples, processes):
    """And those of a shard what the shard held, in as many blocks as those of the others."""
    shards = [shard_of(batch, rank, processes) for rank in range(processes)]
    found = [split(shard, asvs, samples) for shard in shards]
    for whole, divided in zip([batch, *shards], [split(batch, asvs, samples), *found], strict=True):
        sizes = [len(block.tokens_US) for block in divided.asvs]
        assert asvs is None or max(sizes) <= asvs
        assert asvs is None or len(sizes) == sum(-(-len(b.tokens_US) // asvs) for b in whole.asvs)
        assert samples is None or max(len(block.asv_BA) for block in divided.samples) <= samples
        assert divided.order_B is whole.order_B
        assert divided.distances is whole.distances
        assert sequences(divided) == sequences(whole)
        assert communities(divided) == communities(whole)
        assert masked_nucleotides(divided) == masked_nucleotides(whole)
    assert len({(len(part.asvs), len(part.samples)) for part in found}) == 1


def sequences(batch):
    return [row.tolist() for block in batch.asvs for row in block.tokens_US]


def communities(batch):
    return [
        [asvs[present].tolist(), counts[present].tolist()]
        for block in batch.samples
        for asvs, present, counts in zip(
            block.asv_BA, block.present_BA, block.counts_BA, strict=True
        )
    ]


def masked_nucleotides(batch):
    """Return number among all ASVs, position and base of each masked nucleotide."""
    found, first = [], 0
    for block in batch.asvs:
        masked = block.masked
        places = (masked.asv_M + first, masked.position_M, masked.base_M)
        assert masked.asv_M.numel() == 0 or masked.asv_M.max() < len(block.tokens_US)
        found += torch.stack(places, dim=1).tolist()
        first += len(block.tokens_US)
    return found


def test_blocks_share_the_memory_of_the_batch_and_have_no_padding_of_others(batch):
    divided = split(batch, 4, 3)

    def storages(part, name):
        blocks = part.asvs if name == "tokens_US" else part.samples
        return {getattr(block, name).untyped_storage().data_ptr() for block in blocks}

    for name in ("tokens_US", "asv_BA", "present_BA", "counts_BA"):
        assert storages(divided, name) == storages(batch, name)
    for block in divided.samples:
        assert block.present_BA.shape[1] == bucket(int(block.present_BA.sum(dim=1).max()))
        assert block.present_BA.any(dim=1).all()
    plain = replace(batch, asvs=[replace(block, masked=None) for block in batch.asvs])
    assert all(block.masked is None for block in split(plain, 4, None).asvs)


def projected_gradients(encoder, batch, recompute):
    """Return the outputs, and the gradients of a projection of them on fixed random directions."""
    encoder.recompute(recompute)
    encoder.zero_grad(set_to_none=True)
    encoded = encoder(batch)
    outputs = [encoded.sample_BD, torch.cat(encoded.nucleotides)]
    directions = torch.Generator().manual_seed(0)
    losses = [(x * torch.randn(x.shape, generator=directions)).sum() for x in outputs]
    torch.stack(losses).sum().backward()
    found = {name: p.grad.clone() for name, p in encoder.named_parameters()}
    return [x.detach() for x in outputs], found


@given(asvs=LIMITS, samples=LIMITS)
@settings(deadline=None, max_examples=10)
def test_micro_batches_give_the_same_embeddings_and_gradients(batch, model, asvs, samples):
    outputs, expected = projected_gradients(model.encoder, batch, "nothing")
    again, found = projected_gradients(model.encoder, split(batch, asvs, samples), "pieces")
    torch.testing.assert_close(again, outputs, rtol=1e-5, atol=1e-5)
    for name, gradient in expected.items():
        assert (found[name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_the_loss_of_micro_batches_is_that_of_all_pairs(batch, model):
    loss, whole = gradients(model, batch)
    loss_again, found = gradients(model, split(batch, 3, 2), "pieces")
    assert loss_again == pytest.approx(loss, rel=1e-5)
    # The embeddings of an untrained model lie so close together that distances magnify rounding.
    for name, gradient in whole.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("limits", [(None, None), (4, 5), (7, 1)])
@pytest.mark.parametrize("recompute", ["nothing", "layers", "pieces"])
def test_the_gradient_is_the_sum_of_the_blocks_to_the_bit(batch, model, limits, recompute):
    divided = split(batch, *limits)
    expected = by_hand(model, divided)
    _, found = gradients(model, divided, recompute)
    assert all(torch.equal(found[name], gradient) for name, gradient in expected.items())


def test_what_is_computed_again_draws_the_same_dropout(batch, model):
    divided = split(batch, 4, 5)
    set_dropout(model, 0.3)
    try:
        loss, kept = gradients(model, divided, "nothing", seed=3)
        for recompute in ("layers", "pieces"):
            again, computed_again = gradients(model, divided, recompute, seed=3)
            assert again == loss
            assert all(torch.equal(computed_again[name], kept[name]) for name in kept)
        # The masks are drawn block by block: those of other blocks are others, of the same rate.
        assert gradients(model, batch, "nothing", seed=3)[0] != loss
        assert gradients(model, divided, "nothing", seed=4)[0] != loss
    finally:
        set_dropout(model, 0.0)


def test_halves_end_at_the_smallest_and_say_what_they_are(batch):
    found = [MicroBatches(recompute="layers")]
    while (smaller := found[-1].halved(batch)) is not None:
        found.append(smaller)
    assert [(each.asvs, each.samples, each.recompute) for each in found] == [
        (None, None, "layers"),
        (None, 8, "pieces"),
        (None, 4, "pieces"),
        (None, 2, "pieces"),
        (None, 1, "pieces"),
    ], f"blocks of at most {FEWEST_ASVS} ASVs stay as they are"
    assert "layers computed again" in str(found[0])
    assert "all ASVs of a length and of at most 8 samples" in str(found[1])
    assert str(MicroBatches()) == "one micro-batch"


@pytest.mark.parametrize("recompute", ["nothing", "layers", "pieces"])
def test_the_encoder_computes_again_what_is_asked_for(model, recompute):
    MicroBatches(recompute=recompute).apply(model)
    assert model.encoder.keeps_blocks == (recompute != "pieces")
    assert model.encoder.asv.keeps_layers == (recompute != "layers")
