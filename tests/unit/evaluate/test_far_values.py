"""Values that decide the scores of a target alone: found, and not where a target is skewed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.data.importing.metadata import load_metadata
from aam.data.study.columns import columns_of
from aam.evaluate.far_values import SHOWN, find_far_values

DATA = Path(__file__).parents[4] / "shared" / "data"


def column(values: object) -> pd.Series:
    numbers = np.asarray(values, dtype=float)
    return pd.Series(numbers, [f"s{i}" for i in range(len(numbers))])


RNG = np.random.default_rng(0)
ACIDITY = RNG.normal(7, 0.7, 60)
AGES = RNG.integers(0, 100, 60)


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([*ACIDITY, -9999], [-9999]),
        ([*ACIDITY[:12], -9999], [-9999]),
        ([*ACIDITY, 69.0], [69]),
        ([*AGES, 999], [999]),
        ([*AGES, 9999, -9999, -9999], [-9999, 9999]),
        ([*(40 * AGES), -9999], [-9999]),
        ([*ACIDITY, *[-9999.0] * 20], [-9999]),
        ([*ACIDITY, -999, -9999], [-9999, -999]),
        ([*(ACIDITY * 1e-12), 1e-9], [1e-9]),
    ],
)
def test_a_slip_or_a_code_is_named_with_its_samples_and_where_the_others_lie(values, far):
    observed = column(values)
    found = find_far_values(observed)
    assert list(found.values) == far
    has_it = observed[observed.isin(far)]
    assert found.count == len(has_it)
    assert list(found.samples) == sorted(has_it.index)[:SHOWN]
    others = observed[~observed.isin(far)]
    assert (found.low, found.high) == (others.min(), others.max())


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(7, 1, 80),
        lambda rng: rng.integers(0, 100, 80),
        lambda rng: rng.exponential(400, 80).round(),
        lambda rng: rng.lognormal(3, 1, 80),
        lambda rng: rng.negative_binomial(0.5, 0.01, 80),
        lambda rng: rng.poisson(0.3, 80),
        lambda rng: rng.choice([0, 1, 10, 100], 80),
        lambda rng: np.append(rng.integers(20, 60, 80), 105),
    ],
    ids=["bell", "ages", "days", "skewed", "counts", "few counts", "doses", "the oldest"],
)
def test_skewed_numbers_are_not_far(draw):
    rng = np.random.default_rng(1)
    found = [find_far_values(column(draw(rng))) for _ in range(200)]
    assert sum(one is not None for one in found) <= 1


def test_numbers_over_nine_powers_of_ten_are_told_by_the_largest():
    observed = column(10.0 ** np.linspace(-3, 6, 40))
    found = find_far_values(observed)
    assert found.values == ()
    assert found.samples == ("s39", "s38", "s37")
    assert (found.low, found.high) == (1e-3, 1e6)


def test_few_samples_and_two_values_tell_nothing():
    assert find_far_values(column([*ACIDITY[:9], -9999])) is None
    assert find_far_values(column([0.0] * 30 + [1.0])) is None


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_no_target_of_the_public_studies_is_flagged():
    numeric = 0
    for path in sorted(DATA.glob("*/metadata.tsv")):
        metadata = load_metadata(path)
        for name in (one.name for one in columns_of(metadata) if one.kind == "number"):
            numbers = pd.to_numeric(metadata[name]).dropna()
            assert find_far_values(numbers) is None, (path, name)
            numeric += 1
    assert numeric > 4


TEN = np.arange(10.0)
"""Ten numbers, between 0 and 9."""
LOW = [1.0] * 5 + [2.0] * 4
LADDER = [10.0, 50.0, 250.0, 1250.0]
"""Numbers none of which is far from those below."""
ZEROS = [0.0] * 9


@pytest.mark.parametrize(
    ("values", "far"),
    [
        # The others range over nine, and eight times that is 72.
        ([*TEN, 81.0], [81.0]),
        ([*TEN, 80.9], None),
        ([*TEN, -72.0], [-72.0]),
        ([*TEN, -71.9], None),
        # A code of nines is far where it lies one range beyond the others.
        ([*(10 * TEN), 999], [999]),
        ([*(TEN + 81), 99], [99]),
        ([*(TEN + 81.1), 99], None),
        ([*TEN, -99.0], [-99]),
        # Up to a tenth of the samples may have a far number, and up to a half one of nines.
        ([*TEN, *TEN, 90.0, 90.0], [90.0]),
        ([*TEN, *(TEN[:8]), 90.0, 90.0], [90.0]),
        ([*TEN, *(TEN[:7]), 90.0, 90.0], None),
        ([*TEN, *[999.0] * 10], [999]),
        ([*TEN, *[999.0] * 11], None),
        # Three different numbers on each side may be far.
        ([*TEN, *TEN, *TEN, 500, 600, 700], [500, 600, 700]),
        ([*TEN, *TEN, *TEN, *TEN, 500, 600, 700, 800], None),
        ([*TEN, *TEN, *TEN, -500, 500, 600], [-500, 500, 600]),
        # Ten others are enough.
        ([*TEN[:9], 4.5, 900.0], [900]),
        ([*TEN[:9], 900.0], None),
    ],
)
def test_a_number_is_far_by_how_many_ranges_of_the_others_it_lies_beyond_them(values, far):
    found = find_far_values(column(values))
    assert (None if found is None else list(found.values)) == far


@pytest.mark.parametrize(
    ("values", "count"),
    [
        # The median of the numbers above zero is 2, of which there have to be ten.
        ([*LOW, *LADDER, 2000.0], 1),
        ([*LOW, 10.0, 50.0, 250.0, 2000.0, 2500.0], 2),
        ([*ZEROS, *LOW, *LADDER, 2000.0], 1),
        ([*ZEROS, *LOW[2:8], 14.0, 100.0, 700.0, 2000.0], 1),
    ],
)
def test_numbers_are_wide_where_the_largest_is_a_thousand_medians(values, count):
    found = find_far_values(column(values))
    order = np.argsort(values, kind="stable")[::-1]
    assert (found.values, found.count) == ((), count)
    assert set(found.samples) == {f"s{at}" for at in order[:3]}
    assert (found.low, found.high) == (min(values), max(values))


@pytest.mark.parametrize(
    "values",
    [
        [*LOW, *LADDER, 1999.0],
        [-1.0, *LOW, *LADDER, 2000.0],
        [*ZEROS, *LOW[3:8], 14.0, 100.0, 700.0, 2000.0],
    ],
    ids=["below a thousand medians", "a negative number", "nine above zero"],
)
def test_numbers_are_not_wide(values):
    assert find_far_values(column(values)) is None
