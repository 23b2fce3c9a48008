"""Shape suffixes: B samples, R rows of a store."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.train.data.asv_dropout import HIDDEN, AsvDropout, asv_dropout
from aam.train.data.collate import entries_of
from aam.train.data.dataset import AsvDataset, BatchDataset

ROWS_R = np.array([3, 0, 17, 9, 4, 12])


@given(
    richness=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.97]),
    step=st.integers(0, 10**6),
)
@settings(deadline=None, max_examples=60)
def test_every_sample_keeps_an_asv(richness, share, step):
    richness_B = np.array(richness)
    kept = AsvDropout(share, False, seed=1).kept(richness_B, step)
    left = [part.sum() for part in np.split(kept, np.cumsum(richness_B)[:-1])]
    assert len(kept) == richness_B.sum()
    assert min(left) >= 1
    if share == 0:
        assert kept.all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_shares_left_out_and_hidden_are_those_asked_for(share):
    richness_B = np.full(40, 500)
    thin = AsvDropout(share, True, seed=3)
    assert 1 - thin.kept(richness_B, 5).mean() == pytest.approx(share, abs=0.02)
    assert thin.hidden(richness_B, 5).mean() == pytest.approx(HIDDEN, abs=0.02)


def test_thinning_is_a_function_of_seed_and_step():
    richness_B = np.array([30, 40, 50])

    def drawn(seed: int, step: int) -> bytes:
        thin = AsvDropout(0.5, True, seed)
        return thin.kept(richness_B, step).tobytes() + thin.hidden(richness_B, step).tobytes()

    assert drawn(0, 7) == drawn(0, 7)
    assert len({drawn(0, 7), drawn(0, 8), drawn(1, 7)}) == 3


def test_what_thins_nothing_is_none():
    assert asv_dropout(0.0, False, 0) is None
    only_reads = asv_dropout(0.0, True, 0)
    assert only_reads.kept(np.array([9, 9]), 0).all()
    assert asv_dropout(0.3, False, 0).hidden(np.array([9, 9]), 0) is None


def test_entries_are_those_of_the_asvs_that_stay(tiny):
    """Against the samples one after the other."""
    store, thin = tiny.store, AsvDropout(0.4, True, seed=2)
    (counts, richness_B, hidden), distinct_U, place = entries_of(store, ROWS_R, thin, 11)
    before_B = store.offsets[ROWS_R + 1] - store.offsets[ROWS_R]
    stays = np.split(thin.kept(before_B, 11), np.cumsum(before_B)[:-1])
    asvs, reads = [], []
    for row, keep in zip(ROWS_R, stays, strict=True):
        held = slice(store.offsets[row], store.offsets[row + 1])
        asvs += store.asvs[held][keep].tolist()
        reads += store.counts[held][keep].tolist()
    assert distinct_U[place].tolist() == asvs
    assert counts.tolist() == reads
    assert richness_B.tolist() == [keep.sum() for keep in stays]
    np.testing.assert_array_equal(hidden, thin.hidden(richness_B, 11))
    assert 0 < len(asvs) < before_B.sum()


@pytest.fixture
def pair(mixed_lengths):
    """Return a dataset of sequences and one of embeddings; an embedding says which ASV it is of."""

    def build(thin: AsvDropout | None) -> tuple[BatchDataset, AsvDataset]:
        number = len(mixed_lengths.tokens.lengths)
        common = {
            "store": mixed_lengths.store,
            "tokens": mixed_lengths.tokens,
            "samples": np.arange(20),
            "batch_size": 20,
            "epochs": 2,
            "seed": 4,
            "values": {"target": np.arange(20, dtype=np.float32)[:, None]},
            "asv_dropout": thin,
        }
        embedding_UD = torch.arange(number, dtype=torch.float32)[:, None]
        return BatchDataset(**common), AsvDataset(**common, asv_UD=embedding_UD)

    return build


@pytest.mark.parametrize("thin", [None, AsvDropout(0.3, True, 5)], ids=["all", "thinned"])
def test_a_feed_of_asv_embeddings_gives_the_same_samples(pair, mixed_lengths, thin):
    plain, embedded = pair(thin)
    tokens = mixed_lengths.tokens
    for step in range(len(plain)):
        expected, found = plain[step], embedded[step]
        assert torch.equal(found.order_B, expected.order_B)
        assert torch.equal(found.values["target"], expected.values["target"])
        assert found.asvs == []
        sequences = [row.tolist() for block in expected.asvs for row in block.tokens_US]
        for here, there in zip(found.samples, expected.samples, strict=True):
            assert torch.equal(here.counts_BA, there.counts_BA)
            assert torch.equal(here.present_BA, there.present_BA)
            assert (here.count_mask_BA is None) == (thin is None)
            if thin is not None:
                assert torch.equal(here.count_mask_BA, there.count_mask_BA)
                assert not (here.count_mask_BA & ~here.present_BA).any()
            asvs = found.embedded_UD[here.asv_BA[here.present_BA], 0].long().tolist()
            for asv, place in zip(asvs, there.asv_BA[there.present_BA].tolist(), strict=True):
                length = tokens.lengths[asv]
                assert tokens.tokens[asv, :length].tolist() == sequences[place]
