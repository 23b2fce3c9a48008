"""A table and its tree as files for the library of UniFrac, which fails on quotes in tip names."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aam.data.table import FeatureTable, write_biom
from aam.util.scikit_bio import TreeNode

TABLE = "table.biom"
TREE = "tree.nwk"


@contextmanager
def plain_files(table: FeatureTable, tree: TreeNode | None, scratch: Path | None) -> Iterator[Path]:
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
    plain = FeatureTable(sample_labels(table), list(features.values()), table.counts)
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
