"""Trees of the user: Newick or QIIME 2 artifacts, checked and cut to the table."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aam.data.importing.files import decoded, read_content
from aam.data.importing.qza import ArtifactKind, is_archive
from aam.data.trees.newick import parse_newick, split_root
from aam.util.errors import InputError, first_names, problem, problems
from aam.util.scikit_bio import NewickFormatError, TreeNode

EXPECTED = "a rooted tree: Newick or a .qza of type Phylogeny[Rooted]"

_ROOTING = (
    "root it at its midpoint (`qiime phylogeny midpoint-root`), or set `tree: null` to build one"
)
_ARTIFACT = ArtifactKind(
    type="Phylogeny[Rooted]", member="tree.nwk", hints={"Phylogeny[Unrooted]": _ROOTING}
)
_DECLARED_ROOTED = re.compile(r"\s*\[&R\]", re.IGNORECASE)
_LENGTHS = "export the tree with branch lengths, or set `tree: null` to build one"


def load_tree(path: Path) -> TreeNode:
    """Read a rooted tree and check it.

    A tree whose root has more than two children is taken for unrooted, unless it says otherwise:
    by its type, `Phylogeny[Rooted]` (reference trees with a multifurcating root come so), or by
    the Newick comment `[&R]` at its beginning. The root of such a tree gets two children, with a
    branch of length zero between them, which no UniFrac notices.

    Parameters
    ----------
    path
        Newick, or a `Phylogeny[Rooted]` artifact.

    Returns
    -------
    skbio.TreeNode
        With at most two children at the root, whose own length is dropped.

    Raises
    ------
    InputError
        If the file is no Newick; the tree is unrooted; tips are unnamed or doubled; branch
        lengths are missing, negative, NaN or infinite. All of it is said at once.
    """
    raw = read_content(path, EXPECTED, _ARTIFACT)
    text = decoded(path, raw, EXPECTED)
    try:
        tree = parse_newick(text)
    except (NewickFormatError, ValueError) as error:
        got = f"text that is not Newick ({error})"
        raise problem(path, got, EXPECTED, "check the path, or export the tree again") from error
    with path.open("rb") as handle:
        declared = is_archive(handle.read(4)) or _DECLARED_ROOTED.match(text) is not None
    found = list(_problems(path, tree, declared))
    if found:
        raise problems(found)
    tree.length = None
    return split_root(tree)


def cut_to(tree: TreeNode, feature_ids: Sequence[str], path: Path) -> TreeNode:
    """Return the tree with the features of a table as its only tips.

    Nodes with one child are removed and their lengths summed, except at the root: a branch from
    the root of the whole tree to the common ancestor of the features stays, so that distances
    are those on the whole tree.

    Parameters
    ----------
    tree
        What `load_tree` returned; it is changed in place.
    feature_ids
        Features of the table.
    path
        Where the tree came from, for messages.

    Raises
    ------
    InputError
        If features are not among the tips.
    """
    tips = {tip.name for tip in tree.tips(include_self=True)}
    missing = [name for name in feature_ids if name not in tips]
    if missing:
        hint = (
            "insert them into a reference tree with SEPP (`qiime fragment-insertion sepp`), "
            "or set `tree: null` to build one"
        )
        if len(missing) == len(feature_ids):
            hint = f"give the tree that was made for this table, or {hint}"
        raise problem(
            path,
            f"a tree without {first_names(missing, limit=3)} of {len(feature_ids)} features; "
            f"its tips are {first_names(sorted(tips), limit=3)}",
            "every feature of the table at a tip",
            hint,
        )
    cut = tree.shear(feature_ids, strict=False, inplace=True)
    stem, cut.length = cut.length, None
    if stem is None:
        return cut
    cut.length = stem
    return TreeNode(children=[cut])


def _problems(path: Path, tree: TreeNode, declared_rooted: bool) -> Iterator[InputError]:
    if not tree.children:
        yield problem(path, "a tree of one node", EXPECTED, "check the path, or export it again")
        return
    if len(tree.children) > 2 and not declared_rooted:
        got = f"a tree whose root has {len(tree.children)} children, so an unrooted one"
        yield problem(path, got, "a root with two children", _ROOTING)
    names = Counter(tip.name for tip in tree.tips())
    unnamed = names.pop(None, 0)
    if unnamed:
        yield problem(path, f"{unnamed} tips without a name", "feature IDs at the tips", _LENGTHS)
    doubled = [name for name, count in names.items() if count > 1]
    if doubled:
        got = f"tips that occur more than once: {first_names(doubled, limit=3)}"
        yield problem(path, got, "every tip once", "remove the doubled tips")
    yield from _length_problems(path, tree)


def _length_problems(path: Path, tree: TreeNode) -> Iterator[InputError]:
    wrongs: dict[str, Callable[[float | None], bool]] = {
        "no length": lambda length: length is None,
        "a length that is NaN or infinite": lambda x: x is not None and not math.isfinite(x),
        "a negative length": lambda x: x is not None and x < 0,
    }
    nodes = list(tree.traverse(include_self=False))
    for text, wrong in wrongs.items():
        edges = [_edge(node) for node in nodes if wrong(node.length)]
        if edges:
            got = f"branches with {text}, above {first_names(edges, limit=3)}"
            yield problem(path, got, "a length of 0 or more on every branch", _LENGTHS)


def _edge(node: TreeNode) -> str:
    """Name a node by itself or by the first tip below it."""
    if node.is_tip():
        return str(node.name)
    return f"the ancestor of {next(node.tips()).name}"
