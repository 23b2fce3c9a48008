"""What features are called: by their IDs, by their lineages, and in sentences."""

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
def test_sentences_on_asvs_are_of_what_the_table_has(noun, expected):
    nouns = Nouns.of_table(TableFacts(noun=noun))
    assert nouns.rename_asvs("an ASV, the ASV and its ASVs") == expected
    assert nouns.value == "reads"


def test_a_table_of_amounts_has_no_reads():
    assert Nouns.of_table(TableFacts(is_counted=False, noun="genus")) == Nouns(
        "genus", "genera", "amounts"
    )
    amounts = Nouns.of_table(TableFacts(is_counted=False))
    assert amounts != OF_ASVS
    assert amounts.rename_asvs("an ASV") == "an ASV"


def test_networks_that_cannot_read_a_table_are_refused_with_what_can():
    error = str(without_networks(TableFacts(is_counted=False, noun="genus")))
    assert "networks for amounts of genera" in error
    assert "set `models: {}`" in error
    error = str(other_encoder("transformer", reads_lineages=True))
    assert "transformer for features without sequences" in error
    assert "`encoder: lineage`, which reads lineages" in error
    error = str(other_encoder("lineage", reads_lineages=False))
    assert "lineage for features with sequences" in error
    assert "transformer, bilstm or bdh, which reads nucleotides" in error


def test_ranks_that_say_nothing():
    for part in ("g__", "s__unclassified", "__", "NA", "Unassigned", "none", " _ ", "g_1__"):
        assert is_unknown(part), part
    for part in ("g__Bacteroides", "unclassified Bacteroides", "0", "x__"):
        assert not is_unknown(part), part


def test_ids_are_lineages_where_half_of_them_are():
    lineages = ["k__A;p__B", "d__A", "Unassigned", "other"]
    assert find_lineages(lineages) == {"k__A;p__B": ["k__A", "p__B"], "d__A": ["d__A"]}
    assert find_lineages([*lineages, "more"]) == {}
    # A name with the prefix of a low rank alone is no lineage.
    assert find_lineages(["g__A", "g__B"]) == {}
    assert find_lineages(["g__A;s__B"]) == {"g__A;s__B": ["g__A", "s__B"]}


def named_by_lineages(*ids: str) -> str:
    return name_features(ids, find_lineages(ids), of_ids=True)


def test_features_are_of_the_lowest_rank_that_a_fifth_reach():
    family = "k__A;p__B;f__C"
    genus = [f"k__A;p__B;f__C;g__{name}" for name in "XYZ"]
    assert named_by_lineages(*[f"{family}{i}" for i in range(4)], genus[0]) == "genus"
    assert named_by_lineages(*[f"{family}{i}" for i in range(5)], genus[0]) == "family"
    assert named_by_lineages(*genus) == "genus"
    assert named_by_lineages("k__A;B", "k__A;C") == "taxon"


def test_half_of_the_ids_say_what_features_are():
    assert name_features(["g__A", "g__B", "x", "y"]) == "genus"
    assert name_features(["g__A", "x", "y"]) == "feature"
    assert name_features(["s__A", "s__B"]) == "species"
    assert name_features(["t__A"]) == "strain"
    assert name_features(["OTU1", "OTU_2", "x", "y"]) == "OTU"
    assert name_features(["OTU1", "x", "y"]) == "feature"
    assert name_features(["MGYG000000001", "GUT_GENOME000001"]) == "genome"
    assert name_features(["K00001", "COG0001", "1.1.1.1"]) == "gene family"
    assert name_features(["map00010", "ko00010: glycolysis"]) == "pathway"
