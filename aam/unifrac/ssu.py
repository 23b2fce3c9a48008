"""UniFrac by `ssu` and `faithpd`, the programs of the unifrac-binaries project.

They read branch lengths as float32 and compute in float64; distances come back as float32.
Neither the number of threads nor that of steps changes a bit. Names are replaced by plain
labels, because both programs fail on quotes in tip names.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from skbio import TreeNode

from aam.data.table import FeatureTable, write_biom
from aam.unifrac.store import Rows

PROGRAMS = ("ssu", "faithpd")


class Ssu:
    """The fast engine, for tables of any size."""

    name = "ssu"

    def __init__(self, threads: int = 1, partitions: int = 1, scratch: Path | None = None) -> None:
        self.threads = threads
        self.partitions = partitions
        self.scratch = scratch

    @contextmanager
    def distances(
        self, table: FeatureTable, tree: TreeNode, metric: str, alpha: float
    ) -> Iterator[Rows]:
        """Yield distances as a float32 [N, N] dataset of a temporary HDF5 file.

        Raises
        ------
        RuntimeError
            If `ssu` fails.
        """
        with self._staged(table, tree) as folder:
            result = folder / "distances.h5"
            options = ["-m", f"{metric}_fp64", "-r", "hdf5_fp32", "--pcoa", "0"]
            options += ["--n-substeps", str(self.partitions)]
            if metric == "generalized":
                options += ["-a", str(alpha)]
            if self.partitions > 1:
                options += ["--diskbuf", str(folder)]
            self._call("ssu", folder, result, options)
            with h5py.File(result, "r") as file:
                order = [label.decode() for label in file["order"][()]]
                assert order == _labels("s", table.sample_ids), "ssu changed the order of samples"
                yield file["matrix"]

    def faith_pd(self, table: FeatureTable, tree: TreeNode) -> NDArray[np.float64]:
        """Return Faith's phylogenetic diversity, [N].

        Raises
        ------
        RuntimeError
            If `faithpd` fails.
        """
        with self._staged(table, tree) as folder:
            result = folder / "faith.tsv"
            self._call("faithpd", folder, result, [])
            lines = result.read_text(encoding="utf-8").splitlines()[1:]
        labels, values = zip(*(line.split("\t") for line in lines), strict=True)
        assert list(labels) == _labels("s", table.sample_ids), (
            "faithpd changed the order of samples"
        )
        return np.array(values, dtype=np.float64)

    @contextmanager
    def _staged(self, table: FeatureTable, tree: TreeNode) -> Iterator[Path]:
        """Yield a temporary folder with the table and the tree under plain labels."""
        features = dict(zip(table.feature_ids, _labels("f", table.feature_ids), strict=True))
        plain = FeatureTable(_labels("s", table.sample_ids), list(features.values()), table.counts)
        labelled = tree.copy()
        for node in labelled.traverse(include_self=True):
            node.name = features[node.name] if node.is_tip() else None
        if self.scratch is not None:
            self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unifrac-", dir=self.scratch) as name:
            folder = Path(name)
            write_biom(folder / "table.biom", plain, {})
            labelled.write(str(folder / "tree.nwk"), format="newick")
            yield folder

    def _call(self, program: str, folder: Path, result: Path, options: Sequence[str]) -> None:
        table, tree = folder / "table.biom", folder / "tree.nwk"
        command = [program, "-i", str(table), "-t", str(tree), "-o", str(result), *options]
        environment = {"OMP_NUM_THREADS": str(self.threads), "UNIFRAC_USE_GPU": "N"}
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not result.exists():
            said = (done.stdout + done.stderr).strip()[-2000:] or "nothing"
            raise RuntimeError(f"{program} ended with code {done.returncode}; it said: {said}")


def _labels(prefix: str, names: Sequence[str]) -> list[str]:
    return [f"{prefix}{position}" for position in range(len(names))]
