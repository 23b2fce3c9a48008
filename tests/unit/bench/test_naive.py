import copy

import numpy as np
import pytest
import torch

from aam.bench.naive import NaiveEncoder, assemble_naive
from aam.train.collate import assemble
from aam.train.masking import Masker
from aam.train.pretraining import PretrainingModel

ROWS = np.array([4, 17, 0, 9, 12])
PADDED_TO = 40


@pytest.fixture(scope="module")
def pair(tiny, new_encoder):
    """Return the optimized and the naive model with the same weights, and their batches."""
    models, batches = [], []
    for naive in (False, True):
        encoder = new_encoder(20)
        if naive:
            state = copy.deepcopy(encoder.state_dict())
            encoder = NaiveEncoder(encoder.shape)
            encoder.load_state_dict(state)
        models.append(
            PretrainingModel(
                encoder,
                weights={"unweighted": 1.0},
                variances={"unweighted": 0.02},
                nucleotide_weight=0.0,
                seed=1,
            )
        )
        masker = Masker(0.2, 3)
        if naive:
            batch = assemble_naive(tiny.store, tiny.tokens, ROWS, PADDED_TO, masker=masker, epoch=2)
        else:
            batch = assemble(tiny.store, tiny.tokens, ROWS, masker=masker, epoch=2)
        true = tiny.distances[0][np.ix_(ROWS, ROWS)]
        batch.distances["unweighted"] = torch.from_numpy(true)
        batches.append(batch)
    return models, batches


def asvs_of(tiny, row: int) -> list[int]:
    return tiny.store.asvs[tiny.store.offsets[row] : tiny.store.offsets[row + 1]].tolist()


def test_the_naive_batch_pads_every_sample_and_repeats_asvs(tiny, pair):
    _, (optimized, naive) = pair
    distinct = {asv for row in ROWS for asv in asvs_of(tiny, row)}
    assert [len(block.tokens_US) for block in optimized.asvs] == [len(distinct)]
    assert [block.tokens_US.shape for block in naive.asvs] == [(len(ROWS) * PADDED_TO, 20)]


def test_sample_embeddings_are_the_same(pair):
    models, batches = pair
    with torch.no_grad():
        optimized, naive = (m.encoder(b).sample_BD for m, b in zip(models, batches, strict=True))
    torch.testing.assert_close(optimized, naive, atol=1e-5, rtol=0)


def test_distance_loss_and_gradients_are_the_same(pair):
    losses, gradients = [], []
    for model, batch in zip(*pair, strict=True):
        model.zero_grad()
        values = model(batch)
        values["loss"].backward()
        losses.append(float(values["unweighted_loss"].detach()))
        gradients.append({n: p.grad.clone() for n, p in model.encoder.named_parameters()})
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    largest = max(float(g.abs().max()) for g in gradients[0].values())
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradient, gradients[1][name], atol=1e-4 * largest, rtol=1e-3, msg=name
        )
    assert all(g.abs().max() > 0 for g in gradients[0].values())


def nucleotide_logits(tiny, model, batch, asvs) -> dict[tuple[int, int], torch.Tensor]:
    """Return the logits by ASV and position; `asvs` names the rows of the one block."""
    block = batch.asvs[0]
    with torch.no_grad():
        patches = model.encoder(batch, with_nucleotides=True).nucleotides[0]
        logits = model.nucleotides(patches, block.masked)
    assert logits.shape == (int((block.tokens_US == 6).sum()), 4)
    places = zip(block.masked.asv_M.tolist(), block.masked.position_M.tolist(), strict=True)
    return {(asvs[row], position): x for (row, position), x in zip(places, logits, strict=True)}


def test_logits_of_every_masked_nucleotide_are_the_same(tiny, pair):
    (optimized_model, naive_model), (optimized, naive) = pair
    distinct = sorted({asv for row in ROWS for asv in asvs_of(tiny, row)})
    copies = [asv for row in ROWS for asv in (asvs_of(tiny, row) + [-1] * PADDED_TO)[:PADDED_TO]]
    once = nucleotide_logits(tiny, optimized_model, optimized, distinct)
    often = nucleotide_logits(tiny, naive_model, naive, copies)
    assert set(once) == set(often)
    assert -1 not in {asv for asv, _ in often}
    for place, logits in once.items():
        torch.testing.assert_close(logits, often[place], atol=1e-5, rtol=0)


def test_the_naive_nucleotide_loss_counts_an_asv_once_per_sample(tiny, pair):
    (model, naive_model), (batch, naive) = pair
    distinct = sorted({asv for row in ROWS for asv in asvs_of(tiny, row)})
    samples_of = {asv: sum(asv in asvs_of(tiny, row) for row in ROWS) for asv in distinct}
    logits = nucleotide_logits(tiny, model, batch, distinct)
    bases = batch.asvs[0].masked.base_M
    costs = torch.nn.functional.cross_entropy(
        torch.stack(list(logits.values())), bases, reduction="none"
    )
    weight = torch.tensor([samples_of[asv] for asv, _ in logits], dtype=torch.float32)
    with torch.no_grad():
        once, often = model(batch)["nucleotide_loss"], naive_model(naive)["nucleotide_loss"]
    torch.testing.assert_close(once, costs.mean())
    torch.testing.assert_close(often, (costs * weight).sum() / weight.sum())
    assert weight.max() > 1
