"""What the machine can do at best: matrix products and copies, measured beside the training.

A matrix product is named by rows, inner dimension and columns.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

Product = tuple[int, int, int]
Rates = dict[str, list[float]]
"""Per product, or per size of a copy, the measured rates."""

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
SIZES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192)}
"""Square products that are tried, by type of device; other devices are tried as a CPU."""
ROWS = {"cpu": 8192, "cuda": 65536}
"""Rows of the products of a model's own shape."""
COPIED_MB = {"cpu": 256, "cuda": 1024}
"""Size of the copy: several times the caches."""
MEASURED_S = 0.02
"""Least duration of one measurement; shorter work is repeated within it."""


@dataclass(frozen=True)
class Rate:
    """The best of several candidates.

    Attributes
    ----------
    median, iqr
        Operations or bytes per second, and their spread over the measurements.
    count
        Number of measurements.
    what
        The candidate, ``2048 x 2048 x 2048`` for instance.
    """

    median: float
    iqr: float
    count: int
    what: str

    def plain(self) -> dict[str, Any]:
        """Return plain types for a JSON file."""
        return asdict(self)


def matrix_product_rate(
    dtype: torch.dtype,
    device: torch.device,
    sizes: Sequence[int] | None = None,
    *,
    shapes: Sequence[Product] = (),
    repeats: int = 5,
) -> Rate:
    """Return the highest rate of matrix products in one kind of number.

    Parameters
    ----------
    dtype
        Of the factors; fp32 in the arithmetic of `torch.get_float32_matmul_precision`.
    device
        Where to measure.
    sizes
        Rows of square products; None: `SIZES`.
    shapes
        Further products, those of a model for instance.
    repeats
        Measurements of each candidate.

    Returns
    -------
    Rate
        In floating-point operations per second.
    """
    squares = _of(SIZES, device) if sizes is None else sizes
    candidates = [*((size, size, size) for size in squares), *shapes]
    return best(product_rates(dtype, device, candidates, repeats))


def copy_rate(device: torch.device, *, megabytes: int | None = None, repeats: int = 5) -> Rate:
    """Return the rate of a large copy on a device, in bytes read and written per second.

    Parameters
    ----------
    device
        Where to measure.
    megabytes
        Size of what is copied, in units of 2**20 bytes; None: `COPIED_MB`.
    repeats
        Measurements.
    """
    return best(copy_rates(device, megabytes or _of(COPIED_MB, device), repeats))


def model_products(width: int, ffn_ratio: float, device: torch.device) -> list[Product]:
    """Return the products of a transformer layer of some width, forward."""
    rows, hidden = _of(ROWS, device), int(width * ffn_ratio)
    return [(rows, width, 3 * width), (rows, width, hidden), (rows, hidden, width)]


def product_rates(
    dtype: torch.dtype, device: torch.device, products: Iterable[Product], repeats: int
) -> Rates:
    """Return the rates of some products, in floating-point operations per second."""
    rates: Rates = {}
    for rows, inner, columns in products:
        left = _random(rows, inner, dtype, device)
        right = _random(inner, columns, dtype, device)
        out = torch.empty(rows, columns, dtype=dtype, device=device)

        def multiply(
            left: torch.Tensor = left, right: torch.Tensor = right, out: torch.Tensor = out
        ) -> None:
            torch.mm(left, right, out=out)

        seconds = _seconds(multiply, device, repeats)
        rates[f"{rows} x {inner} x {columns}"] = [2.0 * rows * inner * columns / s for s in seconds]
    return rates


def copy_rates(device: torch.device, megabytes: int, repeats: int) -> Rates:
    """Return the rates of a copy, in bytes read and written per second."""
    source = torch.ones(megabytes * 2**18, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    seconds = _seconds(lambda: target.copy_(source), device, repeats)
    return {f"{megabytes} MB": [2.0 * source.nbytes / s for s in seconds]}


@contextmanager
def arithmetic(precision: str) -> Iterator[torch.dtype]:
    """Yield the type of the factors of a precision, with fp32 products as that precision has them.

    Parameters
    ----------
    precision
        ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield DTYPES[precision]
    finally:
        torch.set_float32_matmul_precision(before)


def measure(
    precisions: Iterable[str],
    device: torch.device,
    *,
    width: int,
    ffn_ratio: float,
    repeats: int = 3,
) -> dict[str, Rates]:
    """Return the rates of products per precision, and of copies under ``copy``.

    Parameters
    ----------
    precisions
        Names that `arithmetic` knows.
    device
        Where to measure.
    width, ffn_ratio
        Of the model whose shapes are candidates too.
    repeats
        Measurements of each candidate.
    """
    squares = [(size, size, size) for size in _of(SIZES, device)]
    candidates = [*squares, *model_products(width, ffn_ratio, device)]
    rates = {}
    for precision in precisions:
        with arithmetic(precision) as dtype:
            rates[precision] = product_rates(dtype, device, candidates, repeats)
    return {**rates, "copy": copy_rates(device, _of(COPIED_MB, device), repeats)}


def merge(parts: Sequence[Mapping[str, Rates]]) -> dict[str, Rate]:
    """Return the best of what several calls of `measure` found, over all their measurements."""
    merged: dict[str, Rates] = {}
    for part in parts:
        for name, rates in part.items():
            of_name = merged.setdefault(name, {})
            for candidate, values in rates.items():
                of_name[candidate] = of_name.get(candidate, []) + values
    return {name: best(rates) for name, rates in merged.items()}


def peak_flops(precision: str, device: torch.device) -> float:
    """Return the operations per second of the best matrix product in a precision."""
    with arithmetic(precision) as dtype:
        return matrix_product_rate(dtype, device).median


def best(rates: Rates) -> Rate:
    """Return the candidate of the highest median."""
    what = max(rates, key=lambda candidate: float(np.median(rates[candidate])))
    low, median, high = np.percentile(rates[what], [25, 50, 75])
    return Rate(float(median), float(high - low), len(rates[what]), what)


def _seconds(work: Callable[[], object], device: torch.device, repeats: int) -> list[float]:
    """Return the seconds of one call, measured some times after a warm-up."""
    _elapsed_s(work, 1, device)
    once_s = _elapsed_s(work, 1, device)
    calls = max(1, math.ceil(MEASURED_S / max(once_s, 1e-9)))
    return [_elapsed_s(work, calls, device) / calls for _ in range(repeats)]


def _elapsed_s(work: Callable[[], object], calls: int, device: torch.device) -> float:
    if device.type != "cuda":
        t0 = time.perf_counter()
        for _ in range(calls):
            work()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter() - t0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _random(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    # Zeros would draw less power, so that an accelerator would run faster than with real numbers.
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(columns, generator=generator).to(device)
    column = torch.randn(rows, 1, generator=generator).to(device)
    return (row * column).to(dtype)


def _of(by_type: Mapping[str, Any], device: torch.device) -> Any:
    return by_type.get(device.type, by_type["cpu"])
