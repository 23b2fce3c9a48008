"""The references: those that come with the package, and those that the user has got or built."""

import os
from collections.abc import Mapping
from pathlib import Path

from aam.config.digest import PACKAGE_ROOT
from aam.util.atomic import read_json
from aam.util.digests import MANIFEST

TREE = "tree.safetensors"
"""File of a shipped reference, next to its manifest and the licences of its studies."""
GENES = "genes.safetensors"
"""File of a reference of whole genes, next to its manifest."""
GREENGENES = "greengenes"
"""The reference that `aam reference get` makes."""
GET_GREENGENES = f"aam reference get {GREENGENES}"
REFERENCES: Mapping[str, Path] = {
    path.parent.name: path.parent
    for path in sorted((PACKAGE_ROOT / "reference_tree").glob(f"*/{TREE}"))
}
"""Folders of the shipped references by name."""


def references_folder() -> Path:
    """Return the folder of the user's references: `aam/references` among the user's data.

    The XDG Base Directory Specification says where these are: in the folder that the environment
    variable `XDG_DATA_HOME` names, or in `~/.local/share`.
    """
    home = os.environ.get("XDG_DATA_HOME", "")
    # The specification has relative paths ignored.
    data = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share"
    return data / "aam" / "references"


def gene_references() -> dict[str, Path]:
    """Return the folders of the user's references by name; what was not completed is left out."""
    folders = (path.parent for path in sorted(references_folder().glob(f"*/{GENES}")))
    return {folder.name: folder for folder in folders if (folder / MANIFEST).is_file()}


def reference_digest(name: str) -> str:
    """Return the SHA-256 of the file of a reference, as its manifest has it.

    Parameters
    ----------
    name
        A key of `REFERENCES` or of `gene_references`.
    """
    folder, file = (
        (REFERENCES[name], TREE) if name in REFERENCES else (gene_references()[name], GENES)
    )
    return str(read_json(folder / MANIFEST)["sha256"][file])
