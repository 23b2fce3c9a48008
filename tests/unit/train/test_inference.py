import numpy as np
import pytest
import torch

from aam.train import inference
from aam.train.collate import assemble
from aam.train.inference import embed_asvs, embed_samples

ROWS = np.array([6, 1, 19, 6, 11, 0, 8])


@pytest.mark.parametrize(("rows_per_batch", "asvs_per_batch"), [(128, 1024), (3, 1024), (2, 7)])
def test_embeddings_in_batches_are_those_of_one_forward_pass(
    mixed_lengths, new_encoder, devices, monkeypatch, rows_per_batch, asvs_per_batch
):
    monkeypatch.setattr(inference, "ROWS_PER_BATCH", rows_per_batch)
    monkeypatch.setattr(inference, "ASVS_PER_BATCH", asvs_per_batch)
    encoder, store, tokens = new_encoder(20), mixed_lengths.store, mixed_lengths.tokens
    with torch.no_grad():
        expected = encoder(assemble(store, tokens, ROWS)).sample_BD
    found = embed_samples(encoder, store, tokens, ROWS, devices)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_asv_embeddings_come_in_the_order_asked_for(mixed_lengths, new_encoder, devices):
    encoder, tokens = new_encoder(20), mixed_lengths.tokens
    asvs = np.array([5, 0, 17, 1, 2])
    found = embed_asvs(encoder, tokens, asvs, devices)
    for number, asv in enumerate(asvs):
        letters = torch.from_numpy(tokens.tokens[[asv], : tokens.lengths[asv]].copy())
        with torch.no_grad():
            alone, _ = encoder.asv(letters, "auto")
        torch.testing.assert_close(found[[number]], alone, atol=1e-5, rtol=0)


def test_inference_is_without_dropout_and_leaves_the_mode_as_it_was(tiny, new_encoder, devices):
    encoder = new_encoder(20)
    expected = embed_samples(encoder, tiny.store, tiny.tokens, ROWS, devices)
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.5
    assert torch.equal(embed_samples(encoder, tiny.store, tiny.tokens, ROWS, devices), expected)
    assert encoder.training
