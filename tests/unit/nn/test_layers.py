"""Every layer against its formula in plain steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.nn import bdh
from aam.nn.attention import rotary_tables
from aam.nn.bdh import Bdh, compares_positions, enter, mix, neuron_tables
from aam.nn.block import Block
from aam.nn.pooling import AttentionPooling
from aam.nn.recurrent import BiLstm

pytestmark = pytest.mark.usefixtures("one_thread")
WIDTH, HEADS, NEURONS = 8, 2, 12
OWN = NEURONS // HEADS


def lstm_direction(weights: list[torch.Tensor], x_SD: torch.Tensor) -> torch.Tensor:
    w_in, w_state, b_in, b_state = weights
    state = cell = torch.zeros(WIDTH // 2, dtype=x_SD.dtype)
    states = []
    for x_D in x_SD:
        into, forget, new, leave = (w_in @ x_D + b_in + w_state @ state + b_state).chunk(4)
        cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
        state = leave.sigmoid() * cell.tanh()
        states.append(state)
    return torch.stack(states)


def normal(x: torch.Tensor) -> torch.Tensor:
    variance = x.var(-1, correction=0, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * (variance + 1e-5).rsqrt()


def plain_lstm(layer: BiLstm, x_SD: torch.Tensor) -> torch.Tensor:
    weights = [parameter.double() for parameter in layer.lstm.parameters()]
    x = normal(x_SD) * layer.norm.weight.double() + layer.norm.bias.double()
    backward = lstm_direction(weights[4:], x.flip(0)).flip(0)
    return x_SD + torch.cat([lstm_direction(weights[:4], x), backward], dim=-1)


def turned(x_N: torch.Tensor, position: int) -> torch.Tensor:
    """Turn pairs of neurons, half of all apart, by the angle of their position."""
    half = len(x_N) // 2
    angle = position * (2.0**16) ** (-2 * torch.arange(half, dtype=torch.float64) / len(x_N))
    first, second = x_N[:half], x_N[half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos])


def plain_bdh(layer: Bdh, v_SD: torch.Tensor) -> torch.Tensor:
    passed = []
    into, ask, out = (p.weight.double() for p in (layer.neurons, layer.gates, layer.out))
    for head in range(HEADS):
        rows = slice(head * OWN, (head + 1) * OWN)
        x_SN = (v_SD @ into[rows].T).relu()
        key_SN = torch.stack([turned(x_N, place) for place, x_N in enumerate(x_SN)])
        score_SS = key_SN @ key_SN.T / OWN**0.5
        if layer.attention == "softmax":
            score_SS = score_SS.exp() / score_SS.exp().sum(1, keepdim=True)
        passed.append(x_SN * (normal(score_SS @ v_SD) @ ask[rows].T).relu())
    return normal(v_SD + normal(torch.cat(passed, dim=1) @ out.T))


def layer_of(kind: str, seed: int):
    torch.manual_seed(seed)
    if kind == "lstm":
        layer = BiLstm(WIDTH)
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        return layer, layer, plain_lstm
    layer = Bdh(WIDTH, HEADS, NEURONS, kind)
    return layer, (lambda v: layer(v, rotary=neuron_tables(v.shape[1], OWN))), plain_bdh


KINDS = pytest.mark.parametrize("kind", ["lstm", "linear", "softmax"])


@KINDS
@given(sequences=st.integers(1, 3), number=st.integers(1, 30), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=8)
def test_a_layer_and_its_gradients_are_those_of_the_formula(kind, sequences, number, seed):
    layer, compute, plain = layer_of(kind, seed)
    x_BSD = enter(torch.randn(sequences, number, WIDTH))
    weight_BSD, results = torch.randn(sequences, number, WIDTH), []
    for forward in (compute, lambda x: torch.stack([plain(layer, x_SD) for x_SD in x.double()])):
        layer.zero_grad()
        x = x_BSD.clone().requires_grad_()
        out = forward(x)
        (out * weight_BSD).sum().backward()
        grads = [p.grad.clone() for p in layer.parameters()]
        results.append([out.detach().float(), x.grad, *grads])
    for found, expected in zip(*results, strict=True):
        scale = 1 + float(expected.abs().max())
        torch.testing.assert_close(found, expected, atol=1e-4 * scale, rtol=1e-3)


@KINDS
def test_bf16_is_near_fp32(kind):
    _, compute, _ = layer_of(kind, 1)
    x_BSD = enter(torch.randn(4, 20, WIDTH))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compute(x_BSD)
    assert found.dtype == torch.float32
    assert (found - compute(x_BSD)).norm() < 0.03 * x_BSD.norm()


def test_lstm_states_begin_open_to_the_past_and_neither_grow_nor_shrink():
    layer, half = BiLstm(WIDTH), WIDTH // 2
    layer.initialize()
    for name in ("l0", "l0_reverse"):
        for gate_HH in getattr(layer.lstm, f"weight_hh_{name}").chunk(4):
            torch.testing.assert_close(gate_HH @ gate_HH.T, torch.eye(half))
        bias = getattr(layer.lstm, f"bias_ih_{name}") + getattr(layer.lstm, f"bias_hh_{name}")
        assert bias.tolist() == [0.0] * half + [1.0] * half + [0.0] * 2 * half


@given(
    number=st.integers(1, 40),
    neurons=st.integers(1, 24),
    width=st.integers(1, 24),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_bdh_takes_the_cheaper_of_two_orders_that_give_the_same(number, neurons, width, seed):
    rng = torch.Generator().manual_seed(seed)
    x, v = (
        torch.randn(2, number, size, generator=rng, dtype=torch.float64)
        for size in (neurons, width)
    )
    results = []
    for pairs in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bdh, "compares_positions", lambda *_, pairs=pairs: pairs)
            results.append(mix(x, v, "linear"))
    torch.testing.assert_close(*results, atol=1e-9, rtol=1e-9)
    cost_of_pairs, cost_of_state = number * (neurons + width), 2 * neurons * width
    assert compares_positions(number, neurons, width, "linear") == (cost_of_pairs <= cost_of_state)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_what_leaves_bdh_is_normal_again_so_that_it_can_be_repeated(attention):
    _, compute, _ = layer_of(attention, 0)
    v_BSD = enter(torch.randn(2, 9, WIDTH))
    for _ in range(20):
        v_BSD = compute(v_BSD)
    torch.testing.assert_close(v_BSD.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(v_BSD.var(-1, correction=0), torch.ones(2, 9), atol=1e-3, rtol=0)


def test_a_block_without_positions_treats_a_set():
    torch.manual_seed(0)
    block, x, order = Block(16, 2, 2), torch.randn(1, 9, 16), torch.randperm(9)
    torch.testing.assert_close(block(x[:, order]), block(x)[:, order])
    rotary = rotary_tables(9, 8)
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
