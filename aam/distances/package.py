"""UniFrac by the Python package `unifrac`: the library of `ssu`, called in this process.

It reads the same files, and returns distances in memory, where `ssu` writes a file that is then
read. It can neither divide a matrix among calls nor bound its memory; `ssu` does both.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable
from aam.distances.plain_files import TABLE, TREE, plain_files, sample_labels
from aam.distances.store import Values
from aam.util.scikit_bio import TreeNode

NOT_INSTALLED = "it is not installed"
BYTES_PER_ENTRY = 18
"""Memory for each of the N^2 entries of a matrix; 17 were measured with unifrac 0.20.3."""


def import_fault() -> str | None:
    """Return why the package cannot be imported, `NOT_INSTALLED` included; None: it can be."""
    # `unifrac` imports scikit-bio, which the imports above have loaded without PyTorch.
    try:
        import unifrac
    except ModuleNotFoundError as error:
        return NOT_INSTALLED if error.name == "unifrac" else str(error)
    # NumPy raises a ValueError where a library was compiled for another one.
    except (ImportError, ValueError) as error:
        return str(error)
    # A folder of results of this name in the working directory would be a package without a file.
    return NOT_INSTALLED if unifrac.__file__ is None else None


@dataclass(frozen=True)
class UnifracPackage:
    """The engine that keeps distances in memory."""

    threads: int = 1
    scratch: Path | None = None
    """Folder for the table and the tree as files; None: the system's."""
    name = "unifrac"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float64 [N, N], or values [N].

        Parameters
        ----------
        table
            Reads.
        tree
            Tree with the table's features at its tips.
        metric
            A key of `aam.config.metrics.METRICS`, of those that need the tree.
        parameters
            Parameters of the metric by name.
        """
        if METRICS[metric].per_sample:
            yield self._faith_pd(table, tree)
        elif len(table.sample_ids) == 1:
            yield np.zeros((1, 1))
        else:
            yield self._distances(table, tree, metric, parameters)

    def _distances(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> NDArray[np.float64]:
        import unifrac

        # Releases from 1.0 on choose the precision by the device, where none is named.
        function = getattr(unifrac, f"{metric}_fp64", None) or getattr(unifrac, metric)
        with plain_files(table, tree, self.scratch) as folder, self._processors():
            matrix = function(str(folder / TABLE), str(folder / TREE), **parameters)
        assert list(matrix.ids) == sample_labels(table), "unifrac changed the order"
        return matrix.data

    def _faith_pd(self, table: FeatureTable, tree: TreeNode | None) -> NDArray[np.float64]:
        import unifrac

        with plain_files(table, tree, self.scratch) as folder, self._processors():
            values = unifrac.faith_pd(str(folder / TABLE), str(folder / TREE))
        assert list(values.index) == sample_labels(table), "unifrac changed the order"
        return values.to_numpy(dtype=np.float64)

    @contextmanager
    def _processors(self) -> Iterator[None]:
        """Limit the library to `threads` cores, and use no GPU."""
        os.environ["UNIFRAC_USE_GPU"] = "N"
        # The argument `threads` of the package divides the work into passes over the tree, each of
        # which takes all threads of OpenMP; later releases ignore it.
        with threadpool_limits(self.threads, user_api="openmp"):
            yield


def memory_bytes(samples: int) -> int:
    """Return the memory, in bytes, that distances take while they are computed.

    Parameters
    ----------
    samples
        Number of samples.
    """
    return BYTES_PER_ENTRY * samples**2
