import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import random_tree, tree_of

from aam.data.tree_building import outlier_branches, root_by_variance


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
