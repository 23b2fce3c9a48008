"""UniFrac by `ssu` and `faithpd`, the programs of the unifrac-binaries project.

They read branch lengths as float32 and compute in float64; distances are kept as float32.
Neither the number of threads nor that of steps changes a bit.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable
from aam.distances.in_steps import in_steps
from aam.distances.plain_files import TABLE, TREE, plain_files, sample_labels
from aam.distances.store import Values
from aam.distances.stripes import Striped, StripeMatrix, Stripes, read_partial, steps, stripes
from aam.util.scikit_bio import TreeNode

PROGRAMS = ("ssu", "faithpd")
BYTES_PER_DISTANCE = 32
"""Memory of `ssu` for each distance of a stripe; measured with unifrac-tools 1.2."""
_OPTIONS = {"alpha": "-a"}
"""Option of `ssu` by parameter of a metric."""


@dataclass(frozen=True)
class Ssu:
    """The fast engine, for tables of any size."""

    threads: int = 1
    scratch: Path | None = None
    """Folder for temporary files: up to 4 N^2 bytes for N samples; None: the system's."""
    memory_bytes: int = 2 << 30
    """Memory that one call of `ssu` may take; it decides the number of calls."""
    name = "ssu"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float32 [N, N], or values, float64 [N].

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

        Raises
        ------
        RuntimeError
            A program failed.
        """
        samples = len(table.sample_ids)
        if METRICS[metric].per_sample:
            yield self._faith_pd(table, tree)
        elif samples == 1:
            yield np.zeros((1, 1), dtype=np.float32)
        else:
            stop = stripes(samples)
            with self.compute_stripes(table, tree, metric, parameters, 0, stop) as striped:
                yield StripeMatrix(striped)

    @contextmanager
    def compute_stripes(
        self,
        table: FeatureTable,
        tree: TreeNode | None,
        metric: str,
        parameters: Parameters,
        start: int,
        stop: int,
    ) -> Iterator[Striped]:
        """Yield a range of the stripes of a distance matrix: in memory, or in temporary files.

        Parameters
        ----------
        table, tree, metric, parameters
            As for `compute`.
        start, stop
            The first stripe, and the one after the last.

        Raises
        ------
        RuntimeError
            `ssu` failed.
        """
        options = ["-m", f"{metric}_fp64", "--mode", "partial"]
        for name, value in parameters.items():
            options += [_OPTIONS[name], str(value)]
        samples = len(table.sample_ids)
        ranges = steps(start, stop, BYTES_PER_DISTANCE * samples, self.memory_bytes)
        with plain_files(table, tree, self.scratch) as folder:
            step = partial(self._step, folder, table, options)
            with in_steps(ranges, step, folder) as striped:
                yield striped

    def _step(
        self, folder: Path, table: FeatureTable, options: Sequence[str], start: int, stop: int
    ) -> Stripes:
        result = folder / "stripes.bin"
        bounds = ["--start", str(start), "--stop", str(stop)]
        self._call("ssu", folder, result, [*options, *bounds])
        stripes_read = read_partial(result, sample_labels(table))
        assert (stripes_read.start, stripes_read.stop) == (start, stop), (
            "ssu computed other stripes"
        )
        result.unlink()
        return stripes_read

    def _faith_pd(self, table: FeatureTable, tree: TreeNode | None) -> NDArray[np.float64]:
        with plain_files(table, tree, self.scratch) as folder:
            result = folder / "faith.tsv"
            self._call("faithpd", folder, result, [])
            lines = result.read_text(encoding="utf-8").splitlines()[1:]
        labels, values = zip(*(line.split("\t") for line in lines), strict=True)
        assert list(labels) == sample_labels(table), "faithpd changed the order"
        return np.array(values, dtype=np.float64)

    def _call(self, program: str, folder: Path, result: Path, options: Sequence[str]) -> None:
        files = ["-i", str(folder / TABLE), "-t", str(folder / TREE)]
        command = [program, *files, "-o", str(result), *options]
        environment = {"OMP_NUM_THREADS": str(self.threads), "UNIFRAC_USE_GPU": "N"}
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not result.exists():
            output = (done.stdout + done.stderr).strip()[-2000:] or "nothing"
            raise RuntimeError(f"{program} ended with code {done.returncode}; it said: {output}")
