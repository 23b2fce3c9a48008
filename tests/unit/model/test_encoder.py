import numpy as np
import torch

from aam.batches.collate import assemble
from aam.data.sequences import PAD
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
            encoder.sample(asv_UD, block, "auto").square().sum().backward()
            found.append(asv_UD.grad)
            asv_UD.grad = None
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(grad, found[0]) for grad in found)


def sample_block(asvs: list[int], counts: list[int]) -> SampleBlock:
    asv_BA, counts_BA = torch.tensor([asvs]), torch.tensor([counts], dtype=torch.float32)
    return SampleBlock(asv_BA, counts_BA > 0, counts_BA)


@torch.no_grad()
def test_attention_by_reads_takes_an_asv_twice_with_half_of_its_reads_for_the_same(new_encoder):
    """With a factor of 1 every read counts alike; with 0 every ASV does, as without the option."""
    sample = new_encoder(20).sample
    plain = new_encoder(20, reads_in_attention=False).sample
    sample.load_state_dict(plain.state_dict(), strict=False)
    for encoder in (sample, plain):
        # The reads are told by attention alone.
        torch.nn.init.zeros_(encoder.abundance.weight)
    asv_UD = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    once, twice = sample_block([0, 1, 2], [8, 6, 2]), sample_block([0, 0, 1, 2], [4, 4, 6, 2])
    for factor, is_same in ((1.0, True), (0.0, False)):
        sample.reads_in_scores.fill_(factor)
        sample.reads_in_pooling.fill_(factor)
        found = [sample(asv_UD, block, "auto") for block in (once, twice)]
        assert torch.allclose(*found, atol=1e-5) == is_same
    torch.testing.assert_close(found[0], plain(asv_UD, once, "auto"))
    # Padding has no reads, and no weight.
    sample.reads_in_scores.fill_(0.7)
    padded = sample_block([0, 1, 2, 0], [8, 6, 2, 0])
    torch.testing.assert_close(sample(asv_UD, padded, "auto"), sample(asv_UD, once, "auto"))
