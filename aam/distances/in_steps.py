"""A range of stripes that is computed in several steps, so that few are in memory at a time."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aam.distances import parts
from aam.distances.stripes import Joined, Striped, Stripes

logger = logging.getLogger(__name__)


@contextmanager
def in_steps(
    ranges: Sequence[tuple[int, int]], compute: Callable[[int, int], Stripes], folder: Path
) -> Iterator[Striped]:
    """Compute stripes range by range.

    Parameters
    ----------
    ranges
        First stripe of a step, and the one after its last; one range behind the other.
    compute
        What returns the stripes of a range.
    folder
        Temporary folder that takes the stripes of all steps, where there are several.

    Yields
    ------
    Striped
        The stripes of all ranges: in memory if there is one range, else in files.
    """
    if len(ranges) == 1:
        yield compute(*ranges[0])
        return
    paths = []
    for number, (start, stop) in enumerate(ranges):
        paths.append(folder / f"{number}.parquet")
        parts.write_part(paths[-1], compute(start, stop), {})
        logger.info("%d of %d steps", number + 1, len(ranges))
    with parts.open_parts(paths) as opened:
        yield Joined(opened)
