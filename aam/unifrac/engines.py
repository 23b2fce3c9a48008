"""The programs that compute UniFrac, and which of them to use."""

import logging
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from aam.data.table import FeatureTable
from aam.unifrac.scikit_bio import ScikitBio
from aam.unifrac.ssu import PROGRAMS, Ssu
from aam.unifrac.store import Rows
from aam.util.errors import InputError, problem
from aam.util.scikit_bio import TreeNode

LOG = logging.getLogger(__name__)
INSTALL = "Debian, Ubuntu: apt install unifrac-tools; conda: unifrac-binaries of bioconda"


class Engine(Protocol):
    """One way to compute UniFrac; the tips of every tree are the features of its table."""

    @property
    def name(self) -> str:
        """Return the name in the configuration."""

    def distances(
        self, table: FeatureTable, tree: TreeNode, metric: str, alpha: float
    ) -> AbstractContextManager[Rows]:
        """Compute distances, [N, N] in the order of the table, for the time of the context."""

    def faith_pd(self, table: FeatureTable, tree: TreeNode) -> NDArray[np.float64]:
        """Compute Faith's phylogenetic diversity, [N]."""


def installed() -> bool:
    """Return whether the programs of the engine `ssu` are on the path."""
    return all(shutil.which(program) for program in PROGRAMS)


def choose(
    setting: Literal["auto", "ssu", "scikit-bio"],
    *,
    threads: int = 1,
    scratch: Path | None = None,
) -> tuple[Engine, Engine | None]:
    """Return the engine to use, and the one to check it with.

    Parameters
    ----------
    setting
        `unifrac.engine` of the configuration. auto: `ssu` where it is installed, else scikit-bio.
    threads
        Threads of `ssu`; scikit-bio has one.
    scratch
        Folder for the temporary files of `ssu`; None: the system's.

    Returns
    -------
    engine, other
        `other` is None where `ssu` is not installed.

    Raises
    ------
    InputError
        If the setting is `ssu` and it is not installed.
    """
    scikit_bio = ScikitBio()
    if not installed():
        if setting == "ssu":
            raise _missing("unifrac.engine", "ssu", "set it to scikit-bio")
        if setting == "auto":
            LOG.warning(
                "ssu is not installed, so scikit-bio computes UniFrac: right, but slow beyond "
                "1000 samples. To speed it up, install ssu (%s).",
                INSTALL,
            )
        return scikit_bio, None
    ssu = Ssu(threads, scratch)
    return (scikit_bio, ssu) if setting == "scikit-bio" else (ssu, scikit_bio)


def for_parts(*, threads: int, scratch: Path | None) -> Ssu:
    """Return the engine whose work is divided among jobs.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if not installed():
        raise _missing("unifrac.partitions", "a number of jobs of ssu", "set it to auto")
    return Ssu(threads, scratch)


def _missing(key: str, got: str, instead: str) -> InputError:
    return problem(
        key,
        f"{got}, which is not installed ({' and '.join(PROGRAMS)} are not on the path)",
        "an installed engine",
        f"install it ({INSTALL}), or {instead}",
    )
