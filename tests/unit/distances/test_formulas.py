"""Every formula, on samples of few branches and features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.distances.formulas import (
    FORMULAS,
    BrayCurtisRows,
    RobustAitchisonRows,
    all_generalized,
    bray_curtis,
    faith_pd,
    generalized,
    robust_aitchison,
    unweighted,
    weighted_unnormalized,
)

LENGTHS = np.array([1.0, 2.0, 4.0, 8.0])
# Below branches of length 1, 2, 4 and 8, of which the last has no reads of either sample.
FIRST = np.array([[0.25, 0.75, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]])
SECOND = np.array([[0.75, 0.0, 0.25, 0.0], [0.5, 0.0, 0.5, 0.0]])
COUNTS = np.array([[1, 0, 4], [2, 2, 0], [0, 0, 8], [2, 0, 8]])


def test_unweighted_unifrac_is_the_length_that_one_sample_has_alone_of_all_that_they_have():
    # Of the branches of length 1, 2 and 4, the samples share the first.
    assert unweighted(FIRST, SECOND, LENGTHS).tolist() == [6 / 7, 0.0]


def test_weighted_unifrac_is_the_length_times_the_difference_of_fractions():
    assert weighted_unnormalized(FIRST, SECOND, LENGTHS).tolist() == [0.5 + 1.5 + 1.0, 0.0]


def test_normalized_unifrac_is_relative_to_the_length_times_the_sum_of_fractions():
    normalized = FORMULAS["weighted_normalized"].definition
    assert normalized(FIRST, SECOND, LENGTHS).tolist() == [3.0 / (1 + 1.5 + 1.0), 0.0]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_generalized_unifrac_weighs_branches_by_a_power_of_their_fractions(alpha):
    # The sums of both fractions are 1, 0.75 and 0.25, and half of the first one is a difference.
    upper = 1.0**alpha * 0.5 + 2 * 0.75**alpha + 4 * 0.25**alpha
    lower = 1.0**alpha + 2 * 0.75**alpha + 4 * 0.25**alpha
    found = generalized(FIRST, SECOND, LENGTHS, alpha)
    assert found.tolist() == pytest.approx([upper / lower, 0.0])


@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.3, 1.0]))
def test_all_pairs_of_generalized_unifrac_are_those_of_the_definition(seed, alpha):
    rng = np.random.default_rng(seed)
    fractions = rng.random((6, 9)) * (rng.random((6, 9)) < 0.4)
    fractions[:, 0] += 0.1
    lengths = rng.random(9)
    found = all_generalized(csr_array(fractions), lengths, alpha)
    first, second = np.triu_indices(6, 1)
    expected = generalized(fractions[first], fractions[second], lengths, alpha)
    np.testing.assert_allclose(found[first, second], expected, atol=1e-12)
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()


def test_faith_pd_is_the_length_of_all_branches_with_reads():
    assert faith_pd(FIRST, LENGTHS).tolist() == [3.0, 5.0]


def test_bray_curtis_is_the_sum_of_differences_of_reads_relative_to_all_reads():
    expected = [
        [0, 7 / 9, 5 / 13, 5 / 15],
        [7 / 9, 0, 1, 10 / 14],
        [5 / 13, 1, 0, 2 / 18],
        [5 / 15, 10 / 14, 2 / 18, 0],
    ]
    rows = BrayCurtisRows(csr_array(COUNTS))
    assert rows.shape == (4, 4)
    np.testing.assert_allclose(rows[:], expected, atol=1e-15)
    np.testing.assert_allclose(rows[1:3], expected[1:3], atol=1e-15)
    first, second = np.triu_indices(4, 1)
    found = bray_curtis(COUNTS[first].astype(float), COUNTS[second].astype(float))
    np.testing.assert_allclose(found, np.array(expected)[first, second])


def test_robust_aitchison_is_the_distance_of_log_ratios_centred_on_the_features_of_a_sample():
    # Of 1 and 4 reads the mean logarithm is that of 2.
    ratios = np.log(2) * np.array([[-1.0, 0, 1], [0, 0, 0], [0, 0, 0], [-1, 0, 1]])
    expected = np.linalg.norm(ratios[:, None] - ratios, axis=2)
    rows = RobustAitchisonRows(csr_array(COUNTS))
    assert rows.shape == (4, 4)
    np.testing.assert_allclose(rows[:], expected, atol=1e-7)
    np.testing.assert_allclose(rows[2:4], expected[2:4], atol=1e-7)
    assert not rows[:].diagonal().any()
    first, second = np.triu_indices(4, 1)
    found = robust_aitchison(COUNTS[first].astype(float), COUNTS[second].astype(float))
    np.testing.assert_allclose(found, expected[first, second], atol=1e-12)


def test_a_sample_without_reads_has_no_log_ratios():
    rows = RobustAitchisonRows(csr_array(np.array([[0, 0], [1, 4]])))
    np.testing.assert_allclose(rows[:], np.sqrt(2) * np.log(2) * np.array([[0, 1], [1, 0]]))
