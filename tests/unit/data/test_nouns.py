"""Nouns for features, which their IDs and lineages decide, and sentences that use them."""

import pytest

from aam.data.nouns import (
    OF_ASVS,
    Nouns,
    find_lineages,
    is_unknown,
    name_features,
    other_encoder,
    without_networks,
)
from aam.data.table import TableFacts


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("ASV", "an ASV, the ASV and its ASVs"),
        ("OTU", "an OTU, the OTU and its OTUs"),
        ("genus", "a genus, the genus and its genera"),
        ("order", "an order, the order and its orders"),
        ("gene family", "a gene family, the gene family and its gene families"),
    ],
)
def test_sentences_on_asvs_are_reworded_for_the_features_of_the_table(noun, expected):
    nouns = Nouns.of_table(TableFacts(noun=noun))
    assert nouns.rename_asvs("an ASV, the ASV and its ASVs") == expected
    assert nouns.value == "reads"


def test_the_values_of_a_table_of_amounts_are_called_amounts():
    assert Nouns.of_table(TableFacts(is_counted=False, noun="genus")) == Nouns(
        "genus", "genera", "amounts"
    )
    amounts = Nouns.of_table(TableFacts(is_counted=False))
    assert amounts != OF_ASVS
    assert amounts.rename_asvs("an ASV") == "an ASV"


def test_networks_that_cannot_read_a_table_are_refused_with_those_that_can():
    error = str(without_networks(TableFacts(is_counted=False, noun="genus")))
    assert "networks for amounts of genera" in error
    assert "set `models: {}`" in error
    error = str(other_encoder("transformer", reads_lineages=True))
    assert "transformer for features without sequences" in error
    assert "`encoder: lineage`, which reads lineages" in error
    error = str(other_encoder("lineage", reads_lineages=False))
    assert "lineage for features with sequences" in error
    assert "transformer, bilstm or bdh, which reads nucleotides" in error


@pytest.mark.parametrize(
    "part", ["g__", "s__unclassified", "__", "NA", "Unassigned", "none", " _ ", "g_1__"]
)
def test_a_rank_without_a_name_is_unknown(part):
    assert is_unknown(part)


@pytest.mark.parametrize("part", ["g__Bacteroides", "unclassified Bacteroides", "0", "x__"])
def test_a_rank_with_a_name_is_known(part):
    assert not is_unknown(part)


def test_ids_are_lineages_where_half_of_them_are():
    lineages = ["k__A;p__B", "d__A", "Unassigned", "other"]
    assert find_lineages(lineages) == {"k__A;p__B": ["k__A", "p__B"], "d__A": ["d__A"]}
    assert find_lineages([*lineages, "more"]) == {}
    # A name with the prefix of a low rank alone is no lineage.
    assert find_lineages(["g__A", "g__B"]) == {}
    assert find_lineages(["g__A;s__B"]) == {"g__A;s__B": ["g__A", "s__B"]}


def named_by_lineages(*ids: str) -> str:
    """Return what features are called whose IDs are lineages."""
    return name_features(ids, find_lineages(ids), of_ids=True)


def test_features_are_called_after_the_lowest_rank_that_a_fifth_of_them_have():
    family = "k__A;p__B;f__C"
    genus = [f"k__A;p__B;f__C;g__{name}" for name in "XYZ"]
    assert named_by_lineages(*[f"{family}{i}" for i in range(4)], genus[0]) == "genus"
    assert named_by_lineages(*[f"{family}{i}" for i in range(5)], genus[0]) == "family"
    assert named_by_lineages(*genus) == "genus"
    assert named_by_lineages("k__A;B", "k__A;C") == "taxon"
    assert named_by_lineages("D_0__A;D_1__B", "D_0__A;D_1__C") == "phylum"


@pytest.mark.parametrize(
    ("ids", "noun"),
    [
        (["g__A", "g__B", "x", "y"], "genus"),
        (["g__A", "x", "y"], "feature"),
        (["s__A", "s__B"], "species"),
        (["D_5__A", "D_5__B"], "genus"),
        (["t__A"], "strain"),
        (["OTU1", "OTU_2", "x", "y"], "OTU"),
        (["OTU1", "x", "y"], "feature"),
        (["MGYG000000001", "GUT_GENOME000001"], "genome"),
        (["K00001", "COG0001", "1.1.1.1"], "gene family"),
        (["map00010", "ko00010: glycolysis"], "pathway"),
    ],
)
def test_features_are_called_by_what_half_of_their_ids_are(ids, noun):
    assert name_features(ids) == noun
