"""Names by what the nearest known sequences are called."""

import numpy as np
import pytest

from aam.reference_tree.names import FARTHEST, Name, name_sequences

LINEAGES = [
    "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales; f__Lactobacillaceae; "
    "g__Lactobacillus; s__iners",
    "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales; f__Lactobacillaceae; "
    "g__Lactobacillus; s__",
    "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales; f__Lactobacillaceae; "
    "g__Pediococcus; s__",
    "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales; f__; g__; s__",
    "k__Archaea; p__Euryarchaeota",
    "",
]
FAMILY = "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales; f__Lactobacillaceae"
GENUS = f"{FAMILY}; g__Lactobacillus"
ORDER = "k__Bacteria; p__Firmicutes; c__Bacilli; o__Lactobacillales"


def name(rows, distances):
    """Return the name of one sequence."""
    offset_Q = np.array([0, len(rows)])
    return name_sequences(LINEAGES, offset_Q, np.array(rows, int), np.array(distances, float))[0]


def test_two_thirds_of_the_nearest_name_a_sequence():
    assert name([0], [0.0]) == Name(f"{GENUS}; s__iners", 1.0)
    assert name([0, 1, 2], [0.01] * 3) == Name(GENUS, pytest.approx(2 / 3))
    # Three of five are too few, of a genus or of anything.
    assert name([0, 1, 1, 2, 2], [0.01] * 5) == Name(FAMILY, 1.0)
    assert name([1, 2], [0.01] * 2) == Name(FAMILY, 1.0)
    assert name([0, 4], [0.01] * 2) == Name("", 0.0)
    # A rank that some lack is counted against it.
    assert name([1, 3], [0.01] * 2) == Name(ORDER, 1.0)
    assert name([5], [0.0]) == Name("", 0.0)
    assert name([], []) == Name("", 0.0)


def test_only_the_nearest_have_a_say():
    assert name([4, 4, 2, 4], [0.02, 0.03, 0.01, 0.04]).taxon.endswith("g__Pediococcus")


def test_far_sequences_get_the_names_of_higher_ranks_alone():
    assert name([2], [FARTHEST["g"] + 0.001]) == Name(FAMILY, 1.0)
    # A species has a name where nothing differs.
    assert name([0], [0.004]) == Name(GENUS, 1.0)


def test_neither_the_order_of_hits_nor_other_sequences_change_a_name():
    rng = np.random.default_rng(1)
    count_Q = rng.integers(0, 9, 50)
    rows = [rng.integers(0, len(LINEAGES), count) for count in count_Q]
    distances = [rng.integers(0, 3, count) / 100 for count in count_Q]
    names = name_sequences(
        LINEAGES,
        np.cumsum([0, *count_Q]),
        np.concatenate(rows),
        np.concatenate(distances),
    )
    for row_K, distance_K, expected in zip(rows, distances, names, strict=True):
        order = rng.permutation(len(row_K))
        assert name(row_K[order], distance_K[order]) == expected
