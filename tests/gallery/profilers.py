"""Tables of profilers, of spreadsheets and of statistics programs, without sequences."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gallery.case import Case, Outcome, Twist, either, refused
from gallery.no_sequences import genera
from gallery.study import Study, joined
from gallery.tables import artifact, no_sequences

RANKS = "kpcofgs"
SIZES = (1, 2, 3, 4, 6, 15, 30)
"""How many taxa the profiles have at each rank."""


def lineage(number: int, depth: int = 7) -> str:
    """Return a species, or its taxon at a higher rank."""
    taxa = zip(RANKS[:depth], SIZES, strict=False)
    return "|".join(f"{rank}__{rank.upper()}{number * size // 30}" for rank, size in taxa)


def all_ranks(study: Study) -> list[list[str]]:
    """Return a row for the taxa of every rank, with percentages."""
    totals = [sum(column) for column in zip(*study.counts, strict=True)]
    rows: dict[str, list[float]] = {}
    for number, counts in enumerate(study.counts):
        for depth in range(1, 8):
            row = rows.setdefault(lineage(number, depth), [0.0] * len(totals))
            for i, (count, total) in enumerate(zip(counts, totals, strict=True)):
                row[i] += 90 * count / total
    return [[name, *(f"{value:.5f}" for value in row)] for name, row in sorted(rows.items())]


def metaphlan(study: Study, folder: Path) -> None:
    no_sequences(study, folder)
    samples = [f"{name}_profile" for name in study.samples]
    rows = [
        ["clade_name", "NCBI_tax_id", *samples],
        ["UNKNOWN", "-1", *["10.0"] * len(samples)],
    ]
    for name, *shares in all_ranks(study):
        taxon = "2" + "|9" * name.count("|")
        rows.append([name, taxon, *shares])
    (folder / "table.tsv").write_text("#mpa_v30\n" + joined(rows))


def metaphlan_turned(study: Study, folder: Path) -> None:
    """Write the table as pandas does that has turned it."""
    no_sequences(study, folder)
    study.files["table"] = "table.csv"
    columns = zip(["", *study.samples], *all_ranks(study), strict=True)
    (folder / "table.csv").write_text(joined(map(list, columns), ","))


def bracken(study: Study, folder: Path) -> None:
    no_sequences(study, folder)
    header = ["name", "taxonomy_id", "taxonomy_lvl"]
    for name in study.samples:
        header += [f"{name}.bracken_num", f"{name}.bracken_frac"]
    totals = [sum(column) for column in zip(*study.counts, strict=True)]
    rows = []
    for number, counts in enumerate(study.counts):
        row = [f"Genus{number // 2} species{number}", str(900 + number), "S"]
        for count, total in zip(counts, totals, strict=True):
            row += [str(count), f"{count / total:.5f}"]
        rows.append(row)
    (folder / "table.tsv").write_text(joined([header, *rows]))


def humann(study: Study, folder: Path) -> None:
    no_sequences(study, folder)
    lines = [["# Pathway", *(f"{name}_Abundance" for name in study.samples)]]
    lines.append(["UNMAPPED", *["7000.5"] * len(study.samples)])
    for number, counts in enumerate(study.counts):
        name = f"PWY-{number}: a way of {number}"
        whole = [f"{count * 1.37:.4f}" for count in counts]
        lines.append([name, *whole])
        lines.append([f"{name}|g__A.s__A_b", *whole])
        lines.append([f"{name}|unclassified", *["0"] * len(counts)])
    (folder / "table.tsv").write_text(joined(lines))


def qiime1(study: Study, folder: Path) -> None:
    """Write OTU numbers with a last column of lineages."""
    no_sequences(study, folder)
    lines = [["#OTU ID", *study.samples, "Consensus Lineage"]]
    for number, counts in enumerate(study.counts):
        taxa = "; ".join(lineage(number, 6).split("|")) + "; s__"
        lines.append([str(4479944 + number), *map(str, counts), taxa])
    (folder / "table.tsv").write_text("# QIIME-formatted OTU table\n" + joined(lines))


def phyloseq(study: Study, folder: Path) -> None:
    """Write the columns of a tax_table before the counts, as R's write.csv does."""
    no_sequences(study, folder)
    study.files["table"] = "table.csv"
    lines = [['""', '"Kingdom"', '"Phylum"', '"Genus"', *(f'"{name}"' for name in study.samples)]]
    for number, counts in enumerate(study.counts):
        taxa = ['"Bacteria"', f'"P{number % 3}"', f'"G{number}"' if number else "NA"]
        lines.append([f'"ASV{number}"', *taxa, *map(str, counts)])
    (folder / "table.csv").write_text(joined(lines, ","))


def barplot(study: Study, folder: Path) -> None:
    """Write the data of a bar plot of QIIME 2: genera, and the metadata behind them."""
    no_sequences(study, folder)
    study.files["table"] = "level-6.csv"
    lines = [["index", *genera(study), "age"]]
    columns = zip(*study.counts, strict=True)
    for name, counts, age in zip(study.samples, columns, study.columns["age"], strict=True):
        lines.append([name, *map(str, counts), age])
    (folder / "level-6.csv").write_text(joined(lines, ","))


def workbook(study: Study, folder: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    no_sequences(study, folder)
    study.files |= {"table": "study.xlsx", "metadata": "people.xlsx"}
    book = openpyxl.Workbook()
    book.active.append(["Genus", *study.samples])
    for name, counts in zip(genera(study), study.counts, strict=True):
        book.active.append([name, *counts])
    book.create_sheet("notes").append(["nothing"])
    book.save(folder / "study.xlsx")
    people = openpyxl.Workbook()
    people.active.append(["sample-id", *study.columns])
    for name, *cells in zip(study.samples, *study.columns.values(), strict=True):
        people.active.append([name, *(int(cell) if cell.isdigit() else cell for cell in cells)])
    people.save(folder / "people.xlsx")


def named(names: Callable[[Study], Sequence[str]]) -> Twist:
    """Return the twist that writes a CSV of features in rows whose corner says nothing."""

    def twist(study: Study, folder: Path) -> None:
        no_sequences(study, folder)
        study.features = list(names(study))
        study.files["table"] = "table.csv"
        (folder / "table.csv").write_text(study.table(first="", separator=","))

    return twist


def both_axes(study: Study, folder: Path) -> None:
    """Number samples and features alike."""
    study.rename_samples([str(i) for i in range(1, 41)])
    named(lambda s: [str(i) for i in range(1, 31)])(study, folder)


def neither_axis(study: Study, folder: Path) -> None:
    named(lambda s: [f"taxon {i}" for i in range(30)])(study, folder)
    study.rows = [f"patient-{i:03d}-b" for i in range(40)]


def artifact_of(kind: str, *, divided: bool = False) -> Twist:
    def twist(study: Study, folder: Path) -> None:
        no_sequences(study, folder)
        artifact(kind, divided=divided)(study, folder)

    return twist


CASES = (
    Case(
        "MetaPhlAn 3, merged",
        "MetaPhlAn#113",
        metaphlan,
        reading=Outcome(passes=("40 samples, 30 species", "amounts")),
        decided=("species 30", "UNKNOWN", "_profile", "NCBI_tax_id"),
        runs=True,
    ),
    Case(
        "MetaPhlAn with samples as rows",
        "mia#617",
        metaphlan_turned,
        reading=Outcome(passes=("40 samples, 30 species",)),
        decided=("rows are samples", "species 30"),
    ),
    Case(
        "Bracken, combined",
        "Bracken#304",
        bracken,
        reading=Outcome(passes=(r"40 samples, 30 \w+, [\d,]+ reads",)),
        decided=("Bracken", "_num"),
    ),
    Case(
        "HUMAnN, joined",
        "microeco#375",
        humann,
        reading=Outcome(passes=("40 samples, 30 pathways", "amounts")),
        decided=("60 rows", "UNMAPPED", "_Abundance"),
    ),
    Case(
        "an OTU table of QIIME 1",
        "phyloseq#215",
        qiime1,
        reading=Outcome(passes=("40 samples, 30 OTUs",)),
        decided=("lineages",),
    ),
    Case(
        "ranks before the counts by R",
        "phyloseq#1363",
        phyloseq,
        reading=Outcome(passes=("40 samples, 30 ASVs",)),
        decided=("Kingdom", "lineages"),
    ),
    Case(
        "the data of a bar plot",
        "ampliseq#81",
        barplot,
        reading=Outcome(passes=("40 samples, 30 genera",)),
        decided=("rows are samples", "are left out, 'age'"),
        runs=True,
    ),
    Case(
        "workbooks of Excel",
        "phyloseq#1182",
        workbook,
        reading=Outcome(passes=("40 samples, 30 genera", *(r"case \(20\)", r"control \(20\)"))),
        decided=("notes",),
    ),
    Case(
        "an artifact of amounts",
        "rachis#804",
        artifact_of("FeatureTable[RelativeFrequency]", divided=True),
        reading=Outcome(passes=("40 samples, 30 ASVs|40 samples, 30 features", "amounts")),
    ),
    Case(
        "an artifact of compositions",
        "rachis#804",
        artifact_of("FeatureTable[Composition]"),
        reading=Outcome(passes=("amounts",)),
    ),
    Case(
        "samples and features of the same names",
        "phyloseq#1122",
        both_axes,
        reading=either(refused=("two ways", r"table\.csv"), passes=("40 samples",)),
    ),
    Case(
        "metadata of other samples",
        "phyloseq#513",
        neither_axis,
        reading=refused("patient-000-b", "S01", r"table\.csv"),
    ),
)
