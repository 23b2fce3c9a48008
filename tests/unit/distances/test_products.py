"""UniFrac by blocks, the unweighted as products of matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import compute, random_case, table_of, tree_of

from aam.distances import minima, products
from aam.distances.engines import ScikitBio
from aam.distances.products import (
    BYTES_PER_DISTANCE,
    COMPUTED,
    LENGTH_BITS,
    Presence,
    Products,
    whole_units,
)

SEEDS = st.integers(0, 10**6)
EACH = pytest.mark.parametrize("metric", COMPUTED)


def distances(case, metric="unweighted", **options):
    return compute(Products(**options), *case, metric)


@EACH
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, samples=st.integers(2, 70))
def test_they_are_those_of_scikit_bio(metric, seed, samples):
    case = random_case(seed, samples)
    expected = compute(ScikitBio(), *case, metric)
    # Distances are kept as float32.
    assert np.allclose(distances(case, metric), expected, rtol=1e-7, atol=1e-7)


@EACH
@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_no_bit_depends_on_how_the_work_is_divided(metric, seed):
    case = random_case(seed, 45)
    expected = distances(case, metric)
    divisions = [
        {"ROWS": 16, "COLUMNS": 9},
        {"DENSE_COLUMNS": 3},
        {"COMMON": 0.0},
        {"COMMON": 0.5},
        {"COMMON": 1.1},
    ]
    for division in divisions:
        with pytest.MonkeyPatch.context() as monkeypatch:
            for name, value in division.items():
                for module in (products, minima):
                    monkeypatch.setattr(module, name, value, raising=False)
            assert np.array_equal(distances(case, metric, threads=2), expected), division
    three_steps = 8 * 4 * 45
    assert np.array_equal(distances(case, metric, memory_bytes=three_steps), expected)


@EACH
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_no_bit_depends_on_the_order_of_samples_and_features(metric, seed):
    table, tree = random_case(seed, 20)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(table.sample_ids))
    columns = rng.permutation(len(table.feature_ids))
    names = [table.feature_ids[column] for column in columns]
    shuffled = table_of(table.counts.toarray()[np.ix_(rows, columns)], names)
    expected = distances((table, tree), metric)[np.ix_(rows, rows)]
    assert np.array_equal(distances((shuffled, tree), metric), expected)


@pytest.mark.parametrize("metric", minima.WEIGHTED)
def test_samples_of_the_same_fractions_are_at_distance_zero(metric):
    table, tree = random_case(11, 30)
    counts = table.counts.toarray()
    both = table_of(np.concatenate([counts, 2 * counts]), table.feature_ids)
    found = distances((both, tree), metric)
    assert not found[:30, 30:].diagonal().any()
    assert np.array_equal(found[:30, :30], distances((table, tree), metric))


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**-3, 2.0**900])
def test_the_unit_of_the_branch_lengths_changes_no_bit_of_normalized_distances(factor):
    table, tree = random_case(4, 12)
    scaled = tree.copy()
    for node in scaled.traverse(include_self=False):
        node.length *= factor
    expected = distances((table, tree), minima.NORMALIZED)
    assert np.array_equal(distances((table, scaled), minima.NORMALIZED), expected)


def test_samples_of_the_same_features_are_at_distance_zero():
    table, tree = random_case(11, 30)
    twice = table_of(np.repeat(table.counts.toarray(), 2, axis=0), table.feature_ids)
    twice.counts.data[::3] += 5
    found = distances((twice, tree))
    assert not found[np.arange(0, 60, 2), np.arange(1, 60, 2)].any()
    assert np.array_equal(found[::2, ::2], distances((table, tree)))


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**-3, 2.0**900])
def test_the_unit_of_the_branch_lengths_changes_no_bit(factor):
    table, tree = random_case(4, 12)
    scaled = tree.copy()
    for node in scaled.traverse(include_self=False):
        node.length *= factor
    assert np.array_equal(distances((table, scaled)), distances((table, tree)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_lengths_in_whole_units_keep_their_ratios_and_add_up_exactly(lengths):
    units_E = whole_units(np.array(lengths))
    assert np.array_equal(units_E, np.rint(units_E))
    assert units_E.sum() <= 2.0**51 + len(lengths)
    if sum(lengths) > 0:
        found = units_E / units_E.sum()
        assert np.allclose(found, np.array(lengths) / sum(lengths), rtol=0, atol=1e-13)


def test_samples_that_share_nothing_or_only_branches_without_length():
    tree = tree_of("((A:1,B:2):0,(C:1,D:0):0.5);")
    found = distances((table_of([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]], "ABCD"), tree))
    assert found.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


STAR = "(A:1,B:2,C:0.5,D:4);"
COUNTS = [[3, 1, 0, 0], [1, 1, 2, 0], [4, 0, 1, 0], [2, 0, 2, 0], [1, 0, 0, 3]]
COUNTS += [[1, 0, 0, 0]] * 27
"""Thirty-two samples, of which all have A, two have B, three have C, and one has D."""


def presence() -> Presence:
    return Presence.from_table(table_of(COUNTS, list("ABCD")), tree_of(STAR))


@pytest.mark.parametrize("columns", [2048, 5])
def test_branches_of_a_sixteenth_of_the_samples_are_common(monkeypatch, columns):
    monkeypatch.setattr(products, "COLUMNS", columns)
    found = presence()
    # Sample 5 has the branch of A alone, whose length is 1.
    unit = found.total_N[5]
    assert found.describe() == "3 branches of many samples, 0 of few"
    assert (found.common_length_K / unit).tolist() == [1.0, 2.0, 0.5]
    assert (found.total_N[:6] / unit).tolist() == [3.0, 3.5, 1.5, 1.5, 5.0, 1.0]
    # A bit for each branch: A and B; all three; A and C; A.
    bits = np.unpackbits(found.common_bits[:5], axis=1)[:, :3]
    assert bits.tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("columns", [2048, 5])
def test_branches_of_fewer_samples_are_rare(monkeypatch, columns):
    monkeypatch.setattr(products, "COLUMNS", columns)
    # Two samples have B, and three have C.
    monkeypatch.setattr(products, "COMMON", 2.5 / 32)
    found = presence()
    unit = found.total_N[5]
    assert found.describe() == "2 branches of many samples, 1 of few"
    assert (found.rare_length_E / unit).tolist() == [2.0]
    assert found.rare_NE.toarray()[:3].tolist() == [[1], [1], [0]]


@pytest.mark.parametrize("common", [0.0, 1 / 16, 2.5 / 32, 2.0])
@pytest.mark.parametrize("columns", [2048, 3])
def test_unweighted_distances_do_not_depend_on_which_branches_are_common(
    monkeypatch, common, columns
):
    monkeypatch.setattr(products, "COMMON", common)
    monkeypatch.setattr(products, "COLUMNS", columns)
    found = presence().distances(np.array([1, 4]), np.array([0, 2, 3, 5, 6]))
    # Lengths that one of two samples has alone, divided by lengths that any of them has.
    first = [0.5 / 3.5, 2 / 3.5, 2 / 3.5, 2.5 / 3.5, 2.5 / 3.5]
    second = [6 / 7, 4.5 / 5.5, 4.5 / 5.5, 4 / 5, 4 / 5]
    np.testing.assert_allclose(found, [first, second], atol=1e-15)


def test_lengths_are_whole_numbers_that_double_precision_adds_up_exactly():
    # The sum of three lengths is 7, and that of one is 3: they reach the highest of the bits.
    unit = 2.0 ** (LENGTH_BITS - 3)
    assert whole_units(np.array([1.0, 2.0, 4.0])).tolist() == [unit, 2 * unit, 4 * unit]
    assert whole_units(np.array([3.0])).tolist() == [3 * 2 * unit]


@pytest.mark.parametrize("memory_bytes", [72, None])
def test_steps_hold_as_many_stripes_as_the_memory_does(monkeypatch, memory_bytes):
    divided = []
    divide = products.divide_stripes

    def record_and_divide(*given):
        divided.append(given)
        return divide(*given)

    monkeypatch.setattr(products, "divide_stripes", record_and_divide)
    options = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
    distances(random_case(2, 9), **options)
    # Nine samples have four stripes, each of four bytes for a sample.
    assert divided == [(0, 4, 9 * BYTES_PER_DISTANCE, memory_bytes or Products.memory_bytes)]


def test_one_sample_has_the_distance_zero():
    assert distances(random_case(2, 1)).tolist() == [[0.0]]
