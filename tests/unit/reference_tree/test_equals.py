"""One of several known sequences that are equally like another one."""

import numpy as np
import pytest

from aam.reference_tree.equals import NEIGHBOURHOOD, Paths, choose_among_equals
from aam.reference_tree.tree import ReferenceTree

TIPS = 150
MOST_HITS = 9


@pytest.fixture(scope="module")
def paths():
    """Return a random binary tree, in preorder."""
    rng = np.random.default_rng(1)
    parents = [-1]
    lengths = [0.0]

    def grow(parent, tips):
        left = int(rng.integers(1, tips))
        for size in (left, tips - left):
            number = len(parents)
            parents.append(parent)
            lengths.append(float(rng.exponential(0.02)))
            if size > 1:
                grow(number, size)

    grow(0, TIPS)
    tips = np.setdiff1d(np.arange(len(parents)), parents)
    return Paths(
        ReferenceTree(
            bases_US=np.zeros((TIPS, 0), np.uint8),
            tip_U=tips.astype(np.int32),
            parent_B=np.array(parents, np.int32),
            length_B=np.array(lengths, np.float32),
        )
    )


def drawn(rng, queries=60):
    """Return hits of each sequence, many of them equally near, and of some none."""
    count_Q = rng.integers(0, MOST_HITS + 1, queries)
    rows = [rng.choice(TIPS, count, replace=False) for count in count_Q]
    return rows, [rng.integers(0, 3, count) / 150 for count in count_Q]


def choose(paths, rows, distances):
    offset_Q = np.cumsum([0, *map(len, rows)])
    return choose_among_equals(paths, offset_Q, np.concatenate(rows), np.concatenate(distances))


def distances_by_path(paths):
    """Return the distances of all tips, along their paths to the root."""
    tree = paths.tree
    above = []
    for tip in tree.tip_U.tolist():
        nodes = []
        while tip > 0:
            nodes.append(tip)
            tip = int(tree.parent_B[tip])
        above.append(set(nodes))
    return np.array(
        [[sum(float(tree.length_B[node]) for node in a ^ b) for b in above] for a in above]
    )


def test_distances_between_tips_are_those_along_their_paths(paths):
    row_U = np.arange(TIPS)
    between_UU = paths.between(row_U[:, None], row_U[None, :])
    np.testing.assert_allclose(between_UU, distances_by_path(paths), atol=1e-6)


def test_the_chosen_one_lies_among_most_of_the_equals(paths):
    between_UU = distances_by_path(paths)
    rows, distances = drawn(np.random.default_rng(2))
    for row_K, distance_K, chosen in zip(
        rows, distances, choose(paths, rows, distances), strict=True
    ):
        if not len(row_K):
            assert chosen == -1
            continue
        equals = row_K[distance_K == distance_K.min()]
        total = np.exp(-between_UU[np.ix_(equals, equals)] / NEIGHBOURHOOD).sum(axis=1)
        assert chosen in equals
        assert total[equals == chosen] == pytest.approx(total.max())


def test_a_pair_of_neighbours_wins_over_one_that_lies_apart(paths):
    between_UU = distances_by_path(paths)
    np.fill_diagonal(between_UU, np.inf)
    one, neighbour = np.unravel_index(between_UU.argmin(), between_UU.shape)
    np.fill_diagonal(between_UU, 0)
    far = int(between_UU[one].argmax())
    rows = [np.array([far, neighbour, one])]
    assert choose(paths, rows, [np.zeros(3)])[0] == min(one, neighbour)
    # A nearer one is taken wherever it lies.
    assert choose(paths, rows, [np.array([0.0, 0.01, 0.01])])[0] == far


def test_neither_the_order_nor_other_sequences_change_the_choice(paths):
    rng = np.random.default_rng(3)
    rows, distances = drawn(rng, 600)
    expected_Q = choose(paths, rows, distances)
    order = rng.permutation(len(rows))
    mixed = [rng.permutation(len(rows[query])) for query in order]
    mixed_Q = choose(
        paths,
        [rows[query][hits] for query, hits in zip(order, mixed, strict=True)],
        [distances[query][hits] for query, hits in zip(order, mixed, strict=True)],
    )
    np.testing.assert_array_equal(mixed_Q, expected_Q[order])
    for query in range(0, len(rows), 50):
        twice_Q = choose(paths, [rows[query]] * 2, [distances[query]] * 2)
        assert twice_Q.tolist() == [expected_Q[query]] * 2
