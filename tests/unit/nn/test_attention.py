import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.nn.attention import attend, join_heads, rotary_tables, rotate, split_heads
from aam.nn.block import Block
from aam.nn.pooling import AttentionPooling

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
def test_every_backend_is_the_formula(backend, dtype, masked, positions):
    query, key, value = (x[:, :, :positions] for x in projections(dtype))
    present = some_present()[:, :positions] if masked else None
    result = attend(query, key, value, present_BT=present, backend=backend)
    assert result.dtype == dtype
    expected = by_hand(query, key, value, present)
    torch.testing.assert_close(result.double(), expected, atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("backend", BACKENDS)
def test_absent_keys_have_no_influence(backend, dtype):
    query, key, value = projections(dtype)
    present = some_present()
    absent = ~present[:, None, :, None]
    result = attend(query, key, value, present_BT=present, backend=backend)
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


def test_rotary_tables_are_the_angles_of_the_paper():
    cosines, sines = rotary_tables(7, 8)
    for position in range(7):
        for pair in range(4):
            angle = position * 10_000 ** (-2 * pair / 8)
            for column in (pair, pair + 4):
                assert cosines[position, column].item() == pytest.approx(math.cos(angle), abs=1e-6)
                assert sines[position, column].item() == pytest.approx(math.sin(angle), abs=1e-6)


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


def rotate_by_hand(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rotation_and_its_gradient_are_those_of_the_formula(dtype):
    tables = [table.to(dtype) for table in rotary_tables(70, 8)]
    results = []
    for turn in (rotate_by_hand, rotate):
        x, weight, _ = projections(dtype)
        part = x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        turned = turn(part, *tables)
        (turned * weight).sum().backward()
        results.append((turned.detach(), part.grad))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=TOLERANCE[dtype], rtol=1e-2)


def test_rotation_keeps_lengths_and_leaves_position_zero():
    cosines, sines = rotary_tables(9, 8)
    x = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(1))
    turned = rotate(x, cosines, sines)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1:], x[:, :, 1:])


def test_pooling_is_a_mean_weighted_by_present_positions_alone():
    torch.manual_seed(0)
    pooling = AttentionPooling(8)
    x, present = torch.randn(2, 6, 8), torch.arange(6) < torch.tensor([[4], [6]])
    pooled = pooling(x, present)
    weight = torch.softmax(x[0, :4] @ pooling.score.weight[0], 0)
    torch.testing.assert_close(pooled[0], pooling.norm(weight @ x[0, :4]))
    torch.testing.assert_close(pooled[1], pooling(x)[1])


def test_a_block_without_positions_treats_a_set():
    torch.manual_seed(0)
    block, x = Block(16, 2, 2), torch.randn(1, 9, 16)
    order = torch.randperm(9)
    torch.testing.assert_close(block(x[:, order]), block(x)[:, order])
    rotary = rotary_tables(9, 8)
    turned = block(x[:, order], rotary=rotary)
    assert not torch.allclose(turned, block(x, rotary=rotary)[:, order], atol=1e-3)
