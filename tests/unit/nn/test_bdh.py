import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.nn import bdh
from aam.nn.bdh import Bdh, compares_positions, enter, mix, neuron_tables

pytestmark = pytest.mark.usefixtures("one_thread")
ATTENTIONS = ["linear", "softmax"]
WIDTH, HEADS, NEURONS = 8, 2, 12


def norm(vector: list[float]) -> list[float]:
    mean = sum(vector) / len(vector)
    variance = sum((value - mean) ** 2 for value in vector) / len(vector)
    return [(value - mean) / math.sqrt(variance + 1e-5) for value in vector]


def fired(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [max(0.0, sum(w * v for w, v in zip(row, vector, strict=True))) for row in matrix]


def turned(neurons: list[float], position: int) -> list[float]:
    """Turn pairs of neurons by the angle of their position, half of the neurons apart."""
    half, result = len(neurons) // 2, list(neurons)
    for pair in range(half):
        angle = position * (2.0**16) ** (-2 * pair / len(neurons))
        first, second = neurons[pair], neurons[pair + half]
        result[pair] = first * math.cos(angle) - second * math.sin(angle)
        result[pair + half] = first * math.sin(angle) + second * math.cos(angle)
    return result


def by_hand(layer: Bdh, v_SD: list[list[float]]) -> list[list[float]]:
    """Do one iteration with numbers alone: over heads, positions and neurons, one by one."""
    share = NEURONS // HEADS
    into, ask, out = (part.weight.tolist() for part in (layer.neurons, layer.gates, layer.out))
    passed = [[] for _ in v_SD]
    for head in range(HEADS):
        own = slice(head * share, (head + 1) * share)
        x = [fired(into[own], v) for v in v_SD]
        key = [turned(neurons, position) for position, neurons in enumerate(x)]
        for place, query in enumerate(key):
            score = [
                sum(a * b for a, b in zip(query, other, strict=True)) / math.sqrt(share)
                for other in key
            ]
            if layer.attention == "softmax":
                powers = [math.exp(value) for value in score]
                score = [power / sum(powers) for power in powers]
            mixed = [
                sum(weight * v[column] for weight, v in zip(score, v_SD, strict=True))
                for column in range(WIDTH)
            ]
            gate = fired(ask[own], norm(mixed))
            passed[place] += [a * b for a, b in zip(x[place], gate, strict=True)]
    result = []
    for v, z in zip(v_SD, passed, strict=True):
        told = [sum(w * value for w, value in zip(row, z, strict=True)) for row in out]
        result.append(norm([a + b for a, b in zip(v, norm(told), strict=True)]))
    return result


def new_layer(attention: str, seed: int = 0) -> Bdh:
    torch.manual_seed(seed)
    return Bdh(WIDTH, HEADS, NEURONS, attention)


def positions(number: int, sequences: int = 2, seed: int = 1) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return enter(torch.randn(sequences, number, WIDTH, generator=rng))


def tables(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    return neuron_tables(number, NEURONS // HEADS)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("number", [1, 7, 30])
def test_an_iteration_is_the_formula(attention, number):
    layer, v_BSD = new_layer(attention), positions(number)
    found = layer(v_BSD, rotary=tables(number))
    expected = torch.tensor([by_hand(layer, v_SD) for v_SD in v_BSD.tolist()])
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@given(
    number=st.integers(1, 40),
    neurons=st.integers(1, 24),
    width=st.integers(1, 24),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_both_orders_of_the_products_give_the_same(number, neurons, width, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(2, number, neurons, generator=rng, dtype=torch.float64)
    v = torch.randn(2, number, width, generator=rng, dtype=torch.float64)
    results = []
    for pairs in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bdh, "compares_positions", lambda *_, pairs=pairs: pairs)
            results.append(mix(x, v, "linear"))
    torch.testing.assert_close(*results, atol=1e-9, rtol=1e-9)


@given(number=st.integers(1, 500), neurons=st.integers(1, 300), width=st.integers(1, 300))
@settings(deadline=None)
def test_the_cheaper_order_is_chosen(number, neurons, width):
    pairs, state = number * number * (neurons + width), 2 * number * neurons * width
    assert compares_positions(number, neurons, width, "linear") == (pairs <= state)
    assert compares_positions(number, neurons, width, "softmax")


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_position_sees_those_before_and_behind_it(attention):
    layer, v_BSD = new_layer(attention), positions(9, sequences=1)
    before = layer(v_BSD, rotary=tables(9))
    for place in (0, 4, 8):
        changed = v_BSD.clone()
        changed[0, place] = changed[0, place].flip(0)
        moved = (layer(changed, rotary=tables(9)) - before).abs().amax(-1)[0]
        assert moved.min() > 1e-6


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_order_of_positions_matters(attention):
    layer, v_BSD, order = new_layer(attention), positions(9), torch.arange(9).flip(0)
    turned_BSD = layer(v_BSD, rotary=tables(9))
    assert not torch.allclose(layer(v_BSD[:, order], rotary=tables(9)), turned_BSD[:, order])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_what_leaves_is_normal_again_so_that_the_layer_can_be_repeated(attention):
    layer, v_BSD = new_layer(attention), positions(9)
    for _ in range(20):
        v_BSD = layer(v_BSD, rotary=tables(9))
    torch.testing.assert_close(v_BSD.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(v_BSD.var(-1, correction=0), torch.ones(2, 9), atol=1e-3, rtol=0)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_bf16_is_near_fp32(attention):
    layer, v_BSD = new_layer(attention), positions(20)
    exact = layer(v_BSD, rotary=tables(20))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(v_BSD, rotary=tables(20))
    assert found.dtype == torch.float32
    assert (found - exact).norm() < 0.03 * exact.norm()
