from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from aam.batches import collate
from aam.batches.collate import assemble
from aam.data.vocabulary import PAD
from aam.model.batch import SampleBlock


def test_a_batch_has_each_asv_once_unpadded_and_points_to_asvs_and_counts_of_the_store(
    mixed_lengths,
):
    store, tokens = mixed_lengths.store, mixed_lengths.tokens
    rows = np.array([7, 2, 19])
    batch = assemble(store, tokens, rows)
    numbered = [bytes(s.tolist()) for block in batch.asvs for s in block.tokens_US]
    assert len(set(numbered)) == len(numbered)
    assert not any((block.tokens_US == PAD).any() for block in batch.asvs)
    (block,) = batch.samples
    for block_row, row in zip(batch.order_B.tolist(), rows, strict=True):
        present_A = block.present_BA[block_row]
        asv_A = block.asv_BA[block_row][present_A]
        counts_A = block.counts_BA[block_row][present_A]
        held = slice(store.offsets[row], store.offsets[row + 1])
        sequences = [tokens.tokens[i, : tokens.lengths[i]].tobytes() for i in store.asvs[held]]
        reads = {numbered[i]: int(c) for i, c in zip(asv_A.tolist(), counts_A, strict=True)}
        assert reads == dict(zip(sequences, store.counts[held].tolist(), strict=True))
        assert not block.counts_BA[block_row][~present_A].any()


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
        for _ in range(3):
            encoder.sample(asv_UD, block, "auto")[0].square().sum().backward()
            found.append(asv_UD.grad)
            asv_UD.grad = None
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(grad, found[0]) for grad in found)


@pytest.mark.parametrize("recompute", ["nothing", "layers", "micro-batches"])
def test_states_of_asvs_come_on_request_and_change_nothing(mixed_lengths, new_encoder, recompute):
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
        encoder.sample(asvs, replace(block, count_mask_BA=count_mask_BA), "auto")[0],
        encoder.sample(asvs, block, "auto")[0],
    )
    count_mask_BA[:, :2] = True
    # The total stays, as it does by rarefaction.
    other_BA = block.counts_BA.clone()
    other_BA[:, 0], other_BA[:, 1] = block.counts_BA[:, 1], block.counts_BA[:, 0]
    shown, swapped = (
        encoder.sample(asvs, replace(block, counts_BA=counts, count_mask_BA=count_mask_BA), "auto")[
            1
        ]
        for counts in (block.counts_BA, other_BA)
    )
    assert torch.equal(shown, swapped)
    assert not torch.equal(shown, encoder.sample(asvs, block, "auto")[1])
