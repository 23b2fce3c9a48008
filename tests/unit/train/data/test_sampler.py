"""Batches of blocks: an epoch, its pools, and who meets.

Shape suffixes: N samples.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.train.data.dataset import BatchDataset
from aam.train.data.sampler import Blocks

TRAINING = np.array([0, 2, 3, 5, 6, 7, 9, 11, 12, 15, 18])


def small(seed: int = 0, samples: np.ndarray = TRAINING) -> Blocks:
    drawn = Blocks.of(samples, 20, seed)
    return Blocks(drawn.line_N, drawn.training, size=3, pool=2)


@given(
    number=st.integers(2, 60),
    others=st.integers(0, 9),
    size=st.integers(1, 9),
    pool=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_an_epoch_has_every_training_sample_once_and_keeps_blocks_in_one_pool(
    number, others, size, pool, seed
):
    samples = np.sort(np.random.default_rng(seed).permutation(number + others)[:number])
    drawn = Blocks.of(samples, number + others, seed)
    blocks = Blocks(drawn.line_N, drawn.training, size, pool)
    order = blocks.order(seed, epoch=0)
    assert sorted(order.tolist()) == samples.tolist()
    block_of_each = blocks.place_N[order] // size
    for block in range(-(-number // size)):
        places = np.flatnonzero(block_of_each == block)
        assert places[-1] - places[0] < pool * size


def test_the_order_is_a_function_of_seed_and_epoch():
    orders = [small(seed).order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    again = [small(seed).order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    for one, other in zip(orders, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len({tuple(order.tolist()) for order in orders}) == len(orders)


@pytest.mark.parametrize("batch_size", [2, 4, 11])
def test_an_epoch_of_batches_is_the_order_of_the_blocks_in_sizes_of_uniform_ones(tiny, batch_size):
    uniform, blocked = (
        BatchDataset(tiny.store, tiny.tokens, TRAINING, batch_size, 3, seed=1, blocks=blocks)
        for blocks in (None, small())
    )
    sizes = [len(uniform.rows(step)[0]) for step in range(len(uniform))]
    assert [len(blocked.rows(step)[0]) for step in range(len(blocked))] == sizes
    for epoch in range(3):
        steps = range(epoch * blocked.steps_per_epoch, (epoch + 1) * blocked.steps_per_epoch)
        drawn = [sample for step in steps for sample in blocked.rows(step)[0].tolist()]
        assert drawn == small().order(1, epoch).tolist()


def test_all_pairs_meet_in_some_epoch():
    # Batches of 3 never reach over the end of a pool of 6.
    samples = np.array([*TRAINING, 19])
    blocks = small(samples=samples)
    met = {
        (one, other)
        for epoch in range(200)
        for batch in blocks.order(1, epoch).reshape(-1, 3).tolist()
        for one in batch
        for other in batch
        if one < other
    }
    assert met == {(one, other) for one in samples for other in samples if one < other}
