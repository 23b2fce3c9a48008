"""What computes metrics, and which of these to use."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from aam.config.metrics import METRICS, Parameters
from aam.config.settings.data import EngineName
from aam.data.table import FeatureTable
from aam.data.trees import branch_fractions
from aam.distances.formulas import FORMULAS
from aam.distances.packages import (
    NOT_INSTALLED,
    PROGRAMS,
    Ssu,
    UnifracPackage,
    import_fault,
    package_memory_bytes,
)
from aam.distances.products import COMPUTED, Products
from aam.distances.store import Values
from aam.util.errors import problem
from aam.util.scikit_bio import TreeNode, alpha_diversity, beta_diversity

logger = logging.getLogger(__name__)
INSTALL = "Debian, Ubuntu: apt install unifrac-tools; conda: unifrac-binaries of bioconda"
INSTALL_PACKAGE = "Debian, Ubuntu: bash workflow/install_unifrac.sh; conda: unifrac of bioconda"
OR_AUTO = "set it to auto"
"""End of a hint: what helps without an installation."""


class ScikitBio:
    """The engine that is always there: one thread, with the whole table dense in memory."""

    name = "scikit-bio"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float64 [N, N], or values [N]; what scikit-bio lacks is computed here.

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
        formula = FORMULAS[metric]
        if formula.scikit_bio is None:
            assert formula.all_pairs is not None, metric
            yield formula.all_pairs(*branch_fractions(table, tree), **parameters)
            return
        diversity = alpha_diversity if METRICS[metric].per_sample else beta_diversity
        values = diversity(
            formula.scikit_bio,
            table.counts.toarray(),
            table.sample_ids,
            validate=False,
            taxa=table.feature_ids,
            tree=tree,
            **formula.options,
        )
        yield values.to_numpy(dtype=np.float64) if METRICS[metric].per_sample else values.data


class Sparse:
    """The engine of distances without a tree: the table twice in memory, and few rows at a time."""

    name = "aam"

    @contextmanager
    def compute(
        self, table: FeatureTable, tree: TreeNode | None, metric: str, parameters: Parameters
    ) -> Iterator[Values]:
        """Yield distances, float64 [N, N], that are computed when rows are asked for.

        Parameters
        ----------
        table
            Reads.
        tree, parameters
            Not used: these metrics need neither.
        metric
            A key of `aam.config.metrics.METRICS`, of those that do without a tree.
        """
        rows = FORMULAS[metric].rows
        assert rows is not None, metric
        yield rows(table.counts)


Engine = ScikitBio | Sparse | Products | Ssu | UnifracPackage
"""One way to compute metrics; the tips of every tree are the features of its table."""


def has_ssu() -> bool:
    """Return whether the programs of the engine `ssu` are on the path."""
    return all(shutil.which(program) for program in PROGRAMS)


def choose_engine(
    setting: EngineName,
    *,
    samples: int,
    metric: str,
    threads: int = 1,
    scratch: Path | None = None,
) -> tuple[Engine, Engine | None]:
    """Return the engine of a phylogenetic metric, and one to check it with.

    Parameters
    ----------
    setting
        `unifrac.engine` of the configuration.
    samples
        Number of samples of the table: `auto` prefers the package for what its memory allows.
    metric
        What is computed, a key of `aam.config.metrics.METRICS`.
    threads
        Cores that the fast engines may use.
    scratch
        Folder for their temporary files; None: the system's.

    Returns
    -------
    engine : Engine
        The one that computes the metric.
    other : Engine or None
        One of another origin to check it with; None: there is none.

    Raises
    ------
    InputError
        If the setting names an engine that is not installed.
    """
    if not METRICS[metric].has_engines:
        return ScikitBio(), None
    if _are_products(setting, metric, samples):
        return Products(threads, scratch), ScikitBio()
    if setting == "ssu":
        return _installed_ssu("unifrac.engine", "ssu", threads, scratch), ScikitBio()
    if setting == "unifrac":
        return _importable_package(threads, scratch), ScikitBio()
    # What is left is `scikit-bio`, which a fast engine checks, `auto`, and `products` for a metric
    # that `Products` does not compute: there it means the same as `auto`.
    fast = _fast_engines(samples, threads, scratch)
    if setting == "scikit-bio":
        return ScikitBio(), fast[0] if fast else None
    if not fast:
        logger.warning(
            "Neither the package unifrac nor ssu is installed, so scikit-bio computes UniFrac: "
            "the results are correct, but it is slow beyond 1000 samples. To speed it up, install "
            "ssu (%s).",
            INSTALL,
        )
        return ScikitBio(), None
    return fast[0], ScikitBio()


def choose_engine_for_jobs(
    setting: EngineName, *, samples: int, metric: str, threads: int, scratch: Path | None
) -> Products | Ssu:
    """Return the engine of a metric that several jobs share.

    Parameters
    ----------
    setting, samples, metric, threads, scratch
        As for `choose_engine`.

    Raises
    ------
    InputError
        If it is `ssu`, which is not installed.
    """
    if _are_products(setting, metric, samples):
        return Products(threads, scratch)
    return _installed_ssu("unifrac.partitions", "a number of jobs of ssu", threads, scratch)


def _are_products(setting: EngineName, metric: str, samples: int) -> bool:
    """Return whether `Products` computes a metric, by the setting or, with `auto`, by its size."""
    if metric not in COMPUTED:
        return False
    return setting == "products" or (setting == "auto" and _is_large(samples))


def _is_large(samples: int) -> bool:
    """Return whether the package would need more memory than a call of `ssu` may take."""
    return package_memory_bytes(samples) > Ssu.memory_bytes


def _fast_engines(samples: int, threads: int, scratch: Path | None) -> list[Engine]:
    """Return the engines that are installed besides scikit-bio, the preferred one first."""
    engines: list[Engine] = []
    fault = import_fault()
    if fault is None:
        engines.append(UnifracPackage(threads, scratch))
    elif fault != NOT_INSTALLED:
        logger.warning("The package unifrac is installed, but cannot be imported: %s", fault)
    if has_ssu():
        engines.append(Ssu(threads, scratch))
    # Only ssu computes a large matrix in steps of bounded memory.
    if _is_large(samples):
        engines.reverse()
    return engines


def _importable_package(threads: int, scratch: Path | None) -> UnifracPackage:
    fault = import_fault()
    if fault is not None:
        raise problem(
            "unifrac.engine",
            f"unifrac, which cannot be imported ({fault})",
            "an installed engine",
            f"install it ({INSTALL_PACKAGE}), or {OR_AUTO}",
        )
    return UnifracPackage(threads, scratch)


def _installed_ssu(key: str, actual: str, threads: int, scratch: Path | None) -> Ssu:
    """Return the engine `ssu`, where it is installed.

    Parameters
    ----------
    key
        Key of the configuration that an error blames.
    actual
        What the user gave there.
    threads
        Cores that it may use.
    scratch
        Folder for temporary files; None: the system's.

    Raises
    ------
    InputError
        The programs are not on the path.
    """
    if not has_ssu():
        raise problem(
            key,
            f"{actual}, which is not installed ({' and '.join(PROGRAMS)} are not on the path)",
            "an installed engine",
            f"install it ({INSTALL}), or {OR_AUTO}",
        )
    return Ssu(threads, scratch)
