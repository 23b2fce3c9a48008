"""What is said of tables whose reads are unlike those of training."""

import logging
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.data.predictions import FEW_NEAR
from aam.data.table import FeatureTable, TableFacts
from aam.inference.nearness import (
    check_nearness,
    find_near,
    measure_nearness,
    warn_of_serial_ids,
)
from aam.inference.tables import rarefy_views
from aam.reference_tree.nearest import reverse_complement
from aam.util.errors import InputError

LENGTH, DEPTH = 100, 500
PRIMER = "GTGCCAGCAGCCGCGGTAA"
rng = np.random.default_rng(5)


def mutated(sequence: str, differences: int, draw: np.random.Generator = rng) -> str:
    letters = list(sequence)
    for at in draw.choice(LENGTH, differences, replace=False):
        letters[at] = {"A": "C", "C": "G", "G": "T", "T": "A"}[letters[at]]
    return "".join(letters)


# The region, with what the reads of training lack at both ends; relatives differ in 15 of 100.
BEFORE, BEHIND = ("".join(rng.choice(list("ACGT"), length)) for length in (40, 60))
ANCESTOR = "".join(rng.choice(list("ACGT"), LENGTH))
KNOWN = [mutated(ANCESTOR, 15) for _ in range(30)]
# New ASVs of the same kind of samples: each differs from a known one in two bases.
ASVS = [*KNOWN[:20], *(mutated(text, 2) for text in KNOWN[20:])]
RANDOM = ["".join(rng.choice(list("ACGT"), LENGTH)) for _ in ASVS]
COUNTS = rng.integers(1, 200, size=(6, len(ASVS)))
NAMES = [f"sample {number}" for number in range(6)]


def table_of(texts: list[str], counts=COUNTS) -> tuple[FeatureTable, dict[str, str]]:
    names = [f"asv {number}" for number in range(len(texts))]
    table = FeatureTable(NAMES[: len(counts)], names, csr_array(np.asarray(counts, np.int64)))
    return table, dict(zip(names, texts, strict=True))


def checked(table: FeatureTable, sequences: Mapping[str, str], views: int = 2):
    tokens, store = rarefy_views(table, sequences, DEPTH, views, 0, LENGTH)
    near_U = find_near(tokens, KNOWN)
    nearness = measure_nearness(store, tokens, frozenset(KNOWN), near_U, DEPTH)
    check_nearness(nearness, table, sequences, KNOWN, "new/table.qza")
    return nearness


def test_new_asvs_that_differ_little_are_near_and_named_nowhere(caplog):
    """Of such tables `unseen_asvs` is above 0, which says nothing against them."""
    nearness = checked(*table_of(ASVS))
    assert nearness.index.tolist() == NAMES
    assert (nearness["near_reads"] == 1).all()
    assert (nearness["unseen_asvs"] > 0.15).all()
    assert not caplog.records


@pytest.mark.parametrize("length", [80, 99])
def test_reads_of_another_length_are_near_although_none_was_seen(length, caplog):
    nearness = checked(*table_of([text[:length] for text in ASVS]))
    assert (nearness["near_reads"] == 1).all()
    assert (nearness["unseen_asvs"] == 1).all()
    longer = checked(*table_of([text + BEHIND for text in ASVS]))
    assert longer["unseen_asvs"].max() < 0.6
    assert not caplog.records


REFUSED: dict[str, tuple[Callable[[str], str], list[str]]] = {
    "other strand": (reverse_complement, ["100 % of the reads", "of the other strand", "revcomp"]),
    "primer": (
        lambda text: PRIMER + text,
        ["without their first 19 bases: a primer was left on", "cutadapt --cut 19"],
    ),
    "trimmed": (
        lambda text: text[10:],
        ["if they began 10 bases earlier", "with 10 more bases at the start"],
    ),
    "one base": (lambda text: text[1:], ["if they began 1 bases earlier"]),
    "longer region": (
        lambda text: BEFORE + text + BEHIND,
        ["without their first 40 bases", "cut the first 40 bases"],
    ),
    "other strand of a longer region": (
        lambda text: reverse_complement(PRIMER + text + BEHIND),
        ["as their reverse complements, would be near without", "revcomp", "--cut 19"],
    ),
    "other organisms": (
        lambda text: mutated(text, 12, np.random.default_rng(len(text))),
        ["the region is the same, but the organisms are others", "train on samples like these"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_without_known_reads_is_refused_with_its_cause(case):
    change, words = REFUSED[case]
    with pytest.raises(InputError) as stop:
        checked(*table_of([change(text) for text in ASVS]))
    message = str(stop.value)
    assert message.startswith("new/table.qza: got 6 samples in which 0 % of the reads are of ASVs")
    for part in words:
        assert part in message
    if case != "other strand":
        assert "of the other strand" not in message


def test_reads_of_another_gene_are_refused_without_a_wrong_hint():
    with pytest.raises(InputError, match="another region, or of another gene") as stop:
        checked(*table_of(RANDOM))
    assert not {"vsearch", "cutadapt"} & {*str(stop.value).replace("`", " ").split()}


@given(seed=st.integers(0, 10**6), share=st.floats(0, 1))
@settings(deadline=None, max_examples=25)
def test_near_reads_are_a_share_that_no_order_changes_and_no_less_than_the_seen_ones(seed, share):
    draw = np.random.default_rng(seed)
    texts = [own if draw.random() < share else far for own, far in zip(ASVS, RANDOM, strict=True)]
    texts[0] = ASVS[0]
    counts = COUNTS.copy()
    # Every table has enough that is known not to be refused.
    counts[:, 0] += 1000
    table, sequences = table_of(texts, counts)
    found = checked(table, sequences)
    near, unseen = found["near_reads"], found["unseen_asvs"]
    assert near.between(0, 1 + 1e-12).all()
    assert (near >= 1 - unseen - 1e-12).all()
    rows, columns = draw.permutation(6), draw.permutation(len(texts))
    shuffled = counts[rows][:, columns]
    ids = [table.feature_ids[column] for column in columns]
    other = FeatureTable([NAMES[row] for row in rows], ids, csr_array(shuffled))
    again = checked(other, sequences).loc[NAMES]
    np.testing.assert_allclose(again, found)


@pytest.mark.parametrize("far", ["other strand", "other gene"])
def test_single_samples_with_few_near_reads_are_named_with_the_likely_cause(far, caplog):
    """The first two samples hold other ASVs than the rest."""
    others = [reverse_complement(text) for text in ASVS] if far == "other strand" else RANDOM
    counts = np.zeros((6, 60), np.int64)
    counts[:2, 30:] = COUNTS[:2]
    counts[2:, :30] = COUNTS[2:]
    with caplog.at_level(logging.WARNING):
        nearness = checked(*table_of([*ASVS, *others], counts))
    assert (nearness["near_reads"] < FEW_NEAR).tolist() == [True] * 2 + [False] * 4
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("new/table.qza: in these 2 of 6 samples less than 50 % of the reads")
    assert "'sample 0', 'sample 1'" in message
    assert "'sample 2'" not in message
    assert ("of the other strand" in message) == (far == "other strand")


def test_a_table_without_deep_samples_says_what_to_do():
    table, sequences = table_of(ASVS, COUNTS[:1])
    few = FeatureTable(table.sample_ids, table.feature_ids, csr_array(np.ones((1, 30), np.int64)))
    with pytest.raises(InputError) as stop:
        rarefy_views(few, sequences, DEPTH, 2, 0, LENGTH, "new/table.qza")
    message = str(stop.value)
    assert message.startswith("new/table.qza: got 1 samples with fewer than 500 reads")
    assert "'sample 0', has 30" in message
    assert "lower rarefaction.depth: " not in message, "the depth is that of training"


def test_one_sample_is_a_table():
    assert checked(*table_of(ASVS, COUNTS[:1]))["near_reads"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("names", "facts", "is_warned"),
    [
        (["ASV1", "ASV2", "ASV_30"], {}, True),
        (["Otu0001", "zotu2", "denovo"], {}, True),
        (["4479944", "111582", "ASV1"], {}, False),
        (["ASV1", "ASV2", "ASV3"], {"has_lineages": True}, False),
        (["g__A", "g__B", "g__C"], {}, False),
    ],
)
def test_ids_that_a_pipeline_assigns_in_each_run_are_warned_of(caplog, names, facts, is_warned):
    """ASV1 of another run is another organism, and no lineage would show it."""
    counts = csr_array(np.ones((2, 3), np.int64))
    table = FeatureTable(["s1", "s2"], names, counts, TableFacts(has_sequences=False, **facts))
    warn_of_serial_ids(table, "new.tsv")
    assert ("may be another organism than in training" in caplog.text) == is_warned
