import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from aam.model.build import set_dropout
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.data.collate import assemble
from aam.train.data.dataset import EmbeddingDataset
from aam.train.data.masking import Masker
from aam.train.flops import step_flops

ROWS = np.array([4, 17, 0, 9, 12, 3])


def pretraining_model(encoder, *metrics: str) -> PretrainingModel:
    model = PretrainingModel(
        encoder,
        weights=dict.fromkeys(metrics, 1.0),
        variances=dict.fromkeys(metrics, 0.05),
        nucleotide_weight=1.0,
        seed=1,
    )
    set_dropout(model, 0.1)
    return model


def full_batch(tiny, metrics, masker):
    batch = assemble(tiny.store, tiny.tokens, ROWS, masker=masker)
    for metric in metrics:
        if metric == "faith_pd":
            batch.values[metric] = torch.rand(len(ROWS), 1)
        else:
            batch.distances[metric] = torch.rand(len(ROWS), len(ROWS))
    return batch


def counted(model, batch) -> int:
    model.encoder.backend = "math"
    with FlopCounterMode(display=False) as counter:
        model(batch)["loss"].backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        ({"patch_bp": 5}, ("unweighted",)),
        ({"patch_bp": 1, "asv_layers": 3}, ("unweighted", "weighted_unnormalized")),
        ({"patch_bp": 3, "sample_layers": 4, "heads": 4}, ("unweighted", "faith_pd")),
        ({"width": 32, "ffn_ratio": 2.5}, ("unweighted",)),
        ({"encoder": "bdh", "bdh_neurons": 3, "asv_layers": 3}, ("unweighted",)),
        ({"encoder": "bdh", "bdh_attention": "softmax", "patch_bp": 1}, ("unweighted",)),
        # So few neurons that the state is cheaper than the pairs.
        ({"encoder": "bdh", "bdh_neurons": 1, "patch_bp": 1}, ("unweighted",)),
    ],
)
@pytest.mark.parametrize("data", ["tiny", "mixed_lengths"])
def test_a_step_costs_what_torch_counts(data, changes, metrics, new_encoder, request):
    data = request.getfixturevalue(data)
    model = pretraining_model(new_encoder(20, **changes), *metrics)
    batch = full_batch(data, metrics, Masker(0.2, 3))
    assert step_flops(model.encoder.shape, batch) == counted(model, batch)


def test_an_lstm_costs_what_torch_counts_of_its_plain_form(tiny, new_encoder):
    model = pretraining_model(new_encoder(20, encoder="bilstm", asv_layers=3), "unweighted")
    batch = full_batch(tiny, ("unweighted",), Masker(0.2, 3))
    with torch.backends.mkldnn.flags(enabled=False):
        in_products = counted(model, batch)
    # Nothing is sent back to the first states, which are zero.
    asvs = sum(len(block.tokens_US) for block in batch.asvs)
    not_sent = 3 * 2 * (2 * asvs * 8 * 4 * 8)
    assert step_flops(model.encoder.shape, batch) == in_products + not_sent


def test_without_masks_the_nucleotide_head_costs_nothing(tiny, new_encoder):
    model = pretraining_model(new_encoder(20), "unweighted")
    batch = full_batch(tiny, ("unweighted",), None)
    assert step_flops(model.encoder.shape, batch) == counted(model, batch)


def test_what_is_computed_twice_counts_once(tiny, new_encoder):
    model = pretraining_model(new_encoder(20), "unweighted")
    batch = full_batch(tiny, ("unweighted",), Masker(0.2, 3))
    once = counted(model, batch)
    model.encoder.recompute("pieces")
    assert counted(model, batch) > 1.2 * once
    assert step_flops(model.encoder.shape, batch) == once


def test_heads_on_embeddings_made_before_leave_the_encoder_alone(tiny, new_encoder):
    dataset = EmbeddingDataset(
        store=tiny.store,
        tokens=tiny.tokens,
        samples=np.arange(20),
        batch_size=4,
        epochs=1,
        seed=0,
        embedding_RD=torch.zeros(20, 16),
    )
    assert step_flops(new_encoder(20).shape, dataset[0]) == 0
