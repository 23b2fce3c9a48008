"""Tables as people have them: every form gives the same table, or one message says why not."""

import csv
import gzip
import io
import json
import logging
import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.data.importing.counts import import_counts, read_other_names
from aam.data.rarefaction import scale_to_one
from aam.data.table import FeatureTable, write_biom
from aam.util.errors import InputError

SAMPLES = ["S1", "S2", "S3", "S4", "S5"]
FEATURES = [f"ASV{number}" for number in range(1, 7)]
COUNTS = np.array(
    [
        [12, 0, 3, 44, 0, 1],
        [0, 7, 100000, 5, 2, 0],
        [9, 1, 0, 61, 3, 0],
        [4, 4, 8, 15, 16, 23],
        [31, 0, 0, 2, 0, 6],
    ]
)
SEQUENCES = {
    name: "ACGTACGTAC" + "".join("ACGT"[(number >> 2 * i) & 3] for i in range(12))
    for number, name in enumerate(FEATURES)
}
LINEAGES = [f"k__Bacteria; g__Genus{number}" for number in range(6)]
FRAME = pd.DataFrame(COUNTS.T, FEATURES, SAMPLES)
"""Features in rows."""


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "rep-seqs.fasta"
    path.write_text("".join(f">{name}\n{text}\n" for name, text in SEQUENCES.items()))
    return path


def to_text(frame, separator="\t", corner="#OTU ID", **options):
    return frame.to_csv(sep=separator, index_label=corner, lineterminator="\n", **options)


def to_r(frame, separator="\t", quote='"', names=True):
    """Write as R's write.table does: no name for the first column, quotes around names."""
    header = separator.join(f"{quote}{name}{quote}" for name in frame.columns)
    rows = [
        separator.join([f"{quote}{name}{quote}", *map(str, row)])
        for name, row in zip(frame.index, frame.to_numpy().tolist(), strict=True)
    ]
    return "\n".join([header if names else f'""{separator}{header}', *rows]) + "\n"


def to_shared(frame, label="0.03"):
    """Write as mothur does, with a tab at the end of each row."""
    lines = ["\t".join(["label", "Group", "numOtus", *frame.columns])]
    for name, row in zip(frame.index, frame.to_numpy().tolist(), strict=True):
        lines.append("\t".join([label, name, str(len(row)), *map(str, row), ""]))
    return "\n".join(lines) + "\n"


def numbered(frame, start):
    """Give the IDs a column of their own, behind one that numbers the rows."""
    moved = frame.reset_index(names="ASV_ID")
    moved.index += start
    return moved


TOTALS = FRAME.assign(Total=FRAME.sum(axis=1))
MARGINS = pd.concat([TOTALS, TOTALS.sum().to_frame("Grand Total").T])
LENGTHS = FRAME.assign(length=[len(SEQUENCES[name]) for name in FEATURES])
FORMS = {
    "tab": to_text(FRAME),
    "tab, other corner": to_text(FRAME, corner="OTU_ID"),
    "tab, no corner": to_text(FRAME, corner=""),
    "csv": to_text(FRAME, ","),
    "semicolons": to_text(FRAME, ";"),
    "csv in quotes": to_text(FRAME, ",", quoting=csv.QUOTE_ALL),
    "csv with a comment": "# Constructed from biom file\n" + to_text(FRAME, ","),
    "tab in quotes": to_text(FRAME, quoting=csv.QUOTE_NONNUMERIC),
    "R": to_r(FRAME),
    "R without quotes": to_r(FRAME, quote=""),
    "R with spaces": to_r(FRAME, " "),
    "R, col.names=NA": to_r(FRAME, names=False),
    "R, write.csv": to_r(FRAME, ",", names=False),
    "R, a column of IDs": to_r(numbered(FRAME, 1)),
    "pandas, a column of IDs": numbered(FRAME, 0).to_csv(),
    "samples in rows": to_text(FRAME.T, corner="sample-id"),
    "samples in rows, no corner": to_text(FRAME.T, corner=""),
    "samples in rows, wrong corner": to_text(FRAME.T, corner="#OTU ID"),
    "samples in rows, csv": FRAME.T.to_csv(),
    "samples in rows, R": to_r(FRAME.T),
    "mothur": to_shared(FRAME.T),
    "mothur, count_table": to_text(
        FRAME.assign(total=FRAME.sum(axis=1))[["total", *SAMPLES]], corner="Representative_Sequence"
    ),
    "total": to_text(TOTALS),
    "total in the middle": to_text(TOTALS[["S1", "Total", *SAMPLES[1:]]]),
    "a total by any name": to_text(FRAME.assign(everything=FRAME.sum(axis=1))),
    "totals at both sides": to_text(MARGINS),
    "a total of samples in rows": to_text(MARGINS.T, corner="sample"),
    "length": to_text(LENGTHS),
    "length and total": to_text(LENGTHS.assign(Sum=FRAME.sum(axis=1))[["length", "Sum", *SAMPLES]]),
    "lineages first": to_text(FRAME.assign(taxonomy=LINEAGES)[["taxonomy", *SAMPLES]]),
    "lineages in the middle": to_text(
        FRAME.assign(**{"Consensus Lineage": LINEAGES})[["S1", "Consensus Lineage", *SAMPLES[1:]]]
    ),
    "lineages under another name": to_text(FRAME.assign(Silva138=LINEAGES)),
    "lineages with quotes": re.sub(
        r"k__(Bacteria); g__(\w+)", r'"\1";"\2"', to_text(FRAME.assign(taxonomy=LINEAGES))
    ),
    "ranks": to_text(FRAME.assign(Kingdom="Bacteria", Phylum=["Firmicutes", *["NA"] * 5])),
    "confidence": to_text(FRAME.assign(taxonomy=LINEAGES, Confidence=0.98, OConfidence=1)),
    "a column of sequences": to_text(FRAME.assign(sequence=SEQUENCES)),
    "decimal zeros": to_text(FRAME.astype(float)),
    "exponents": to_text(FRAME).replace("100000", "1e+05"),
    "empty columns and rows": "".join(
        f"{line}\t\t\n" for line in to_text(FRAME).splitlines()
    ) + "\t" * 7 + "\n",
    "empty columns, csv": "".join(
        f"{line},,\n" for line in to_text(FRAME, ",").splitlines()
    ) + "," * 7 + "\n",
    "a tab at the end of each row": "\t\n".join(to_text(FRAME).split("\n")),
    "a line for Excel": "sep=;\n" + to_text(FRAME, ";"),
    "a title": "Table of OTUs of 2023\n" + to_text(FRAME),
    "a title in a spreadsheet": "My OTUs" + "," * 5 + "\n" + to_text(FRAME, ","),
    "types": to_text(FRAME).replace("\n", "\n#q2:types" + "\tnumeric" * 5 + "\n", 1),
}  # fmt: skip


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_read_alike(tmp_path, fasta, form, ending):
    path = tmp_path / "table"
    path.write_bytes(FORMS[form].replace("\n", ending).encode())
    found = import_counts(path, fasta)
    assert found.table.sample_ids == SAMPLES
    assert found.table.feature_ids == FEATURES
    assert found.table.counts.toarray().tolist() == COUNTS.tolist()
    assert found.sequences == SEQUENCES


SAID = {
    "csv": "commas separate its cells. If that is wrong, write it with tabs",
    "semicolons": "semicolons separate its cells",
    "R": "has no name for the first column, as R's write.table writes it. If",
    "R with spaces": "spaces separate its cells, and its header has no name for",
    "pandas, a column of IDs": "commas separate its cells, and its first column numbers the rows",
    "samples in rows, no corner": "was read as follows: its rows are samples. If",
    "samples in rows": "was read as follows: its rows are samples. If",
    "samples in rows, wrong corner": "the axes are exchanged: 'ASV1', 'ASV2' and 4 more are called",
    "ranks": "columns that hold no counts are left out, 'Kingdom', 'Phylum'. If",
    "mothur": "it is a .shared file of mothur, and its rows are samples",
    "a title": "its first line ('Table of OTUs of 2023') is a title",
    "total": "sample 'Total' is left out, because the values are the sum of the other samples",
    "a total by any name": "sample 'everything' is left out",
    "totals at both sides": "feature 'Grand Total' is left out",
    "length": "sample 'length' is left out, because the values are the lengths of the sequences",
    "confidence": "2 samples ('Confidence', 'OConfidence') are left out, because the values are",
}


@pytest.mark.parametrize("form", SAID)
def test_what_was_decided_is_said(tmp_path, fasta, form, caplog):
    path = tmp_path / "table"
    path.write_text(FORMS[form])
    import_counts(path, fasta)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [SAID[form] in warning for warning in warnings].count(True) == 1
    assert sum("its rows are samples" in warning for warning in warnings) <= 1
    assert all(str(path) in warning for warning in warnings)


def test_a_plain_table_is_read_without_a_word(tmp_path, fasta, caplog):
    for form in (
        "tab",
        "tab, other corner",
        "empty columns and rows",
        "lineages first",
        "exponents",
    ):
        (tmp_path / "table").write_text(FORMS[form])
        import_counts(tmp_path / "table", fasta)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    write_biom(tmp_path / "table", FeatureTable(SAMPLES, FEATURES, csr_array(COUNTS)), {})
    assert len(import_counts(tmp_path / "table", fasta).left_out) == 0
    assert not caplog.records


@pytest.mark.parametrize("kind", ["biom", "json"])
def test_a_biom_file_is_turned_and_freed_of_totals_as_well(tmp_path, fasta, kind, caplog):
    whole = TOTALS.T.to_numpy()
    axes = ([*SAMPLES, "Total"], FEATURES)
    for turned in (False, True):
        path = tmp_path / f"{turned}.{kind}"
        samples, features = axes[::-1] if turned else axes
        values = whole.T if turned else whole
        if kind == "biom":
            write_biom(path, FeatureTable(samples, features, csr_array(values)), {})
        else:
            content = {
                "id": None, "format": "Biological Observation Matrix 1.0.0", "format_url": "",
                "generated_by": "x", "type": "OTU table", "date": "2020-01-01T00:00:00",
                "matrix_type": "dense", "matrix_element_type": "int",
                "shape": values.T.shape, "data": values.T.tolist(),
                "rows": [{"id": name, "metadata": None} for name in features],
                "columns": [{"id": name, "metadata": None} for name in samples],
            }  # fmt: skip
            path.write_bytes(gzip.compress(json.dumps(content).encode()))
        found = import_counts(path, fasta)
        assert found.table.sample_ids == SAMPLES
        assert found.table.counts.toarray().tolist() == COUNTS.tolist()
        left_out = ("sample", "Total", "the sum of the other samples")
        assert [*found.left_out.itertuples(index=False, name=None)] == [left_out]
        assert ("the axes are exchanged" in caplog.text) == turned


def test_sequences_as_ids_say_which_axis_they_are(tmp_path):
    frame = FRAME.set_axis([SEQUENCES[name] for name in FEATURES])
    for text in (to_text(frame), to_text(frame.T, corner=""), to_r(frame.T), to_r(frame, ",")):
        (tmp_path / "table").write_text(text)
        found = import_counts(tmp_path / "table")
        assert found.table.sample_ids == SAMPLES
        assert found.table.counts.toarray().tolist() == COUNTS.tolist()


def test_numbers_as_ids_of_both_axes_need_a_word(tmp_path):
    """OTU 1 to 6 and samples 1 to 5, with a FASTA of OTU 1 to 6, could be either."""
    frame = FRAME.set_axis(list("123456")).set_axis(list("12345"), axis=1)
    (tmp_path / "f").write_text(
        "".join(f">{number}\n{text}\n" for number, text in enumerate(SEQUENCES.values(), start=1))
    )
    for text, samples in (
        (to_text(frame, corner=""), None),
        (to_text(frame), frame.columns),
        (to_text(frame.T, corner="sample"), frame.columns),
    ):
        (tmp_path / "table").write_text(text)
        if samples is None:
            message = (
                r"can be read in two ways: samples are '1', '2' and 3 more and features '1', '2' "
                r"and 4 more, or the reverse; .* call the first column '#OTU ID' if"
            )
            with pytest.raises(InputError, match=message):
                import_counts(tmp_path / "table", tmp_path / "f")
        else:
            found = import_counts(tmp_path / "table", tmp_path / "f").table
            assert found.sample_ids == list("12345")
            assert found.counts.toarray().tolist() == COUNTS.tolist()


REFUSED = {
    "a total that is none": (
        to_text(FRAME.assign(Total=[1, 2, 3, 4, 5, 6])),
        "a sample called 'Total' that does not hold the sum of the other samples.*another name",
    ),
    "a length that is none": (
        to_text(FRAME.assign(length=250)),
        "a sample called 'length' that does not hold the lengths",
    ),
    "a confidence that is none": (
        to_text(FRAME.assign(Confidence=98)),
        "a sample called 'Confidence' that does not hold the confidence",
    ),
    "a total of features that is none": (
        to_text(pd.concat([FRAME, FRAME.iloc[:2].sum().to_frame("sum").T])),
        "a feature called 'sum' that does not hold",
    ),
    "distances of mothur": (
        to_shared(FRAME.T) + to_shared(FRAME.T, "0.05").partition("\n")[2],
        r"several distances: '0.03', '0.05'.*get.sharedseqs\(shared=table, label=0.03\)",
    ),
    "text": (to_text(FRAME.assign(site="gut")), r"columns of text: 'site' \('gut'\).*metadata"),
    "thousands": (to_text(FRAME).replace("100000", "100,000"), "write 1234 for 1,234"),
    "decimal commas": (to_text(FRAME.astype(float), ";").replace(".0", ",0"), "12 for 12,0"),
    "a long table": (
        FRAME.rename_axis(index="OTU", columns="Sample").stack().rename("Abundance").to_csv(),
        r"a row for each sample and feature \(columns 'Sample', 'Abundance'\).*pivot_wider",
    ),
    "a compressed table": (
        "#Compressed Format: groupIndex,abundance\n#1,S1\nASV1\t5\t1,5\n",
        "a compressed count table of mothur.*compress=f",
    ),
    "separators alone": (",,,\n", "text without columns"),
    "a header that lost its names": (
        "x\n" + to_text(FRAME).partition("\n")[2],
        "text without columns that tabs separate",
    ),
    "a name too few": (
        "\n".join(f"{line}\t1" if n else line for n, line in enumerate(to_text(FRAME).split("\n"))),
        "rows with another number of columns than the header: 'ASV1' has 7",
    ),
    "a column without a name": (
        to_text(FRAME.rename(columns={"S3": ""})),
        "columns without a name: 4; expected a name for every column",
    ),
    "a quote that is not closed": (
        to_text(FRAME.assign(taxonomy="x")).replace("\tx", '\t"x', 1),
        "lines with a double quote that is not closed, or not doubled: 'ASV1.*on one line",
    ),
    "a line break in quotes": (
        to_text(FRAME.assign(taxonomy="k__A\np__B"), ","),
        "lines with a double quote that is not closed, .*: 'ASV1.*on one line",
    ),
    "IDs of a spreadsheet": (
        to_text(FRAME.set_axis(["1E+05", "1E+05", *FEATURES[2:]])),
        "more than once: '1E.05'.*a spreadsheet took these IDs for numbers",
    ),
    "presence": (to_text((FRAME > 0).astype(int)), "a table of 0 and 1 alone.*raw read counts"),
    "presence in words": (to_text(FRAME > 0), "no numbers: 30 .*presence and absence are no"),
    "clr": (
        to_text(np.log(FRAME + 1) - np.log(FRAME + 1).mean()),
        "negative counts.*look like CLR-transformed values",
    ),
    "logarithms": (to_text(np.log10(FRAME + 0.5)), "look like logarithms or centred values"),
    "natural logarithms": (to_text(np.log1p(FRAME).round(4)), "natural logarithms of counts"),
    "roots": (to_text(np.sqrt(FRAME % 400).round(3)), "square roots of counts"),
    "a count that is none": (
        to_text(FRAME.astype(float).replace(FRAME.iloc[0, 0], 7.5)),
        r"fractional counts: .*7\.5 in sample.*set `values` of the dataset to amounts",
    ),
}
AMOUNTS = {
    "percentages": (100 * FRAME / FRAME.sum(), "percentages (each sample sums to 100)"),
    "abundances": (FRAME / FRAME.sum(), "relative abundances (each sample sums to 1)"),
    "rounded abundances": ((FRAME / FRAME.sum()).round(4), "relative abundances"),
    "parts per million": (1e6 * FRAME / FRAME.sum(), "parts per million"),
    "whole percentages": ((100 * FRAME / FRAME.sum()).round().astype(int), "percentages"),
    "whole parts per million": (
        (1e6 * FRAME / FRAME.sum()).round().astype(int),
        "parts per million",
    ),
    "scaled to the median": (
        FRAME / FRAME.sum() * 12345,
        "counts scaled to one sum (12,345 in each sample)",
    ),
}
"""Tables of amounts, and what they look like."""


@pytest.mark.parametrize("case", AMOUNTS)
def test_amounts_are_recognized_and_said(tmp_path, fasta, caplog, case):
    frame, looks = AMOUNTS[case]
    (tmp_path / "table").write_text(to_text(frame))
    with caplog.at_level("WARNING"):
        found = import_counts(tmp_path / "table", fasta).table
    assert not found.facts.is_counted
    assert "amounts" in caplog.text
    assert looks in caplog.text
    shares = scale_to_one(found).counts.toarray()
    expected = frame[found.sample_ids].to_numpy(dtype=float).T
    np.testing.assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True))


def test_the_configuration_decides_what_numbers_are(tmp_path, fasta):
    whole = tmp_path / "whole"
    whole.write_text(to_text(FRAME))
    assert not import_counts(whole, fasta, values="amounts").table.facts.is_counted
    fractions = tmp_path / "fractions"
    fractions.write_text(to_text(FRAME / FRAME.sum()))
    with pytest.raises(InputError, match="fractional counts"):
        import_counts(fractions, fasta, values="reads")
    presence = tmp_path / "presence"
    presence.write_text(to_text((FRAME > 0).astype(int)))
    assert not import_counts(presence, fasta, values="amounts").table.facts.is_counted


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_or_is_no_count_is_refused(tmp_path, fasta, case):
    text, message = REFUSED[case]
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(InputError, match=f"(?s){message}") as caught:
        import_counts(path, fasta)
    assert all(line.startswith(f"{path}: got ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("frame", "said", "level"),
    [
        (FRAME * 10, "all counts are multiples of one number (10)", "WARNING"),
        (
            FRAME * [2, 3, 2, 5, 7],
            "all counts are multiples of one number (2 to 7, sample by sample)",
            "WARNING",
        ),
        (
            pd.DataFrame(np.array([[400, 301, 299], [333, 333, 333], [500, 250, 251]]).T,
                         FEATURES[:3], SAMPLES[:3]),
            "differ by rounding alone (999 to 1001)",
            "WARNING",
        ),
        (
            pd.DataFrame(np.array([[400, 301, 299], [333, 333, 334]]).T, FEATURES[:3], SAMPLES[:2]),
            "every sample has 1000 reads, so the table is rarefied already",
            "INFO",
        ),
    ],
)  # fmt: skip
def test_counts_that_were_scaled_or_drawn_are_read_and_said(
    tmp_path, fasta, caplog, frame, said, level
):
    caplog.set_level("INFO")
    (tmp_path / "table").write_text(to_text(frame))
    found = import_counts(tmp_path / "table", fasta).table
    assert found.counts.toarray().tolist() == frame.T.to_numpy().tolist()
    assert [record.levelname for record in caplog.records if said in record.getMessage()] == [level]


def test_a_sum_that_may_be_a_coincidence_is_a_sample(tmp_path, fasta):
    for frame in (
        pd.DataFrame({"S1": [5, 0], "S2": [0, 7], "S3": [5, 7]}, FEATURES[:2]),
        pd.DataFrame({"S1": [5, 9, 3, 7], "S2": [5, 9, 3, 7]}, FEATURES[:4]),
    ):
        (tmp_path / "table").write_text(to_text(frame))
        assert import_counts(tmp_path / "table", fasta).table.sample_ids == [*frame.columns]


def test_a_feature_with_a_sequence_is_no_total_of_others(tmp_path, fasta):
    counts = pd.DataFrame(COUNTS.T[:3], FEATURES[:3], SAMPLES)
    frame = pd.concat([counts, counts.sum().to_frame("ASV4").T])
    (tmp_path / "table").write_text(to_text(frame))
    assert import_counts(tmp_path / "table", fasta).table.feature_ids == FEATURES[:4]


def test_a_column_of_sequences_serves_where_there_is_no_file(tmp_path, fasta, caplog):
    path = tmp_path / "table"
    path.write_text(FORMS["a column of sequences"])
    found = import_counts(path)
    assert (found.table.feature_ids, found.sequences) == (FEATURES, SEQUENCES)
    assert "a column of it has the sequences of its features, which are taken" in caplog.text
    fasta.write_text(fasta.read_text().replace(SEQUENCES["ASV2"], SEQUENCES["ASV2"] + "A"))
    with pytest.raises(InputError, match=r"other sequences than the column .*, for 'ASV2'; "):
        import_counts(path, fasta)


def test_features_of_one_sequence_become_one(tmp_path, caplog):
    path = tmp_path / "table"
    path.write_text(to_text(FRAME))
    same = SEQUENCES | {"ASV3": SEQUENCES["ASV1"].lower(), "ASV6": SEQUENCES["ASV1"]}
    # A sequence that begins like another, but is longer, is another one.
    same["ASV2"] = SEQUENCES["ASV1"] + "A"
    (tmp_path / "f").write_text("".join(f">{name}\n{text}\n" for name, text in same.items()))
    found = import_counts(path, tmp_path / "f")
    assert found.table.feature_ids == ["ASV1", "ASV2", "ASV4", "ASV5"]
    merged = FRAME.T
    assert found.table.counts.toarray().tolist() == (
        merged.assign(ASV1=merged["ASV1"] + merged["ASV3"] + merged["ASV6"])
        .drop(columns=["ASV3", "ASV6"])
        .to_numpy()
        .tolist()
    )
    assert found.sequences == {name: same[name] for name in found.table.feature_ids}
    why = "same sequence as ASV1"
    left_out = [("feature", "ASV3", why), ("feature", "ASV6", why)]
    assert [*found.left_out.itertuples(index=False, name=None)] == left_out
    assert found.other_names == read_other_names(found.left_out) == {"ASV1": ["ASV3", "ASV6"]}
    said = "2 features ('ASV3', 'ASV6') have the same sequence as others ('ASV3' as 'ASV1')"
    assert f"{path}: {said}" in caplog.text
    assert "4 of 6 features remain" in caplog.text
    # IDs that are sequences can be the same in other letters.
    frame = FRAME.iloc[:2].set_axis([SEQUENCES["ASV1"], SEQUENCES["ASV1"].replace("T", "u")])
    path.write_text(to_text(frame))
    found = import_counts(path)
    assert found.table.feature_ids == [SEQUENCES["ASV1"]]
    assert found.table.reads.tolist() == frame.sum()[frame.sum() > 0].tolist()


def test_a_table_in_memory_is_treated_like_one_of_a_file(fasta):
    table = FeatureTable(["a", "b"], ["ASV1", "ASV2"], csr_array(np.array([[0, 3], [0, 0]])))
    found = import_counts(table, fasta)
    assert (found.table.sample_ids, found.table.feature_ids) == (["a"], ["ASV2"])
    assert io.StringIO(found.left_out.to_csv(index=False)).read().count("no reads") == 2


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(",sample_id,age\n0,S1,31\n1,S2,45\n2,S3,50\n3,S4,39\n4,S5,27\n", id="pandas"),
        pytest.param(
            "Run,Sample Name,age\nSRR1,S1,31\nSRR2,S2,45\nSRR3,S3,50\nSRR4,S4,39\nSRR5,S5,27\n",
            id="archive",
        ),
        pytest.param(
            ",sample_id,age\n0,S1,31\n1,S2,45\n2,S3,50\n3,S4,39\n4,other,27\n", id="in part"
        ),
    ],
)
@pytest.mark.parametrize("are_rows", [False, True])
def test_a_second_column_of_ids_tells_the_samples_among_many_features(tmp_path, metadata, are_rows):
    frame = pd.concat([FRAME.set_axis([name + part for name in FEATURES]) for part in "abc"])
    table = tmp_path / "table.tsv"
    table.write_text(to_text(frame.T if are_rows else frame, corner=""))
    path = tmp_path / "metadata.csv"
    path.write_text(metadata)
    found = import_counts(table, metadata=path).table
    assert found.sample_ids == SAMPLES
    assert sorted(found.feature_ids) == sorted(frame.index)


def test_names_that_are_only_alike_do_not_exchange_stated_axes(tmp_path, caplog):
    """ASV_1 is like the sample 1 of the metadata, and S1 is not; the table says what is what."""
    table, metadata = tmp_path / "table.tsv", tmp_path / "metadata.tsv"
    frame = FRAME.set_axis([f"ASV_{number}" for number in range(1, 1 + len(FRAME))])
    table.write_text(to_text(frame))
    metadata.write_text("sample-id\tage\n" + "".join(f"{number}\t30\n" for number in range(1, 5)))
    assert import_counts(table, metadata=metadata).table.sample_ids == SAMPLES
    assert "exchanged" not in caplog.text


@pytest.mark.parametrize("ranks", ["d__A;p__{}", "D_0__A;D_1__{}"])
def test_metadata_behind_the_taxa_of_a_bar_plot_are_left_out(tmp_path, ranks, caplog):
    """Whatever is in them, and whether or not the file of the metadata is given."""
    taxa = [ranks.format(letter) for letter in "BCD"]
    path = tmp_path / "level-2.csv"
    path.write_text(
        f"index,{','.join(taxa)},Unassigned;__,age,body-site\nx,5,3,2,1,30,gut\ny,4,4,1,0,,skin\n"
    )
    found = import_counts(path).table
    assert found.sample_ids == ["x", "y"]
    assert found.feature_ids == [*taxa, "Unassigned;__"]
    assert found.reads.tolist() == [11, 9]
    assert "hold no counts are left out, 'age', 'body-site'" in caplog.text
