import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.nn.recurrent import BiLstm

pytestmark = pytest.mark.usefixtures("one_thread")
WIDTH = 8


def direction(weights: list[torch.Tensor], x_SD: torch.Tensor) -> torch.Tensor:
    """Return the states [S, H] of one direction, position by position, gate by gate."""
    w_in, w_state, b_in, b_state = weights
    state = cell = torch.zeros(WIDTH // 2, dtype=x_SD.dtype)
    states = []
    for x_D in x_SD:
        gates = w_in @ x_D + b_in + w_state @ state + b_state
        enter, forget, new, leave = gates.chunk(4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        state = leave.sigmoid() * cell.tanh()
        states.append(state)
    return torch.stack(states)


def by_hand(layer: BiLstm, x_BSD: torch.Tensor) -> torch.Tensor:
    """Compute the layer in fp64 for one sequence after the other."""
    weights = [parameter.double() for parameter in layer.lstm.parameters()]
    results = []
    for x_SD in x_BSD.double():
        centered = x_SD - x_SD.mean(-1, keepdim=True)
        scale = (x_SD.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        normal = centered * scale * layer.norm.weight.double() + layer.norm.bias.double()
        forward = direction(weights[:4], normal)
        backward = direction(weights[4:], normal.flip(0)).flip(0)
        results.append(x_SD + torch.cat([forward, backward], dim=-1))
    return torch.stack(results)


def new_layer(seed: int) -> BiLstm:
    torch.manual_seed(seed)
    layer = BiLstm(WIDTH)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


@given(sequences=st.integers(1, 5), number=st.integers(1, 12), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_the_layer_is_the_formula(sequences, number, seed):
    layer = new_layer(seed)
    x_BSD = torch.randn(sequences, number, WIDTH)
    torch.testing.assert_close(layer(x_BSD).double(), by_hand(layer, x_BSD), atol=1e-5, rtol=0)


def test_gradients_are_those_of_the_formula():
    layer, x_BSD = new_layer(3), torch.randn(3, 7, WIDTH)
    weight_BSD, results = torch.randn(3, 7, WIDTH), []
    for compute in (layer, lambda x: by_hand(layer, x)):
        layer.zero_grad()
        x = x_BSD.clone().requires_grad_()
        (compute(x) * weight_BSD).sum().backward()
        results.append([x.grad, *(p.grad.clone() for p in layer.parameters())])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_bf16_is_near_fp32():
    layer, x_BSD = new_layer(1), torch.randn(4, 30, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x_BSD)
    assert found.dtype == torch.float32
    assert (found - layer(x_BSD)).norm() < 0.02 * x_BSD.norm()


def test_states_begin_open_to_the_past_and_neither_grow_nor_shrink():
    layer = BiLstm(WIDTH)
    layer.initialize()
    lstm = layer.lstm
    half = WIDTH // 2
    for name in ("l0", "l0_reverse"):
        for gate_HH in getattr(lstm, f"weight_hh_{name}").chunk(4):
            torch.testing.assert_close(gate_HH @ gate_HH.T, torch.eye(half))
        bias = getattr(lstm, f"bias_ih_{name}") + getattr(lstm, f"bias_hh_{name}")
        assert bias.tolist() == [0.0] * half + [1.0] * half + [0.0] * 2 * half
