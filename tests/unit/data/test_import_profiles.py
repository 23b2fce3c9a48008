"""Tables of profilers: each abundance is read once, and the file says what was left out."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.importing.ids import shared_ending
from aam.data.importing.table import load_table, read_table_file
from aam.data.importing.taxonomy import load_taxonomy
from aam.util.errors import InputError

TOP = "k__Bacteria"
SPECIES = {
    "|p__A|c__A|o__A|f__A|g__A|s__A_one": [30, 0, 12],
    "|p__A|c__A|o__A|f__A|g__A|s__A_two": [0, 25, 4],
    "|p__A|c__A|o__A|f__A|g__B|s__B_one": [40, 5, 64],
    "|p__D|c__D|o__D|f__D|g__D|s__D_one": [20, 60, 15],
}
SAMPLES = ["00123", "1e5", "S-3"]


def of_all_ranks(rows=SPECIES):
    """Return a row for every rank, the higher ones with the sums of the lower."""
    values: dict[str, np.ndarray] = {}
    for name, counts in rows.items():
        taxa = (TOP + name).split("|")
        for depth in range(1, len(taxa) + 1):
            clade = "|".join(taxa[:depth])
            values[clade] = values.get(clade, np.zeros(3, int)) + counts
    return pd.DataFrame(values, SAMPLES).T


def to_tsv(frame, corner, above="", **columns):
    return above + frame.assign(**columns)[[*columns, *frame.columns]].to_csv(
        sep="\t", index_label=corner, lineterminator="\n"
    )


METAPHLAN = {
    "MetaPhlAn 2": to_tsv(of_all_ranks(), "ID"),
    "MetaPhlAn 3": to_tsv(
        of_all_ranks(),
        "clade_name",
        "#mpa_v30\n",
        NCBI_tax_id=["2" + "|1" * name.count("|") for name in of_all_ranks().index],
    ),
    "MetaPhlAn 4": to_tsv(
        pd.concat([pd.DataFrame([[9, 9, 9]], ["UNCLASSIFIED"], SAMPLES), of_all_ranks()]),
        "clade_name",
        "#mpa_vJan21\n",
    ),
    "a report of Kraken": to_tsv(of_all_ranks(), "#Classification"),
    "semicolons": to_tsv(of_all_ranks().rename(lambda name: name.replace("|", ";")), "ID"),
}


@pytest.mark.parametrize("form", METAPHLAN)
def test_one_rank_of_a_table_of_all_is_read(tmp_path, form, caplog):
    path = tmp_path / "merged.tsv"
    path.write_text(METAPHLAN[form])
    found = read_table_file(path)
    assert found.table.sample_ids == SAMPLES
    names = [name.replace("|", ";") for name in found.table.feature_ids]
    assert names == [(TOP + name).replace("|", ";") for name in SPECIES]
    assert found.table.counts.toarray().T.tolist() == list(SPECIES.values())
    assert len(found.left_out) == len(of_all_ranks()) - 4 + (form == "MetaPhlAn 4")
    assert "species 4" in caplog.text
    assert "100 %" in caplog.text


def test_strains_are_left_out_and_a_table_without_species_has_genera(tmp_path):
    frame = of_all_ranks(
        {f"{name}|t__SGB{i}": row for i, (name, row) in enumerate(SPECIES.items())}
    )
    (tmp_path / "t").write_text(to_tsv(frame, "clade_name"))
    assert all(
        "|s__" in name and "t__" not in name for name in load_table(tmp_path / "t").feature_ids
    )
    genera = of_all_ranks().loc[lambda rows: ~rows.index.str.contains("s__")]
    (tmp_path / "t").write_text(to_tsv(genera, "clade_name"))
    assert len(load_table(tmp_path / "t").feature_ids) == 3


def test_genera_beside_what_is_unclassified_above_them_are_all_read(tmp_path, caplog):
    rows = {"k__B;p__A": [3, 40, 5], "k__B;p__A;g__A": [9, 1, 50], "k__B;p__C;g__D": [7, 8, 9]}
    (tmp_path / "t").write_text(to_tsv(pd.DataFrame(rows, SAMPLES).T, "#OTU ID"))
    assert load_table(tmp_path / "t").counts.sum() == 132


def test_rows_of_humann_that_divide_others_are_left_out(tmp_path, caplog):
    rows = {
        "UNMAPPED": [50, 20, 30],
        "UNINTEGRATED": [7, 8, 9],
        "UNINTEGRATED|g__A.s__A_one": [7, 8, 9],
        "PWY-1: a path; long": [5, 6, 7],
        "PWY-1: a path; long|g__A.s__A_one": [4, 0, 7],
        "PWY-1: a path; long|unclassified": [1, 6, 0],
        "PWY-2: another": [1, 0, 2],
    }
    text = to_tsv(pd.DataFrame(rows, [f"{name}_Abundance" for name in SAMPLES]).T, "# Pathway")
    (tmp_path / "metadata").write_text("sample-id\tx\n" + "".join(f"{s}\t1\n" for s in SAMPLES))
    (tmp_path / "t").write_text(text)
    found = read_table_file(tmp_path / "t", metadata=tmp_path / "metadata")
    assert found.table.feature_ids == ["PWY-1: a path; long", "PWY-2: another"]
    assert found.table.sample_ids == SAMPLES
    assert {why for _, _, why in found.left_out} == {
        "a share of another feature",
        "what was not assigned",
    }
    assert "UNMAPPED" in caplog.text
    assert "_Abundance" in caplog.text


def bracken(names, levels=("S", "S", "S"), ids=(10, 11, 12)):
    lines = [
        "name\ttaxonomy_id\ttaxonomy_lvl\tS1.bracken_num\tS1.bracken_frac\tS2.bracken_num\tS2.bracken_frac"
    ]
    for i, (name, level, taxon) in enumerate(zip(names, levels, ids, strict=True)):
        lines.append(f"{name}\t{taxon}\t{level}\t{10 + i}\t0.{i}1\t{20 + i}\t0.{i}2")
    return "\n".join(lines) + "\n"


def test_reads_of_bracken_are_taken_and_fractions_are_not(tmp_path):
    path = tmp_path / "combined"
    path.write_text(bracken(["Alpha one", "Beta", "Beta"]))
    table = load_table(path)
    assert table.sample_ids == ["S1.bracken", "S2.bracken"]
    assert table.feature_ids == ["Alpha one (10)", "Beta (11)", "Beta (12)"]
    assert table.counts.toarray().tolist() == [[10, 11, 12], [20, 21, 22]]
    path.write_text(bracken(["Alpha one", "Beta", "Alpha"], levels=("S", "S", "G")))
    assert load_table(path).feature_ids == ["Alpha one", "Beta"]


COUNTS = pd.DataFrame([[5, 0, 3], [2, 9, 0], [1, 1, 8], [4, 4, 4]], list("abcd"), SAMPLES)
"""Features in rows."""
LINEAGES = ["k__B; p__A", "k__B; p__C", "k__B", "k__B; p__A"]


@pytest.mark.parametrize("name", ["taxonomy", "Consensus Lineage", "Taxon", "lineage"])
@pytest.mark.parametrize("first", [False, True])
def test_a_column_of_lineages_is_kept(tmp_path, name, first):
    frame = COUNTS.assign(**{name: LINEAGES})
    frame = frame[[name, *SAMPLES]] if first else frame
    (tmp_path / "t").write_text(frame.to_csv(sep="\t", index_label="#OTU ID"))
    found = read_table_file(tmp_path / "t")
    assert found.lineages == dict(zip(COUNTS.index, LINEAGES, strict=True))
    assert found.table.sample_ids == SAMPLES


def test_columns_of_ranks_are_lineages_or_the_ids_where_there_are_no_others(tmp_path):
    ranks = {"Kingdom": "B", "Phylum": ["A", "C", "NA", "A"], "Genus": ["X", "NA", "NA", "Y"]}
    frame = COUNTS.assign(**ranks)[[*ranks, *SAMPLES]]
    (tmp_path / "t").write_text(frame.to_csv())
    lineages = ["k__B; p__A; g__X", "k__B; p__C", "k__B", "k__B; p__A; g__Y"]
    assert [*read_table_file(tmp_path / "t").lineages.values()] == lineages
    (tmp_path / "t").write_text(frame.to_csv(index=False))
    assert load_table(tmp_path / "t").feature_ids == lineages


def test_mothurs_bootstraps_are_no_part_of_a_taxon(tmp_path):
    text = "OTU\tSize\tTaxonomy\nOtu1\t9\tBacteria(100);Firmicutes(98);X(Y)(51);\n"
    (tmp_path / "final.cons.taxonomy").write_text(text)
    assert load_taxonomy(tmp_path / "final.cons.taxonomy") == {"Otu1": "Bacteria;Firmicutes;X(Y);"}


def metadata_file(tmp_path, names):
    path = tmp_path / "metadata.tsv"
    path.write_text("sample-id\tage\n" + "".join(f"{name}\t5\n" for name in names))
    return path


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_order_orientation_and_encoding_gives_the_same_table(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("forms")
    rows = data.draw(st.permutations(range(4)))
    columns = data.draw(st.permutations(range(3)))
    frame = COUNTS.iloc[list(rows), list(columns)]
    is_turned = data.draw(st.booleans())
    text = (frame.T if is_turned else frame).to_csv(
        sep=data.draw(st.sampled_from("\t,;")),
        index_label=data.draw(st.sampled_from(["", "X", "name"])),
        quoting=data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])),
    )
    content = text.encode(data.draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(content) if data.draw(st.booleans()) else content)
    table = read_table_file(path, metadata=metadata_file(tmp_path, [*SAMPLES, "other"])).table
    assert table.sample_ids == [*frame.columns]
    assert table.feature_ids == [*frame.index]
    assert table.counts.toarray().tolist() == frame.T.to_numpy().tolist()


@pytest.mark.parametrize("known", [["a", "b", "c", "d", *SAMPLES], ["x", "y"]])
def test_where_both_axes_or_neither_are_samples_the_table_is_refused(tmp_path, known):
    (tmp_path / "t").write_text(COUNTS.to_csv())
    with pytest.raises(InputError, match=r"'a'.*'00123'|'00123'.*'a'"):
        read_table_file(tmp_path / "t", metadata=metadata_file(tmp_path, known))


def test_lineages_tell_the_features_without_metadata(tmp_path, caplog):
    frame = COUNTS.set_axis([f"k__B;g__{name}" for name in COUNTS.index], axis=0)
    (tmp_path / "t").write_text(frame.T.to_csv(index_label="index"))
    assert load_table(tmp_path / "t").sample_ids == SAMPLES
    assert "rows are samples" in caplog.text


@pytest.mark.parametrize(
    ("names", "known", "ending"),
    [
        (["a_profile", "b_profile"], ["a", "b"], "_profile"),
        (["a.x_y", "b.x_y"], ["a.x", "b.x"], "_y"),
        (["a_1", "b_1"], ["a_1", "a"], ""),
        (["a_1", "b_2"], ["a", "b"], ""),
        (["a1", "b1"], ["a", "b"], ""),
    ],
)
def test_what_programs_append_to_all_ids_is_found(names, known, ending):
    assert shared_ending(names, known) == ending


def test_columns_of_the_metadata_are_no_features(tmp_path, caplog):
    frame = COUNTS.T.assign(age=[30, 41, 52], a=COUNTS.T["a"])
    (tmp_path / "t").write_text(frame.to_csv(index_label="index"))
    path = tmp_path / "metadata.tsv"
    rows = zip(SAMPLES, [30, "NA", 52], [9, 9, 9], strict=True)
    path.write_text("sample-id\tage\ta\n" + "".join("{}\t{}\t{}\n".format(*row) for row in rows))
    found = read_table_file(tmp_path / "t", metadata=path)
    assert found.table.feature_ids == [*"abcd"]
    assert found.left_out == [("feature", "age", "a column of the metadata")]
    assert "'age'" in caplog.text


def test_ids_that_r_changed_still_tell_the_samples(tmp_path):
    frame = COUNTS.set_axis(["X1", "X2.a", "X3"], axis=1).rename({"a": "2a"})
    (tmp_path / "t").write_text(frame.T.to_csv())
    path = metadata_file(tmp_path, ["1", "2-a", "3"])
    assert read_table_file(tmp_path / "t", metadata=path).table.feature_ids[1:] == [*"bcd"]
