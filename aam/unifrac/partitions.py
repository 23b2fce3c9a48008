"""How a distance matrix is divided, by stripes: stripe k holds sample i's distance to i + k + 1.

Samples are counted modulo N, so N // 2 stripes hold every pair. McDonald et al. 2018,
doi:10.1038/s41592-018-0187-8.
"""

from math import ceil

from aam.util.errors import problem

BYTES_PER_DISTANCE = 32
"""Memory of `ssu` for each distance of a stripe; measured with unifrac-tools 1.2."""
MEMORY_BYTES = 2 << 30
"""Memory that one call of `ssu` may take."""


def stripes(samples: int) -> int:
    """Return the number of stripes that hold all pairs of N samples."""
    return samples // 2


def steps(start: int, stop: int, samples: int, memory_bytes: int) -> list[tuple[int, int]]:
    """Divide stripes so that `ssu` needs no more memory for each part than it may take.

    Returns
    -------
    list
        Ranges of almost the same length, each with a stripe or more.
    """
    at_once = max(1, memory_bytes // (BYTES_PER_DISTANCE * samples))
    return divided(start, stop, ceil((stop - start) / at_once))


def divided(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Divide a range into parts whose lengths differ by at most 1."""
    edges = [start + (stop - start) * part // parts for part in range(parts)] + [stop]
    return list(zip(edges[:-1], edges[1:], strict=True))


def of_job(part: int, parts: int, samples: int) -> tuple[int, int]:
    """Return the stripes that one of several jobs computes.

    Parameters
    ----------
    part, parts
        Number of the job, from 0, and of all jobs: `unifrac.partitions` of the configuration.
    samples
        Samples in the table.

    Raises
    ------
    InputError
        If there are more jobs than stripes.
    """
    if parts > stripes(samples):
        raise problem(
            "unifrac.partitions",
            f"{parts} for {samples} samples",
            f"at most half of the samples, {stripes(samples)}",
            "set it to auto",
        )
    return divided(0, stripes(samples), parts)[part]
