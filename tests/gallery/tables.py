"""Tables, sequences and metadata as programs and spreadsheets write them."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from gallery.case import Case, Outcome, Twist, either, refused
from gallery.identifiers import write_biom
from gallery.study import Study, healthy, joined, quoted, reverse_complement

HEALTHY = healthy()
READ = Outcome(passes=(HEALTHY.size,))
"""Every sample, ASV and read of the healthy study."""
GROUPS = (r"case \(20\)", r"control \(20\)")


def read_or(*facts: str, never: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of what is read right, or refused with facts."""
    return either(passes=(HEALTHY.size, *GROUPS), refused=facts, never=never)


def table(write: Callable[[Study], str], name: str = "table.tsv", encoding: str = "utf-8") -> Twist:
    """Return the twist that writes the table in another way."""

    def twist(study: Study, folder: Path) -> None:
        study.files["table"] = name
        (folder / name).write_bytes(write(study).encode(encoding))

    return twist


def metadata(
    write: Callable[[Study], str], name: str = "metadata.tsv", encoding: str = "utf-8"
) -> Twist:
    """Return the twist that writes the metadata in another way."""

    def twist(study: Study, folder: Path) -> None:
        study.files["metadata"] = name
        (folder / name).write_bytes(write(study).encode(encoding))

    return twist


def sequences(write: Callable[[Study], str], encoding: str = "utf-8") -> Twist:
    """Return the twist that writes the sequences in another way."""

    def twist(study: Study, folder: Path) -> None:
        (folder / "sequences.fasta").write_bytes(write(study).encode(encoding))

    return twist


def counts(cell: Callable[[int, int], int | float | str], last: str = "#OTU ID") -> Twist:
    """Return the twist that writes each count as a function of it and its sample's reads."""

    def twist(study: Study, folder: Path) -> None:
        reads = [sum(column) for column in zip(*study.counts, strict=True)]
        rows = [
            [name, *(str(cell(n, total)) for n, total in zip(row, reads, strict=True))]
            for name, row in zip(study.features, study.counts, strict=True)
        ]
        (folder / "table.tsv").write_text(joined([[last, *study.samples], *rows]))

    return twist


def sparse(study: Study, folder: Path) -> None:
    """Leave out the small counts: in a table of 0 and 1 something has to be 0."""
    kept = [[n if n > 24 else 0 for n in row] for row in study.counts]
    rows = [
        [name, *(str(int(n > 0)) for n in row)]
        for name, row in zip(study.features, kept, strict=True)
    ]
    (folder / "table.tsv").write_text(joined([["#OTU ID", *study.samples], *rows]))


def sequences_as_ids(study: Study) -> None:
    """Call the features what they are, without a file of sequences and without a tree."""
    study.features = list(study.sequences)
    del study.files["sequences"], study.files["tree"]


def of_dada2(study: Study, folder: Path) -> None:
    sequences_as_ids(study)
    (folder / "table.tsv").write_text(study.transposed())


def of_dada2_as_csv(study: Study, folder: Path) -> None:
    sequences_as_ids(study)
    study.files["table"] = "seqtab.csv"
    (folder / "seqtab.csv").write_text(study.transposed(separator=","))


def shared(study: Study) -> str:
    """Return the table as mothur's `.shared`."""
    columns = zip(*study.counts, strict=True)
    lines = [["label", "Group", "numOtus", *study.features]]
    lines += [
        ["0.03", name, str(len(study.features)), *map(str, row)]
        for name, row in zip(study.samples, columns, strict=True)
    ]
    return joined(lines)


def long_table(study: Study) -> str:
    """Return the table with a row per sample and ASV, as phyloseq's `psmelt` has it."""
    lines = [["OTU", "Sample", "Abundance"]]
    for name, row in zip(study.features, study.counts, strict=True):
        lines += [[name, sample, str(n)] for sample, n in zip(study.samples, row, strict=True)]
    return joined(lines)


def count_table(study: Study) -> str:
    """Return the table as mothur's `count_table`, with a column of totals."""
    lines = [["Representative_Sequence", "total", *study.samples]]
    lines += [
        [name, str(sum(row)), *map(str, row)]
        for name, row in zip(study.features, study.counts, strict=True)
    ]
    return joined(lines)


def with_columns(*columns: tuple[str, Callable[[Study, int], str]], front: bool = False) -> Twist:
    """Return the twist that adds columns to the table: name, and cell by the row's number."""

    def twist(study: Study, folder: Path) -> None:
        names = [name for name, _ in columns]
        header, *body = [line.split("\t") for line in study.table().splitlines()]
        at = 1 if front else len(header)
        lines = [header[:at] + names + header[at:]]
        for number, row in enumerate(body):
            lines.append(row[:at] + [cell(study, number) for _, cell in columns] + row[at:])
        (folder / "table.tsv").write_text(joined(lines))

    return twist


def row_total(study: Study, number: int) -> str:
    return str(sum(study.counts[number]))


def with_a_row_of_totals(study: Study) -> str:
    totals = [str(sum(column)) for column in zip(*study.counts, strict=True)]
    return study.table() + joined([["Total", *totals]])


def trailing_tabs(text: str) -> str:
    return "".join(line + "\t\t\n" for line in text.splitlines())


def zipped(study: Study, folder: Path, what: str, name: str) -> None:
    """Write what an .xlsx is from outside: an archive with the parts of a workbook."""
    study.files[what] = name
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    (folder / name).write_bytes(content.getvalue())


def artifact(kind: str, *, divided: bool = False) -> Twist:
    """Return the twist that puts the table into a .qza of a type."""

    def twist(study: Study, folder: Path) -> None:
        if divided:
            totals = [sum(column) for column in zip(*study.counts, strict=True)]
            study.counts = [
                [n / total for n, total in zip(row, totals, strict=True)]  # type: ignore[misc]
                for row in study.counts
            ]
        write_biom(study, folder, study.samples)
        content = (folder / "table.biom").read_bytes()
        (folder / "table.biom").unlink()
        study.files["table"] = "table.qza"
        root = "5a9b7c1e-0000-4000-8000-000000000001"
        described = f"uuid: {root}\ntype: {kind}\nformat: BIOMV210DirFmt\n"
        version = "QIIME 2\narchive: 5\nframework: 2024.10.1\n"
        with zipfile.ZipFile(folder / "table.qza", "w") as archive:
            archive.writestr(f"{root}/VERSION", version)
            archive.writestr(f"{root}/metadata.yaml", described)
            archive.writestr(f"{root}/data/feature-table.biom", content)

    return twist


def biom_as_text(study: Study, folder: Path) -> None:
    """Write BIOM 1.0 with counts as fractions of one, as old programs do."""
    study.files["table"] = "table.biom"
    data = [[i, j, float(n)] for i, row in enumerate(study.counts) for j, n in enumerate(row)]
    content = {
        "id": None,
        "format": "Biological Observation Matrix 1.0.0",
        "format_url": "http://biom-format.org",
        "type": "OTU table",
        "generated_by": "gallery",
        "date": "2014-05-01T00:00:00",
        "rows": [{"id": name, "metadata": None} for name in study.features],
        "columns": [{"id": name, "metadata": None} for name in study.samples],
        "matrix_type": "sparse",
        "matrix_element_type": "float",
        "shape": [len(study.features), len(study.samples)],
        "data": data,
    }
    (folder / "table.biom").write_text(json.dumps(content))


def compressed(study: Study, folder: Path) -> None:
    study.files["table"] = "table.tsv.gz"
    (folder / "table.tsv.gz").write_bytes(gzip.compress(study.table().encode()))


def merged_runs(study: Study, folder: Path) -> None:
    """Name half of the ASVs of the second run anew, with the sequences of the first."""
    for i in range(10):
        study.features.append(f"run2_ASV{i + 1}")
        study.sequences.append(study.sequences[i])
        study.counts.append([0] * 20 + study.counts[i][20:])
        study.counts[i] = study.counts[i][:20] + [0] * 20


def both_strands(study: Study, folder: Path) -> None:
    """Add the other strand of some ASVs, as a library of both orientations has it."""
    for i in range(10):
        study.features.append(f"rc_ASV{i + 1}")
        study.sequences.append(reverse_complement(study.sequences[i]))
        study.counts.append([0] * 20 + study.counts[i][20:])
        study.counts[i] = study.counts[i][:20] + [0] * 20


def samples_without_reads(study: Study, folder: Path) -> None:
    for row in study.counts:
        row[4] = 0


def same_reads(study: Study, folder: Path) -> None:
    study.counts = [[row[0]] * len(row) for row in study.counts]


def twelve(study: Study, folder: Path) -> None:
    study.drop_samples(range(12, 40))


def two_columns_alike(study: Study, folder: Path) -> None:
    """Give one sample's reads to a second one, as a pasted column has them."""
    for row in study.counts:
        row[7] = row[6]


def rarefied(study: Study, folder: Path) -> None:
    """Give every sample 2,700 reads: what other programs rarefied is a table of counts."""
    last = study.counts[-1]
    for i, column in enumerate(zip(*study.counts, strict=True)):
        last[i] += 2700 - sum(column)


def shallow_cases(study: Study, folder: Path) -> None:
    """Give most patients few reads: a depth that suits the controls leaves two patients."""
    kept = 0
    for i, group in enumerate(study.columns["group"]):
        if group == "case":
            kept += 1
            if kept > 2:
                for row in study.counts:
                    row[i] = row[i] // 8


def no_sequences(study: Study, folder: Path) -> None:
    del study.files["sequences"], study.files["tree"]


def species(study: Study, folder: Path) -> None:
    """Name the rows by lineages, as MetaPhlAn does, with percentages."""
    no_sequences(study, folder)
    study.features = [f"k__Bacteria|g__G{i % 7}|s__S{i}" for i in range(len(study.features))]
    counts(lambda n, total: round(100 * n / total, 5), "clade_name")(study, folder)


def mapping_file(study: Study) -> str:
    """Return the metadata as QIIME 1 had them."""
    study.columns = {
        "BarcodeSequence": ["ACGTACGTACGT"] * 40,
        "LinkerPrimerSequence": ["GTGCCAGCMGCCGCGGTAA"] * 40,
        **study.columns,
        "Description": [f"sample {i}" for i in range(40)],
    }
    return study.metadata(first="#SampleID")


def with_line_break(study: Study) -> str:
    study.columns["note"] = ["" if i else '"two\nlines"' for i in range(40)]
    return study.metadata()


def with_degree(study: Study) -> str:
    study.columns["ward"] = ["37 °C"] * 40
    return study.metadata()


def without_a_name(study: Study) -> str:
    """Return the metadata with a number before each row, as pandas and R write it."""
    header, *rows = study.metadata().splitlines()
    return joined([["", header]]) + "".join(f"{i}\t{row}\n" for i, row in enumerate(rows))


def two_headers(study: Study) -> str:
    header, _, body = study.metadata().partition("\n")
    return f"Study of the clinic\t\t\n{header}\n{body}"


def wrapped(study: Study) -> str:
    lines = []
    for name, sequence in zip(study.features, study.sequences, strict=True):
        lines += [f">{name}", sequence[:60], sequence[60:]]
    return "\n".join(lines) + "\n"


def gaps(study: Study) -> str:
    study.sequences = [sequence[:50] + "--" + sequence[50:] for sequence in study.sequences]
    return study.fasta()


def some_missing(study: Study) -> str:
    text = study.fasta()
    return text[: text.index(">ASV29")]


FRACTIONS = Outcome(passes=None, refused=(r"table\.tsv", "raw|counts"))
AMOUNTS = Outcome(passes=("amounts",))
CASES = (
    Case(
        "samples as rows",
        "picrust2#400",
        table(lambda s: s.transposed(first="sample")),
        reading=read_or(
            "transpose|samples (are|as|in) (the )?rows|samples in rows",
            never=("rep-seqs that belong",),
        ),
    ),
    Case(
        "samples as rows without a name",
        "phyloseq#613",
        table(Study.transposed),
        reading=read_or(
            "transpose|samples in rows|samples (are|as) rows", never=("rep-seqs that belong",)
        ),
    ),
    Case(
        "samples as rows by R",
        "phyloseq#613",
        table(lambda s: quoted(s.transposed())),
        reading=read_or("transpose|samples in rows|quot|header"),
    ),
    Case(
        "samples as rows as CSV",
        "picrust2#400",
        table(lambda s: s.transposed(separator=","), "asv.csv"),
        reading=read_or("comma|tab"),
    ),
    Case(
        "a row per sample and ASV",
        "phyloseq#824",
        table(long_table),
        reading=read_or(r"table\.tsv", "long|row (per|for)|Abundance", never=("delete them",)),
    ),
    Case(
        "the sequence table of DADA2",
        "dada2#430",
        of_dada2,
        reading=either(passes=(HEALTHY.size,), refused=("transpose",)),
    ),
    Case(
        "the sequence table of DADA2 as CSV",
        "dada2#430",
        of_dada2_as_csv,
        reading=either(passes=(HEALTHY.size,), refused=("comma|tab",)),
    ),
    Case(
        "sequences as IDs", "dada2#168", lambda study, folder: sequences_as_ids(study), reading=READ
    ),
    Case(
        "mothur's shared",
        "mothur#598",
        table(shared, "final.shared"),
        reading=read_or("mothur|shared|transpose|samples in rows", never=("rep-seqs that belong",)),
    ),
    Case(
        "mothur's count_table",
        "mothur#519",
        table(count_table, "final.count_table"),
        decided=("'total'|`total`|\"total\"",),
        reading=read_or("total"),
        runs=True,
    ),
    Case(
        "R's write.table",
        "biom-format#841",
        table(lambda s: quoted(s.table())),
        reading=read_or("header", "quot|one|lack|miss|fewer|short"),
    ),
    Case(
        "R's write.table without quotes",
        "biom-format#841",
        table(lambda s: quoted(s.table()).replace('"', "")),
        reading=read_or("header", "one|lack|miss|fewer|short"),
    ),
    Case(
        "R's col.names=NA",
        "biom-format#822",
        table(lambda s: '""\t' + quoted(s.table())),
        reading=read_or("quot"),
    ),
    Case(
        "an empty first cell", "biom-format#822", table(lambda s: s.table(first="")), reading=READ
    ),
    Case(
        "another first cell",
        "biom-format#822",
        table(lambda s: s.table(first="ASV_ID")),
        reading=READ,
    ),
    Case(
        "the line of biom convert",
        "biom-format#14",
        table(lambda s: "# Constructed from biom file\n" + s.table()),
        reading=READ,
    ),
    Case(
        "counts with a point and a zero",
        "biom-format#14",
        counts(lambda n, total: f"{n}.0"),
        reading=READ,
    ),
    Case("BIOM 1.0 of floats", "biom-format#14", biom_as_text, reading=READ),
    Case(
        "CSV",
        "PRONAME#23",
        table(lambda s: s.table(separator=","), "table.csv"),
        reading=read_or(r"table\.csv", "comma|tab"),
    ),
    Case(
        "CSV with semicolons",
        "phyloseq#1568",
        table(lambda s: s.table(separator=";"), "table.csv"),
        reading=read_or(r"table\.csv", "semicolon|tab"),
    ),
    Case(
        "an .xlsx as table",
        "phyloseq#1182",
        lambda s, f: zipped(s, f, "table", "table.xlsx"),
        reading=refused(r"table\.xlsx", "text|TSV|tab", never=("qiime tools export",)),
    ),
    Case(
        "an .xlsx as metadata",
        "phyloseq#1182",
        lambda s, f: zipped(s, f, "metadata", "metadata.xlsx"),
        reading=refused(r"metadata\.xlsx", "text|TSV|tab", never=("qiime tools export",)),
    ),
    Case(
        "tabs at the ends of the lines",
        "biom-format#827",
        table(lambda s: trailing_tabs(s.table())),
        reading=READ,
    ),
    Case(
        "tabs at the ends of the lines below the header",
        "biom-format#827",
        table(lambda s: s.table().replace("\n", "\t\n").replace("\t\n", "\n", 1)),
        reading=READ,
    ),
    Case(
        "empty lines at the end",
        "biom-format#827",
        table(lambda s: s.table() + "\t\t\t\n\n\n"),
        reading=read_or("column|row|line"),
    ),
    Case(
        "lines of Windows",
        "biom-format#827",
        table(lambda s: s.table().replace("\n", "\r\n")),
        reading=READ,
    ),
    Case(
        "a mark at the beginning",
        "Metanome#2",
        table(Study.table, encoding="utf-8-sig"),
        reading=READ,
    ),
    Case(
        "text of Excel as table",
        "Metanome#2",
        table(Study.table, encoding="utf-16"),
        reading=read_or(r"table\.tsv", "UTF-16|UTF-8"),
    ),
    Case(
        "a column of totals",
        "mothur#519",
        with_columns(("Total", row_total)),
        decided=(r"\bTotal\b",),
        reading=read_or(r"\bTotal\b"),
        runs=True,
    ),
    Case(
        "a column of sums called otherwise",
        "mothur#519",
        with_columns(("all_samples", row_total), front=True),
        decided=("all_samples",),
        reading=read_or("all_samples"),
    ),
    Case(
        "a row of totals",
        "phyloseq#1480",
        table(with_a_row_of_totals),
        reading=read_or(r"\bTotal\b"),
        decided=(r"\bTotal\b",),
    ),
    Case(
        "a column of lengths",
        "phyloseq#1480",
        with_columns(("length", lambda s, i: str(len(s.sequences[i])))),
        decided=(r"\blength\b",),
        reading=read_or(r"\blength\b"),
        runs=True,
    ),
    Case(
        "a column of sequences",
        "phyloseq#1480",
        with_columns(("sequence", lambda s, i: s.sequences[i])),
        reading=read_or("sequence"),
        decided=("sequence",),
    ),
    Case(
        "a column of lineages",
        "phyloseq#1480",
        with_columns(("taxonomy", lambda s, i: f"k__Bacteria; g__G{i}")),
        reading=READ,
    ),
    Case(
        "columns of ranks",
        "phyloseq#1480",
        with_columns(
            ("Kingdom", lambda s, i: "Bacteria"), ("Genus", lambda s, i: f"G{i}"), front=True
        ),
        reading=read_or("Kingdom|Genus"),
        decided=("Kingdom|Genus",),
    ),
    Case(
        "a column of confidence",
        "phyloseq#1480",
        with_columns(
            ("taxonomy", lambda s, i: f"g__G{i}"), ("Confidence", lambda s, i: f"0.{i + 60}")
        ),
        reading=read_or("Confidence|taxonomy"),
        decided=("Confidence",),
    ),
    Case(
        "cells of an Excel error",
        "biom-format#284",
        counts(lambda n, total: "#NUM!" if n == 30 else n),
        reading=refused(r"#NUM!", r"table\.tsv", "ASV"),
    ),
    Case(
        "empty cells for no reads",
        "biom-format#827",
        counts(lambda n, total: "" if n == 30 else n),
        reading=either(passes=("40 samples, 30 ASVs",), refused=(r"table\.tsv", r"\b0\b")),
    ),
    Case(
        "counts with commas",
        "biom-format#284",
        counts(lambda n, total: f"{n * 20:,}"),
        reading=refused(r"table\.tsv", r"\d,\d{3}"),
    ),
    Case(
        "presence and absence",
        "rachis#804",
        sparse,
        reading=either(refused=("presence|0 and 1|0 or 1",)),
        decided=("presence|0 and 1|0 or 1",),
        runs=True,
    ),
    Case(
        "percentages",
        "phyloseq#1480",
        counts(lambda n, total: round(100 * n / total, 4)),
        reading=AMOUNTS,
        decided=("amounts",),
        runs=True,
    ),
    Case(
        "fractions of one",
        "phyloseq#1367",
        counts(lambda n, total: round(n / total, 6)),
        reading=AMOUNTS,
        decided=("amounts",),
    ),
    Case(
        "parts per million",
        "rachis#804",
        counts(lambda n, total: round(1e6 * n / total)),
        reading=either(refused=("million|1,?000,?000",)),
        # The configuration that init wrote says so: the page names what it works with.
        decided=("amounts",),
        runs=True,
    ),
    Case(
        "whole percentages",
        "mia#383",
        counts(lambda n, total: round(100 * n / total)),
        reading=either(refused=("percent|100",)),
        decided=("percent|%.*100|100.*%|relative",),
    ),
    Case(
        "scaled to the median",
        "phyloseq#1480",
        counts(lambda n, total: n * 2500 / total),
        reading=AMOUNTS,
        decided=("2,?500",),
    ),
    Case(
        "rarefied elsewhere",
        "ANCOMBC#66",
        rarefied,
        reading=Outcome(passes=("40 samples, 30 ASVs, 108,000 reads",)),
        runs=True,
    ),
    Case(
        "counts below 0",
        "phyloseq#1480",
        counts(lambda n, total: n - 20),
        reading=refused("negative|below 0", r"-\d"),
    ),
    Case(
        "logarithms", "phyloseq#1480", counts(lambda n, total: f"{n**0.5:.3f}"), reading=FRACTIONS
    ),
    Case(
        "an artifact with properties",
        "rachis#804",
        artifact("FeatureTable[Frequency % Properties('phylogenetic')]"),
        reading=Outcome(passes=("40 samples, 30 ASVs",)),
    ),
    Case(
        "an artifact of relative frequencies",
        "rachis#804",
        artifact("FeatureTable[RelativeFrequency]", divided=True),
        reading=AMOUNTS,
    ),
    Case(
        "an artifact of presence and absence",
        "rachis#804",
        artifact("FeatureTable[PresenceAbsence]"),
        reading=AMOUNTS,
    ),
    Case(
        "a compressed table",
        "biom-format#284",
        compressed,
        reading=read_or(r"table\.tsv\.gz", "gunzip|gzip"),
    ),
    Case(
        "lineages of MetaPhlAn",
        "phyloseq#1367",
        species,
        reading=Outcome(passes=("30 species", "amounts")),
    ),
    Case(
        "one sequence under two names",
        "phyloseq#1533",
        merged_runs,
        reading=either(refused=("run2_ASV1", r"\bASV1\b")),
        decided=(r"\b10\b", "run2_ASV1|same sequence"),
        runs=True,
    ),
    Case(
        "both strands of some sequences",
        "dada2#451",
        both_strands,
        reading=either(refused=("rc_ASV1|reverse",)),
        decided=("reverse|rc_ASV1|other strand",),
        runs=True,
    ),
    Case(
        "a sample without reads",
        "qurro#54",
        samples_without_reads,
        reading=Outcome(passes=(r"\b1\b|S05",)),
        decided=("S05|1 sample",),
        runs=True,
    ),
    Case(
        "the same reads in all samples",
        "issue 54",
        same_reads,
        reading=either(refused=("same|alike|identical",)),
        decided=("same reads|alike|identical",),
        runs=True,
    ),
    Case(
        "the same reads in two samples",
        "phyloseq#1341",
        two_columns_alike,
        decided=("S07", "S08"),
        reading=either(refused=("S07", "S08")),
    ),
    Case(
        "twelve samples",
        "ludwig#2831",
        twelve,
        columns="group",
        reading=either(refused=("12", "group|samples")),
        runs=True,
        decided=(r"\b12\b",),
    ),
    Case(
        "a depth that leaves a class too small",
        "issue 54",
        shallow_cases,
        settings={"rarefaction": {"depth": 1200}},
        may_be_late=True,
        reading=refused("depth", r"1,?200", "case"),
    ),
    Case(
        "a depth that no sample has",
        "issue 54",
        lambda s, f: None,
        settings={"rarefaction": {"depth": 90000}},
        may_be_late=True,
        reading=refused("depth", r"90,?000"),
    ),
    Case(
        "names without sequences",
        "dada2#899",
        no_sequences,
        reading=Outcome(passes=("30 ASVs", "sequences")),
    ),
    Case(
        "headers with remarks",
        "MetONTIIME#103",
        sequences(lambda s: s.fasta(lambda n: f"{n} Bacteria;Firmicutes 253 nt")),
        reading=READ,
    ),
    Case(
        "headers with sizes",
        "swarm#116",
        sequences(lambda s: s.fasta(lambda n: f"{n};size=123;")),
        reading=read_or("ASV1;size=123", ";"),
        decided=(";size",),
    ),
    Case(
        "headers with samples",
        "vsearch#519",
        sequences(lambda s: s.fasta(lambda n: f"{n};sample=A;size=9")),
        reading=read_or("ASV1;sample=A", ";"),
    ),
    Case(
        "headers with bars",
        "MetONTIIME#103",
        sequences(lambda s: s.fasta(lambda n: f"{n}|Bacteria")),
        reading=read_or(r"ASV1\|Bacteria"),
    ),
    Case(
        "headers with other numbers",
        "dada2#899",
        sequences(lambda s: s.fasta(lambda n: n[3:])),
        reading=refused(r"\bASV1\b", r"sequences\.fasta"),
    ),
    Case("sequences in several lines", "dada2#899", sequences(wrapped), reading=READ),
    Case(
        "sequences in small letters",
        "dada2#168",
        sequences(lambda s: s.fasta().lower().replace("asv", "ASV")),
        reading=READ,
    ),
    Case(
        "sequences of RNA",
        "dada2#168",
        sequences(
            lambda s: "".join(
                line if line.startswith(">") else line.replace("T", "U")
                for line in s.fasta().splitlines(keepends=True)
            )
        ),
        reading=READ,
    ),
    Case(
        "aligned sequences",
        "dada2#168",
        sequences(gaps),
        reading=refused(r"sequences\.fasta", "align", "ASV1"),
    ),
    Case(
        "sequences that lack two",
        "burrito#34",
        sequences(some_missing),
        reading=refused("ASV29", "ASV30", r"sequences\.fasta"),
    ),
    Case(
        "metadata of R's write.table",
        "dada2#357",
        metadata(lambda s: quoted(s.metadata())),
        reading=either(
            passes=(HEALTHY.size, *GROUPS),
            refused=("header", "one|lack|miss|fewer|short"),
            never=("rename the first column",),
        ),
        runs=True,
        first=Outcome(passes=("works",)),
    ),
    Case(
        "metadata with numbers before the rows",
        "phyloseq#1683",
        metadata(without_a_name),
        reading=read_or(r"metadata\.tsv", "sample-id|without a name|first column"),
    ),
    Case(
        "metadata as CSV",
        "phyloseq#1568",
        metadata(lambda s: s.metadata(separator=","), "metadata.csv"),
        reading=read_or(r"metadata\.csv", "comma|tab"),
    ),
    Case(
        "metadata with semicolons",
        "phyloseq#1568",
        metadata(lambda s: s.metadata(separator=";"), "metadata.csv"),
        reading=read_or(r"metadata\.csv", "semicolon|tab"),
    ),
    Case(
        "metadata in the encoding of Windows",
        "q2-fondue#119",
        metadata(with_degree, encoding="latin-1"),
        reading=read_or(r"metadata\.tsv", "UTF-8"),
    ),
    Case(
        "metadata as text of Excel",
        "Metanome#2",
        metadata(Study.metadata, encoding="utf-16"),
        reading=read_or(r"metadata\.tsv", "UTF-16|UTF-8"),
    ),
    Case("metadata of QIIME 1", "rachis#404", metadata(mapping_file), reading=READ),
    Case(
        "a small #sampleid",
        "rachis#404",
        metadata(lambda s: s.metadata(first="#sampleid")),
        reading=read_or(r"metadata\.tsv", "#SampleID|sample-id", never=("no samples below",)),
    ),
    Case(
        "the header Run",
        "q2-fondue#119",
        metadata(lambda s: s.metadata(first="Run")),
        reading=read_or(r"metadata\.tsv", "Run", "sample-id"),
    ),
    Case(
        "a title above the header",
        "phyloseq#1182",
        metadata(two_headers),
        reading=read_or(r"metadata\.tsv", "Study of the clinic|header"),
    ),
    Case(
        "a line break in a cell",
        "rachis#648",
        metadata(with_line_break),
        reading=read_or("S01", "line"),
    ),
    Case(
        "tabs at the ends of the metadata",
        "biom-format#827",
        metadata(lambda s: trailing_tabs(s.metadata())),
        reading=read_or("column"),
    ),
    Case(
        "a cell too many",
        "rachis#648",
        metadata(lambda s: s.metadata().replace("control\t", "control\tx\t", 1)),
        reading=refused("S01", r"metadata\.tsv"),
    ),
    Case(
        "quotes that never end",
        "rachis#648",
        metadata(lambda s: s.metadata().replace("control", '"control', 1)),
        reading=refused(r"metadata\.tsv", "quote|line"),
    ),
)
