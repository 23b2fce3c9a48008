from dataclasses import replace
from itertools import pairwise

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
from aam.train.micro_batches import Plan, cuts, in_pieces

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
    """Return the gradients of each piece by itself, added up from the last piece to the first."""
    encoder = model.encoder
    model.zero_grad(set_to_none=True)

    def asvs_of(block):
        return encoder.asv(block.tokens_US, block.masked, encoder.backend)

    def as_leaf(tensor):
        return tensor.detach().requires_grad_()

    with torch.no_grad():
        outputs = [asvs_of(block) for block in batch.asvs]
    parts = [as_leaf(asv_UD) for asv_UD, _ in outputs]
    hidden = [as_leaf(hidden_MD) for _, hidden_MD in outputs]
    asv_UD = as_leaf(torch.cat(parts))
    with torch.no_grad():
        embedded = [encoder.sample(asv_UD, block, encoder.backend) for block in batch.samples]
    samples = [as_leaf(part) for part in embedded]
    encoded = Encoded(torch.cat(samples)[batch.order_B].float(), hidden, [])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoder, "forward", lambda _: encoded)
        model(batch)["loss"].backward()
    for block, leaf in reversed(list(zip(batch.samples, samples, strict=True))):
        encoder.sample(asv_UD, block, encoder.backend).backward(leaf.grad)
    sizes = [len(part) for part in parts]
    for block, leaf, grad_UD in reversed(
        list(zip(batch.asvs, hidden, asv_UD.grad.split(sizes), strict=True))
    ):
        torch.autograd.backward(asvs_of(block), (grad_UD, leaf.grad))
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@given(number=st.integers(0, 200), limit=LIMITS)
def test_cuts_follow_each_other_and_are_of_nearly_equal_sizes(number, limit):
    rows = cuts(number, limit)
    sizes = [last - first for first, last in rows]
    assert (rows[0][0], rows[-1][1]) == (0, number)
    assert all(last == first for (_, last), (first, _) in pairwise(rows))
    assert max(sizes) - min(sizes) <= 1
    assert limit is None or max(sizes) <= limit
    assert limit is None or len(sizes) == max(1, -(-number // limit))


@pytest.mark.parametrize("limit", [0, -3])
def test_a_piece_of_nothing_is_refused(batch, limit):
    with pytest.raises(ValueError, match="at least 1"):
        in_pieces(batch, limit, None)
    with pytest.raises(ValueError, match="at least 1"):
        in_pieces(batch, None, limit)


def test_a_batch_that_is_small_enough_is_returned_itself(batch):
    assert in_pieces(batch, None, None) is batch
    assert in_pieces(batch, 1000, 16) is batch


@given(asvs=LIMITS, samples=LIMITS)
@settings(deadline=None, max_examples=30)
def test_pieces_hold_what_their_blocks_held(batch, asvs, samples):
    pieces = in_pieces(batch, asvs, samples)
    assert asvs is None or max(len(block.tokens_US) for block in pieces.asvs) <= asvs
    assert samples is None or max(len(block.asv_BA) for block in pieces.samples) <= samples
    assert pieces.order_B is batch.order_B
    assert pieces.distances is batch.distances
    assert sequences(pieces) == sequences(batch)
    assert communities(pieces) == communities(batch)
    assert masked_nucleotides(pieces) == masked_nucleotides(batch)


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


def test_pieces_share_the_memory_of_their_block_and_have_no_padding_of_others(batch):
    pieces = in_pieces(batch, 4, 3)

    def storages(part, name):
        blocks = getattr(part, "asvs" if name == "tokens_US" else "samples")
        return {getattr(block, name).untyped_storage().data_ptr() for block in blocks}

    for name in ("tokens_US", "asv_BA", "present_BA", "counts_BA"):
        assert storages(pieces, name) == storages(batch, name)
    for block in pieces.samples:
        assert block.present_BA.shape[1] == bucket(int(block.present_BA.sum(dim=1).max()))
        assert block.present_BA.any(dim=1).all()


def test_without_masked_nucleotides_there_are_none_in_the_pieces(batch):
    plain = replace(batch, asvs=[replace(block, masked=None) for block in batch.asvs])
    pieces = in_pieces(plain, 4, None)
    assert len(pieces.asvs) > len(plain.asvs)
    assert all(block.masked is None for block in pieces.asvs)


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


@pytest.fixture(scope="module")
def check(batch, model):
    """Return the function that compares a batch in pieces with the uncut one."""

    def compare(asvs, samples):
        pieces = in_pieces(batch, asvs, samples)
        outputs, expected = projected_gradients(model.encoder, batch, "nothing")
        outputs_of_pieces, found = projected_gradients(model.encoder, pieces, "pieces")
        torch.testing.assert_close(outputs_of_pieces, outputs, rtol=1e-5, atol=1e-5)
        for name, gradient in expected.items():
            assert (found[name] - gradient).norm() <= 1e-5 * gradient.norm(), name

    return compare


@given(asvs=LIMITS, samples=LIMITS)
@settings(deadline=None, max_examples=10)
def test_a_batch_in_pieces_gives_the_same_embeddings_and_gradients(check, asvs, samples):
    check(asvs, samples)


def test_the_loss_of_a_batch_in_pieces_is_that_of_all_its_pairs(batch, model):
    loss, whole = gradients(model, batch)
    loss_in_pieces, found = gradients(model, in_pieces(batch, 3, 2), "pieces")
    assert loss_in_pieces == pytest.approx(loss, rel=1e-5)
    # The embeddings of an untrained model lie so close together that distances magnify rounding.
    for name, gradient in whole.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("asvs", "samples"), [(None, None), (4, 5), (7, 1)])
@pytest.mark.parametrize("recompute", ["nothing", "layers", "pieces"])
def test_the_gradient_is_the_sum_of_the_pieces_to_the_bit(batch, model, asvs, samples, recompute):
    pieces = in_pieces(batch, asvs, samples)
    expected = by_hand(model, pieces)
    _, found = gradients(model, pieces, recompute)
    assert all(torch.equal(found[name], gradient) for name, gradient in expected.items())


def test_pieces_that_are_computed_again_draw_the_same_dropout(batch, model):
    pieces = in_pieces(batch, 4, 5)
    set_dropout(model, 0.3)
    try:
        loss, kept = gradients(model, pieces, "nothing", seed=3)
        for recompute in ("layers", "pieces"):
            again, computed_again = gradients(model, pieces, recompute, seed=3)
            assert again == loss
            assert all(torch.equal(computed_again[name], kept[name]) for name in kept)
        # The masks are drawn piece by piece: those of other pieces are others, of the same rate.
        assert gradients(model, batch, "nothing", seed=3)[0] != loss
        assert gradients(model, pieces, "nothing", seed=4)[0] != loss
    finally:
        set_dropout(model, 0.0)


@pytest.mark.parametrize("recompute", ["nothing", "layers", "pieces"])
def test_a_plan_survives_a_checkpoint_and_sets_the_encoder(tmp_path, batch, model, recompute):
    plan = Plan(4, 2, recompute, estimated_mb=1.5, measured_mb=2.0, seconds_per_step=0.25)
    torch.save(plan.plain(), tmp_path / "plan.pt")
    loaded = Plan.from_plain(torch.load(tmp_path / "plan.pt", weights_only=True))
    assert loaded == plan
    loaded.apply(model)
    assert model.encoder.keeps_blocks == (recompute != "pieces")
    assert model.encoder.asv.keeps_layers == (recompute != "layers")
    assert max(len(block.asv_BA) for block in loaded.split(batch).samples) == 2


def test_a_plan_says_what_is_done():
    assert str(Plan()) == "one piece"
    assert "layers computed again" in str(Plan(recompute="layers"))
    assert "at most 64 ASVs and of at most 4 samples" in str(Plan(64, 4, "pieces"))
    assert "all ASVs" in str(Plan(None, 4, "pieces"))
