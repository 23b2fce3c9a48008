"""Lineages as words: the same taxon in tables of other styles, and what is not the same."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.data.lineages import (
    SPELLED_BP,
    UNKNOWN_WORD,
    adapt_lineages,
    find_related,
    is_taxon,
    lowest_rank,
    match_lineages,
    rank_words,
    read_rank,
    read_ranks,
    spell_lineages,
)
from aam.data.nouns import find_lineages
from aam.data.sequences import tokenize, untokenize
from aam.data.table import FeatureTable, TableFacts, write_biom

BACTEROIDES = "k__Bacteria;p__Bacteroidetes;c__C;o__O;f__Bacteroidaceae;g__Bacteroides"
CLOSTRIDIUM = "k__Bacteria;p__Firmicutes;c__Clostridia;o__O;f__Clostridiaceae;g__Clostridium"
NO_GENUS = "k__Bacteria;p__Firmicutes;c__Clostridia;o__O;f__Clostridiaceae;__"


def spell(ids: list[str], noun: str = "genus") -> dict[str, str]:
    return spell_lineages(ids, find_lineages(ids), noun)


@pytest.mark.parametrize(
    "other",
    [
        "d__Bacteria;p__Bacteroidetes;c__C;o__O;f__Bacteroidaceae;g__Bacteroides",
        "k__Bacteria|p__Bacteroidetes|c__C|o__O|f__Bacteroidaceae|g__Bacteroides",
        "D_0__Bacteria; D_1__Bacteroidetes; D_2__C; D_3__O; D_4__Bacteroidaceae; D_5__Bacteroides",
        "d__Bacteria;p__Bacteroidota;c__Bacteroidia;f__Bacteroidaceae;g__bacteroides",
        "g__Bacteroides",
        "Bacteroides",
    ],
)
def test_a_genus_is_the_same_however_it_is_written(other: str) -> None:
    kept = spell([BACTEROIDES, CLOSTRIDIUM, NO_GENUS])
    assert match_lineages(kept, spell([other]), "genus") == {other: BACTEROIDES}


def test_the_epithet_of_greengenes_is_a_species_of_its_genus() -> None:
    metaphlan = f"{BACTEROIDES}|s__Bacteroides_vulgatus".replace(";", "|")
    greengenes = f"{BACTEROIDES}; s__vulgatus"
    kept = spell([metaphlan], "species")
    assert match_lineages(kept, spell([greengenes], "species"), "species") == {
        greengenes: metaphlan
    }


def test_another_rank_another_family_and_two_of_a_name_match_nothing() -> None:
    kept = spell([BACTEROIDES, CLOSTRIDIUM])
    family = NO_GENUS.removesuffix(";__")
    assert match_lineages(kept, spell([family, f"{BACTEROIDES};s__x"]), "genus") == {}
    twice = ["k__B;f__One;g__Same", "k__B;f__Two;g__Same"]
    assert match_lineages(spell(twice), spell(["g__Same"]), "genus") == {}
    assert match_lineages(spell(twice), spell(twice), "genus") == {name: name for name in twice}


def test_an_otu_of_the_same_number_but_another_lineage_is_another_one() -> None:
    """Numbers of de novo OTUs begin again in every study, and OTUs of a genus are not the same."""
    kept = spell_lineages(["OTU1", "OTU2"], {"OTU1": ["k__B", "g__X"], "OTU2": ["k__B"]}, "OTU")
    other = spell_lineages(
        ["OTU1", "OTU2", "OTU3"],
        {"OTU1": ["k__B", "g__Y"], "OTU2": ["k__B"], "OTU3": ["k__B", "g__X"]},
        "OTU",
    )
    assert match_lineages(kept, other, "OTU") == {"OTU2": "OTU2"}


def test_words_are_letters_that_are_stored_as_those_of_sequences() -> None:
    ids = [BACTEROIDES, NO_GENUS, "k__Bacteria;p__X;c__Y;o__Z;f__W;g__uncultured", "Unassigned"]
    texts = spell(ids)
    assert {len(text) for text in texts.values()} == {SPELLED_BP}
    assert untokenize(*tokenize([*texts.values()], SPELLED_BP)) == [*texts.values()]
    one, other, no_name, nothing = (rank_words(texts[name]) for name in ids)
    assert one[0] == other[0] != UNKNOWN_WORD
    assert other[5] == no_name[5] == UNKNOWN_WORD
    assert {*nothing} == {UNKNOWN_WORD}
    # Features of one lineage are told apart by their IDs.
    assert len({*texts.values()}) == len(ids)


@given(
    st.lists(st.text(min_size=1, max_size=30), unique=True, max_size=12),
    st.lists(st.text("kpg_D;|0 Aa", min_size=1, max_size=20), unique=True, max_size=12),
    st.sampled_from(["genus", "species", "taxon", "OTU", "feature"]),
)
@settings(deadline=None, max_examples=60)
def test_any_names_are_spelled_and_match_one_to_one(
    ids: list[str], other: list[str], noun: str
) -> None:
    kept, others = spell(ids, noun), spell(other, noun)
    assert {len(text) for text in kept.values()} <= {SPELLED_BP}
    assert match_lineages(kept, kept, noun) == {name: name for name in ids}
    matched = match_lineages(kept, others, noun)
    assert matched.keys() <= others.keys()
    assert {*matched.values()} <= kept.keys()
    assert len({*matched.values()}) == len(matched)


def test_ranks_are_read_from_the_table_or_from_a_taxonomy(tmp_path: Path) -> None:
    table = FeatureTable(
        ["s"],
        ["f1", "f2"],
        csr_array(np.array([[1, 2]])),
        TableFacts(has_sequences=False, has_lineages=True, noun="genus"),
    )
    path = tmp_path / "table.biom"
    write_biom(path, table, {}, {"f1": ["k__A", "p__B"]})
    assert read_ranks(path) == {"f1": ["k__A", "p__B"]}
    taxonomy = tmp_path / "taxonomy.tsv"
    taxonomy.write_text("feature-id\ttaxon\nf1\tk__A; p__\nf2\tUnassigned\nNA\tk__C\n")
    assert read_ranks(path, taxonomy) == {"f1": ["k__A"], "NA": ["k__C"]}


@pytest.mark.parametrize(
    ("part", "position", "expected"),
    [
        ("D_0__Bacteria", 3, ("kingdom", "Bacteria")),
        ("D_6__vulgatus", 0, ("species", "vulgatus")),
        ("D_9__odd", 0, ("", "odd")),
        ("G__Bacteroides", 0, ("genus", "Bacteroides")),
        ("t__SGB1", 0, ("strain", "SGB1")),
        ("Firmicutes", 1, ("phylum", "Firmicutes")),
        ("strain X", 7, ("strain", "strain X")),
        ("behind", 8, ("", "behind")),
    ],
)
def test_a_rank_is_known_by_its_prefix_or_its_position(part, position, expected) -> None:
    assert read_rank(part, position) == expected


def test_nouns_of_ranks_are_those_of_taxa() -> None:
    assert all(map(is_taxon, ["genus", "species", "strain", "kingdom", "taxon"]))
    assert not any(map(is_taxon, ["OTU", "ASV", "pathway", "feature"]))


def test_a_feature_is_related_to_training_by_its_two_lowest_ranks() -> None:
    seen = spell([BACTEROIDES]).values()
    ids = {
        "same": BACTEROIDES,
        "genus of the family": BACTEROIDES.replace("g__Bacteroides", "g__Other"),
        "genus of the order": BACTEROIDES.replace("f__Bacteroidaceae;g__Bacteroides", "f__X;g__Y"),
        "the family": BACTEROIDES.removesuffix(";g__Bacteroides"),
        "of another phylum": CLOSTRIDIUM.replace("o__O", "o__P"),
        "nothing": "Unassigned",
    }
    texts = [spell([name])[name] for name in ids.values()]
    related = dict(zip(ids, find_related(texts, seen).tolist(), strict=True))
    expected = ["same", "genus of the family", "the family"]
    assert [name for name, is_related in related.items() if is_related] == expected


def test_the_lowest_rank_of_a_feature_is_the_last_that_has_a_name() -> None:
    family = BACTEROIDES.removesuffix(";g__Bacteroides")
    text = spell([BACTEROIDES])[BACTEROIDES]
    # Words are of the kingdom, the phylum, the class, the order, and so on.
    family_word, genus_word = rank_words(text)[4:6]
    assert lowest_rank(text) == genus_word
    assert lowest_rank(spell([family])[family]) == family_word
    assert lowest_rank(spell(["Unassigned"])["Unassigned"]) == ""


def test_features_of_another_table_are_spelled_as_those_of_training() -> None:
    kept = spell([BACTEROIDES, CLOSTRIDIUM])
    other = spell(["g__Bacteroides", "k__Bacteria;p__New;g__New"])
    adapted = adapt_lineages(kept.values(), other, "genus")
    assert adapted["g__Bacteroides"] == kept[BACTEROIDES]
    assert adapted["k__Bacteria;p__New;g__New"] == other["k__Bacteria;p__New;g__New"]


def test_an_otu_whose_number_has_another_lineage_in_training_loses_its_number() -> None:
    training = spell_lineages(["OTU1", "OTU2"], {"OTU1": ["k__B", "g__X"]}, "OTU")
    lineages = {"OTU1": ["k__B", "g__Y"], "OTU2": ["k__B", "g__Z"]}
    other = spell_lineages(["OTU1", "OTU2", "OTU3"], lineages, "OTU")
    adapted = adapt_lineages(training.values(), other, "OTU")
    assert adapted["OTU1"] == other["OTU1"][: -len(UNKNOWN_WORD)] + UNKNOWN_WORD
    # In training it has no lineage, which could contradict.
    assert adapted["OTU2"] == training["OTU2"]
    assert adapted["OTU3"] == other["OTU3"]
