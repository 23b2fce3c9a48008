import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.data.folds import TEST
from aam.data.nested_folds import BLOCKS, blocks_of_folds, inner_fits, ring_size

FOLDS = st.integers(2, 9).flatmap(
    lambda k: st.lists(st.integers(-1, k - 1), min_size=12, max_size=40).filter(
        lambda folds: len(set(folds) - {-1}) > 1
    )
)


@given(FOLDS, st.integers(1, 6), st.booleans())
def test_no_fit_has_seen_its_block_nor_what_it_predicts(folds, group, ring):
    fold = np.array(folds)
    # Groups lie within a fold.
    unit = np.array([f"{name}-{row // group}" for row, name in enumerate(folds)])
    blocks = blocks_of_folds(fold)
    block = np.array([blocks.get(name, TEST) for name in folds])
    for fit in inner_fits(fold, unit, ring=ring):
        assert not fit.is_training_N[fold == TEST].any()
        assert not fit.is_training_N[fit.rows].any()
        for number, rows in fit.predicted.items():
            assert not fit.is_training_N[block == number].any()
            assert not (block[rows] == number).any()
            assert not (block[rows] == TEST).any()
            # A single other group is divided, as there is nothing else to leave out.
            others = set(unit[(block != number) & (block != TEST)])
            assert not set(unit[rows]) & set(unit[fit.is_training_N]) or len(others) == 1


@pytest.mark.parametrize(("folds", "fits"), [(4, 6), (5, 10), (10, 10)])
def test_every_pair_of_blocks_is_left_out_once_and_each_sample_predicted_for_all_others(
    folds, fits
):
    fold = np.arange(40) % folds
    blocks = blocks_of_folds(fold)
    block = np.array([blocks[name] for name in fold])
    found = inner_fits(fold, np.arange(40).astype(str))
    assert len(found) == fits
    for number in set(blocks.values()):
        rows = np.concatenate([fit.predicted[number] for fit in found if number in fit.predicted])
        assert sorted(rows.tolist()) == np.flatnonzero(block != number).tolist()


@pytest.mark.parametrize(("folds", "fits", "least"), [(5, 5, 2), (10, 5, 2), (3, 6, 2), (2, 4, 2)])
def test_a_ring_has_few_fits_and_each_block_two_of_them(folds, fits, least):
    fold = np.arange(60) % folds
    found = inner_fits(fold, np.arange(60).astype(str), ring=True)
    assert len(found) == fits == ring_size(folds)
    for number in set(blocks_of_folds(fold).values()):
        assert sum(number in fit.predicted for fit in found) == least


def test_many_folds_are_joined_to_blocks_of_about_the_same_size():
    fold = np.repeat(np.arange(12), [30, 4, 4, 4, 4, 4, 10, 10, 10, 10, 5, 5])
    blocks = blocks_of_folds(fold)
    sizes = np.bincount([blocks[name] for name in fold])
    assert len(sizes) == BLOCKS
    assert sizes.max() == 30
    assert sizes.min() >= 15


def test_samples_are_divided_where_one_group_alone_is_left():
    """Of two studies each is a fold; the other one is all that there is to divide."""
    fold = np.arange(20) // 10
    found = inner_fits(fold, fold.astype(str))
    assert len(found) == 10
    assert all(fit.is_training_N.sum() == 8 for fit in found)


def test_lone_samples_are_divided_alike_whatever_they_are_called():
    fold = np.arange(30) % 2
    names = np.array([f"s{number}" for number in np.random.default_rng(0).permutation(30)])
    first = inner_fits(fold, names)
    second = inner_fits(fold, np.arange(30).astype(str))
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        assert one.is_training_N.tolist() == other.is_training_N.tolist()
