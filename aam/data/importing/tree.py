"""Trees of the user: Newick or QIIME 2 artifacts, checked and cut to the table."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aam.data.importing.files import (
    ArtifactKind,
    find_duplicates,
    is_archive,
    read_text,
    refuse,
    report_names,
)
from aam.data.importing.ids import describe_matches
from aam.data.trees import parse_newick, split_root
from aam.util.errors import InputError, count_names, first_names, problem
from aam.util.scikit_bio import NewickFormatError, TreeNode

logger = logging.getLogger(__name__)
EXPECTED = "a tree: Newick or a .qza of type Phylogeny[Rooted] or Phylogeny[Unrooted]"

_ROOTING = "root it (`qiime phylogeny midpoint-root`), or set `tree: null` to build one"
_ROOTED = "Phylogeny[Rooted]"
_UNROOTED = "Phylogeny[Unrooted]"
_KINDS = {
    True: ArtifactKind(_ROOTED, "tree.nwk", {_UNROOTED: _ROOTING}),
    False: ArtifactKind(_UNROOTED, "tree.nwk", {_ROOTED: "name an unrooted tree"}),
}
"""By whether the root is that of the file."""
_DECLARED_ROOTED = re.compile(r"\s*\[&R\]", re.IGNORECASE)
_BUILD = "set `tree: null` to build one"
_NAMES = f"export the tree with feature IDs at its tips, or {_BUILD}"
_LENGTHS = f"export the tree with branch lengths, or {_BUILD}"
_NEGATIVE = (
    "neighbour joining makes such lengths: set them to 0, in R with "
    "tree$edge.length[tree$edge.length < 0] <- 0 and ape::write.tree(tree, 'tree.nwk'), or "
    f"{_BUILD}"
)


def load_tree(path: Path, *, is_rooted: bool = True, is_reference: bool = False) -> TreeNode:
    """Read a tree of the user and check it.

    A tree whose root has more than two children is taken for unrooted, unless it says otherwise:
    by its type, `Phylogeny[Rooted]`, or by the Newick comment `[&R]` at its beginning. Such a root
    gets two children, with a branch of length zero between them. A length of the root itself is
    dropped.

    Parameters
    ----------
    path
        Newick, or a .qza of type Phylogeny[Rooted] or Phylogeny[Unrooted].
    is_rooted
        Whether an unrooted tree is refused.
    is_reference
        Whether branches at the root may lack their length, as in the trees of Greengenes: it is 0
        then, and distances between what lies below one of them are as they were.

    Raises
    ------
    InputError
        The file is no tree with names and lengths; all its problems are named at once.
    """
    text = read_text(path, EXPECTED, _KINDS[is_rooted], key="tree")
    try:
        tree = parse_newick(text)
    except (NewickFormatError, ValueError, IndexError, AttributeError) as error:
        actual = f"text that is not Newick ({error})"
        raise problem(path, actual, EXPECTED, _syntax_hint(text, str(error))) from error
    if is_reference:
        for node in tree.children:
            node.length = node.length or 0.0
    with path.open("rb") as handle:
        # An artifact says so by its type, which `read_text` has checked.
        is_declared = is_archive(handle.read(4)) or _DECLARED_ROOTED.match(text) is not None
    refuse(_problems(path, tree, is_declared or not is_rooted))
    tree.length = None
    return split_root(tree)


def _syntax_hint(text: str, said: str) -> str:
    """Return what to do about text that cannot be read as a tree."""
    if not text.lstrip().startswith(("(", "[")):
        return "check the path; a Newick tree begins with '('"
    if "whitespace" in said:
        return "put names with spaces in quotes, as in ('ASV 1':0.1,b:0.2);"
    if "more than one tree" in said:
        return "give a file of one tree, such as the consensus or the best"
    return "check that the file is whole: it ends with ';', or export the tree again"


def cut_tree(
    tree: TreeNode,
    feature_ids: Sequence[str],
    path: Path,
    other_names: Mapping[str, Sequence[str]] = {},
) -> TreeNode:
    """Return a tree with a table's features as its only tips.

    Nodes with one child are removed and their lengths summed, except at the root: distances stay
    those on the whole tree.

    Parameters
    ----------
    tree
        A tree of `load_tree`, which is changed in place.
    feature_ids
        The features of the table.
    path
        File of the tree, for messages.
    other_names
        Further IDs of some features in the user's files, which serve where the first is no tip.

    Raises
    ------
    InputError
        A feature is not among the tips, not even with quotes or with underscores as spaces.
    """
    tips = _named_tips(tree, feature_ids, path, other_names)
    missing = [name for name in feature_ids if name not in tips]
    if missing:
        hint = (
            "insert them into a reference tree (`qiime fragment-insertion sepp`), leave them out "
            "of the table (`qiime fragment-insertion filter-features`), or set `tree: null` to "
            "build one"
        )
        if len(missing) == len(feature_ids):
            hint = f"give the tree that was made for this table, or {hint}"
        raise problem(
            path,
            f"a tree without {count_names('feature', missing, limit=3)} of {len(feature_ids)}; "
            f"its tips are {first_names(sorted(tips), limit=3)}{describe_matches(missing, tips)}",
            "every feature of the table at a tip",
            hint,
        )
    cut = tree.shear(feature_ids, strict=False, inplace=True)
    # Where all features lie in one clade, shearing makes its node the root, whose length would not
    # count: a root above it keeps distances to the root.
    return cut if cut.length is None else TreeNode(children=[cut])


def load_cut_tree(
    path: Path, feature_ids: Sequence[str], other_names: Mapping[str, Sequence[str]] = {}
) -> TreeNode:
    """Read a tree of the user and cut it to the features of a table.

    Parameters
    ----------
    path
        As for `load_tree`.
    feature_ids, other_names
        As for `cut_tree`.

    Raises
    ------
    InputError
        The tree cannot be read, or lacks features.
    """
    given = load_tree(path)
    logger.info("tree of %d tips, %d features", given.count(tips=True), len(feature_ids))
    return cut_tree(given, feature_ids, path, other_names)


def _named_tips(
    tree: TreeNode,
    feature_ids: Sequence[str],
    path: Path,
    other_names: Mapping[str, Sequence[str]],
) -> set[str]:
    """Return the names of the tips, after giving those of features the names of the table."""
    tip_of = {tip.name: tip for tip in tree.tips(include_self=True)}
    lost = [name for name in feature_ids if name not in tip_of]
    for name in lost:
        other = next((one for one in other_names.get(name, ()) if one in tip_of), None)
        if other is not None:
            tip_of[other].name = name
            tip_of[name] = tip_of.pop(other)
    lost = [name for name in lost if name not in tip_of]
    features = set(feature_ids)
    plain: dict[str, list[str]] = {}
    for tip in tip_of.keys() - features if lost else ():
        plain.setdefault(_without_quotes(tip), []).append(tip)
    changed = {}
    for name in lost:
        alike = plain.pop(_without_quotes(name), [])
        if len(alike) == 1:
            changed[name] = alike[0]
            tip_of[alike[0]].name = name
            tip_of[name] = tip_of.pop(alike[0])
    if changed:
        name, tip = next(iter(changed.items()))
        logger.warning(
            "%s: %d tips are taken for features whose names differ in quotes, spaces and "
            "underscores alone (%r for %r); to have it otherwise, write the same names in both "
            "files",
            path,
            len(changed),
            tip,
            name,
        )
    return set(tip_of)


def _without_quotes(name: str) -> str:
    """Return a name without what programs that write Newick change in it."""
    return name.strip("'\"").replace(" ", "_")


def _problems(path: Path, tree: TreeNode, declared_rooted: bool) -> Iterator[InputError]:
    if not tree.children:
        yield problem(path, "a tree of one node", EXPECTED, "check the path, or export it again")
        return
    if len(tree.children) > 2 and not declared_rooted:
        actual = f"a tree whose root has {len(tree.children)} children, so an unrooted one"
        yield problem(path, actual, "a root with two children", _ROOTING)
    names = [tip.name for tip in tree.tips()]
    unnamed = names.count(None)
    if unnamed:
        yield problem(path, f"{unnamed} tips without a name", "feature IDs at the tips", _NAMES)
    actual = "tips that occur more than once:"
    hint = "remove the duplicate tips"
    yield from report_names(path, find_duplicates(names), actual, "every tip once", hint, limit=3)
    edges = [(node, node.length) for node in tree.traverse(include_self=False)]
    for text, wrong, hint in (
        ("no length", [node for node, x in edges if x is None], _LENGTHS),
        (
            # `ssu` reads lengths as float32.
            "a length beyond fp32",
            [node for node, x in edges if x and not 1e-37 < abs(x) < 1e37],
            f"export the tree again, or {_BUILD}",
        ),
        ("a negative length", [node for node, x in edges if (x or 0) < 0], _NEGATIVE),
    ):
        actual = f"branches with {text}, above"
        expected = "a length of 0 or more on every branch"
        yield from report_names(
            path, map(_edge, wrong), actual, expected, hint, limit=3, quoted=False
        )


def _edge(node: TreeNode) -> str:
    """Name a node by itself or by the first tip below it."""
    return f"'{node.name}'" if node.is_tip() else f"the ancestor of '{next(node.tips()).name}'"
