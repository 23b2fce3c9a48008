from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from aam.data.vocabulary import PAD
from aam.model.asv_encoders import AsvEncoder
from aam.model.batch import SampleBlock
from aam.train.data import collate
from aam.train.data.collate import assemble
from aam.train.data.masking import Masker


def embed(encoder, store, tokens, rows) -> np.ndarray:
    with torch.no_grad():
        return encoder(assemble(store, tokens, np.array(rows))).sample_BD.numpy()


@pytest.mark.parametrize("patch_bp", [1, 3, 32])
def test_every_nucleotide_and_count_changes_the_sample(tiny, new_encoder, patch_bp):
    encoder = new_encoder(20, patch_bp=patch_bp)
    before = embed(encoder, tiny.store, tiny.tokens, [0])
    asv = tiny.store.asvs[0]
    for position in (0, 10, 19):
        changed = tiny.tokens.tokens.copy()
        changed[asv, position] = changed[asv, position] % 4 + 1
        after = embed(encoder, tiny.store, replace(tiny.tokens, tokens=changed), [0])
        assert np.abs(after - before).max() > 1e-5
    counts = tiny.store.counts.copy()
    counts[0] += 5
    after = embed(encoder, replace(tiny.store, counts=counts), tiny.tokens, [0])
    assert np.abs(after - before).max() > 1e-4


def test_nothing_is_padded_and_no_asv_is_encoded_twice(mixed_lengths, new_encoder):
    tokens, encoded = mixed_lengths.tokens, []
    forward = AsvEncoder.forward

    def spy(self, tokens_US, masked, backend):
        encoded.append(tokens_US)
        return forward(self, tokens_US, masked, backend)

    rows = np.array([3, 0, 11, 3])
    with patch.object(AsvEncoder, "forward", spy), torch.no_grad():
        new_encoder(20)(assemble(mixed_lengths.store, tokens, rows))
    store = mixed_lengths.store
    held = {
        int(asv) for row in rows for asv in store.asvs[store.offsets[row] : store.offsets[row + 1]]
    }
    assert {block.shape[1] for block in encoded} == {int(tokens.lengths[asv]) for asv in held}
    assert all((block != PAD).all() for block in encoded)
    seen = [bytes(sequence.tolist()) for block in encoded for sequence in block]
    expected = [tokens.tokens[asv, : tokens.lengths[asv]].tobytes() for asv in held]
    assert sorted(seen) == sorted(expected)
    assert len(seen) < sum(store.offsets[row + 1] - store.offsets[row] for row in rows)


def test_batches_point_to_the_asvs_and_counts_of_the_store(mixed_lengths):
    store, tokens = mixed_lengths.store, mixed_lengths.tokens
    rows = np.array([7, 2, 19])
    batch = assemble(store, tokens, rows)
    numbered = [bytes(s.tolist()) for block in batch.asvs for s in block.tokens_US]
    (block,) = batch.samples
    for place, row in zip(batch.order_B.tolist(), rows, strict=True):
        present_A = block.present_BA[place]
        asv_A, counts_A = block.asv_BA[place][present_A], block.counts_BA[place][present_A]
        held = slice(store.offsets[row], store.offsets[row + 1])
        sequences = [tokens.tokens[i, : tokens.lengths[i]].tobytes() for i in store.asvs[held]]
        found = {numbered[i]: int(c) for i, c in zip(asv_A.tolist(), counts_A, strict=True)}
        assert found == dict(zip(sequences, store.counts[held].tolist(), strict=True))
        assert not block.counts_BA[place][~present_A].any()


def test_nucleotide_states_are_those_of_masked_positions_alone(tiny, new_encoder):
    plain = assemble(tiny.store, tiny.tokens, np.arange(4))
    encoder = new_encoder(20)
    assert encoder(plain).nucleotides == []
    batch = assemble(tiny.store, tiny.tokens, np.arange(4), masker=Masker(0.2, 0))
    (states,) = encoder(batch).nucleotides
    masked = batch.asvs[0].masked
    assert states.shape == (len(masked.asv_M), 16)
    same_patch = (masked.asv_M == masked.asv_M[0]) & (
        masked.position_M // encoder.shape.patch_bp
        == masked.position_M[0] // encoder.shape.patch_bp
    )
    assert torch.equal(states[0].expand_as(states[same_patch]), states[same_patch])


def test_gradients_are_the_same_bits_at_every_run_on_several_threads(new_encoder):
    """Many samples share an ASV: what they send back has to be added up in one order."""
    rng = torch.Generator().manual_seed(0)
    encoder, found = new_encoder(20, width=64), []
    asv_BA = torch.randint(0, 40, (64, 120), generator=rng)
    block = SampleBlock(asv_BA, torch.ones_like(asv_BA, dtype=torch.bool), torch.ones(64, 120))
    asv_UD = torch.randn(40, 64, generator=rng, requires_grad=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(4):
            encoder.sample(asv_UD, block, "auto").square().sum().backward()
            found.append(asv_UD.grad)
            asv_UD.grad = None
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(grad, found[0]) for grad in found)


@pytest.mark.parametrize("recompute", ["nothing", "layers", "micro-batches"])
def test_states_of_the_asvs_come_on_request_and_change_nothing(
    mixed_lengths, new_encoder, recompute
):
    rows = np.array([7, 2, 19, 4])
    with patch.object(collate, "SAMPLES_PER_BLOCK", 3):
        batch = assemble(mixed_lengths.store, mixed_lengths.tokens, rows)
    results = []
    for asvs in (False, True):
        encoder = new_encoder(20)
        encoder.recompute(recompute)
        encoded = encoder(batch, asvs=asvs)
        encoded.sample_BD.square().sum().backward()
        results.append([encoded.sample_BD.detach(), *(p.grad for p in encoder.parameters())])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))
    assert encoder(batch).asvs == []
    assert [state.shape[:2] for state in encoded.asvs] == [b.asv_BA.shape for b in batch.samples]
    pooled = [
        encoder.sample.pooling(state, block.present_BA)
        for state, block in zip(encoded.asvs, batch.samples, strict=True)
    ]
    assert torch.equal(torch.cat(pooled)[batch.order_B], encoded.sample_BD)


def test_masked_counts_do_not_reach_the_encoder(tiny, new_encoder):
    encoder, batch = new_encoder(20), assemble(tiny.store, tiny.tokens, np.arange(4))
    (block,), asvs = batch.samples, torch.randn(30, 16)
    count_mask_BA = torch.zeros_like(block.present_BA)
    assert torch.equal(
        encoder.sample(asvs, replace(block, count_mask_BA=count_mask_BA), "auto"),
        encoder.sample(asvs, block, "auto"),
    )
    count_mask_BA[:, :2] = True
    # The total stays, as it does by rarefaction.
    other_BA = block.counts_BA.clone()
    other_BA[:, 0], other_BA[:, 1] = block.counts_BA[:, 1], block.counts_BA[:, 0]
    shown, swapped = (
        encoder.sample.states(
            asvs, replace(block, counts_BA=counts, count_mask_BA=count_mask_BA), "auto"
        )
        for counts in (block.counts_BA, other_BA)
    )
    assert torch.equal(shown, swapped)
    assert not torch.equal(shown, encoder.sample.states(asvs, block, "auto"))
