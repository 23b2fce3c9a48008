"""Small tables and trees for the tests of UniFrac."""

import shutil
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from skbio import TreeNode

from aam.config.metrics import METRICS
from aam.data.table import FeatureTable
from aam.distances import engines
from aam.distances.engines import ScikitBio
from aam.distances.packages import Ssu, UnifracPackage, import_fault
from aam.distances.store import distance_rows
from aam.simulate import birth_death_tree

WITH_TREE = [name for name, facts in METRICS.items() if facts.phylogenetic]
WITH_ENGINES = [name for name in WITH_TREE if METRICS[name].has_engines]
SSU_METRICS = [name for name in WITH_ENGINES if not METRICS[name].per_sample]
SPARSE_METRICS = [name for name, facts in METRICS.items() if not facts.phylogenetic]
needs_ssu = pytest.mark.skipif(
    not engines.has_ssu(), reason="ssu and faithpd are not installed (apt: unifrac-tools)"
)
needs_package = pytest.mark.skipif(
    import_fault() is not None,
    reason=f"the package unifrac: {import_fault()} (bash workflow/install_unifrac.sh)",
)
ENGINES = [
    pytest.param(UnifracPackage(), marks=needs_package),
    pytest.param(Ssu(), marks=needs_ssu),
    ScikitBio(),
]
"""The engines of UniFrac, those that are not installed marked to be skipped."""

needs_programs = pytest.mark.skipif(
    shutil.which("mafft") is None or shutil.which("fasttree") is None,
    reason="MAFFT or FastTree is not installed",
)


def table_of(counts, features=None) -> FeatureTable:
    rows = csr_array(np.asarray(counts, dtype=np.int64))
    names = features or [f"f{number}" for number in range(rows.shape[1])]
    return FeatureTable([f"s{n:03d}" for n in range(rows.shape[0])], list(names), rows)


def tree_of(text: str) -> TreeNode:
    return TreeNode.read(StringIO(text), convert_underscores=False)


def random_tree(names: Sequence[str], rng: np.random.Generator) -> TreeNode:
    tree = birth_death_tree(len(names), rng)
    for name, tip in zip(names, tree.tips(), strict=True):
        tip.name = name
    return tree


def random_case(seed: int, samples: int = 0) -> tuple[FeatureTable, TreeNode]:
    """Return a table without empty rows and columns, and the tree of its features."""
    rng = np.random.default_rng(seed)
    features, samples = int(rng.integers(2, 30)), samples or int(rng.integers(2, 9))
    tree = random_tree([f"f{number}" for number in range(features)], rng)
    counts = rng.poisson(rng.gamma(0.3, 8.0, size=(samples, features)))
    counts[:, 0] += counts.sum(axis=1) == 0
    table = table_of(counts).select_samples(rng.permutation(samples))
    return table, tree.shear(table.feature_ids, prune=False)


def compute(engine, table, tree, metric, alpha=0.5):
    given = METRICS[metric].parameters_in({"alpha": alpha})
    with engine.compute(table, tree, metric, given) as found:
        return np.asarray(found[:], dtype=np.float64)


def read_distances(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the sample IDs of a file of distances, and its whole matrix."""
    names, rows = zip(*distance_rows(path), strict=True)
    return [name for part in names for name in part], np.concatenate(rows)
