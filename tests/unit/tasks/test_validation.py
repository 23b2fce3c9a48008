from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches.collate import assemble
from aam.batches.masking import Masker
from aam.distributed.devices import Devices
from aam.inference import embed
from aam.inference.embed import asvs_of, embed_samples
from aam.tasks.pretrain import validation
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut, PairMoments

HELD_OUT = np.array([2, 13, 15, 16, 18, 19])
TRAINING = np.array([0, 1, 3, 4, 5])


@pytest.fixture(scope="module")
def scored(mixed_lengths) -> HeldOut:
    return HeldOut(
        store=mixed_lengths.store,
        tokens=mixed_lengths.tokens,
        samples=HELD_OUT,
        training_samples=TRAINING,
        distances={"unweighted": mixed_lengths.distances},
        values={"faith_pd": np.random.default_rng(0).normal(size=(20, 1)).astype(np.float32)},
        masker=Masker(0.3, 9),
        plotted_pairs=20_000,
    )


@pytest.fixture
def model(new_model) -> PretrainingModel:
    return new_model(weights={"unweighted": 1.0, "faith_pd": 1.0})


def test_where_nothing_is_masked_nothing_is_said_and_the_loss_is_finite(model, scored, devices):
    """A table of few words has batches without a masked one."""
    rare = Masker(1e-9, 0)
    batch = assemble(scored.store, scored.tokens, np.arange(4), masker=rare)
    batch.distances["unweighted"] = torch.from_numpy(scored.distances["unweighted"][0, :4, :4])
    batch.values["faith_pd"] = torch.from_numpy(scored.values["faith_pd"][:4])
    losses = model(batch)
    assert losses["nucleotide_loss"] == 0
    assert losses["loss"].isfinite()
    losses["loss"].backward()
    counted = validation.NucleotideCounts()
    assert counted.accuracies(devices) == {}


@given(
    pairs=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
@settings(deadline=None)
def test_moments_give_correlation_and_error_for_any_partition(pairs, cuts):
    true, predicted = np.array(pairs).T
    moments = PairMoments()
    for part in np.split(np.arange(len(pairs)), sorted(min(cut, len(pairs)) for cut in cuts)):
        moments.add(true[part], predicted[part])
    assert moments.mean_absolute_error == pytest.approx(np.abs(true - predicted).mean(), abs=1e-9)
    if min(true.std(), predicted.std()) > 1e-3:
        assert moments.pearson == pytest.approx(np.corrcoef(true, predicted)[0, 1], abs=1e-6)
    constant = PairMoments()
    constant.add(true, np.full(len(true), 0.5))
    assert constant.pearson == 0


def by_heads(model, scored, devices) -> tuple[np.ndarray, np.ndarray]:
    """Return distances and diversity of all samples, after the statistics of the heads are set."""
    rows = np.arange(20)
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, rows, devices)
    with torch.no_grad():
        heads = (model.head("unweighted"), model.faith_pd)
        return tuple(head.eval()(embedding).numpy() for head in heads)


def within_blocks(scored: HeldOut) -> tuple[np.ndarray, np.ndarray]:
    """Return both samples of every pair that is to be scored, block after block."""
    pairs = [block[np.stack(np.triu_indices(len(block), 1))] for block in scored.blocks()]
    first, second = np.concatenate(pairs, axis=1)
    return first, second


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(validation, "SAMPLES_PER_BLOCK", 3)
    monkeypatch.setattr(validation, "ROWS_AT_ONCE", 2)


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 1024), ("bf16", 1024), ("fp32", 3)])
def test_scores_and_recorded_pairs_are_those_of_the_head(
    scored, model, monkeypatch, precision, limit
):
    """Distances between blocks are not numbers here: reading one would show."""
    monkeypatch.setattr(validation, "SAMPLES_PER_BLOCK", limit)
    devices = Devices(precision, 1)
    first, second = within_blocks(scored)
    assert len(first) == (6 if limit == 3 else 15)
    known = scored.distances["unweighted"]
    matrix = np.full_like(known, np.nan)
    matrix[0, np.arange(20), np.arange(20)] = 0
    for one, other in ((first, second), (second, first)):
        matrix[0, one, other] = known[0, one, other]
    held = replace(scored, distances={"unweighted": matrix})
    found = held.score(model, devices)
    true, predicted = held.recorded_pairs(model, devices, seed=0)["unweighted"]
    np.testing.assert_array_equal(true, known[0, first, second])
    distance, diversity = by_heads(model, scored, devices)
    atol = 1e-5 if precision == "fp32" else 1e-2
    np.testing.assert_allclose(predicted, distance[first, second], atol=atol)
    correlation = np.corrcoef(true, predicted)[0, 1]
    assert found["unweighted_pearson"] == pytest.approx(correlation, abs=1e-4)
    assert found["unweighted_mae"] == pytest.approx(np.abs(true - predicted).mean(), abs=1e-5)
    both = scored.values["faith_pd"][HELD_OUT, 0], diversity[HELD_OUT, 0]
    assert found["faith_pd_pearson"] == pytest.approx(np.corrcoef(*both)[0, 1], abs=10 * atol)


@given(number=st.integers(1, 60), limit=st.integers(1, 25), seed=st.integers(0, 9))
@settings(deadline=None)
def test_blocks_are_of_even_sizes_and_only_the_seed_changes_them(scored, number, limit, seed):
    samples = 5 + 3 * np.arange(number)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validation, "SAMPLES_PER_BLOCK", limit)
        blocks, again, other = (
            [block.tolist() for block in replace(scored, samples=samples, masker=masker).blocks()]
            for masker in (Masker(0.3, seed), Masker(0.1, seed), Masker(0.3, seed + 1))
        )
    assert blocks == again
    assert sorted(sum(blocks, [])) == samples.tolist()
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= limit
    assert max(sizes) - min(sizes) <= 1
    assert len(blocks) == -(-number // limit)
    assert number <= 40 or blocks != other


def test_no_more_than_a_block_is_embedded_and_read_at_a_time(
    scored, model, devices, monkeypatch, small_blocks
):
    """Beside the first block come the training samples that the statistics are taken from."""
    read, embedded = [], []

    class Watched:
        def __getitem__(self, places):
            if isinstance(places, int):
                return self
            read.append(scored.distances["unweighted"][0][places].size)
            return scored.distances["unweighted"][0][places]

    def spy(encoder, store, tokens, rows, devices):
        embedded.append(len(rows))
        return embed_samples(encoder, store, tokens, rows, devices)

    monkeypatch.setattr(validation, "embed_samples", spy)
    watched = {"unweighted": Watched()}
    held = replace(scored, samples=np.arange(5, 20), distances=watched, plotted_pairs=4)
    held.score(model, devices)
    assert embedded == [len(TRAINING) + 3, 3, 3, 3, 3]
    held.recorded_pairs(model, devices, seed=0)
    assert embedded[5:] == [3] * 5
    assert max(read) == 3 * 3


def test_recorded_pairs_are_drawn_by_the_seed_from_all_blocks(scored, model, devices, small_blocks):
    """Every pair has a distance of its own here, so that it is known by it."""
    numbered = np.arange(400, dtype=np.float32).reshape(1, 20, 20)
    held = replace(scored, distances={"unweighted": numbered}, plotted_pairs=4)
    true, predicted = held.recorded_pairs(model, devices, seed=3)["unweighted"]
    first, second = within_blocks(scored)
    names = (20 * first + second).tolist()
    places = [names.index(name) for name in true]
    assert len(set(places)) == 4
    assert sum(place < 3 for place in places) == 2
    expected = by_heads(model, scored, devices)[0][first[places], second[places]]
    np.testing.assert_allclose(predicted, expected, atol=1e-5)
    again, other = (held.recorded_pairs(model, devices, seed)["unweighted"] for seed in (3, 5))
    np.testing.assert_array_equal(again, [true, predicted])
    assert other[0].tolist() != true.tolist()


def by_hand(scored: HeldOut, asvs: np.ndarray) -> tuple[list[bool], list[bool]]:
    """Return per masked place of some ASVs whether A and the most frequent base are right there."""
    tokens, is_a, is_common = scored.tokens, [], []
    training = asvs_of(scored.store, TRAINING, len(tokens.lengths))
    for asv in asvs:
        letters = tokens.tokens[[asv], : tokens.lengths[asv]]
        _, (_, position, base) = scored.masker.mask(letters, np.array([asv]), 0)
        for p, b in zip(position, base, strict=True):
            there = [tokens.tokens[other, p] for other in training if p < tokens.lengths[other]]
            counts = np.bincount(there, minlength=5)[1:5]
            is_a.append(b == 0)
            is_common.append(counts.argmax() == b)
    return is_a, is_common


def test_nucleotides_are_scored_beside_the_most_frequent_base(scored, model, devices, monkeypatch):
    """A head that always answers A is right where the masked base is A; unseen ASVs count twice."""
    tokens = scored.tokens
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", 20)
    monkeypatch.setattr(validation, "ASVS_COUNTED_AT_ONCE", 2)
    with torch.no_grad():
        model.nucleotides.bases.weight.zero_()
        model.nucleotides.bases.bias.copy_(torch.tensor([1.0, 0, 0, 0]).repeat(5))
    values = scored.score(model, devices)
    known, held = (
        asvs_of(scored.store, rows, len(tokens.lengths)) for rows in (TRAINING, HELD_OUT)
    )
    unseen = np.setdiff1d(held, known)
    assert len(unseen), "these data have no unseen ASV"
    for name, asvs in (("", held), ("_unseen_asvs", unseen)):
        is_a, is_common = by_hand(scored, asvs)
        assert values[f"nucleotide_accuracy{name}"] == pytest.approx(np.mean(is_a)), name
        if not name:
            assert values["nucleotide_baseline_accuracy"] == pytest.approx(np.mean(is_common))
    assert values == scored.score(model, devices)
