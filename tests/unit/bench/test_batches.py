import numpy as np
import pytest
import torch

from aam.bench.batches import ASVS_PER_CHUNK, NaiveDataset, each_copy, pad_samples
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.data.collate import assemble
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.util.errors import InputError

ROWS = np.array([4, 17, 0, 9, 12])
PADDED_TO = 40


def new_feed(tiny, kind: type[BatchDataset] = BatchDataset, **changes) -> BatchDataset:
    return kind(
        store=tiny.store,
        tokens=tiny.tokens,
        samples=np.arange(20),
        batch_size=5,
        epochs=1,
        seed=0,
        masker=Masker(0.2, 3),
        **changes,
    )


def with_distances(tiny, batch):
    true = tiny.distances[0][np.ix_(ROWS, ROWS)]
    batch.distances["unweighted"] = torch.from_numpy(true)
    return batch


@pytest.fixture(scope="module")
def batches(tiny) -> dict:
    """Return the optimized batch and those that lack a saving, of the same samples and masks."""
    feeds = {
        "optimized": new_feed(tiny),
        "naive": new_feed(tiny, NaiveDataset, asvs_per_sample=PADDED_TO),
        "padded": new_feed(tiny, NaiveDataset, copies=False, asvs_per_sample=PADDED_TO),
        "copied": new_feed(tiny, NaiveDataset, asvs_per_sample=None),
    }
    return {n: with_distances(tiny, dataset.assemble(ROWS, 2)) for n, dataset in feeds.items()}


@pytest.fixture(scope="module")
def model(new_encoder) -> PretrainingModel:
    return PretrainingModel(
        new_encoder(20),
        weights={"unweighted": 1.0},
        variances={"unweighted": 0.02},
        nucleotide_weight=0.0,
        seed=1,
    )


def asvs_of(tiny, row: int) -> list[int]:
    return tiny.store.asvs[tiny.store.offsets[row] : tiny.store.offsets[row + 1]].tolist()


def test_the_naive_batch_pads_every_sample_and_repeats_asvs(tiny, batches):
    distinct = {asv for row in ROWS for asv in asvs_of(tiny, row)}
    copies = sum(len(asvs_of(tiny, row)) for row in ROWS)
    sequences = {n: sum(len(b.tokens_US) for b in batch.asvs) for n, batch in batches.items()}
    assert sequences == {
        "optimized": len(distinct),
        "naive": len(ROWS) * PADDED_TO,
        "padded": len(distinct),
        "copied": copies,
    }
    for name in ("naive", "padded"):
        assert [b.present_BA.shape for b in batches[name].samples] == [(len(ROWS), PADDED_TO)]


def test_sequences_are_encoded_in_chunks(tiny):
    dataset = new_feed(tiny, NaiveDataset, asvs_per_sample=4 * ASVS_PER_CHUNK)
    blocks = dataset.assemble(ROWS, 0).asvs
    assert {len(block.tokens_US) for block in blocks} == {ASVS_PER_CHUNK}
    assert len(blocks) == 4 * len(ROWS)


@pytest.mark.parametrize("name", ["naive", "padded", "copied"])
@pytest.mark.parametrize("recompute", ["nothing", "pieces"])
def test_distance_loss_and_gradients_are_the_same(name, recompute, model, batches):
    losses, gradients, samples = [], [], []
    for batch, what in ((batches["optimized"], "nothing"), (batches[name], recompute)):
        model.zero_grad()
        model.encoder.recompute(what)
        values = model(batch)
        values["loss"].backward()
        losses.append(float(values["unweighted_loss"].detach()))
        gradients.append({n: p.grad.clone() for n, p in model.encoder.named_parameters()})
        with torch.no_grad():
            samples.append(model.encoder(batch).sample_BD)
    torch.testing.assert_close(*samples, atol=1e-5, rtol=0)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    largest = max(float(g.abs().max()) for g in gradients[0].values())
    for parameter, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradient, gradients[1][parameter], atol=1e-4 * largest, rtol=1e-3, msg=parameter
        )
    assert all(g.abs().max() > 0 for g in gradients[0].values())


def nucleotide_logits(model, batch, asvs) -> dict[tuple[int, int], torch.Tensor]:
    """Return the logits by ASV and position; `asvs` names the rows of all blocks."""
    found, first = {}, 0
    with torch.no_grad():
        hidden = model.encoder(batch).nucleotides
        for block, hidden_MD in zip(batch.asvs, hidden, strict=True):
            logits = model.nucleotides(hidden_MD, block.masked)
            assert logits.shape == (int((block.tokens_US == 6).sum()), 4)
            rows = (block.masked.asv_M + first).tolist()
            for row, position, x in zip(
                rows, block.masked.position_M.tolist(), logits, strict=True
            ):
                found[asvs[row], position] = x
            first += len(block.tokens_US)
    return found


def in_blocks(batch) -> list[int]:
    """Return the rows in the order of the batch's blocks."""
    return ROWS[torch.argsort(batch.order_B).numpy()].tolist()


def test_logits_of_every_masked_nucleotide_are_the_same(tiny, model, batches):
    distinct = sorted({asv for row in ROWS for asv in asvs_of(tiny, row)})
    rows = in_blocks(batches["naive"])
    copies = [asv for row in rows for asv in (asvs_of(tiny, row) + [-1] * PADDED_TO)[:PADDED_TO]]
    once = nucleotide_logits(model, batches["optimized"], distinct)
    often = nucleotide_logits(model, batches["naive"], copies)
    assert set(once) == set(often)
    for place, logits in once.items():
        torch.testing.assert_close(logits, often[place], atol=1e-5, rtol=0)


def test_the_naive_nucleotide_loss_counts_an_asv_once_per_sample(tiny, model, batches):
    distinct = sorted({asv for row in ROWS for asv in asvs_of(tiny, row)})
    samples_of = {asv: sum(asv in asvs_of(tiny, row) for row in ROWS) for asv in distinct}
    logits = nucleotide_logits(model, batches["optimized"], distinct)
    bases = batches["optimized"].asvs[0].masked.base_M
    costs = torch.nn.functional.cross_entropy(
        torch.stack(list(logits.values())), bases, reduction="none"
    )
    weight = torch.tensor([samples_of[asv] for asv, _ in logits], dtype=torch.float32)
    with torch.no_grad():
        losses = {n: model(batch)["nucleotide_loss"] for n, batch in batches.items()}
    torch.testing.assert_close(losses["optimized"], costs.mean())
    torch.testing.assert_close(losses["padded"], costs.mean())
    for name in ("naive", "copied"):
        torch.testing.assert_close(losses[name], (costs * weight).sum() / weight.sum())
    assert weight.max() > 1


def test_copies_of_several_lengths_are_padded_to_the_longest(mixed_lengths):
    data = mixed_lengths
    batch = assemble(data.store, data.tokens, ROWS, masker=Masker(0.2, 3), epoch=2)
    assert len(batch.asvs) == 3
    copied = each_copy(batch, padding=False)
    longest = max(block.tokens_US.shape[1] for block in batch.asvs)
    tokens_US, masked = copied.asvs[0].tokens_US, copied.asvs[0].masked
    asvs = [asv for row in in_blocks(batch) for asv in asvs_of(data, row)]
    length_U = torch.from_numpy(data.tokens.lengths[asvs].astype(np.int64))
    assert tokens_US.shape == (len(asvs), longest)
    torch.testing.assert_close((tokens_US > 0).sum(dim=1), length_U)
    hidden = tokens_US.clone()
    hidden[masked.asv_M, masked.position_M] = masked.base_M.to(torch.uint8) + 1
    whole = torch.from_numpy(np.array(data.tokens.tokens[asvs, :longest]))
    torch.testing.assert_close(hidden, whole)


def test_too_rich_a_sample_is_the_users_to_settle(tiny):
    batch = assemble(tiny.store, tiny.tokens, ROWS)
    with pytest.raises(InputError, match=r"benchmark\.naive_asvs: got 1; expected at least"):
        pad_samples(batch, 1)
