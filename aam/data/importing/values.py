"""Whether the numbers of a feature table are reads or amounts, and what is wrong with them.

Shape suffixes: N samples, E entries above 0.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

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
MOSTLY_WHOLE = 0.5
"""Share of whole numbers from which on a few fractions are mistakes, not amounts."""
TRANSFORMATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "natural logarithms": np.expm1,
    "binary logarithms": lambda values_E: np.exp2(values_E) - 1,
    "decimal logarithms": lambda values_E: 10.0**values_E - 1,
    "square roots": np.square,
}
"""What undoes a transformation, of counts or of counts plus one."""
MOST_TRANSFORMED = 300.0
"""No count has a larger logarithm or root that is told from amounts."""
LEAST_COMPARED = 10
"""Values whose counts are nearly whole from which on that is no coincidence."""
LARGEST_COMPARED = 1000.0
"""Counts up to which three digits of a logarithm or root say which whole number it is of."""
Values = Literal["reads", "amounts"]
"""What the numbers of a table are: the values of `datasets.<d>.values`."""
_KEY = "`values` of the dataset"
_RAW = "give the raw read counts, not normalised or transformed ones"
_UNTRANSFORMED = "give the reads or the abundances before any transformation"
CHECK = "check how the table was filtered or exported"
"""What to do about numbers that no table of reads or amounts has."""


def recognize_values(values: csr_array, given: Values | None = None) -> Values:
    """Return whether numbers are reads or amounts.

    Whole numbers are reads, unless all samples have the sum of a scale, as percentages have. Other
    numbers are amounts, unless most of them are whole: a few fractions among reads are mistakes.

    Parameters
    ----------
    values
        float64 [N, F], without zeros that are stored.
    given
        What the user or the format says; None: neither does.
    """
    data_E = values.data
    if given is not None or not data_E.size:
        return given or "reads"
    if not np.isfinite(data_E).all() or (data_E < 0).any():
        return "reads"
    is_whole_E = data_E == np.floor(data_E)
    samples = (np.diff(values.indptr) > 0).sum()
    if _describe_scale(values) and (samples > 1 or not is_whole_E.all()):
        return "amounts"
    return "reads" if is_whole_E.mean() >= MOSTLY_WHOLE else "amounts"


def tell_of_amounts(path: Path, values: csr_array) -> None:
    """Say that numbers are taken for amounts, and what follows from it.

    Parameters
    ----------
    path
        The user's file, for the message.
    values
        float64 [N, F], without zeros that are stored.
    """
    looks = _describe_scale(values) or "fractions"
    logger.warning(
        "%s: its numbers are amounts (%s), not reads: nothing is rarefied, and each sample is "
        "scaled to one; set `values: reads` of the dataset if they are counts",
        path,
        looks,
    )


def _find_transformation(values: csr_array) -> str:
    """Return what numbers are of counts, logarithms or roots; empty: neither."""
    data_E = values.data
    # The least of them are counts of one or more, of which few digits are enough.
    is_whole = (data_E == np.floor(data_E)).all()
    if is_whole or data_E.max() > MOST_TRANSFORMED:
        return ""
    for name, invert in TRANSFORMATIONS.items():
        counts_E = invert(data_E)
        small_E = counts_E[counts_E <= LARGEST_COMPARED]
        is_near = (np.abs(small_E - np.round(small_E)) <= 0.05).all()
        if len(small_E) >= LEAST_COMPARED and is_near and counts_E.min() > 0.9:
            return name
    return ""


def count_problems(
    path: Path,
    sample_ids: list[str],
    feature_ids: list[str],
    values: csr_array,
    *,
    is_counted: bool = True,
    are_stated: bool = False,
) -> Iterator[InputError]:
    """Yield what is wrong with numbers that are reads or amounts, and warn of what looks odd.

    Parameters
    ----------
    path
        The user's file, for messages.
    sample_ids, feature_ids
        Names of the axes.
    values
        float64 [N, F], without zeros that are stored.
    is_counted
        Whether they have to be reads.
    are_stated
        Whether the user, or the type of an artifact, says that they are reads.
    """
    data_E = values.data
    if sample_ids and feature_ids and not data_E.size:
        yield problem(path, "a table without a single read", "counts above 0", CHECK)
        return
    finite_E = np.isfinite(data_E)
    with np.errstate(invalid="ignore"):
        fractional_E = finite_E & (data_E >= 0) & (data_E != np.floor(data_E))
    whole = "whole numbers of reads" if is_counted else "amounts of 0 or more"
    looks = _describe_scale(values)
    hint = _RAW
    if not is_counted or (data_E < 0).any():
        hint = _UNTRANSFORMED
    elif fractional_E.any():
        hint = f"{_RAW}; if they are amounts, set {_KEY} to amounts"
    faults = 0
    for mask_E, kind, expected in (
        (~finite_E, "counts that are NaN or infinite", whole),
        (data_E < 0, "negative counts", whole),
        (fractional_E & is_counted, "fractional counts", whole),
        (finite_E & (data_E > LARGEST_COUNT), "counts above 2**53", "counts exact in float64"),
    ):
        if mask_E.any():
            faults += 1
            places = _places(mask_E, sample_ids, feature_ids, values)
            advice = f"these look like {looks}: {hint}" if looks else hint
            yield problem(path, f"{kind}: {places}", expected, advice)
    if faults or not data_E.size:
        return
    if is_counted:
        yield from _whole_number_problems(path, values, looks, are_stated=are_stated)
        return
    transformation = _find_transformation(values)
    if transformation:
        yield problem(path, f"{transformation} of counts", whole, _UNTRANSFORMED)


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
    path: Path, values: csr_array, looks: str, *, are_stated: bool
) -> Iterator[InputError]:
    """Yield why whole numbers are no reads, and warn of reads that were drawn or scaled."""
    data_E = values.data
    sum_N = np.asarray(values.sum(axis=1)).ravel()
    sum_N = sum_N[sum_N > 0]
    if (data_E == 1).all() and data_E.size > 1:
        actual = f"a table of 0 and 1 alone ({data_E.size:,} ones)"
        hint = (
            "presence and absence have no reads to rarefy, and no abundances to learn from: give "
            f"the raw read counts, or set {_KEY} to amounts to learn from presence alone"
        )
        yield problem(path, actual, "numbers of reads", hint)
    elif looks and are_stated:
        logger.warning(
            "%s: its numbers look like %s; they are taken for reads, as its type or `values` says",
            path,
            looks,
        )
    elif looks and len(sum_N) > 1:
        advice = f"{_RAW}, or set {_KEY} to amounts"
        yield problem(path, f"whole numbers that look like {looks}", "numbers of reads", advice)
    elif len(sum_N) > 1 and (sum_N == sum_N[0]).all():
        logger.info(
            "%s: every sample has %d reads, so the table is rarefied already", path, sum_N[0]
        )
    # `reduceat` has no empty ranges: at a sample without reads it would take an entry of the next
    # one.
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
    # Rounding moves each count by half a read at most, and the sum by that times the entries.
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
