import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.nn.attention import attend, join_heads, rotary_tables, rotate, split_heads

pytestmark = pytest.mark.usefixtures("one_thread")
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
BACKENDS = ["auto", "flash", "memory_efficient", "math"]


def projections(dtype=torch.float32, shape=(3, 2, 70, 8), seed=0) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=rng).to(dtype) for _ in range(3)]


def by_hand(query, key, value, present=None) -> torch.Tensor:
    score = query.double() @ key.double().transpose(-1, -2) / math.sqrt(query.shape[-1])
    if present is not None:
        score = score.masked_fill(~present[:, None, None, :], float("-inf"))
    return torch.softmax(score, -1) @ value.double()


def some_present() -> torch.Tensor:
    return torch.arange(70) < torch.tensor([[70], [1], [33]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("positions", [70, 5])
def test_every_backend_is_the_formula_and_absent_keys_have_no_influence(
    backend, dtype, masked, positions
):
    query, key, value = (x[:, :, :positions] for x in projections(dtype))
    present = some_present()[:, :positions] if masked else None
    result = attend(query, key, value, present_BT=present, backend=backend)
    assert result.dtype == dtype
    expected = by_hand(query, key, value, present)
    torch.testing.assert_close(result.double(), expected, atol=TOLERANCE[dtype], rtol=0)
    if present is not None:
        absent = ~present[:, None, :, None]
        key, value = torch.where(absent, 1e3, key), torch.where(absent, -1e3, value)
        assert torch.equal(result, attend(query, key, value, present_BT=present, backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_agree(backend):
    gradients = []
    for name in ("math", backend):
        inputs = [x.requires_grad_() for x in projections()]
        attend(*inputs, present_BT=some_present(), backend=name).square().sum().backward()
        gradients.append([x.grad for x in inputs])
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_heads_are_split_and_joined_again():
    x = torch.arange(2 * 5 * 12).reshape(2, 5, 12)
    parts = split_heads(x, 3)
    assert torch.equal(parts[1, 2, 4], x[1, 4, 8:12])
    assert torch.equal(join_heads(parts), x)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rotation_and_its_gradient_are_those_of_the_paper(dtype):
    angle = torch.arange(70)[:, None] * 10_000 ** (-2 * torch.arange(4) / 8)
    expected = torch.cat([angle, angle], dim=1)
    tables = rotary_tables(70, 8)
    for table, wanted in zip(tables, (expected.cos(), expected.sin()), strict=True):
        torch.testing.assert_close(table, wanted, atol=1e-5, rtol=0)
    tables = [table.to(dtype) for table in tables]

    def by_formula(x, cosines, sines):
        first, second = x.chunk(2, dim=-1)
        return x * cosines + torch.cat([-second, first], dim=-1) * sines

    results = []
    for turn in (by_formula, rotate):
        x, weight, _ = projections(dtype)
        part = x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        turned = turn(part, *tables)
        (turned * weight).sum().backward()
        results.append((turned.detach(), part.grad))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=TOLERANCE[dtype], rtol=1e-2)


@given(
    first=st.integers(0, 30),
    second=st.integers(0, 30),
    shift=st.integers(0, 60),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_rotated_products_depend_on_the_difference_of_positions(first, second, shift, seed):
    cosines, sines = rotary_tables(100, 8)
    query, key = torch.randn((2, 8), generator=torch.Generator().manual_seed(seed))

    def product(i: int, j: int) -> float:
        turned = rotate(query[None], cosines[i], sines[i]), rotate(key[None], cosines[j], sines[j])
        return float((turned[0] * turned[1]).sum())

    moved = product(first + shift, second + shift)
    assert moved == pytest.approx(product(first, second), abs=1e-4)
