"""What people read instead of the names in files."""

import pytest

from aam.report.labels import taxon_name


@pytest.mark.parametrize(
    ("taxon", "name"),
    [
        ("k__Bacteria; p__Firmicutes; f__X; g__; s__", "f__X"),
        ("d__Bacteria;g__Rothia;s__Rothia_mucilaginosa", "g__Rothia s__Rothia_mucilaginosa"),
        ("Unassigned", "Unassigned"),
        ("k__; p__", "k__; p__"),
    ],
)
def test_a_taxon_is_called_by_its_last_named_rank(taxon, name):
    assert taxon_name(taxon) == name
