import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches.masking import BLOCK_BP, Masker
from aam.data.sequences import AMBIGUOUS, MASK, PAD

TOKENS = np.random.default_rng(0).integers(0, 6, (400, 50)).astype(np.uint8)
TOKENS.flags.writeable = False
MASKINGS = ["random", "block", "patch"]


@given(
    masking=st.sampled_from(MASKINGS),
    rows=st.lists(st.integers(0, 399), min_size=1, max_size=30),
    length=st.integers(1, 50),
    epoch=st.integers(0, 50),
)
@settings(deadline=None, max_examples=50)
def test_an_asv_is_masked_alike_in_every_batch_order_and_width(masking, rows, length, epoch):
    masker, asvs = Masker(0.3, 7, masking, 7), np.array(rows)
    everything, _ = masker.mask(TOKENS, np.arange(400), epoch)
    masked, _ = masker.mask(TOKENS[asvs, :length], asvs, epoch)
    assert np.array_equal(masked, everything[asvs, :length])


@pytest.mark.parametrize(
    ("masking", "fraction", "together"),
    [("random", 0.05, 1), ("block", 0.15, BLOCK_BP), ("patch", 0.6, 5)],
)
def test_so_many_bases_are_masked_and_their_letters_are_kept(masking, fraction, together):
    masker = Masker(fraction, 1, masking, together)
    masked, (row, position, base) = masker.mask(TOKENS, np.arange(400), 3)
    is_base, changed = (TOKENS >= 1) & (TOKENS <= 4), masked != TOKENS
    # Nucleotides of a block or a patch are not drawn one by one.
    sd = np.sqrt(fraction * (1 - fraction) * together / is_base.sum())
    assert changed[is_base].mean() == pytest.approx(fraction, abs=4 * sd)
    assert np.array_equal(changed, masked == MASK)
    assert not np.isin(TOKENS[changed], [PAD, AMBIGUOUS]).any()
    assert np.array_equal(np.flatnonzero(changed), row * 50 + position)
    assert np.array_equal(TOKENS[row, position], base + 1)
    assert set(base.tolist()) == {0, 1, 2, 3}


def test_epochs_seeds_asvs_and_positions_are_masked_independently():
    tokens = np.ones((300, 40), np.uint8)
    reference = Masker(0.5, 1).mask(tokens, np.arange(300), 0)[0] == MASK
    others = {
        "epoch": Masker(0.5, 1).mask(tokens, np.arange(300), 1)[0] == MASK,
        "seed": Masker(0.5, 2).mask(tokens, np.arange(300), 0)[0] == MASK,
        "ASV": np.roll(reference, 1, axis=0),
        "position": np.roll(reference, 1, axis=1),
    }
    for name, other in others.items():
        assert (reference == other).mean() == pytest.approx(0.5, abs=0.03), name


def test_blocks_are_whole_but_at_the_ends_and_cover_every_position_alike():
    tokens = np.ones((4000, 50), np.uint8)
    is_masked = Masker(0.15, 1, "block").mask(tokens, np.arange(4000), 0)[0] == MASK
    for row_S in is_masked:
        for start, end in np.flatnonzero(np.diff(np.pad(row_S.astype(int), 1))).reshape(-1, 2):
            assert end - start >= BLOCK_BP or start == 0 or end == 50
    np.testing.assert_allclose(is_masked.mean(axis=0), 0.15, atol=0.03)


def test_patches_are_masked_as_a_whole_the_last_one_too():
    tokens = np.ones((300, 50), np.uint8)
    is_masked = Masker(0.3, 1, "patch", 8).mask(tokens, np.arange(300), 0)[0] == MASK
    for first in range(0, 50, 8):
        patch = is_masked[:, first : first + 8]
        assert (patch.all(axis=1) == patch.any(axis=1)).all()
        assert 0.15 < patch.any(axis=1).mean() < 0.45
