import pytest
import torch

from aam.train.monitoring import roofline
from aam.train.monitoring.roofline import Rate, best, peak_flops, product_rates

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short(monkeypatch, one_thread):
    monkeypatch.setattr(roofline, "MEASURED_S", 1e-3)
    monkeypatch.setattr(roofline, "SIZES", {"cpu": (8, 16)})
    monkeypatch.setattr(roofline, "ROWS", {"cpu": 32})
    monkeypatch.setattr(roofline, "COPIED_MB", {"cpu": 1})


def test_the_rate_is_two_operations_per_multiplied_pair_over_the_time(monkeypatch):
    monkeypatch.setattr(roofline, "_seconds", lambda work, *args, **kwargs: [1e-3] * 3)
    rate = best(product_rates(torch.float32, CPU, [(8, 8, 8), (16, 4, 32)]))
    assert rate == Rate(pytest.approx(2 * 16 * 4 * 32 / 1e-3), 0.0, 3, "16 x 4 x 32")
    assert peak_flops("fp32", CPU) == pytest.approx(2 * 16**3 / 1e-3)
    assert best(roofline.copy_rates(CPU)).median == pytest.approx(2 * 2**20 / 1e-3)


def test_all_precisions_and_the_models_own_shapes_are_measured_in_their_arithmetic(monkeypatch):
    seen, real, before = set(), torch.mm, torch.get_float32_matmul_precision()

    def spy(a, b, out):
        seen.add((a.dtype, torch.get_float32_matmul_precision()))
        return real(a, b, out=out)

    monkeypatch.setattr(torch, "mm", spy)
    rates = roofline.measure(["fp32", "tf32", "bf16"], CPU, width=4, ffn_ratio=2)
    kinds = (torch.float32, "highest"), (torch.float32, "high"), (torch.bfloat16, "highest")
    assert seen == set(kinds)
    assert torch.get_float32_matmul_precision() == before
    assert list(rates) == ["fp32", "tf32", "bf16", "copy"]
    expected = {"8 x 8 x 8", "16 x 16 x 16", "32 x 4 x 12", "32 x 4 x 8", "32 x 8 x 4"}
    assert set(rates["fp32"]) == set(rates["bf16"]) == expected
    assert all(values and min(values) > 0 for values in rates["fp32"].values())


def test_larger_products_are_left_out_where_one_call_takes_long(monkeypatch):
    """A CPU without bf16 instructions would take minutes for them."""
    monkeypatch.setattr(roofline, "LONG_S", 0.0)
    multiplied = []

    def spy(a, b, out):
        multiplied.append(len(a))
        return out

    monkeypatch.setattr(torch, "mm", spy)
    assert peak_flops("bf16", CPU) > 0
    assert multiplied == [8]
