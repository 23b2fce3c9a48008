"""The tree file (Newick) that stages exchange."""

import io
import re
from pathlib import Path

from aam.util.atomic import write_text
from aam.util.scikit_bio import TreeNode

_NO_SYNTAX = re.compile(r"'(?:[^']|'')*'|\[[^\]]*\]")
"""Quoted names and comments."""
_TWO_LENGTHS = re.compile(r":[^,();:]*:")
_QUOTED = frozenset(" \t(),:;[]'\"")


def read_newick(path: Path) -> TreeNode:
    """Read a tree of the package; underscores in names stay what they are.

    Parameters
    ----------
    path
        A file that `write_newick` wrote.
    """
    return parse_newick(path.read_text(encoding="utf-8"))


def parse_newick(text: str) -> TreeNode:
    """Parse Newick without turning underscores in names into spaces.

    scikit-bio's reader cannot read names of brackets, commas, colons or quotes alone.

    Parameters
    ----------
    text
        One tree in the Newick format.

    Raises
    ------
    ValueError
        There are two trees, or a branch has two lengths, which scikit-bio would take for one; or
        the text is not Newick.
    """
    bare = _NO_SYNTAX.sub("", text)
    if ";" in bare.strip().removesuffix(";"):
        raise ValueError("more than one tree")
    doubled = _TWO_LENGTHS.search(bare)
    if doubled is not None:
        raise ValueError(f"a branch of two lengths, {doubled[0]}")
    return TreeNode.read(
        io.StringIO(text), format="newick", verify=False, convert_underscores=False
    )


def split_root(tree: TreeNode) -> TreeNode:
    """Give a root of many children two: the first, and a branch of length zero to the others.

    Parameters
    ----------
    tree
        The tree, which is changed in place and returned.
    """
    if len(tree.children) > 2:
        first, *others = tree.children
        tree.children = [first]
        tree.append(TreeNode(length=0.0, children=others))
    return tree


def write_newick(path: Path, tree: TreeNode) -> None:
    """Write a tree atomically, lengths with all their digits, without names of inner nodes.

    Names of tips stand in quotes only where Newick demands it: scikit-bio's writer would quote
    names with underscores and turn spaces into underscores, which is other names to other readers.

    Parameters
    ----------
    path
        File to write.
    tree
        The tree, with a name at every tip.
    """
    text: dict[int, str] = {}
    for node in tree.postorder():
        inner = ",".join(text.pop(id(child)) for child in node.children)
        length = "" if node.length is None else f":{float(node.length)!r}"
        text[id(node)] = (f"({inner})" if node.children else _label(node.name)) + length
    write_text(path, text[id(tree)] + ";\n")


def _label(name: str) -> str:
    if _QUOTED.isdisjoint(name):
        return name
    return "'" + name.replace("'", "''") + "'"
