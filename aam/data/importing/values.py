"""Whether the numbers of a table are reads: what can be told of them for sure.

Shape suffixes: N samples, E entries above 0.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.util.errors import InputError, problem

logger = logging.getLogger(__name__)
LARGEST_COUNT = 2**53
"""BIOM holds counts as float64, which is exact up to here."""
SCALES = {
    1.0: "relative abundances (each sample sums to 1)",
    100.0: "percentages (each sample sums to 100)",
    1e6: "parts per million (each sample sums to 1,000,000)",
}
"""What numbers are whose samples all have such a sum."""
LEAST_COUNTS = 20
"""Counts from which on a common divisor of them all is no coincidence."""
LEAST_PER_SAMPLE = 4
"""Counts of a sample, in the mean, from which on a divisor in each sample is none."""
_RAW = "give the raw read counts, not normalised or transformed ones"


def count_problems(
    path: Path, sample_ids: list[str], feature_ids: list[str], values: csr_array
) -> Iterator[InputError]:
    """Yield what is wrong with numbers that have to be reads, and warn of what looks odd.

    Parameters
    ----------
    path
        The user's file, for messages.
    sample_ids, feature_ids
        Names of the axes.
    values
        float64 [N, F], without zeros that are stored.
    """
    data_E = values.data
    if sample_ids and feature_ids and not data_E.size:
        hint = "check how the table was filtered or exported"
        yield problem(path, "a table without a single read", "counts above 0", hint)
        return
    finite_E = np.isfinite(data_E)
    with np.errstate(invalid="ignore"):
        fractional_E = finite_E & (data_E >= 0) & (data_E != np.floor(data_E))
    whole = "whole numbers of reads"
    looks = _describe_scale(values)
    faults = 0
    for mask_E, kind, expected in (
        (~finite_E, "counts that are NaN or infinite", whole),
        (data_E < 0, "negative counts", whole),
        (fractional_E, "fractional counts", whole),
        (finite_E & (data_E > LARGEST_COUNT), "counts above 2**53", "counts exact in float64"),
    ):
        if mask_E.any():
            faults += 1
            places = _places(mask_E, sample_ids, feature_ids, values)
            hint = f"these look like {looks}: {_RAW}" if looks else _RAW
            yield problem(path, f"{kind}: {places}", expected, hint)
    if not faults and data_E.size:
        yield from _whole_number_problems(path, sample_ids, values, looks)


def _places(
    mask_E: NDArray[np.bool_], sample_ids: list[str], feature_ids: list[str], values: csr_array
) -> str:
    """Return how many entries a mask has, and where the first are."""
    entries = values.tocoo()
    places = np.flatnonzero(mask_E)
    names = [
        f"{entries.data[i]:.15g} in sample {sample_ids[entries.row[i]]}, "
        f"feature {feature_ids[entries.col[i]][:40]}"
        for i in places[:3]
    ]
    return f"{len(places)} ({'; '.join(names)}{'; …' if len(places) > 3 else ''})"


def _describe_scale(values: csr_array) -> str:
    """Say what numbers are by the sums of their samples, empty if that cannot be told."""
    data_E = values.data
    if not data_E.size or not np.isfinite(data_E).all():
        return ""
    size_N = np.diff(values.indptr)
    has_entries_N = size_N > 0
    sum_N = np.asarray(values.sum(axis=1)).ravel()[has_entries_N]
    size_N = size_N[has_entries_N]
    is_whole = bool((data_E == np.floor(data_E)).all())
    if (data_E < 0).any():
        largest_N = np.maximum.reduceat(np.abs(data_E), values.indptr[:-1][has_entries_N])
        if (np.abs(sum_N) <= 1e-3 * largest_N * size_N).all():
            return "CLR-transformed values (each sample sums to 0)"
        return "" if is_whole else "logarithms or centred values"
    for scale, what in SCALES.items():
        # Rounding changes each number by half a unit at most, and not all in one direction.
        slack_N = np.minimum(0.5 * size_N, 0.05 * scale) if is_whole else 0.005 * scale
        if (scale > 1 or not is_whole) and (np.abs(sum_N - scale) <= slack_N).all():
            return what
    if not is_whole and len(sum_N) > 1 and np.ptp(sum_N) <= 1e-6 * sum_N[0]:
        return f"counts scaled to one sum ({sum_N[0]:,.6g} in each sample)"
    return ""


def _whole_number_problems(
    path: Path, sample_ids: list[str], values: csr_array, looks: str
) -> Iterator[InputError]:
    """Yield why whole numbers are no reads, and warn of reads that were drawn or scaled."""
    data_E = values.data
    sum_N = np.asarray(values.sum(axis=1)).ravel()
    sum_N = sum_N[sum_N > 0]
    if (data_E == 1).all() and data_E.size > 1:
        actual = f"a table of 0 and 1 alone ({data_E.size:,} ones)"
        hint = (
            "presence and absence have no reads to rarefy, and no abundances to learn from: give "
            "the raw read counts"
        )
        yield problem(path, actual, "numbers of reads", hint)
    elif looks and len(sum_N) > 1:
        yield problem(path, f"whole numbers that look like {looks}", "numbers of reads", _RAW)
    elif len(sum_N) > 1 and (sum_N == sum_N[0]).all():
        logger.info(
            "%s: every sample has %d reads, so the table is rarefied already", path, sum_N[0]
        )
    divisors_N = np.gcd.reduceat(
        data_E.astype(np.int64), values.indptr[:-1][np.diff(values.indptr) > 0]
    )
    if (divisors_N > 1).all() and data_E.size >= max(
        LEAST_COUNTS, LEAST_PER_SAMPLE * len(divisors_N)
    ):
        shown = f"{divisors_N.min()}"
        if divisors_N.min() < divisors_N.max():
            shown += f" to {divisors_N.max()}, sample by sample"
        logger.warning(
            "%s: all counts are multiples of one number (%s), as in tables that were scaled; they "
            "are taken for reads, of which there may be fewer: give the raw read counts",
            path,
            shown,
        )
    middle = np.median(sum_N)
    slack = 0.5 * np.diff(values.indptr)[np.diff(values.indptr) > 0]
    is_near = (np.abs(sum_N - middle) <= np.minimum(slack, 0.005 * middle)).all()
    if not looks and len(sum_N) > 2 and is_near and (sum_N > middle).any():
        logger.warning(
            "%s: the reads of its samples differ by rounding alone (%d to %d), as in tables that "
            "were scaled to one sum; they are taken for reads: give the raw read counts",
            path,
            sum_N.min(),
            sum_N.max(),
        )
