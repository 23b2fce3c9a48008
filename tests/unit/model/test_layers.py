"""Layers by themselves; whole encoders against plain steps: `test_reference_encoders.py`."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.layers import bdh
from aam.model.layers.attention import rotary_tables
from aam.model.layers.bdh import Bdh, compares_positions, mix, neuron_tables, normalize
from aam.model.layers.blocks import AttentionPooling, BiLstm, Block

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = st.integers(1, 24)


def test_lstm_states_begin_open_to_the_past_and_neither_grow_nor_shrink():
    layer, half = BiLstm(8), 4
    layer.initialize()
    for name in ("l0", "l0_reverse"):
        for gate_HH in getattr(layer.lstm, f"weight_hh_{name}").chunk(4):
            torch.testing.assert_close(gate_HH @ gate_HH.T, torch.eye(half))
        bias = getattr(layer.lstm, f"bias_ih_{name}") + getattr(layer.lstm, f"bias_hh_{name}")
        assert bias.tolist() == [0.0] * half + [1.0] * half + [0.0] * 2 * half


@given(number=st.integers(1, 40), neurons=SIZES, width=SIZES)
@settings(deadline=None, max_examples=40)
def test_bdh_takes_the_cheaper_of_two_orders_that_give_the_same(number, neurons, width):
    rng = torch.Generator().manual_seed(0)
    x, v = (
        torch.randn(2, number, size, generator=rng, dtype=torch.float64)
        for size in (neurons, width)
    )
    results = []
    for pairs in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bdh, "compares_positions", lambda *_, pairs=pairs: pairs)
            results.append(mix(x, v))
    torch.testing.assert_close(*results, atol=1e-9, rtol=1e-9)
    cost_of_pairs, cost_of_state = number * (neurons + width), 2 * neurons * width
    assert compares_positions(number, neurons, width) == (cost_of_pairs <= cost_of_state)


def test_what_leaves_bdh_is_normal_again_so_that_it_can_be_repeated():
    torch.manual_seed(0)
    layer, tables = Bdh(8, 2, 12), neuron_tables(9, 6)
    v_BSD = normalize(torch.randn(2, 9, 8))
    for _ in range(20):
        v_BSD = layer(v_BSD, rotary=tables)
    torch.testing.assert_close(v_BSD.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(v_BSD.var(-1, correction=0), torch.ones(2, 9), atol=1e-3, rtol=0)


def test_a_block_without_positions_treats_a_set():
    torch.manual_seed(0)
    block, x, order = Block(16, 2, 2), torch.randn(1, 9, 16), torch.randperm(9)
    torch.testing.assert_close(block(x[:, order]), block(x)[:, order])
    rotary = rotary_tables(9, 8, heads=4)
    moved = block(x[:, order], rotary=rotary)
    assert not torch.allclose(moved, block(x, rotary=rotary)[:, order], atol=1e-3)


def test_pooling_is_a_mean_weighted_by_present_positions_alone():
    torch.manual_seed(0)
    pooling = AttentionPooling(8)
    x, present = torch.randn(2, 6, 8), torch.arange(6) < torch.tensor([[4], [6]])
    pooled = pooling(x, present)
    weight = torch.softmax(x[0, :4] @ pooling.score.weight[0], 0)
    torch.testing.assert_close(pooled[0], pooling.norm(weight @ x[0, :4]))
    torch.testing.assert_close(pooled[1], pooling(x)[1])
