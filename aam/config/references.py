"""The references: those that come with the package, and those that the user has got or built."""

import os
from collections.abc import Mapping
from pathlib import Path

from aam.config.digest import PACKAGE_ROOT
from aam.util.atomic import read_json
from aam.util.digests import MANIFEST
from aam.util.errors import problem

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


def gene_reference_folder(name: str) -> Path:
    """Return the folder of a reference of whole genes.

    Parameters
    ----------
    name
        Its name.

    Raises
    ------
    InputError
        It is not on this machine.
    """
    known = gene_references()
    if name not in known:
        raise problem(
            "reference",
            f"{name}, which is not in {references_folder()}",
            f"a reference of whole genes: {', '.join(known) or 'there is none'}",
            f"get one: {GET_GREENGENES}",
        )
    return known[name]


def is_gene_reference(name: str) -> bool:
    """Return whether a name is that of a reference of whole genes, on this machine or not.

    Parameters
    ----------
    name
        What a configuration gives as a tree or a taxonomy.
    """
    return name == GREENGENES or name in gene_references()


def is_reference(name: str) -> bool:
    """Return whether a name is that of a reference, which need not be on this machine.

    Parameters
    ----------
    name
        What a configuration gives as a tree.
    """
    return name in REFERENCES or is_gene_reference(name)


def is_on_machine(name: str) -> bool:
    """Return whether a reference comes with the package, or the user has it.

    Parameters
    ----------
    name
        Its name.
    """
    return name in REFERENCES or name in gene_references()


def default_genes() -> str | None:
    """Return the reference that names features where no taxonomy is given; None: none does."""
    return GREENGENES if GREENGENES in gene_references() else None


def default_references() -> list[str]:
    """Return the references that are tried where no tree is given; the first that suits is taken.

    Greengenes comes first, if it is on this machine: its distances are nearer to those on a study's
    own tree (docs/explanation/reference-tree.md).
    """
    return [*filter(None, [default_genes()]), *sorted(REFERENCES)]


def reference_licence(name: str) -> str:
    """Return the licence of a reference of this machine, as its manifest has it.

    Parameters
    ----------
    name
        Its name.
    """
    folder = REFERENCES.get(name) or gene_reference_folder(name)
    manifest = read_json(folder / MANIFEST)
    licences = {str(study["licence"]) for study in manifest.get("studies", ())}
    return manifest.get("licence") or ", ".join(sorted(licences)) or "no licence is given"


def reference_digest(name: str, key: str = "tree") -> str:
    """Return the SHA-256 of the file of a reference, as its manifest has it.

    Parameters
    ----------
    name
        Name of a reference.
    key
        The key of a dataset that asks for it, for messages.

    Raises
    ------
    InputError
        It is not on this machine.
    """
    if name in REFERENCES:
        folder, file = REFERENCES[name], TREE
    elif name in (known := gene_references()):
        folder, file = known[name], GENES
    else:
        raise problem(
            f"configuration key datasets.<name>.{key}",
            f"{name}, which is not in {references_folder()}",
            "a reference of this machine",
            f"get it: {GET_GREENGENES}",
        )
    return str(read_json(folder / MANIFEST)["sha256"][file])
