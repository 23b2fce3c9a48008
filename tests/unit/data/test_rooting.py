import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import random_tree, tree_of

from aam.data.outlier_branches import DROP, without_dropped_branches
from aam.data.tree_building import outlier_branches, root_by_variance, warn_of_long_branches
from aam.util.notes import Note


def to_tips(tree) -> np.ndarray:
    return np.array([tip.distance(tree) for tip in tree.tips()])


def least_variance(tree, places: int = 9) -> float:
    """Try every branch at several places."""
    found = []
    for number, node in enumerate(tree.postorder()):
        for place in np.linspace(0, node.length or 0, places) if node.parent else ():
            copy = tree.copy()
            at = list(copy.postorder())[number]
            found.append(to_tips(copy.root_at(at, above=float(place))).var())
    return min(found)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tips=st.integers(2, 9))
def test_no_other_place_has_less_variance_and_no_length_is_lost(seed, tips):
    rng = np.random.default_rng(seed)
    tree = random_tree([f"f{number}" for number in range(tips)], rng)
    for node in tree.traverse(include_self=False):
        node.length = float(rng.uniform(0, 0.6))
    expected = least_variance(tree)
    names, length = {tip.name for tip in tree.tips()}, sum(n.length or 0 for n in tree.traverse())
    rooted = root_by_variance(tree)
    assert to_tips(rooted).var() <= expected + 1e-9
    assert len(rooted.children) == 2
    assert {tip.name for tip in rooted.tips()} == names
    assert sum(node.length or 0 for node in rooted.traverse()) == pytest.approx(length)


def test_a_root_at_a_node_still_gives_two_children():
    tree = root_by_variance(tree_of("(a:1,b:1,c:1);"))
    assert len(tree.children) == 2
    assert tree.find("a").distance(tree.find("c")) == 2


def test_one_tip_on_a_long_branch_does_not_move_the_root_away_from_all_others():
    clades = [",".join(f"{side}{i}:0.1" for i in range(20)) for side in "xy"]
    rooted = root_by_variance(tree_of(f"(({clades[0]}):0.5,({clades[1]},far:9):0.5,z:0.6);"))
    assert rooted.find("x0").distance(rooted) < 1


def test_what_lies_behind_outlier_branches_is_listed_the_longest_first():
    tips = ",".join(f"x{i}:0.1" for i in range(200))
    tree = tree_of(f"(({tips}):0.7,(far:5.1,(p:0.1,q:0.2):0.9):0.3);")
    assert outlier_branches(tree) == [(["far"], 5.1), (["p", "q"], 0.9)]
    assert outlier_branches(tree_of("((a:0.1,b:0.6):0.1,c:0.2);")) == []
    # A midpoint root halves the longest branch.
    assert outlier_branches(tree_of(f"(odd:0.5,({tips}):0.4);")) == [(["odd"], 0.9)]
    for other in (":0", ""):
        assert outlier_branches(tree_of(f"(odd:0.9,({tips}){other});")) == [(["odd"], 0.9)]


def test_a_branch_is_an_outlier_where_it_is_longer_than_0_6():
    assert outlier_branches(tree_of("(((a:0.6,b:0.61):0.1,c:0.2):0.1,d:0.1,e:0.1);")) == [
        (["b"], 0.61)
    ]


@pytest.mark.parametrize(("others", "expected"), [(197, [(["p", "q"], 0.9)]), (196, [])])
def test_a_branch_is_an_outlier_where_a_hundredth_of_the_tips_at_most_lie_behind_it(
    others, expected
):
    tips = ",".join(f"x{i}:0.1" for i in range(others))
    tree = tree_of(f"((({tips}):0.1,(p:0.1,q:0.1):0.9):0.1,z:0.1);")
    assert outlier_branches(tree) == expected


def test_outlier_branches_of_one_length_are_in_the_order_of_their_names():
    tree = tree_of("((b:0.9,a:0.9):0.1,(c:0.1,d:0.1):0.1,e:1.5);")
    assert outlier_branches(tree) == [(["e"], 1.5), (["a"], 0.9), (["b"], 0.9)]


@pytest.mark.parametrize(("length", "is_caution"), [(1.1, True), (1.0, False)])
def test_features_behind_long_branches_are_warned_of_with_their_share_of_the_tree(
    length, is_caution, caplog
):
    """The 180 other tips have a length of 18 together, and inner branches and a neighbour 1.1."""
    caplog.set_level(logging.WARNING)
    tips = ",".join(f"x{i}:0.1" for i in range(180))
    warn_of_long_branches(tree_of(f"(({tips}):0.5,(far:{length},near:0.5):0.1);"))
    (record,) = caplog.records
    share = 100 * length / (18 + 1.1 + length)
    assert "1 of the ASVs lie behind branches longer than 0.6" in record.getMessage()
    assert f"which are {share:.1f} % of the tree: 'far'. UniFrac" in record.getMessage()
    assert DROP in record.getMessage()
    assert getattr(record, "is_caution", False) == is_caution


def test_branches_that_are_no_outliers_are_not_warned_of(caplog):
    caplog.set_level(logging.WARNING)
    tips = ",".join(f"x{i}:0.1" for i in range(180))
    warn_of_long_branches(tree_of(f"(({tips}):0.5,(far:0.6,near:0.5):0.1);"))
    assert not caplog.records


def test_the_advice_to_drop_branches_is_not_given_where_they_are_dropped():
    notes = [Note(f"leave them out: {DROP}"), Note("another")]
    assert without_dropped_branches(notes, is_dropped=False) == notes
    assert without_dropped_branches(notes, is_dropped=True) == notes[1:]


def test_a_tree_of_two_tips_is_rooted_halfway_between_them():
    tree = root_by_variance(tree_of("(a:1,b:4);"))
    assert {tip.name: tip.length for tip in tree.tips()} == {"a": 2.5, "b": 2.5}


def test_tips_behind_an_outlier_branch_do_not_move_the_root():
    """The root lies in the middle of the others, whichever side the tree was rooted on before."""
    others = ",".join(f"x{i}:0.2" for i in range(150))
    more = ",".join(f"y{i}:0.2" for i in range(150))
    text = f"(({others}):0.4,({more},(p:0.1,q:0.3):0.7):0.4)"
    for newick in (f"{text};", f"(p:0.1,q:0.3,(({others}):0.8,{more}):0.7);"):
        rooted = root_by_variance(tree_of(newick))
        near = [tip.distance(rooted) for tip in rooted.tips() if tip.name[0] in "xy"]
        assert near == pytest.approx([0.6] * 300)
