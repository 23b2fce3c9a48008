"""What is used of scikit-bio, imported in half the time and memory: without PyTorch.

Where that is installed, scikit-bio imports it for tests of its own.
"""

import sys
from importlib.abc import MetaPathFinder


class _NoTorch(MetaPathFinder):
    """Finds no PyTorch. None in its place in `sys.modules` would be the module to SciPy."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torch":
            raise ModuleNotFoundError("torch is not imported here", name=fullname)


_FINDER = _NoTorch()
sys.meta_path.insert(0, _FINDER)
try:
    from skbio import TreeNode
    from skbio.diversity import alpha_diversity, beta_diversity
    from skbio.io import NewickFormatError
    from skbio.stats.composition import rclr
finally:
    sys.meta_path.remove(_FINDER)

__all__ = ["NewickFormatError", "TreeNode", "alpha_diversity", "beta_diversity", "rclr"]
