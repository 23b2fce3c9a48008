"""Samples with the reads of a clade of others."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.evaluate.clade_tests import STAND_INS, Clades
from aam.inference.replaced_reads import AskedClade, replace_reads

FEATURES = [f"s{number}" for number in range(6)]
ASKED = [AskedClade("", "s0", "", np.array([0]))]


@pytest.fixture
def counts() -> np.ndarray:
    return np.random.default_rng(0).multinomial(1000, np.full(6, 1 / 6), size=30)


def replaced(counts, asked, is_left_out) -> np.ndarray:
    """Return the reads [M, K, F] of samples in which those of s0 are of the samples alike."""
    known = Clades.of_table(csr_array(counts), FEATURES, None)
    rows = replace_reads(known, ASKED, [csr_array(asked)], [csr_array(counts)], is_left_out)[0]
    np.testing.assert_array_equal(rows.toarray()[: len(asked)], asked)
    return rows.toarray()[len(asked) :].reshape(len(asked), -1, len(FEATURES))


@pytest.mark.parametrize("allowed", [3, 20])
def test_only_samples_that_may_stand_in(counts, allowed):
    asked = counts[:4]
    is_left_out = np.ones((4, 30), bool)
    is_left_out[:, 10 : 10 + allowed] = False
    found = replaced(counts, asked, is_left_out)
    # Folds with fewer samples that may stand in have as many rows.
    assert found.shape[1] == STAND_INS
    assert len(np.unique(found[0, :, 0])) <= allowed
    assert np.isin(found[:, :, 0], counts[10 : 10 + allowed, 0]).all()
    np.testing.assert_array_equal(found[:, :, 1:], np.repeat(asked[:, None, 1:], found.shape[1], 1))


def test_a_sample_of_the_clade_alone_keeps_reads(counts):
    """A sample without reads has no prediction."""
    counts[:, 0] = 0
    asked = counts[:2].copy()
    asked[0] = [1000, 0, 0, 0, 0, 0]
    asked[1, 0] = 7
    found = replaced(counts, asked, np.zeros((2, 30), bool))
    assert (found[0] == asked[0]).all()
    assert (found[1, :, 0] == 0).all()
    assert (found.sum(axis=2) > 0).all()
