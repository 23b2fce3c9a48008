from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.inference import embed
from aam.inference.embed import embed_samples
from aam.tasks.pretrain import validation
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut, PairMoments, commonest_bases
from aam.train.data import distances
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices

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
        values={},
        masker=Masker(0.3, 9),
    )


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


def test_a_constant_prediction_has_no_correlation():
    moments = PairMoments()
    moments.add(np.array([0.1, 0.5, 0.9]), np.array([0.5, 0.5, 0.5]))
    assert moments.pearson == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_scores_are_those_of_the_distances_of_the_head(scored, new_model, precision):
    model, devices = new_model(), Devices(precision, 1)
    found = scored.score(model, devices)
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, HELD_OUT, devices)
    with torch.no_grad():
        predicted = model.head("unweighted").eval()(embedding).numpy()
    above = np.triu_indices(len(HELD_OUT), 1)
    true = scored.distances["unweighted"][0][np.ix_(HELD_OUT, HELD_OUT)]
    correlation = np.corrcoef(true[above], predicted[above])[0, 1]
    assert found["unweighted_pearson"] == pytest.approx(correlation, abs=1e-4)
    error = np.abs(true[above] - predicted[above]).mean()
    assert found["unweighted_mae"] == pytest.approx(error, abs=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_pairs_are_those_of_the_head(scored, new_model, precision):
    model, devices = new_model(), Devices(precision, 1)
    true, predicted = scored.recorded_pairs(model, devices, seed=0)["unweighted"]
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, HELD_OUT, devices)
    with torch.no_grad():
        matrix = model.head("unweighted").eval()(embedding).numpy()
    above = np.triu_indices(len(HELD_OUT), 1)
    np.testing.assert_allclose(predicted, matrix[above], atol=1e-5)
    expected = scored.distances["unweighted"][0][np.ix_(HELD_OUT, HELD_OUT)][above]
    np.testing.assert_array_equal(true, expected)


def within_blocks(scored: HeldOut) -> tuple[np.ndarray, np.ndarray]:
    """Return both samples of every pair that is to be scored, block after block."""
    pairs = [np.triu_indices(len(block), 1) for block in scored.blocks()]
    chosen = [(block[i], block[j]) for block, (i, j) in zip(scored.blocks(), pairs, strict=True)]
    return tuple(np.concatenate(side) for side in zip(*chosen, strict=True))


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(validation, "SAMPLES_PER_BLOCK", 3)
    monkeypatch.setattr(validation, "ROWS_AT_ONCE", 2)


@given(number=st.integers(1, 60), limit=st.integers(1, 25), seed=st.integers(0, 9))
@settings(deadline=None)
def test_blocks_are_an_even_division_that_only_the_seed_changes(scored, number, limit, seed):
    samples = 5 + 3 * np.arange(number)
    held = replace(scored, samples=samples, masker=Masker(0.3, seed))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validation, "SAMPLES_PER_BLOCK", limit)
        blocks, again = held.blocks(), replace(held, store=None).blocks()
        other = replace(held, masker=Masker(0.3, seed + 1)).blocks()
    assert [block.tolist() for block in blocks] == [block.tolist() for block in again]
    assert sorted(np.concatenate(blocks)) == samples.tolist()
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= limit
    assert max(sizes) - min(sizes) <= 1
    assert len(blocks) == -(-number // limit)
    if number > 40 and 1 < len(blocks):
        assert [block.tolist() for block in blocks] != [block.tolist() for block in other]


def test_pairs_are_scored_within_blocks_only(scored, new_model, devices, small_blocks):
    """Distances between blocks are not numbers here: reading one would show."""
    first, second = within_blocks(scored)
    matrix = np.full_like(scored.distances["unweighted"], np.nan)
    matrix[0, first, second] = scored.distances["unweighted"][0, first, second]
    matrix[0, second, first] = matrix[0, first, second]
    matrix[0, np.arange(20), np.arange(20)] = 0
    model = new_model()
    found = replace(scored, distances={"unweighted": matrix}).score(model, devices)
    rows = np.arange(20)
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, rows, devices)
    with torch.no_grad():
        predicted = model.head("unweighted").eval()(embedding).numpy()[first, second]
    true = matrix[0, first, second]
    assert len(true) == 6
    assert found["unweighted_pearson"] == pytest.approx(
        np.corrcoef(true, predicted)[0, 1], abs=1e-4
    )
    assert found["unweighted_mae"] == pytest.approx(np.abs(true - predicted).mean(), abs=1e-5)


def test_faith_pd_is_scored_over_all_blocks(scored, new_encoder, devices, small_blocks):
    model = PretrainingModel(
        new_encoder(20, asv_layers=1, sample_layers=1, patch_bp=5),
        weights={"faith_pd": 1.0},
        variances={},
        nucleotide_weight=1.0,
        seed=1,
    )
    values = np.random.default_rng(0).normal(size=(20, 1)).astype(np.float32)
    found = replace(scored, distances={}, values={"faith_pd": values}).score(model, devices)
    embedding = embed_samples(model.encoder, scored.store, scored.tokens, HELD_OUT, devices)
    with torch.no_grad():
        predicted = model.faith_pd.eval()(embedding).numpy()[:, 0]
    expected = np.corrcoef(values[HELD_OUT, 0], predicted)[0, 1]
    assert found["faith_pd_pearson"] == pytest.approx(expected, abs=1e-4)


def test_no_more_than_a_block_is_embedded_and_read_at_a_time(
    tiny, new_model, devices, monkeypatch, small_blocks
):
    """Beside the first block come the training samples that the statistics are taken from."""
    read, embedded = [], []

    class Watched:
        def __getitem__(self, places):
            if isinstance(places, int):
                return self
            read.append(tiny.distances[0][places].size)
            return tiny.distances[0][places]

    def spy(encoder, store, tokens, rows, devices):
        embedded.append(len(rows))
        return embed_samples(encoder, store, tokens, rows, devices)

    monkeypatch.setattr(validation, "embed_sharded", spy)
    held = HeldOut(
        store=tiny.store,
        tokens=tiny.tokens,
        samples=np.arange(5, 20),
        training_samples=TRAINING,
        distances={"unweighted": Watched()},
        values={},
        masker=Masker(0.3, 9),
        plotted_pairs=4,
    )
    held.score(new_model(), devices)
    assert embedded == [len(TRAINING) + 3, 3, 3, 3, 3]
    held.recorded_pairs(new_model(), devices, seed=0)
    assert embedded[5:] == [3] * 5
    assert max(read) == 2 * 3


def test_distances_may_be_mapped_from_a_file(scored, new_model, devices, tmp_path):
    np.save(tmp_path / "distances.npy", scored.distances["unweighted"])
    mapped = {"unweighted": np.load(tmp_path / "distances.npy", mmap_mode="r")}
    on_disk = replace(scored, distances=mapped)
    assert on_disk.score(new_model(), devices) == scored.score(new_model(), devices)
    found, expected = (h.recorded_pairs(new_model(), devices, 0) for h in (on_disk, scored))
    np.testing.assert_array_equal(found["unweighted"], expected["unweighted"])
    assert type(found["unweighted"][0]) is np.ndarray


def test_recorded_pairs_are_bounded_and_drawn_by_the_seed(scored, new_model, devices):
    bounded = replace(scored, plotted_pairs=7)
    first, again, other = (
        bounded.recorded_pairs(new_model(), devices, seed)["unweighted"] for seed in (0, 0, 1)
    )
    assert len(first[0]) == len(first[1]) == 7
    np.testing.assert_array_equal(first, again)
    assert first[0].tolist() != other[0].tolist()


@pytest.mark.parametrize("plotted", [1, 4, 6, 100])
def test_recorded_pairs_come_from_all_blocks(scored, new_model, devices, small_blocks, plotted):
    """Every pair has a distance of its own here, so that it is known by it."""
    numbered = np.arange(400, dtype=np.float32).reshape(1, 20, 20)
    held = replace(scored, distances={"unweighted": numbered}, plotted_pairs=plotted)
    model = new_model()
    true, predicted = held.recorded_pairs(model, devices, seed=3)["unweighted"]
    first, second = within_blocks(scored)
    names = (20 * first + second).tolist()
    assert len(set(true.tolist())) == len(true) == min(plotted, 6)
    places = [names.index(name) for name in true]
    assert sum(place < 3 for place in places) == len(places) // 2
    embedding = embed_samples(model.encoder, held.store, held.tokens, np.arange(20), devices)
    with torch.no_grad():
        matrix = model.head("unweighted").eval()(embedding).numpy()
    np.testing.assert_allclose(predicted, matrix[first[places], second[places]], atol=1e-5)


@given(at_once=st.integers(1, 200), number=st.integers(2, 20), seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_variance_over_pairs_is_that_of_all_of_them_at_once(at_once, number, seed):
    rng = np.random.default_rng(seed)
    matrix = (50 + rng.normal(size=(1, 20, 20))).astype(np.float32)
    samples = rng.permutation(20)[:number]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distances, "DISTANCES_AT_ONCE", at_once)
        found = distances.pair_variances({"weighted": matrix}, samples)["weighted"]
    pairs = matrix[0][np.ix_(samples, samples)][np.triu_indices(number, 1)]
    assert found == pytest.approx(max(pairs.astype(np.float64).var(), 1e-6), rel=1e-9)


def by_hand(scored: HeldOut, asvs: list[int]) -> tuple[list[tuple[int, int]], list[bool]]:
    """Return the masked places of some ASVs, and whether the commonest base is right there."""
    training = {
        int(asv)
        for row in TRAINING
        for asv in scored.store.asvs[scored.store.offsets[row] : scored.store.offsets[row + 1]]
    }
    places, right = [], []
    for asv in asvs:
        length = scored.tokens.lengths[asv]
        letters = scored.tokens.tokens[[asv], :length]
        _, (_, position, base) = scored.masker.mask(letters, np.array([asv]), 0)
        for p, b in zip(position.tolist(), base.tolist(), strict=True):
            counts = [0, 0, 0, 0]
            for other in training:
                if p < scored.tokens.lengths[other]:
                    counts[scored.tokens.tokens[other, p] - 1] += 1
            places.append((asv, p))
            right.append(counts.index(max(counts)) == b)
    return places, right


def test_nucleotides_are_scored_beside_the_commonest_base(scored, new_model, devices):
    held = [
        int(asv)
        for row in HELD_OUT
        for asv in scored.store.asvs[scored.store.offsets[row] : scored.store.offsets[row + 1]]
    ]
    _, right = by_hand(scored, sorted(set(held)))
    values = scored.score(new_model(), devices)
    assert values["nucleotide_baseline_accuracy"] == pytest.approx(np.mean(right))
    assert values == scored.score(new_model(), devices)


def test_accuracy_is_the_share_of_right_guesses_and_counts_unseen_asvs_apart(
    scored, new_model, devices, monkeypatch
):
    """A head that always answers A is right where the hidden base is A."""
    model = new_model()
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", 20)
    with torch.no_grad():
        model.nucleotides.bases.weight.zero_()
        model.nucleotides.bases.bias.copy_(torch.tensor([1.0, 0, 0, 0]).repeat(5))
    values = scored.score(model, devices)
    store, tokens = scored.store, scored.tokens
    known = {
        int(a) for row in TRAINING for a in store.asvs[store.offsets[row] : store.offsets[row + 1]]
    }
    held = {
        int(a) for row in HELD_OUT for a in store.asvs[store.offsets[row] : store.offsets[row + 1]]
    }
    assert held - known, "these data have no unseen ASV"
    for name, asvs in (("", held), ("_unseen_asvs", held - known)):
        places, _ = by_hand(scored, sorted(asvs))
        expected = np.mean([tokens.tokens[asv, p] == 1 for asv, p in places])
        assert values[f"nucleotide_accuracy{name}"] == pytest.approx(expected), name


def test_commonest_bases_by_position(mixed_lengths, monkeypatch):
    monkeypatch.setattr(validation, "ASVS_COUNTED_AT_ONCE", 2)
    tokens = mixed_lengths.tokens
    found = commonest_bases(tokens, np.array([0, 3, 6]))
    for position in range(20):
        column = tokens.tokens[[0, 3, 6], position].tolist()
        assert column.count(found[position] + 1) == max(column.count(base) for base in (1, 2, 3, 4))
