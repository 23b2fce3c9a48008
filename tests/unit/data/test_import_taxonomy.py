import re

import pytest
from qiime_artifacts import artifact

from aam.data.importing.taxonomy import load_taxonomy, taxonomy_of
from aam.util.errors import InputError

TEXT = (
    "\ufeffFeature ID\tTaxon\tConfidence\r\n#q2:types\tcategorical\tnumeric\r\n"
    "01\tk__Bacteria; g__Rothia\t0.9\r\n\r\n1e5\tUnassigned\t0.7\r\n"
)


def test_a_taxonomy_is_read_as_text_and_as_an_artifact(tmp_path):
    (tmp_path / "t.tsv").write_text(TEXT, encoding="utf-8")
    artifact(tmp_path / "t.qza", "FeatureData[Taxonomy]", "taxonomy.tsv", TEXT)
    for name in ("t.tsv", "t.qza"):
        found = load_taxonomy(tmp_path / name)
        assert found == {"01": "k__Bacteria; g__Rothia", "1e5": "Unassigned"}


def test_a_feature_whose_taxon_is_empty_has_none(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("Feature ID\tTaxon\tConfidence\na\t\t0.9\nb\tx\t1\n")
    assert load_taxonomy(path) == {"b": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id|taxon\na|b\n", "header that begins with 'id|taxon'"),
        ("Feature ID\tTaxon\na\tx\na\ty\nb\n", r"(?s)without a taxon: 'b'.*once: 'a'"),
        ("Feature ID\tTaxon\n\tx\n \ty\n", "rows without a feature ID: 2; expected an ID"),
    ],
)
def test_all_problems_of_a_file_are_named(tmp_path, text, message):
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        load_taxonomy(tmp_path / "t.tsv")


RANKS = "Kingdom\tPhylum\tGenus\nASV1\tBacteria\tFirmicutes\tNA\nASV2\tArchaea\tNA\tNA\n"
JOINED = {"ASV1": "k__Bacteria; p__Firmicutes", "ASV2": "k__Archaea"}
LINEAGES = {"ASV1": "k__Bacteria; p__A", "ASV2": "k__Archaea"}


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        (RANKS, JOINED, "has no name for the first column, .*joined to lineages"),
        (f"OTU\t{RANKS}", JOINED, "joined to lineages"),
        (RANKS.replace("NA", ""), JOINED, "joined to lineages"),
        (
            "ASV1\t\tBacteria\tdomain\t1.0\tFirmicutes\tphylum\t0.9\n"
            "ASV2\t-\tArchaea\tdomain\t0.85\n",
            {"ASV1": "d__Bacteria; p__Firmicutes", "ASV2": "d__Archaea"},
            "it is of the RDP Classifier",
        ),
        (f'"",{RANKS}'.replace("\t", ","), JOINED, "commas separate its cells"),
        ("\tsuperkingdom\tphylum\nASV1\td__Bacteria\tp__A\n", {"ASV1": "d__Bacteria; p__A"}, ""),
        (
            "\tKingdom\tPhylum\tGenus\nASV1\tBacteria\tNA\tRothia\n",
            {"ASV1": "k__Bacteria; p__; g__Rothia"},
            "",
        ),
        ("ASV1\tk__Bacteria; p__A\nASV2\tk__Archaea\n", LINEAGES, "no header, but IDs and lin"),
        ("ASV1\tk__Bacteria; p__A\t0.9\nASV2\tk__Archaea\t1\n", LINEAGES, "no header"),
        ("OTU\tSize\tTaxonomy\nASV1\t5\tk__Bacteria; p__A\nASV2\t2\tk__Archaea\n", LINEAGES, None),
        (
            '"#OTU ID";"taxonomy"\n"ASV1";"k__Bacteria; p__A"\n"ASV2";k__Archaea\n',
            LINEAGES,
            "semic",
        ),
        (
            '"","ASV","Taxon"\n"1","ASV1","k__Bacteria; p__A"\n"2","ASV2","k__Archaea"\n',
            LINEAGES,
            "numbers the rows",
        ),
    ],
)
def test_taxonomies_of_other_programs_are_read_and_it_is_said(
    tmp_path, caplog, text, expected, said
):
    (tmp_path / "t").write_text(text)
    assert load_taxonomy(tmp_path / "t") == expected
    if said is None:
        assert not caplog.records
    else:
        assert re.search(f"{tmp_path}/t was read as follows: .*{said}", caplog.text)


def test_columns_that_may_be_anything_are_no_taxa(tmp_path):
    for text in ("ASV1\tgood\nASV2\tbad\n", "id\tOrder\nASV1\t5\n", "id\tname\nASV1\tk__A\n"):
        (tmp_path / "t").write_text(text)
        with pytest.raises(InputError, match="'Feature ID' and 'Taxon', or those of ranks"):
            load_taxonomy(tmp_path / "t")
    (tmp_path / "t").write_text('id\tTaxon\na\t"k__A\n')
    with pytest.raises(InputError, match="a double quote that is not closed.*on one line"):
        load_taxonomy(tmp_path / "t")


def test_features_without_a_taxon_are_named_with_what_the_file_has(tmp_path, caplog):
    path = tmp_path / "t"
    path.write_text("Feature ID\tTaxon\n1-a\tx\nOTU2\ty\nOTU3\t\n")
    found = taxonomy_of(path, ["OTU2", "OTU3", "X1.a", "z"], {"z": ["zz", "OTU2"]})
    assert found == {"OTU2": "y", "OTU3": "", "X1.a": "", "z": "y"}
    said = (
        "no taxon for 2 features ('OTU3', 'X1.a') of 4, which stay without a name; the IDs of the"
    )
    assert f"{path}: {said} file are '1-a', 'OTU2'; 'X1.a' is probably '1-a' (" in caplog.text
    message = (
        "got no feature of the table; its IDs are '1-a', 'OTU2', those of the table 'X1.a'; 'X1.a' "
        "is probably '1-a' (the X that R puts before a digit); expected the taxonomy of the "
        "features in the table. Hint: give the tax"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        taxonomy_of(path, ["X1.a"])


def test_a_taxonomy_of_all_features_is_read_without_a_word(tmp_path, caplog):
    (tmp_path / "t").write_text("Feature ID\tTaxon\na\tx\nb\ty\n")
    assert taxonomy_of(tmp_path / "t", ["b"]) == {"b": "y"}
    assert not caplog.records
