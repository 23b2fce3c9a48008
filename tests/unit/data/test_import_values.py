"""Numbers of a table: whether they are reads or amounts, and what is wrong with them."""

import logging
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.importing.values import count_problems, recognize_values, tell_of_amounts

PATH = Path("table.tsv")


def sparse(rows) -> csr_array:
    return csr_array(np.array(rows, dtype=float))


def problems(rows, **options) -> list[str]:
    """Return what is wrong with numbers, as messages."""
    values = rows if isinstance(rows, csr_array) else sparse(rows)
    samples, features = (
        [f"{axis}{i}" for i in range(n)] for axis, n in zip("sf", values.shape, strict=True)
    )
    return [str(one) for one in count_problems(PATH, samples, features, values, **options)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1, 2], [3, 4]], "reads"),
        ([[0.5, 0.5], [0.25, 0.75]], "amounts"),
        ([[60, 40], [25, 75]], "amounts"),
        # One sample of a hundred may have reads; with fractions it has percentages.
        ([[60, 40]], "reads"),
        ([[59.5, 40.5]], "amounts"),
        ([[60, 40], [0, 0]], "reads"),
        # Where half are whole the others are mistakes among reads; where fewer are, amounts.
        ([[1, 2, 0.5, 1.5]], "reads"),
        ([[1, 2.5, 0.5, 1.5]], "amounts"),
        # Percentages may be rounded: each is off by a half at most.
        ([[33, 33, 33], [50, 51, 0]], "amounts"),
        ([[33, 33, 32], [50, 51, 0]], "reads"),
        ([[1, 0], [0, 1]], "reads"),
        ([[1e6, 0], [5e5, 5e5]], "amounts"),
        ([[-1, 2.5]], "reads"),
        ([[np.inf, 2.5]], "reads"),
        ([[0, 0]], "reads"),
        # Sums of amounts may differ by half a percent.
        ([[0.5, 0.504], [0.5, 0.496]], "amounts"),
    ],
)
def test_numbers_are_recognized_as_reads_or_amounts(rows, expected):
    assert recognize_values(sparse(rows)) == expected


def test_the_kind_of_values_that_a_user_states_is_taken():
    assert recognize_values(sparse([[0.5, 0.5]]), "reads") == "reads"
    assert recognize_values(sparse([[1, 2]]), "amounts") == "amounts"


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        ([[0.5, 0.5], [0.25, 0.75]], "relative abundances (each sample sums to 1)"),
        ([[0.5, 0.504], [0.5, 0.496]], "relative abundances"),
        ([[0.5, 0.506], [0.5, 0.494]], "fractions"),
        ([[50.5, 49.5], [25, 75]], "percentages (each sample sums to 100)"),
        ([[50.25, 50.25], [25, 75]], "percentages"),
        ([[50.25, 50.5], [25, 75]], "fractions"),
        ([[1.5, 2.5], [3.5, 0.5]], "counts scaled to one sum (4 in each sample)"),
        ([[1.5, 2.5], [3.5, 0.6]], "fractions"),
    ],
)
def test_amounts_are_described_by_the_sums_of_their_samples(rows, looks, caplog):
    tell_of_amounts(PATH, sparse(rows))
    assert f"its numbers are amounts ({looks}" in caplog.text


def test_a_table_without_a_read_is_refused():
    assert problems([[0, 0]]) == [
        "table.tsv: got a table without a single read; expected counts above 0. Hint: check how "
        "the table was filtered or exported"
    ]
    assert problems(csr_array((0, 0))) == []


def test_impossible_numbers_are_named_with_their_places():
    found = problems([[1, np.nan, -2, 0.5], [2**53, 2.0**53 + 2, 3, -np.inf]])
    infinite, negative, fractional, large = found
    assert "got counts that are NaN or infinite: 2 (nan in sample s0, feature f1; -inf" in infinite
    assert "-inf in sample s1, feature f3)" in infinite
    assert "negative counts: 2 (-2 in sample s0, feature f2; -inf" in negative
    assert "fractional counts: 1 (0.5 in sample s0, feature f3)" in fractional
    assert "counts above 2**53: 1 (9.00719925474099e+15 in sample s1, feature f1)" in large


def test_three_places_are_named_and_long_names_are_cut():
    values = sparse([[0.5] * 3 + [2]])
    (found,) = count_problems(PATH, ["s"], ["x" * 50, "b", "c", "d"], values)
    assert f"fractional counts: 3 (0.5 in sample s, feature {'x' * 40}; " in str(found)
    assert "…" not in str(found)
    (found,) = problems([[0.5] * 4 + [2]])
    assert "fractional counts: 4 (" in found
    assert "feature f2; …)" in found


@pytest.mark.parametrize(
    ("rows", "hints"),
    [
        ([[0.5, 1.7]], ["if they are amounts, set `values` of the dataset to amounts"]),
        ([[0.5, 0.5]], ["these look like relative abundances"]),
        (
            [[-0.5, 0.5], [1.5, -1.5]],
            ["CLR-transformed values (each sample sums to 0)", "before any transformation"],
        ),
        ([[-0.5, 0.7], [1.5, -1.5]], ["logarithms or centred values"]),
    ],
)
def test_the_hint_for_numbers_that_are_no_reads_says_what_they_look_like(rows, hints):
    first, *_ = problems(rows)
    for hint in hints:
        assert hint in first


def test_one_negative_number_among_whole_ones_looks_like_a_mistake():
    (message,) = problems([[-1, 2]])
    assert "look like" not in message


def test_amounts_may_be_fractional_and_not_negative():
    assert problems([[0.5, 1.5]], is_counted=False) == []
    (message,) = problems([[-0.5, 1.5]], is_counted=False)
    assert "amounts of 0 or more" in message


COUNTS = np.arange(1, 13)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.log1p(COUNTS), "natural logarithms"),
        (np.log2(1 + COUNTS), "binary logarithms"),
        (np.log10(1 + COUNTS), "decimal logarithms"),
        (np.sqrt(COUNTS), "square roots"),
        # Three digits are enough to recognize them, and ten values are.
        (np.log1p(COUNTS).round(3), "natural logarithms"),
        (np.sqrt(COUNTS[:10]), "square roots"),
        (np.sqrt(COUNTS[:9]), None),
        (np.sqrt(COUNTS) * 1.1, None),
        (np.sqrt([*COUNTS, 299.5**2]), "square roots"),
        (np.sqrt([*COUNTS, 301.5**2]), None),
        (COUNTS, None),
        (COUNTS + 0.5, None),
    ],
)
def test_logarithms_and_roots_of_counts_are_no_amounts(values, name):
    found = problems([values], is_counted=False)
    assert [one.partition("got ")[2].partition(" of counts")[0] for one in found] == (
        [] if name is None else [name]
    )


def test_a_table_of_presence_is_no_reads():
    (found,) = problems([[1, 0, 1], [1, 1, 0]])
    assert "a table of 0 and 1 alone (4 ones)" in found
    assert problems([[1]]) == []


def test_percentages_in_whole_numbers_are_no_reads():
    (found,) = problems([[60, 40], [25, 75]])
    assert "whole numbers that look like percentages" in found
    assert problems([[60, 40]]) == []


def test_reads_that_were_rarefied_to_a_hundred_are_reads_where_it_is_said(caplog):
    assert problems([[60, 40], [25, 75]], are_stated=True) == []
    assert "look like percentages" in caplog.text
    assert "taken for reads" in caplog.text


def log_of(rows, caplog, level=logging.WARNING) -> str:
    """Return what is logged of numbers with which nothing is wrong."""
    caplog.clear()
    caplog.set_level(level)
    assert problems(rows) == []
    return caplog.text


TEN = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
"""Ten reads of a sample, which have no common divisor."""


def test_reads_that_are_multiples_of_one_number_are_warned_of(caplog):
    assert "multiples of one number (3)" in log_of([3 * TEN, 3 * TEN[::-1]], caplog)
    assert "multiples" not in log_of([3 * TEN, 3 * TEN[::-1] + 1], caplog)
    by_sample = log_of([2 * TEN, 5 * TEN], caplog)
    assert "multiples of one number (2 to 5, sample by sample)" in by_sample


def test_few_multiples_may_be_a_coincidence(caplog):
    """Twenty counts are enough, and four in each sample."""
    assert "multiples" not in log_of([3 * TEN, [0, *(3 * TEN[:9])]], caplog)
    rows = np.zeros((7, 28), int)
    for sample in range(7):
        rows[sample, 4 * sample : 4 * sample + 4] = 6 * np.array([1, 2, 3, 5 + sample])
    assert "multiples of one number (6)" in log_of(rows, caplog)
    rows[0, 0] = 0
    assert "multiples" not in log_of(rows, caplog)


def test_sums_that_differ_by_rounding_alone_are_warned_of(caplog):
    near = [[400, 301, 299], [333, 333, 333], [500, 250, 251]]
    assert "differ by rounding alone (999 to 1001)" in log_of(near, caplog)
    assert "rounding" not in log_of(near[:2], caplog)
    assert "rounding" not in log_of([near[0], near[1], [500, 250, 252]], caplog)
    # No sum lies above the median, as one would by rounding.
    assert "rounding" not in log_of([[400, 301, 299], [400, 300, 300], near[1]], caplog)


def test_a_table_that_is_rarefied_already_is_noted(caplog):
    rows = [[7, 3, 0], [4, 5, 1], [0, 0, 0]]
    assert "every sample has 10 reads" in log_of(rows, caplog, logging.INFO)
    assert "every sample" not in log_of([[7, 3]], caplog, logging.INFO)
    assert "every sample" not in log_of([[7, 3], [7, 4]], caplog, logging.INFO)
