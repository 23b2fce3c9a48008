import pytest
from qiime_artifacts import artifact

from aam.data.importing.taxonomy import load_taxonomy
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
