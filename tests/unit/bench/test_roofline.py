import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.bench import roofline
from aam.bench.roofline import Rate, best, matrix_product_rate, merge

CPU = torch.device("cpu")
RATES = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.floats(1, 1e12), min_size=1, max_size=5), min_size=1
)


@pytest.fixture(autouse=True)
def short(monkeypatch, one_thread):
    monkeypatch.setattr(roofline, "MEASURED_S", 1e-3)
    monkeypatch.setattr(roofline, "SIZES", {"cpu": (8, 16)})
    monkeypatch.setattr(roofline, "ROWS", {"cpu": 32})
    monkeypatch.setattr(roofline, "COPIED_MB", {"cpu": 1})


def test_the_rate_is_two_operations_per_multiplied_pair_over_the_time(monkeypatch):
    monkeypatch.setattr(roofline, "_seconds", lambda work, *args, **kwargs: [1e-3] * 3)
    rate = matrix_product_rate(torch.float32, CPU)
    assert rate == Rate(pytest.approx(2 * 16**3 / 1e-3), 0.0, 3, "16 x 16 x 16")
    assert best(roofline.copy_rates(CPU)).median == pytest.approx(2 * 2**20 / 1e-3)


def test_the_products_are_really_computed_in_the_type_asked_for(monkeypatch):
    seen = []
    real = torch.mm
    monkeypatch.setattr(
        torch,
        "mm",
        lambda a, b, out: seen.append((*a.shape, b.shape[1], a.dtype)) or real(a, b, out=out),
    )
    assert matrix_product_rate(torch.bfloat16, CPU).median > 0
    assert set(seen) == {(8, 8, 8, torch.bfloat16), (16, 16, 16, torch.bfloat16)}


@pytest.mark.parametrize(
    ("precision", "dtype", "products"),
    [
        ("fp32", torch.float32, "highest"),
        ("tf32", torch.float32, "high"),
        ("bf16", torch.bfloat16, "highest"),
        ("fp16", torch.float16, "highest"),
    ],
)
def test_arithmetic_of_a_precision_is_left_behind(precision, dtype, products):
    before = torch.get_float32_matmul_precision()
    with roofline.arithmetic(precision) as inside:
        assert inside == dtype
        assert torch.get_float32_matmul_precision() == products
    assert torch.get_float32_matmul_precision() == before


def test_all_precisions_and_the_models_own_shapes_are_measured():
    rates = roofline.measure(["fp32", "bf16"], CPU, width=4, ffn_ratio=2)
    assert list(rates) == ["fp32", "bf16", "copy"]
    expected = {"8 x 8 x 8", "16 x 16 x 16", "32 x 4 x 12", "32 x 4 x 8", "32 x 8 x 4"}
    assert set(rates["fp32"]) == set(rates["bf16"]) == expected
    assert all(values and min(values) > 0 for values in rates["fp32"].values())


@given(st.lists(RATES, min_size=1, max_size=4))
@settings(max_examples=50)
def test_the_best_has_the_highest_median_of_all_measurements_of_a_candidate(parts):
    found = merge([{"fp32": part} for part in parts])["fp32"]
    pooled = {name: [v for part in parts for v in part.get(name, [])] for name in "abc"}
    medians = {name: statistics.median(values) for name, values in pooled.items() if values}
    assert found.median == pytest.approx(max(medians.values()))
    assert medians[found.what] == pytest.approx(found.median)
    assert found.count == len(pooled[found.what])
