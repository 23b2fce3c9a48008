import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.bench import roofline
from aam.bench.roofline import Rate, best, copy_rate, matrix_product_rate, merge

CPU = torch.device("cpu")
RATES = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.floats(1, 1e12), min_size=1, max_size=5), min_size=1
)


@pytest.fixture(autouse=True)
def short(monkeypatch, one_thread):
    monkeypatch.setattr(roofline, "MEASURED_S", 1e-4)
    monkeypatch.setattr(roofline, "SIZES", {"cpu": (8, 16)})
    monkeypatch.setattr(roofline, "ROWS", {"cpu": 32})
    monkeypatch.setattr(roofline, "COPIED_MB", {"cpu": 1})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rate_is_two_operations_per_multiplied_pair_over_the_time(dtype, monkeypatch):
    monkeypatch.setattr(roofline, "_elapsed_s", lambda work, calls, device: 1e-3 * calls)
    rate = matrix_product_rate(dtype, CPU, [4, 8], shapes=[(2, 3, 5)], repeats=3)
    assert rate == Rate(pytest.approx(2 * 8**3 / 1e-3), pytest.approx(0.0), 3, "8 x 8 x 8")
    copied = copy_rate(CPU, repeats=2)
    assert copied.median == pytest.approx(2 * 2**20 / 1e-3)
    assert copied.count == 2


def test_the_products_are_really_computed_in_the_type_asked_for(monkeypatch):
    seen = []
    real = torch.mm
    monkeypatch.setattr(
        torch,
        "mm",
        lambda a, b, out: seen.append((a.shape, b.shape, a.dtype)) or real(a, b, out=out),
    )
    rate = matrix_product_rate(torch.bfloat16, CPU, [4], shapes=[(2, 3, 5)], repeats=2)
    assert rate.median > 0
    assert {(a, b) for a, b, _ in seen} == {((4, 4), (4, 4)), ((2, 3), (3, 5))}
    assert {dtype for *_, dtype in seen} == {torch.bfloat16}


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
    rates = roofline.measure(["fp32", "bf16"], CPU, width=4, ffn_ratio=2, repeats=2)
    assert list(rates) == ["fp32", "bf16", "copy"]
    expected = {"8 x 8 x 8", "16 x 16 x 16", "32 x 4 x 12", "32 x 4 x 8", "32 x 8 x 4"}
    assert set(rates["fp32"]) == set(rates["bf16"]) == expected
    assert all(len(values) == 2 and min(values) > 0 for values in rates["fp32"].values())


@given(st.lists(RATES, min_size=1, max_size=4))
@settings(max_examples=50)
def test_merging_looks_at_all_measurements_of_a_candidate(parts):
    merged = merge([{"fp32": part} for part in parts])["fp32"]
    pooled = {name: [v for part in parts for v in part.get(name, [])] for name in "abc"}
    medians = {name: statistics.median(values) for name, values in pooled.items() if values}
    assert merged.median == pytest.approx(max(medians.values()))
    assert medians[merged.what] == pytest.approx(merged.median)
    assert merged.count == len(pooled[merged.what])


def test_the_best_is_that_of_the_highest_median_not_of_the_highest_value():
    assert best({"steady": [5.0, 5.0, 5.0], "lucky": [1.0, 1.0, 50.0]}).what == "steady"
