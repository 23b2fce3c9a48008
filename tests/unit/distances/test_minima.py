"""Weighted UniFrac by blocks: which branches are compared in which way, by hand."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from unifrac_cases import compute, table_of, tree_of

from aam.distances import minima
from aam.distances.engines import ScikitBio
from aam.distances.minima import Abundances

# Eight samples, of which all have A, two have B and C, and one has D; the root is above no branch.
TREE = "(A:1,B:2,C:0.5,D:4);"
COUNTS = [[3, 1, 0, 0], [1, 1, 2, 0], [4, 0, 0, 0], [2, 0, 2, 0], [1, 0, 0, 3]]
COUNTS += [[1, 0, 0, 0]] * 3


def abundances(metric: str = "weighted_normalized") -> Abundances:
    return Abundances.from_table(table_of(COUNTS, list("ABCD")), tree_of(TREE), metric)


def test_a_quarter_of_the_samples_makes_a_branch_common(monkeypatch):
    # Lengths by fractions; the branch of D, which one sample alone has, counts in the sums.
    found = abundances()
    assert found.describe() == "3 branches of many samples, 0 of few"
    common = np.array([[0.75, 0.5, 0], [0.25, 0.5, 0.25], [1, 0, 0], [0.5, 0, 0.25], [0.25, 0, 0]])
    np.testing.assert_allclose(found.common_NK.toarray()[:5] * found.unit, common)
    total = [1.25, 1.0, 1.0, 0.75, 3.25, 1, 1, 1]
    np.testing.assert_allclose(found.total_N * found.unit, total)
    monkeypatch.setattr(minima, "COMMON", 0.26)
    found = abundances()
    assert found.describe() == "1 branches of many samples, 2 of few"
    np.testing.assert_allclose(found.rare_NE.toarray()[:5] * found.unit, common[:, 1:])


def test_values_are_whole_and_the_largest_sum_has_51_bits():
    found = abundances()
    assert np.array_equal(found.total_N, np.rint(found.total_N))
    assert 2.0**50 <= found.total_N.max() <= 2.0**51
    # The largest sum is 3.25, which is below 4.
    assert found.unit == 2.0**-49
    assert np.array_equal(np.rint(found.common_NK.data), found.common_NK.data)


@pytest.mark.parametrize("common", [0.0, 0.25, 0.5, 2.0])
@pytest.mark.parametrize("columns", [(2048, 128), (3, 2)])
def test_distances_by_hand_in_any_division(monkeypatch, common, columns):
    monkeypatch.setattr(minima, "COMMON", common)
    monkeypatch.setattr(minima, "COLUMNS", columns[0])
    monkeypatch.setattr(minima, "DENSE_COLUMNS", columns[1])
    rows, others = np.array([1, 4, 0]), np.array([0, 1, 2, 3, 5, 6])
    upper = [
        [0.75, 0, 1.5, 0.75, 1.5, 1.5],
        [4.0, 3.75, 3.75, 3.5, 3.75, 3.75],
        [0, 0.75, 0.75, 1.0, 0.75, 0.75],
    ]
    total = np.array([1.25, 1.0, 1.0, 0.75, 3.25, 1, 1])
    plain = abundances("weighted_unnormalized").distances(rows, others)
    np.testing.assert_allclose(plain, upper, atol=1e-14)
    normalized = abundances().distances(rows, others)
    lower = total[rows][:, None] + total[others]
    np.testing.assert_allclose(normalized, np.array(upper) / lower, atol=1e-14)
    expected = compute(
        ScikitBio(), table_of(COUNTS, list("ABCD")), tree_of(TREE), "weighted_normalized"
    )
    np.testing.assert_allclose(normalized, expected[np.ix_(rows, others)], atol=1e-12)


def test_shared_values_are_the_smaller_of_two():
    rows = csr_array(np.array([[3.0, 0, 2], [0, 5, 0]]))
    others = csr_array(np.array([[1.0, 4, 7], [0, 0, 1], [9, 9, 0]]))
    found = list(minima._shared_rows(rows, others))
    assert [row.tolist() for row in found] == [[3.0, 1.0, 3.0], [4.0, 0.0, 5.0]]
    nothing = minima._city_block(np.zeros((2, 0)), np.zeros((3, 0)))
    assert nothing.tolist() == [[0.0] * 3] * 2
    block = minima._city_block(np.array([[1.0, 5.0]]), np.array([[4.0, 3.0], [1.0, 5.0]]))
    assert block.tolist() == [[5.0, 0.0]]
