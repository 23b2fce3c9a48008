"""The highest rates of a machine: matrix products and copies, measured where they are needed."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.benchmark import Timer

Product = tuple[int, int, int]
"""Rows, inner dimension and columns, by which a matrix product is named."""
Rates = dict[str, list[float]]
"""Measured rates, by product or size of the copy."""

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""Type of the numbers by precision."""
SIZES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192)}
"""Square products that are tried, by type of device; other devices are tried as a CPU."""
ROWS = {"cpu": 8192, "cuda": 65536}
"""Rows of the products of a model's own shape."""
COPIED_MB = {"cpu": 256, "cuda": 1024}
"""Size of the copy, in units of 2**20 bytes: several times the caches."""
MEASURED_S = 0.5
"""Time after which a product or copy is not repeated again; steady ones are repeated less."""
LONG_S = 2.0
"""Time of a first call beyond which it is the only one; accelerators return before it ends."""


@dataclass(frozen=True)
class Rate:
    """The best of several candidates, in operations or bytes per second, over its measurements."""

    median: float
    iqr: float
    count: int
    what: str
    """The candidate, ``2048 x 2048 x 2048`` for instance."""


@contextmanager
def arithmetic(precision: str) -> Iterator[torch.dtype]:
    """Yield the type in `DTYPES`, with fp32 products as that precision has them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield DTYPES[precision]
    finally:
        torch.set_float32_matmul_precision(before)


def measure(
    precisions: Iterable[str], device: torch.device, *, width: int, ffn_ratio: float
) -> dict[str, Rates]:
    """Return the rates of matrix products and copies on a device.

    Parameters
    ----------
    precisions
        Keys of `DTYPES`.
    device
        Where they are measured.
    width, ffn_ratio
        Width of a transformer, and its hidden units per unit of width: its products are measured
        too.

    Returns
    -------
    dict
        Operations per second of each product, by precision, and bytes per second under ``copy``.
    """
    rows = _for(device, ROWS)
    hidden = int(width * ffn_ratio)
    model_products = [(rows, width, 3 * width), (rows, width, hidden), (rows, hidden, width)]
    products = [*_squares(device), *model_products]
    rates = {}
    for precision in precisions:
        with arithmetic(precision) as dtype:
            rates[precision] = product_rates(dtype, device, products)
    return {**rates, "copy": copy_rates(device)}


def product_rates(dtype: torch.dtype, device: torch.device, products: Iterable[Product]) -> Rates:
    """Return the rates of some products, in floating-point operations per second."""
    rates: Rates = {}
    for rows, inner, columns in products:
        left = _random(rows, inner, dtype, device)
        right = _random(inner, columns, dtype, device)
        out = torch.empty(rows, columns, dtype=dtype, device=device)
        seconds = _seconds(torch.mm, left, right, out=out)
        rates[f"{rows} x {inner} x {columns}"] = [2.0 * rows * inner * columns / s for s in seconds]
    return rates


def copy_rates(device: torch.device) -> Rates:
    """Return the rates of a large copy, in bytes read and written per second."""
    megabytes = _for(device, COPIED_MB)
    source = torch.ones(megabytes * 2**18, dtype=torch.float32, device=device)
    seconds = _seconds(torch.empty_like(source).copy_, source)
    return {f"{megabytes} MB": [2.0 * source.nbytes / s for s in seconds]}


def peak_flops(precision: str, device: torch.device) -> float:
    """Return the operations per second of the best square product.

    Parameters
    ----------
    precision
        A key of `DTYPES`.
    device
        Where it is measured.

    Returns
    -------
    float
        Floating-point operations per second, the median of several measurements.
    """
    rates: Rates = {}
    with arithmetic(precision) as dtype:
        for product in _squares(device):
            measured = product_rates(dtype, device, [product])
            rates |= measured
            # A processor without instructions for this type takes minutes for the larger ones.
            if len(next(iter(measured.values()))) == 1:
                break
    return best(rates).median


def best(rates: Rates) -> Rate:
    """Return the candidate of the highest median."""
    medians = {candidate: float(np.median(measured)) for candidate, measured in rates.items()}
    what = max(medians, key=medians.__getitem__)
    median, iqr = median_iqr(rates[what])
    return Rate(median, iqr, count=len(rates[what]), what=what)


def median_iqr(values: Iterable[float]) -> tuple[float, float]:
    """Return the median and the interquartile range.

    Parameters
    ----------
    values
        At least one number.

    Returns
    -------
    median, iqr : float
        In the unit of the numbers.
    """
    low, median, high = np.percentile(list(values), [25, 50, 75])
    return float(median), float(high - low)


def _seconds(work: Callable[..., object], *args: Any, **kwargs: Any) -> list[float]:
    """Return the seconds of one call, measured several times, or once if it is a long one."""
    # The first call chooses kernels and would mislead the timer about how often to call.
    t0 = time.perf_counter()
    work(*args, **kwargs)
    first_s = time.perf_counter() - t0
    if first_s > LONG_S:
        return [first_s]
    names = {"work": work, "args": args, "kwargs": kwargs}
    timer = Timer("work(*args, **kwargs)", globals=names, num_threads=torch.get_num_threads())
    return timer.adaptive_autorange(max_run_time=MEASURED_S).times


def _random(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    # Zeros would draw less power, so that an accelerator would run faster than with real numbers.
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(columns, generator=generator).to(device)
    column = torch.randn(rows, 1, generator=generator).to(device)
    return (row * column).to(dtype)


def _squares(device: torch.device) -> list[Product]:
    return [(size, size, size) for size in _for(device, SIZES)]


def _for(device: torch.device, by_type: Mapping[str, Any]) -> Any:
    return by_type.get(device.type, by_type["cpu"])
