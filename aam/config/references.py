"""The reference trees that come with the package."""

from collections.abc import Mapping
from pathlib import Path

from aam.config.digest import PACKAGE_ROOT
from aam.util.atomic import read_json
from aam.util.digests import MANIFEST

TREE = "tree.safetensors"
"""File of a reference, next to its manifest and the licences of its studies."""
REFERENCES: Mapping[str, Path] = {
    path.parent.name: path.parent
    for path in sorted((PACKAGE_ROOT / "reference_tree").glob(f"*/{TREE}"))
}
"""Folders of the references by name."""


def reference_digest(name: str) -> str:
    """Return the SHA-256 of the tree of a reference, as its manifest has it.

    Parameters
    ----------
    name
        A key of `REFERENCES`.
    """
    return str(read_json(REFERENCES[name] / MANIFEST)["sha256"][TREE])
