import numpy as np
import pytest
import torch

from aam.batches.collate import assemble
from aam.batches.masking import Masker
from aam.tasks.pretrain.model import PretrainingModel
from aam.util.errors import InputError
from benchmarks.speed.batches import ASVS_PER_CHUNK, NaiveDataset, pad_samples

ROWS = np.array([4, 17, 0, 9, 12])
PADDED_TO = 40
MASKER = Masker(0.2, 3)
NAIVE = {"copies": True, "chunks": True, "encoded_padding": True}
PLAIN = {"batch_size": 5, "epochs": 1, "masker": MASKER, "distances": {}}


@pytest.fixture(scope="module")
def batches(tiny, new_feed) -> dict:
    """Return the optimized batch and those that lack a saving, of the same samples and masks."""
    kinds = {
        "naive": {**NAIVE, "asvs_per_sample": PADDED_TO},
        "padded": {"asvs_per_sample": PADDED_TO},
        "padding": {"asvs_per_sample": 0, "encoded_padding": True},
        "copied": {"copies": True, "chunks": True},
    }
    datasets = {name: new_feed(NaiveDataset, **PLAIN, **kind) for name, kind in kinds.items()}
    datasets["optimized"] = new_feed(**PLAIN)
    found = {name: dataset.assemble(ROWS, 2) for name, dataset in datasets.items()}
    for batch in found.values():
        batch.distances["unweighted"] = torch.from_numpy(tiny.distances[0][np.ix_(ROWS, ROWS)])
    return found


@pytest.fixture(scope="module")
def model(new_encoder, new_model) -> PretrainingModel:
    return new_model(new_encoder(20), variances={"unweighted": 0.02}, nucleotide_weight=0.0)


def asvs_of(tiny, row: int) -> list[int]:
    return tiny.store.asvs[tiny.store.offsets[row] : tiny.store.offsets[row + 1]].tolist()


def test_the_naive_batch_pads_every_sample_and_repeats_asvs(tiny, batches, new_feed):
    distinct = {asv for row in ROWS for asv in asvs_of(tiny, row)}
    richness = [len(asvs_of(tiny, row)) for row in ROWS]
    copies, richest = sum(richness), max(richness)
    sequences = {n: sum(len(b.tokens_US) for b in batch.asvs) for n, batch in batches.items()}
    assert sequences == {
        "optimized": len(distinct),
        "naive": len(ROWS) * PADDED_TO,
        "padded": len(distinct),
        "padding": len(distinct) + richest * len(ROWS) - copies,
        "copied": copies,
    }
    for name, width in (("naive", PADDED_TO), ("padded", PADDED_TO), ("padding", richest)):
        assert [b.present_BA.shape for b in batches[name].samples] == [(len(ROWS), width)]
    long = {**PLAIN, **NAIVE, "asvs_per_sample": 4 * ASVS_PER_CHUNK}
    many = new_feed(NaiveDataset, **long).assemble(ROWS, 0)
    assert [len(block.tokens_US) for block in many.asvs] == [ASVS_PER_CHUNK] * 4 * len(ROWS)


@pytest.mark.parametrize("name", ["naive", "padded", "padding", "copied"])
@pytest.mark.parametrize("recompute", ["nothing", "micro-batches"])
def test_distance_loss_and_gradients_are_the_same(name, recompute, model, batches):
    results = []
    for batch, what in ((batches["optimized"], "nothing"), (batches[name], recompute)):
        model.zero_grad()
        model.encoder.recompute(what)
        loss = model(batch)["unweighted_loss"]
        loss.backward()
        with torch.no_grad():
            sample_BD = model.encoder(batch).sample_BD
        gradients = [p.grad.clone() for p in model.encoder.parameters()]
        results.append([loss.detach(), sample_BD, *gradients])
    largest = max(float(g.abs().max()) for g in results[0][2:])
    assert all(g.any() for g in results[0][2:])
    for place, (expected, found) in enumerate(zip(*results, strict=True)):
        atol, rtol = (1e-5, 0) if place < 2 else (1e-4 * largest, 1e-3)
        torch.testing.assert_close(found, expected, atol=atol, rtol=rtol)


def test_too_rich_a_sample_is_the_users_to_settle(tiny):
    batch = assemble(tiny.store, tiny.tokens, ROWS)
    with pytest.raises(InputError, match=r"benchmark\.naive_asvs: got 1; expected at least"):
        pad_samples(batch, 1)
