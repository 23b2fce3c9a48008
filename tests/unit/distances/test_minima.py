"""Weighted UniFrac by blocks: which branches are compared in which way."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from unifrac_cases import compute, table_of, tree_of

from aam.distances import minima
from aam.distances.engines import ScikitBio
from aam.distances.minima import VALUE_BITS, Abundances

TREE = "(A:1,B:2,C:0.5,D:4);"
COUNTS = [[3, 1, 0, 0], [1, 1, 2, 0], [4, 0, 0, 0], [2, 0, 2, 0], [1, 0, 0, 3]]
COUNTS += [[1, 0, 0, 0]] * 3
"""Eight samples, of which all have A, two have B and C each, and one has D."""
COMMON = np.array([[0.75, 0.5, 0], [0.25, 0.5, 0.25], [1, 0, 0], [0.5, 0, 0.25], [0.25, 0, 0]])
"""Lengths times fractions of A, B and C in the first five samples."""
TOTAL = [1.25, 1.0, 1.0, 0.75, 3.25, 1, 1, 1]
"""Their sums, and those of D, in every sample."""


def abundances(metric: str = "weighted_normalized") -> Abundances:
    return Abundances.from_table(table_of(COUNTS, list("ABCD")), tree_of(TREE), metric)


def test_branches_of_a_quarter_of_the_samples_are_common():
    found = abundances()
    assert found.describe() == "3 branches of many samples, 0 of few"
    np.testing.assert_allclose(found.common_NK.toarray()[:5] * found.unit, COMMON)


def test_branches_of_fewer_samples_are_rare(monkeypatch):
    # Two of eight samples are a quarter.
    monkeypatch.setattr(minima, "COMMON", 0.26)
    found = abundances()
    assert found.describe() == "1 branches of many samples, 2 of few"
    np.testing.assert_allclose(found.rare_NE.toarray()[:5] * found.unit, COMMON[:, 1:])


def test_a_branch_that_one_sample_alone_has_counts_in_its_sum():
    found = abundances()
    np.testing.assert_allclose(found.total_N * found.unit, TOTAL)


def test_values_are_whole_numbers_that_double_precision_adds_up_exactly():
    found = abundances()
    assert np.array_equal(found.total_N, np.rint(found.total_N))
    assert 2.0 ** (VALUE_BITS - 1) <= found.total_N.max() <= 2.0**VALUE_BITS
    # The largest sum is 3.25, which is below 2 to the power of 2.
    assert found.unit == 2.0 ** (2 - VALUE_BITS)
    assert np.array_equal(np.rint(found.common_NK.data), found.common_NK.data)


@pytest.mark.parametrize("common", [0.0, 0.25, 0.5, 2.0])
@pytest.mark.parametrize("columns", [(2048, 128), (3, 2)])
def test_distances_do_not_depend_on_which_branches_are_common(monkeypatch, common, columns):
    monkeypatch.setattr(minima, "COMMON", common)
    monkeypatch.setattr(minima, "COLUMNS", columns[0])
    monkeypatch.setattr(minima, "DENSE_COLUMNS", columns[1])
    rows, others = np.array([1, 4, 0]), np.array([0, 1, 2, 3, 5, 6])
    upper = [
        [0.75, 0, 1.5, 0.75, 1.5, 1.5],
        [4.0, 3.75, 3.75, 3.5, 3.75, 3.75],
        [0, 0.75, 0.75, 1.0, 0.75, 0.75],
    ]
    total = np.array(TOTAL)
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
