"""Whether numbers are reads or amounts, and what is said of them, on both sides of each limit."""

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
        # One sample of a hundred reads is no percentages; with fractions it is.
        ([[60, 40]], "reads"),
        ([[59.5, 40.5]], "amounts"),
        ([[60, 40], [0, 0]], "reads"),
        # Half of them whole: mistakes among reads; fewer: amounts.
        ([[1, 2, 0.5, 1.5]], "reads"),
        ([[1, 2.5, 0.5, 1.5]], "amounts"),
        # Whole numbers are off by half a unit each at most.
        ([[33, 33, 33], [50, 51, 0]], "amounts"),
        ([[33, 33, 32], [50, 51, 0]], "reads"),
        ([[1, 0], [0, 1]], "reads"),
        ([[1e6, 0], [5e5, 5e5]], "amounts"),
        ([[-1, 2.5]], "reads"),
        ([[np.inf, 2.5]], "reads"),
        ([[0, 0]], "reads"),
        # Fractions of a scale may be half of a percent off.
        ([[0.5, 0.504], [0.5, 0.496]], "amounts"),
    ],
)
def test_numbers_say_whether_they_are_reads(rows, expected):
    assert recognize_values(sparse(rows)) == expected


def test_what_is_given_decides():
    assert recognize_values(sparse([[0.5, 0.5]]), "reads") == "reads"
    assert recognize_values(sparse([[1, 2]]), "amounts") == "amounts"


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        ([[0.5, 0.5], [0.25, 0.75]], "relative abundances (each sample sums to 1)"),
        ([[0.5, 0.504], [0.5, 0.496]], "relative abundances"),
        ([[0.5, 0.506], [0.5, 0.494]], "fractions"),
        ([[50.5, 49.5], [25, 75]], "percentages (each sample sums to 100)"),
        ([[1.5, 2.5], [3.5, 0.5]], "counts scaled to one sum (4 in each sample)"),
        ([[1.5, 2.5], [3.5, 0.6]], "fractions"),
    ],
)
def test_amounts_are_told_by_the_sums_of_their_samples(rows, looks, caplog):
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
    assert [one.partition("got ")[2].partition(";")[0] for one in found[:1]] == [
        "counts that are NaN or infinite: 2 (nan in sample s0, feature f1"
    ]
    assert "-inf in sample s1, feature f3)" in found[0]
    assert "negative counts: 2 (-2 in sample s0, feature f2; -inf" in found[1]
    assert "fractional counts: 1 (0.5 in sample s0, feature f3)" in found[2]
    assert "counts above 2**53: 1 (9.00719925474099e+15 in sample s1, feature f1)" in found[3]
    assert len(found) == 4


def test_three_places_are_shown_and_names_are_cut():
    values = sparse([[0.5] * 3 + [2]])
    (found,) = count_problems(PATH, ["s"], ["x" * 50, "b", "c", "d"], values)
    assert f"fractional counts: 3 (0.5 in sample s, feature {'x' * 40}; " in str(found)
    assert "…" not in str(found)
    (found,) = problems([[0.5] * 4 + [2]])
    assert "fractional counts: 4 (" in found
    assert "feature f2; …)" in found


def test_what_to_do_follows_from_what_numbers_look_like():
    (fractions,) = problems([[0.5, 1.7]])
    assert "if they are amounts, set `values` of the dataset to amounts" in fractions
    (shares,) = problems([[0.5, 0.5]])
    assert "these look like relative abundances" in shares
    negative = problems([[-0.5, 0.5], [1.5, -1.5]])
    assert "CLR-transformed values (each sample sums to 0)" in negative[0]
    assert "before any transformation" in negative[0]
    centred = problems([[-0.5, 0.7], [1.5, -1.5]])
    assert "logarithms or centred values" in centred[0]
    (whole,) = problems([[-1, 2]])
    assert "look like" not in whole
    assert problems([[0.5, 1.5]], is_counted=False) == []
    (amounts,) = problems([[-0.5, 1.5]], is_counted=False)
    assert "amounts of 0 or more" in amounts


COUNTS = np.arange(1, 13)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.log1p(COUNTS), "natural logarithms"),
        (np.log2(1 + COUNTS), "binary logarithms"),
        (np.log10(1 + COUNTS), "decimal logarithms"),
        (np.sqrt(COUNTS), "square roots"),
        # Three digits are enough, and ten values.
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
    found = problems(np.asarray(values, float)[None] * [[1]], is_counted=False)
    assert [one.partition("got ")[2].partition(" of counts")[0] for one in found] == (
        [] if name is None else [name]
    )


def test_presence_and_shares_in_whole_numbers_are_no_reads():
    (found,) = problems([[1, 0, 1], [1, 1, 0]])
    assert "a table of 0 and 1 alone (4 ones)" in found
    assert problems([[1]]) == []
    (found,) = problems([[60, 40], [25, 75]])
    assert "whole numbers that look like percentages" in found
    assert problems([[60, 40]]) == []


def said(rows, caplog, level="WARNING") -> str:
    caplog.clear()
    caplog.set_level(level)
    assert problems(rows) == []
    return caplog.text


def test_multiples_of_one_number_are_told_where_they_are_no_coincidence(caplog):
    odd = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
    assert "multiples of one number (3)" in said([3 * odd, 3 * odd[::-1]], caplog)
    assert "multiples" not in said([3 * odd, 3 * odd[::-1] + 1], caplog)
    # Nineteen counts are too few, and so are three of a sample.
    assert "multiples" not in said([3 * odd, [0, *(3 * odd[:9])]], caplog)
    rows = np.zeros((7, 28), int)
    for sample in range(7):
        rows[sample, 4 * sample : 4 * sample + 4] = 6 * np.array([1, 2, 3, 5 + sample])
    assert "multiples of one number (6)" in said(rows, caplog)
    rows[0, 0] = 0
    assert "multiples" not in said(rows, caplog)
    two = [2 * odd, 5 * odd]
    assert "multiples of one number (2 to 5, sample by sample)" in said(two, caplog)


def test_sums_that_differ_by_rounding_alone_are_told(caplog):
    near = [[400, 301, 299], [333, 333, 333], [500, 250, 251]]
    assert "differ by rounding alone (999 to 1001)" in said(near, caplog)
    assert "rounding" not in said(near[:2], caplog)
    assert "rounding" not in said([near[0], near[1], [500, 250, 252]], caplog)
    # None is above the middle.
    assert "rounding" not in said([[400, 301, 299], [400, 300, 300], near[1]], caplog)


def test_a_table_that_is_rarefied_already_is_noted(caplog):
    rows = [[7, 3, 0], [4, 5, 1], [0, 0, 0]]
    assert "every sample has 10 reads" in said(rows, caplog, logging.INFO)
    assert "every sample" not in said([[7, 3]], caplog, logging.INFO)
    assert "every sample" not in said([[7, 3], [7, 4]], caplog, logging.INFO)
