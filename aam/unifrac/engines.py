"""What computes metrics, and which of these to use."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from aam.config.metrics import METRICS, Parameters
from aam.data.table import FeatureTable
from aam.data.trees.branches import branch_fractions
from aam.unifrac.formulas import FORMULAS, all_generalized
from aam.unifrac.ssu import PROGRAMS, Ssu
from aam.unifrac.store import Values
from aam.util.errors import problem
from aam.util.scikit_bio import TreeNode, alpha_diversity, beta_diversity

LOG = logging.getLogger(__name__)
INSTALL = "Debian, Ubuntu: apt install unifrac-tools; conda: unifrac-binaries of bioconda"


class ScikitBio:
    """The engine that is always there: one thread, with the whole table dense in memory."""

    name = "scikit-bio"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float64 [N, N], or values [N]; the generalized metric is ours."""
        formula = FORMULAS[metric]
        if formula.scikit_bio is None:
            yield all_generalized(*branch_fractions(table, tree), parameters["alpha"])
            return
        diversity = alpha_diversity if METRICS[metric].per_sample else beta_diversity
        found = diversity(
            formula.scikit_bio, table.counts.toarray(), table.sample_ids,
            validate=False, taxa=table.feature_ids, tree=tree, **formula.options,
        )  # fmt: skip
        yield found.to_numpy(dtype=np.float64) if METRICS[metric].per_sample else found.data


class Sparse:
    """The engine of distances without a tree: the table twice in memory, and few rows at a time."""

    name = "aam"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float64 [N, N], that are computed when rows are asked for."""
        rows = FORMULAS[metric].rows
        assert rows is not None, metric
        yield rows(table.counts)


Engine = ScikitBio | Sparse | Ssu
"""One way to compute metrics; the tips of every tree are the features of its table."""


def installed() -> bool:
    """Return whether the programs of the engine `ssu` are on the path."""
    return all(shutil.which(program) for program in PROGRAMS)


def choose(
    setting: Literal["auto", "ssu", "scikit-bio"], *, threads: int = 1, scratch: Path | None = None
) -> tuple[Engine, Engine | None]:
    """Return the engine of phylogenetic metrics, and one to check it with, if `ssu` is there.

    `ssu` as the setting where it is not installed is an InputError.
    """
    if setting != "ssu" and not installed():
        if setting == "auto":
            LOG.warning(
                "ssu is not installed, so scikit-bio computes UniFrac: right, but slow beyond "
                "1000 samples. To speed it up, install ssu (%s).",
                INSTALL,
            )
        return ScikitBio(), None
    ssu = installed_ssu("unifrac.engine", "ssu", "set it to scikit-bio", threads, scratch)
    return (ScikitBio(), ssu) if setting == "scikit-bio" else (ssu, ScikitBio())


def installed_ssu(key: str, got: str, instead: str, threads: int, scratch: Path | None) -> Ssu:
    """Return the engine `ssu`, or blame a key of the configuration where it is missing."""
    if not installed():
        raise problem(
            key,
            f"{got}, which is not installed ({' and '.join(PROGRAMS)} are not on the path)",
            "an installed engine",
            f"install it ({INSTALL}), or {instead}",
        )
    return Ssu(threads, scratch)
