import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.layers.attention import (
    attend,
    join_heads,
    key_mask,
    rotary_tables,
    rotate,
    split_heads,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def projections(dtype, positions=70) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    drawn = [torch.randn((3, 2, positions, 8), generator=rng) for _ in range(3)]
    return [x.to(dtype).requires_grad_() for x in drawn]


def by_hand(query, key, value, bias, present) -> torch.Tensor:
    score = query.double() @ key.double().transpose(-1, -2) / math.sqrt(query.shape[-1])
    if bias is not None:
        score = score + bias.double()
    if present is not None:
        score = score.masked_fill(~present[:, None, None, :], float("-inf"))
    return torch.softmax(score, -1) @ value.double()


@pytest.mark.parametrize("backend", ["auto", "flash", "memory_efficient", "math"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("positions", [70, 5])
def test_every_backend_is_the_formula_and_absent_keys_have_no_influence(
    backend, dtype, masked, biased, positions
):
    inputs = projections(dtype, positions)
    query, key, value = inputs
    bias = None
    if biased:
        bias = projections(dtype, positions)[0][..., :1].detach().mT.clone().requires_grad_()
        inputs.append(bias)
    present = torch.arange(positions) < torch.tensor([[positions], [1], [3]]) if masked else None
    mask = None if present is None else key_mask(present, dtype)
    results = []
    more = {"mask_B11T": mask, "bias_BH1T": bias, "backend": backend}
    for formula in (by_hand, lambda *x: attend(*x[:3], **more)):
        result = formula(query, key, value, bias, present)
        gradients = torch.autograd.grad(result.double().square().sum(), inputs)
        results.append([result.detach().double(), *(g.double() for g in gradients)])
    for number, (expected, actual) in enumerate(zip(*results, strict=True)):
        # The gradient of a bias is a sum over the queries.
        tolerance = TOLERANCE[dtype] * (1, 10, 10, 10, 50)[number]
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance * (number > 0))
    assert result.dtype == dtype
    if present is not None:
        absent = ~present[:, None, :, None]
        key, value = torch.where(absent, 1e3, key), torch.where(absent, -1e3, value)
        assert torch.equal(result, attend(query, key, value, **more))


def test_heads_are_split_and_joined_again():
    x = torch.arange(2 * 5 * 12).reshape(2, 5, 12)
    parts = split_heads(x, 3)
    assert torch.equal(parts[1, 2, 4], x[1, 4, 8:12])
    assert torch.equal(join_heads(parts), x)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rotation_and_its_gradient_are_those_of_the_paper(dtype):
    angle = torch.arange(70)[:, None] * 10_000 ** (-2 * torch.arange(4) / 8)
    angle = torch.cat([angle, angle], dim=1)
    tables = [table.to(dtype) for table in rotary_tables(70, 8, heads=2)]

    def by_formula(x):
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return x * angle.cos().to(dtype) + turned * angle.sin().to(dtype)

    x, weight, _ = projections(dtype)
    results = []
    for turn in (by_formula, lambda x: split_heads(rotate(join_heads(x), *tables, 2), 2)):
        rotated = turn(x)
        results.append([rotated, *torch.autograd.grad((rotated * weight).sum(), x)])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=10 * TOLERANCE[dtype], rtol=1e-2)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
@settings(deadline=None, max_examples=40)
def test_rotated_products_depend_on_the_difference_of_positions(first, second, shift):
    cosines, sines = rotary_tables(100, 8)
    query, key, _ = projections(torch.float32)

    def product(i: int, j: int) -> torch.Tensor:
        turned = rotate(query, cosines[i], sines[i]), rotate(key, cosines[j], sines[j])
        return (turned[0] * turned[1]).sum(-1)

    moved = product(first + shift, second + shift)
    torch.testing.assert_close(moved, product(first, second), atol=1e-4, rtol=0)
