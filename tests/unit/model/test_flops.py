import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from aam.batches.collate import assemble
from aam.batches.dataset import EmbeddingDataset
from aam.batches.masking import Masker
from aam.model.encoder import set_dropout
from aam.model.flops import step_flops
from aam.tasks.pretrain.model import PretrainingModel

ROWS = np.array([4, 17, 0, 9, 12, 3])


def model_and_batch(data, encoder, metrics=("unweighted",), *, masked=True):
    ones = dict.fromkeys(metrics, 1.0)
    model = PretrainingModel(encoder, weights=ones, variances=ones, nucleotide_weight=1.0, seed=1)
    set_dropout(model, 0.1)
    batch = assemble(data.store, data.tokens, ROWS, masker=Masker(0.2, 3) if masked else None)
    for metric in metrics:
        if metric == "faith_pd":
            batch.values[metric] = torch.rand(len(ROWS), 1)
        else:
            batch.distances[metric] = torch.rand(len(ROWS), len(ROWS))
    return model, batch


def count_flops(model, batch) -> int:
    # Plain products: the sequences are short.
    assert model.encoder.backend == "auto"
    with FlopCounterMode(display=False) as counter:
        model(batch)["loss"].backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "metrics", "masked"),
    [
        ({"patch_bp": 5}, ["unweighted"], False),
        ({"patch_bp": 1, "asv_layers": 3}, ["unweighted", "weighted_unnormalized"], True),
        ({"sample_layers": 4, "heads": 4, "ffn_ratio": 2.5}, ["unweighted", "faith_pd"], True),
        ({"encoder": "bdh", "asv_layers": 3}, ["unweighted"], True),
        # So few neurons per head that the state is cheaper than the pairs.
        ({"encoder": "bdh", "heads": 8, "patch_bp": 1}, ["unweighted"], True),
    ],
)
def test_a_step_costs_what_torch_counts(mixed_lengths, changes, metrics, masked, new_encoder):
    encoder = new_encoder(20, **changes)
    model, batch = model_and_batch(mixed_lengths, encoder, metrics, masked=masked)
    before = torch.random.get_rng_state()
    flops = step_flops(model.encoder.shape, batch)
    assert torch.equal(before, torch.random.get_rng_state())
    assert flops == count_flops(model, batch)


def test_an_lstm_costs_what_torch_counts_of_its_plain_form(tiny, new_encoder):
    model, batch = model_and_batch(tiny, new_encoder(20, encoder="bilstm", asv_layers=3))
    with torch.backends.mkldnn.flags(enabled=False):
        in_products = count_flops(model, batch)
    # Nothing is sent back to the first states, which are zero.
    asvs = sum(len(block.tokens_US) for block in batch.asvs)
    not_sent = 3 * 2 * (2 * asvs * 8 * 4 * 8)
    assert step_flops(model.encoder.shape, batch) == in_products + not_sent


def test_what_is_computed_twice_counts_once_and_what_was_made_before_not_at_all(
    tiny, new_encoder, new_feed
):
    model, batch = model_and_batch(tiny, new_encoder(20))
    once = count_flops(model, batch)
    model.encoder.recompute("micro-batches")
    assert count_flops(model, batch) > 1.2 * once
    assert step_flops(model.encoder.shape, batch) == once
    embedded = new_feed(EmbeddingDataset, embedding_RD=torch.zeros(20, 16))
    assert step_flops(model.encoder.shape, embedded[0]) == 0
