"""UniFrac by other projects' programs: `ssu` and `faithpd`, and the Python package `unifrac`.

The programs of unifrac-binaries read branch lengths as float32 and compute in float64; distances
are kept as float32. Neither the number of threads nor that of steps changes a bit. The package is
the same library, called in this process: it returns distances in memory, where `ssu` writes a file
that is then read, but can neither divide a matrix among calls nor bound its memory.

Both read a table and its tree from files, and fail on quotes in tip names: labels are replaced.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable, write_biom
from aam.distances.store import Values
from aam.distances.stripes import (
    Striped,
    StripeMatrix,
    Stripes,
    compute_in_steps,
    count_stripes,
    divide_stripes,
    read_partial,
)
from aam.util.scikit_bio import TreeNode

TABLE = "table.biom"
TREE = "tree.nwk"
PROGRAMS = ("ssu", "faithpd")
BYTES_PER_DISTANCE = 32
"""Memory of `ssu` for each distance of a stripe; measured with unifrac-tools 1.2."""
_OPTIONS = {"alpha": "-a"}
"""Option of `ssu` by parameter of a metric."""
NOT_INSTALLED = "it is not installed"
BYTES_PER_ENTRY = 18
"""Memory for each of the N^2 entries of a matrix; 17 were measured with unifrac 0.20.3."""


@contextmanager
def write_plain_files(
    table: FeatureTable, tree: TreeNode | None, scratch: Path | None
) -> Iterator[Path]:
    """Write a table and its tree under plain labels, and remove them at the end.

    Parameters
    ----------
    table
        Its samples become `s0`, `s1` and so on, its features `f0`, `f1` and so on.
    tree
        Its tips are the features.
    scratch
        Where the temporary folder is made; None: where the system has such folders.

    Yields
    ------
    Path
        The temporary folder, with `TABLE` and `TREE`, and room for results.
    """
    features = dict(zip(table.feature_ids, feature_labels(table), strict=True))
    labels = list(features.values())
    plain = FeatureTable(sample_labels(table), labels, table.counts, table.facts)
    assert tree is not None
    labelled = tree.copy()
    for node in labelled.traverse(include_self=True):
        node.name = features[node.name] if node.is_tip() else None
    with scratch_folder(scratch) as folder:
        write_biom(folder / TABLE, plain, {})
        labelled.write(str(folder / TREE), format="newick")
        yield folder


@contextmanager
def scratch_folder(scratch: Path | None) -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end.

    It lies in `scratch` or, without that, where the system has such folders. What a killed job left
    in `scratch` is removed first.
    """
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
        # The folder is this job's alone.
        for left in scratch.glob("unifrac-*"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="unifrac-", dir=scratch) as name:
        yield Path(name)


def sample_labels(table: FeatureTable) -> list[str]:
    """Return the plain labels of the samples, in the order of the table."""
    return _labels("s", table.sample_ids)


def feature_labels(table: FeatureTable) -> list[str]:
    """Return the plain labels of the features, in the order of the table."""
    return _labels("f", table.feature_ids)


def _labels(prefix: str, names: Sequence[str]) -> list[str]:
    return [f"{prefix}{position}" for position in range(len(names))]


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
            stop = count_stripes(samples)
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
        ranges = divide_stripes(start, stop, BYTES_PER_DISTANCE * samples, self.memory_bytes)
        with write_plain_files(table, tree, self.scratch) as folder:
            step = partial(self._step, folder, table, options)
            with compute_in_steps(ranges, step, folder) as striped:
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
        with write_plain_files(table, tree, self.scratch) as folder:
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
        with write_plain_files(table, tree, self.scratch) as folder, self._processors():
            matrix = function(str(folder / TABLE), str(folder / TREE), **parameters)
        assert list(matrix.ids) == sample_labels(table), "unifrac changed the order"
        return matrix.data

    def _faith_pd(self, table: FeatureTable, tree: TreeNode | None) -> NDArray[np.float64]:
        import unifrac

        with write_plain_files(table, tree, self.scratch) as folder, self._processors():
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


def package_memory_bytes(samples: int) -> int:
    """Return the memory, in bytes, that distances take while they are computed.

    Parameters
    ----------
    samples
        Number of samples.
    """
    return BYTES_PER_ENTRY * samples**2
