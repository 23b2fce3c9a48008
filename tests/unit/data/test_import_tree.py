import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skbio import TreeNode
from skbio.diversity import beta_diversity

from aam.data.importing.tree import cut_to, load_tree
from aam.data.trees.newick import parse_newick, read_newick, write_newick
from aam.util.errors import InputError

BALANCED = "(((a:1,b:2):0.5,(c:3,d:1):0.25):2,((e:1,f:1):0.125,(g:4,h:1):0.75):1);"


def newick(tmp_path, text):
    path = tmp_path / "tree.nwk"
    path.write_text(text, encoding="utf-8")
    return path


def distances(tree):
    """Return the path length between every two tips."""
    tips = sorted(tree.tips(), key=lambda tip: tip.name)
    return {(a.name, b.name): a.distance(b) for a, b in itertools.combinations(tips, 2)}


names = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
        lambda name: any(letter.isalnum() for letter in name)
    )
    | st.sampled_from(["a b", "it's", "''x", "a_b", "x(1)", "k:l", "[1]", "a,b;", '"q"', "x'"]),
    min_size=2,
    max_size=8,
    unique=True,
)


@settings(deadline=None)
@given(names, st.floats(0, 1e6))
def test_any_name_and_length_survives_the_file(tmp_path_factory, tips, length):
    path = tmp_path_factory.mktemp("tree") / "tree.nwk"
    inner = TreeNode(
        "0.98", length=length, children=[TreeNode(tip, length=1 / 3) for tip in tips[1:]]
    )
    write_newick(path, TreeNode(children=[TreeNode(tips[0], length=0.0), inner]))
    tree = read_newick(path)
    assert [tip.name for tip in tree.tips()] == tips
    assert tree.children[1].length == length
    assert tree.children[1].children[0].length == 1 / 3


def test_plain_names_are_not_quoted_for_other_readers(tmp_path):
    write_newick(tmp_path / "t.nwk", parse_newick("(a_b:1,('c d':2,e:3)0.9:1)root;"))
    assert (tmp_path / "t.nwk").read_text() == "(a_b:1.0,('c d':2.0,e:3.0):1.0);\n"


def test_deep_trees_are_written(tmp_path):
    text = "(t0:1,t1:1)"
    for i in range(2, 3000):
        text = f"({text}:1,t{i}:1)"
    write_newick(tmp_path / "t.nwk", parse_newick(text + ";"))
    assert read_newick(tmp_path / "t.nwk").count(tips=True) == 3000


def test_underscores_quotes_and_comments_are_read(tmp_path):
    tree = load_tree(newick(tmp_path, "\ufeff[note]('a b':1,(c_d:2,'it''s':1.5e-3)0.98:1):7;\n"))
    assert [tip.name for tip in tree.tips()] == ["a b", "c_d", "it's"]
    assert tree.length is None


@settings(max_examples=40, deadline=None)
@given(st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_cutting_keeps_distances_and_unifrac(tmp_path_factory, kept):
    whole = load_tree(newick(tmp_path_factory.mktemp("tree"), BALANCED))
    before = distances(whole)
    features = sorted(kept)
    counts = np.random.default_rng(len(kept)).integers(0, 2, (4, len(features)))
    counts[:, 0] = 1
    full = beta_diversity("unweighted_unifrac", counts, tree=whole, taxa=features, validate=False)
    cut = cut_to(whole, features, None)
    assert sorted(tip.name for tip in cut.tips()) == features
    after = distances(cut)
    assert after == pytest.approx({pair: before[pair] for pair in after})
    assert all(len(node.children) != 1 for node in cut.traverse(include_self=False))
    assert all(node.length is not None for node in cut.traverse(include_self=False))
    again = beta_diversity("unweighted_unifrac", counts, tree=cut, taxa=features, validate=False)
    np.testing.assert_allclose(again.data, full.data, atol=1e-12)


def test_a_tree_that_says_that_it_is_rooted_is_believed(tmp_path):
    tree = load_tree(newick(tmp_path, "[&R] (a:1,b:2,(c:3,d:4):5);"))
    assert len(tree.children) == 2
    assert distances(tree) == distances(parse_newick("(a:1,b:2,(c:3,d:4):5);"))


def test_all_problems_of_a_tree_are_named_at_once(tmp_path):
    path = newick(tmp_path, "((a:-1,b):1,(c:nan,a:1),(:2,d:inf):3);")
    with pytest.raises(InputError) as caught:
        load_tree(path)
    unrooted, unnamed, doubled, missing, strange, negative = str(caught.value).splitlines()
    assert "3 children" in unrooted
    assert "qiime phylogeny midpoint-root" in unrooted
    assert "1 tips without a name" in unnamed
    assert "more than once: 1 (a)" in doubled
    assert "no length, above 2 (b, the ancestor of c)" in missing
    assert "NaN or infinite, above 2 (c, d)" in strange
    assert "negative length, above 1 (a)" in negative
    assert "tree: null" in negative
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_features_that_the_tree_lacks_are_named(tmp_path):
    path = newick(tmp_path, BALANCED)
    message = r"got a tree without 2 \(x, y\) of 3 .* 8 \(a, b, c, …\).*Hint: insert .*SEPP"
    with pytest.raises(InputError, match=message):
        cut_to(load_tree(path), ["a", "x", "y"], path)
    with pytest.raises(InputError, match="Hint: give the tree that was made for this table, or"):
        cut_to(load_tree(path), ["x"], path)


@pytest.mark.parametrize(
    "text", ["(a:1,b:2", "((a:1,b:2);", "(a:one,b:2);", "hello world", "x;", "(a:1,b c:2);"]
)
def test_text_that_is_no_tree(tmp_path, text):
    path = newick(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_tree(path)
    assert str(caught.value).startswith(f"{path}: got ")
    assert "Hint: " in str(caught.value)
