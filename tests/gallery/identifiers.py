"""IDs of samples that differ between the table and the metadata, and IDs that look like others."""

from pathlib import Path

import numpy as np
from biom import Table
from biom.util import biom_open
from gallery.case import Case, Outcome, Ran, Twist, either, refused
from gallery.study import Study


def in_metadata(*names: str, at: int = 0) -> Twist:
    """Return the twist that gives some samples other IDs in the metadata alone."""

    def twist(study: Study, folder: Path) -> None:
        study.rows[at : at + len(names)] = names

    return twist


def renamed(table: str, metadata: str) -> Twist:
    """Return the twist that writes all IDs by a pattern of the number, one for each file."""

    def twist(study: Study, folder: Path) -> None:
        study.samples = [table.format(i) for i in range(1, 41)]
        study.rows = [metadata.format(i) for i in range(1, 41)]

    return twist


def half(table: str, metadata: str) -> Twist:
    """Return the twist that does so for the second half of the samples."""

    def twist(study: Study, folder: Path) -> None:
        study.samples[20:] = [table.format(i) for i in range(21, 41)]
        study.rows[20:] = [metadata.format(i) for i in range(21, 41)]

    return twist


def lost_zeros(study: Study, folder: Path) -> None:
    """Number the samples from 081: a spreadsheet leaves the zero of the first nineteen out."""
    study.samples = [f"{i:03d}" for i in range(81, 121)]
    study.rows = [str(i) for i in range(81, 121)]


def without_three(study: Study, folder: Path) -> None:
    """Leave three samples out of the metadata."""
    for column in study.columns.values():
        del column[:3]
    del study.rows[:3]


def controls(study: Study, folder: Path) -> None:
    """Sequence three controls, which the metadata do not have."""
    without_three(study, folder)
    study.samples[:3] = ["blank_1", "PCR-neg", "Mock"]


def spaces_in_biom(study: Study, folder: Path) -> None:
    """Write BIOM 2.1 with a space behind the IDs of half of the samples."""
    write_biom(study, folder, [name + " " * (i > 19) for i, name in enumerate(study.samples)])


def write_biom(study: Study, folder: Path, samples: list[str]) -> None:
    """Write the table as BIOM 2.1."""
    study.files["table"] = "table.biom"
    table = Table(np.array(study.counts, dtype=float), study.features, samples)
    with biom_open(str(folder / "table.biom"), "w") as handle:
        table.to_hdf5(handle, "gallery")


def whole_project(study: Study, folder: Path) -> None:
    """Give the metadata of 2,040 samples, most of them of a class that the table lacks."""
    more = [f"P{i:04d}" for i in range(2000)]
    study.rows += more
    study.columns["group"] += ["relapse"] * 1500 + ["case"] * 500
    study.columns["age"] += ["70"] * 2000


def twice(study: Study, folder: Path) -> None:
    study.rows[5] = study.rows[4]


def exchanged(study: Study, folder: Path) -> None:
    study.files |= {"table": "metadata.tsv", "metadata": "table.tsv"}


def read_all(ran: Ran) -> None:
    """Assert that every sample got its label: the classes are those that the reads predict."""
    table = (ran.results / "answers" / "group" / "first" / "predictions.tsv").read_text(
        encoding="utf-8"
    )
    samples = {line.split("\t")[0] for line in table.splitlines()[1:]}
    assert samples == set(ran.study.samples)


WORKS = Outcome(passes=("works",), never=("does not work",))
KEPT_AS_THEY_ARE = {"runs": True, "first": WORKS, "then": read_all}


def odd(name: str, report: str, *ids: str) -> Case:
    """Return the case of samples whose IDs look like something else, alike in both files."""

    def twist(study: Study, folder: Path) -> None:
        study.rename_samples([*ids, *study.samples[len(ids) :]])

    return Case(name=name, report=report, twist=twist, **KEPT_AS_THEY_ARE)


NUMBERED = [str(i) for i in range(1, 41)]
CASES = (
    Case(
        name="lost zeros of half of the samples",
        report="phyloseq#1341",
        twist=lost_zeros,
        decided=(r"\b081\b", r"\b81\b", r"\b19\b"),
        reading=either(refused=(r"\b081\b", r"\b81\b")),
        runs=True,
    ),
    Case(
        name="lost zeros of all samples",
        report="ReporTree#51",
        twist=renamed("{:03d}", "{}"),
        reading=either(refused=(r"\b001\b", "'1'|\\b1\\b", "zero")),
    ),
    Case(
        name="dots for dashes in half of the IDs",
        report="ampliseq#423",
        twist=half("V.{}.a", "V-{}-a"),
        decided=(r"V\.21\.a", "V-21-a", r"\b20\b"),
        reading=either(refused=(r"V\.21\.a", "V-21-a")),
        runs=True,
    ),
    Case(
        name="dots for dashes in all IDs",
        report="ampliseq#423",
        twist=renamed("V.{}.a", "V-{}-a"),
        reading=either(refused=(r"V\.1\.a", "V-1-a")),
    ),
    Case(
        name="an X before the digits",
        report="phyloseq#1122",
        twist=renamed("X{}", "{}"),
        reading=either(refused=(r"\bX1\b", r"\bX\b|prefix")),
    ),
    Case(
        name="an X before the digits of half of the IDs",
        report="ampliseq#357",
        twist=half("X{}", "{}"),
        decided=(r"\bX21\b", r"'21'|\b21\b", r"\b20\b"),
        reading=either(refused=(r"\bX21\b",)),
    ),
    Case(
        name="a space behind half of the IDs of a BIOM table",
        report="phyloseq#1341",
        twist=spaces_in_biom,
        reading=either(refused=("S21", "space")),
        decided=("space",),
    ),
    Case(
        name="the suffix of a sequencer",
        report="phyloseq#1568",
        twist=renamed("M{0}_S{0}_L001", "M{}"),
        reading=either(refused=("M1_S1_L001", r"\bM1\b")),
    ),
    Case(
        name="the case of the letters",
        report="phyloseq#1341",
        twist=half("s{}", "S{}"),
        decided=(r"(?-i:\bs21\b)", r"(?-i:\bS21\b)", r"\b20\b"),
        reading=either(refused=(r"(?-i:\bs21\b)", r"(?-i:\bS21\b)")),
    ),
    Case(
        name="another suffix for a few",
        report="phyloseq#1568",
        twist=in_metadata("S01_rep", "S02_rep"),
        decided=(r"\bS01\b", "S01_rep"),
        reading=either(refused=(r"\bS01\b", "S01_rep")),
    ),
    Case(
        name="metadata that lacks three samples",
        report="empress#154",
        twist=without_three,
        decided=(r"\bS01\b", r"\bS02\b|\b3\b"),
        reading=either(refused=(r"\bS01\b",)),
        runs=True,
    ),
    Case(
        name="metadata of the whole project",
        report="qiime2-docs#39",
        twist=whole_project,
        reading=Outcome(
            passes=(r"[^`]models: \{\} ", r"case \(20\)"),
            never=("where: .{0,20}group.*relapse",),
        ),
        kinds={"group": "classification"},
        runs=True,
        first=WORKS,
    ),
    Case(
        name="IDs that pandas made numbers of",
        report="metacoder#356",
        twist=renamed("{}", "{}.0"),
        columns="group",
        reading=either(
            passes=(r"case \(20\)", r"control \(20\)"),
            refused=(r"1\.0", r"metadata\.tsv"),
            never=("column 'age', as the first",),
        ),
    ),
    Case(
        name="letters with accents in two forms",
        report="speedyseq#53",
        twist=renamed("Zoe\u0308{}", "Zo\u00eb{}"),
        reading=either(
            passes=(r"case \(20\)", r"control \(20\)"),
            refused=(r"metadata\.tsv", "likely|unicode|form|accent"),
        ),
    ),
    Case(
        name="no sample in common",
        report="phyloseq#1568",
        twist=renamed("W{}", "Osmo-{}"),
        reading=refused("W1", "Osmo-1", r"metadata\.tsv"),
    ),
    Case(
        name="an ID twice in the metadata",
        report="rachis#651",
        twist=twice,
        reading=refused("S05", r"metadata\.tsv"),
    ),
    Case(
        name="table and metadata exchanged",
        report="rachis#651",
        twist=exchanged,
        reading=refused(r"metadata\.tsv|table\.tsv"),
    ),
    odd("IDs that are numbers", "speedyseq#53", *NUMBERED),
    odd("IDs with zeros in front", "rachis#404", *(f"{i:04d}" for i in range(1, 41))),
    odd(
        "IDs that look like numbers, dates and missing words",
        "rachis#404",
        *("1E5", "2e10", "3.0", "4.50", "0x1F", "2021-03-04", "1-2", "Mar-01"),
        *("NA", "nan", "None", "null", "TRUE", "inf"),
    ),
    odd(
        "IDs with signs and of other alphabets",
        "speedyseq#53",
        *("A 1/2", "B 1\\3", "C  2", "../D", "E&F", "<b>G</b>", "<script>x"),
        *("S#1", "S;2", "S,3", "S:4", "S'5", "(S6)", "S=7", "S%8", "S{9}", "S*", "$S"),
        *("Größe_1", "Île-2", "東京3", "חולה4"),
    ),
    odd(
        "IDs that are long or differ in little",
        "speedyseq#53",
        *("L" * 200 + "1", "L" * 200 + "2", "a1", "A1", "b1", "B1", "T1", "T11", "T111"),
    ),
    Case(
        name="an ID that begins with a hash",
        report="speedyseq#53",
        twist=lambda study, folder: study.rename_samples(["#1", "#2", *study.samples[2:]]),
        reading=either(refused=("#1",)),
        decided=("#1",),
        runs=True,
    ),
    Case(
        name="samples without metadata are controls",
        report="qurro#54",
        twist=controls,
        decided=("blank_1|PCR-neg|Mock",),
        reading=either(refused=("blank_1|PCR-neg|Mock",)),
    ),
)
