"""What is used of scikit-bio, imported in half the time and memory: without PyTorch.

Wherever PyTorch is installed, scikit-bio imports it for tests of its own, and does without where it
is not.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Absent(MetaPathFinder):
    """Finds no module of one name, whatever is installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == self.name:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Hide a module within the block, unless it has been imported before."""
    finder = _Absent(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


with _absent("torch"):
    from skbio import TreeNode
    from skbio.diversity import alpha_diversity, beta_diversity
    from skbio.io import NewickFormatError
    from skbio.stats.composition import rclr

__all__ = ["NewickFormatError", "TreeNode", "alpha_diversity", "beta_diversity", "rclr"]
