import itertools
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skbio import TreeNode
from skbio.diversity import beta_diversity
from unifrac_cases import needs_programs

from aam.data.importing.tree import cut_tree, load_tree
from aam.data.tree_building import build_tree
from aam.data.trees import parse_newick, read_newick, write_newick
from aam.util.errors import InputError

BALANCED = "(((a:1,b:2):0.5,(c:3,d:1):0.25):2,((e:1,f:1):0.125,(g:4,h:1):0.75):1);"


def newick(tmp_path, text):
    path = tmp_path / "tree.nwk"
    path.write_text(text, encoding="utf-8")
    return path


def distances(tree):
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


@settings(max_examples=40, deadline=None)
@given(names, st.floats(0, 1e6))
def test_any_name_and_length_survives_the_file(tmp_path_factory, tips, length):
    path = tmp_path_factory.mktemp("tree") / "tree.nwk"
    others = [TreeNode(tip, length=1 / 3) for tip in tips[1:]]
    inner = TreeNode("0.98", length=length, children=others)
    write_newick(path, TreeNode(children=[TreeNode(tips[0], length=0.0), inner]))
    tree = read_newick(path)
    assert [tip.name for tip in tree.tips()] == tips
    assert tree.children[1].length == length
    assert tree.children[1].children[0].length == 1 / 3


def test_plain_names_are_not_quoted_and_deep_trees_are_written(tmp_path):
    write_newick(tmp_path / "t.nwk", parse_newick("(a_b:1,('c d':2,e:3)0.9:1)root;"))
    assert (tmp_path / "t.nwk").read_text() == "(a_b:1.0,('c d':2.0,e:3.0):1.0);\n"
    text = "(t0:1,t1:1)"
    for i in range(2, 3000):
        text = f"({text}:1,t{i}:1)"
    write_newick(tmp_path / "t.nwk", parse_newick(text + ";"))
    assert read_newick(tmp_path / "t.nwk").count(tips=True) == 3000


def test_underscores_quotes_comments_and_the_word_rooted_are_read(tmp_path):
    tree = load_tree(newick(tmp_path, "\ufeff[note]('a b':1,(c_d:2,'it''s':1.5e-3)0.98:1):7;\n"))
    assert [tip.name for tip in tree.tips()] == ["a b", "c_d", "it's"]
    assert tree.length is None
    tree = load_tree(newick(tmp_path, "[&R] (a:1,b:2,(c:3,d:4):5);"))
    assert len(tree.children) == 2
    assert distances(tree) == distances(parse_newick("(a:1,b:2,(c:3,d:4):5);"))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_cutting_keeps_distances_and_unifrac(tmp_path_factory, kept):
    whole = load_tree(newick(tmp_path_factory.mktemp("tree"), BALANCED))
    before = distances(whole)
    features = sorted(kept)
    counts = np.random.default_rng(len(kept)).integers(0, 2, (4, len(features)))
    counts[:, 0] = 1
    full = beta_diversity("unweighted_unifrac", counts, tree=whole, taxa=features, validate=False)
    cut = cut_tree(whole, features, None)
    assert sorted(tip.name for tip in cut.tips()) == features
    after = distances(cut)
    assert after == pytest.approx({pair: before[pair] for pair in after})
    nodes = list(cut.traverse(include_self=False))
    assert all(len(node.children) != 1 and node.length is not None for node in nodes)
    again = beta_diversity("unweighted_unifrac", counts, tree=cut, taxa=features, validate=False)
    np.testing.assert_allclose(again.data, full.data, atol=1e-12)


def test_all_problems_of_a_tree_are_named_at_once(tmp_path):
    path = newick(tmp_path, "((a:-1,b):1,(c:nan,a:1),(:2,d:inf):3,(e:1e-40,f:1e39):1);")
    with pytest.raises(InputError) as caught:
        load_tree(path)
    lines = str(caught.value).splitlines()
    unrooted, unnamed, duplicate, missing, strange, negative = lines
    assert "4 children" in unrooted
    assert "qiime phylogeny midpoint-root" in unrooted
    assert "1 tips without a name" in unnamed
    assert "more than once: 'a'" in duplicate
    assert "no length, above 'b', the ancestor of 'c'" in missing
    assert "beyond fp32, above 'c', 'd', 'e' and 1 more" in strange
    assert "negative length, above 'a'" in negative
    assert "tree: null" in negative
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_features_that_the_tree_lacks_are_named(tmp_path):
    path = newick(tmp_path, BALANCED)
    message = r"without 2 features \('x', 'y'\) of 3; .* 'a', 'b', 'c' and 5 more;.*sepp.*filter-f"
    with pytest.raises(InputError, match=message):
        cut_tree(load_tree(path), ["a", "x", "y"], path)
    with pytest.raises(InputError, match="Hint: give the tree that was made for this table, or"):
        cut_tree(load_tree(path), ["x"], path)


TWO, DOUBLED = "(a:1,b:2);(a:1,c:1);", "(a:1:2,b:2);"


@pytest.mark.parametrize(
    "text",
    ["(a:1,b:2", "((a:1,b:2);", "(a:one,b:2);", "x;", "(a:1,b c:2);", "a:1,b:1);", TWO, DOUBLED],
)
def test_text_that_is_no_tree(tmp_path, text):
    path = newick(tmp_path, text)
    with pytest.raises(InputError, match="Hint: ") as caught:
        load_tree(path)
    assert str(caught.value).startswith(f"{path}: got ")


def two_clades(per_clade):
    """Return sequences of two groups: far apart between, close within."""
    rng = np.random.default_rng(1)
    sequences = {}
    for clade in "xy":
        ancestor = rng.integers(0, 4, 120)
        for i in range(per_clade):
            own = ancestor.copy()
            own[rng.choice(120, 3, replace=False)] = rng.integers(0, 4, 3)
            sequences[f"{clade}_{i} 's"] = "".join("ACGT"[base] for base in own)
    return sequences


@needs_programs
def test_clades_are_found_with_any_threads_and_the_root_lies_between(tmp_path):
    trees = [build_tree(two_clades(15), threads, tmp_path / "scratch") for threads in (1, 2)]
    sides = [{tip.name[0] for tip in child.tips()} for child in trees[0].children]
    assert sorted(map(sorted, sides)) == [["x"], ["y"]]
    assert all(node.length >= 0 for node in trees[0].traverse(include_self=False))
    assert {tip.name for tip in trees[0].tips()} == two_clades(15).keys()
    assert str(trees[0]) == str(trees[1])
    assert list((tmp_path / "scratch").iterdir()) == []


@needs_programs
@pytest.mark.parametrize(("distinct", "copies"), [(1, 1), (1, 2), (2, 1), (3, 2)])
def test_a_handful_of_sequences_is_enough(distinct, copies):
    texts = list(two_clades(3).values())[:distinct]
    sequences = {f"{i}-{j}": text for i, text in enumerate(texts) for j in range(copies)}
    tree = build_tree(sequences, 1, None)
    assert {tip.name for tip in tree.tips()} == sequences.keys()
    assert len(tree.children) <= 2
    assert all(node.length is not None for node in tree.traverse(include_self=False))
    assert tree.find("0-0").distance(tree.find(f"0-{copies - 1}")) == 0


def test_a_program_that_is_missing_or_fails_is_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", {"mafft": "/usr/bin/mafft"}.get)
    message = "datasets.<name>.tree: .*'fasttree' is not installed.*apt install mafft fasttree"
    with pytest.raises(InputError, match=message):
        build_tree(two_clades(3), 1, None)
    monkeypatch.setattr(shutil, "which", lambda name: shutil.os.path.realpath("/bin/ls"))
    with pytest.raises(RuntimeError, match="exit code 2"):
        build_tree(two_clades(3), 1, None)


def test_tips_whose_names_a_program_changed_are_those_of_the_table(tmp_path, caplog):
    path = newick(tmp_path, "(('a_1':1,'b 2':1):1,('''c''':2,(d:1,e:1):1):1);")
    features = ["a 1", "b_2", '"c"', "d"]
    cut = cut_tree(load_tree(path), features, path)
    assert {tip.name for tip in cut.tips()} == set(features)
    said = (
        "3 tips are taken for features whose names differ in quotes, spaces and underscores alone"
    )
    assert f"{path}: {said} ('a_1' for 'a 1')" in caplog.text


def test_a_tip_that_could_be_two_features_is_none_of_them(tmp_path):
    path = newick(tmp_path, "((a_1:1,'a 1':1):1,c:2);")
    with pytest.raises(InputError, match=r"a tree without feature 'a_1\"' of 2"):
        cut_tree(load_tree(path), ['a_1"', "c"], path)


def test_another_name_of_a_feature_serves_where_the_first_is_no_tip(tmp_path, caplog):
    for text in ("((a:1,b:2):1,c:2);", "((x:1,b:2):1,(a:5,c:2):0);"):
        path = newick(tmp_path, text)
        cut = cut_tree(load_tree(path), ["x", "b", "c"], path, {"x": ["z", "a"]})
        assert sorted(tip.name for tip in cut.tips()) == ["b", "c", "x"]
        assert cut.find("x").length == 1
    assert not caplog.records


def test_hints_on_a_tree_are_about_what_is_wrong(tmp_path):
    path = newick(tmp_path, "((a:1,b:-1e-7):1,c:2);")
    hint = r"negative length, above 'b'; .*neighbour joining.*edge.length < 0\] <- 0 and ape::write"
    with pytest.raises(InputError, match=hint):
        load_tree(path)
    path = newick(tmp_path, "((a:1,:1):1,c:2);")
    with pytest.raises(
        InputError, match="tips without a name.*with feature IDs at its tips, or se"
    ):
        load_tree(path)
    path = newick(tmp_path, "((X12.3:1,b:1):1,c:2);")
    message = "its tips are 'X12.3', 'b', 'c'; '12-3' is probably 'X12.3' .*; expected"
    with pytest.raises(InputError, match=message):
        cut_tree(load_tree(path), ["12-3", "b"], path)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("#OTU ID\ta\nx\t1\n", "a Newick tree begins with"),
        ("(ASV 1:1,b:2);", "put names with spaces in quotes"),
        (TWO, "give a file of one tree"),
        ("((a:1,b:2):1", "check that the file is whole"),
    ],
)
def test_hints_on_text_that_is_no_tree_are_about_what_is_wrong(tmp_path, text, hint):
    with pytest.raises(InputError, match=f"text that is not Newick .* Hint: .*{hint}"):
        load_tree(newick(tmp_path, text))
