"""Columns of the metadata that people want to predict: how they code classes and numbers."""

import csv
import datetime
from collections.abc import Callable
from pathlib import Path

from gallery.case import Case, Outcome, Ran, Twist, either, refused
from gallery.study import Study, healthy

LONG = "moderately_severe_" * 11 + "xx"
"""A class name of 200 letters."""
HEBREW, ARABIC = "חולה", "سليم"


def recoded(case: str, control: str) -> Twist:
    """Return the twist that writes other words for the two classes."""

    def twist(study: Study, folder: Path) -> None:
        study.recode("group", {"case": case, "control": control})

    return twist


def cells(column: str, cell: Callable[[int, str], str]) -> Twist:
    """Return the twist that writes each cell of a column as a function of its number and text."""

    def twist(study: Study, folder: Path) -> None:
        study.columns[column] = [cell(i, text) for i, text in enumerate(study.columns[column])]

    return twist


def replaced(column: str, *cell: str) -> Twist:
    """Return the twist that writes other words into the first cells of a column."""

    def twist(study: Study, folder: Path) -> None:
        study.columns[column][: len(cell)] = cell

    return twist


def new_column(name: str, cell: Callable[[int], str]) -> Twist:
    """Return the twist that adds a column."""

    def twist(study: Study, folder: Path) -> None:
        study.columns[name] = [cell(i) for i in range(len(study.rows))]

    return twist


def three_levels(study: Study, folder: Path) -> None:
    """Make three ordered classes, 1 to 3, of the ages."""
    study.columns["group"] = [str(1 + (int(age) - 20) // 14) for age in study.columns["age"]]


def typed(column: str, kind: str, cell: Callable[[int], str], samples: int) -> Twist:
    """Return the twist that adds a column whose type the metadata declares."""

    def twist(study: Study, folder: Path) -> None:
        other = healthy(samples)
        study.samples, study.rows, study.counts = other.samples, other.rows, other.counts
        study.columns = other.columns
        study.columns[column] = [cell(i) for i in range(samples)]
        header, _, body = study.metadata().partition("\n")
        types = "\t".join(["#q2:types", "categorical", "numeric", kind])
        (folder / "metadata.tsv").write_text(f"{header}\n{types}\n{body}")

    return twist


def types_on_top(study: Study, folder: Path) -> None:
    """Declare the types in the line above the header."""
    typed("site", "categorical", lambda i: f"{i % 12 + 1:02d}", 60)(study, folder)
    header, types, body = (folder / "metadata.tsv").read_text().split("\n", 2)
    (folder / "metadata.tsv").write_text(f"{types}\n{header}\n{body}")


def one_rare_class(study: Study, folder: Path) -> None:
    study.columns["group"][0] = "unusual"


def na_beside_others(study: Study, folder: Path) -> None:
    """Name a continent by its two letters."""
    study.columns["group"] = [
        ("NA" if i % 8 < 4 else "EU") if group == "case" else "AF"
        for i, group in enumerate(study.columns["group"])
    ]


def named(old: str, new: str) -> Twist:
    """Return the twist that gives a column another name."""

    def twist(study: Study, folder: Path) -> None:
        study.columns = {new if name == old else name: c for name, c in study.columns.items()}

    return twist


def predicted_classes(*classes: str) -> Callable[[Ran], None]:
    """Return the assertion that the table of predictions has these classes, as they are written."""

    def then(ran: Ran) -> None:
        path = ran.results / "answers" / "group" / "first" / "predictions.tsv"
        with path.open(encoding="utf-8", newline="") as handle:
            observed = {row["observed"] for row in csv.DictReader(handle, dialect="excel-tab")}
        assert observed == set(classes)

    return then


def escaped(ran: Ran) -> None:
    for path in (ran.results / "first.html", ran.results / "first.md"):
        if path.exists():
            assert "<script>x" not in path.read_text(encoding="utf-8")


WORKS = Outcome(passes=("works",), never=("does not work",))
NUMBERS = ("extra_trees",)
"""A baseline that reads class labels in a way of its own."""


def coded(name: str, report: str, case: str, control: str, *facts: str, runs: bool = True) -> Case:
    """Return the case of two classes that are coded in another way and predicted nonetheless."""
    return Case(
        name=name,
        report=report,
        twist=recoded(case, control),
        kinds={"group": "classification"},
        reading=Outcome(passes=facts),
        runs=runs,
        first=WORKS,
        baselines=NUMBERS if case[-1].isdigit() else ("kernel_clr",),
        then=predicted_classes(case, control) if runs else None,
    )


AGES_WITH_WORDS = ("unknown", "90+", "unknown")
CASES = (
    Case(
        name="nothing odd",
        report="issue 54",
        twist=lambda study, folder: None,
        columns="group,age",
        kinds={"group": "classification", "age": "regression"},
        reading=Outcome(passes=(r"case \(20\)", r"control \(20\)", "20 to 59")),
        runs=True,
        first=Outcome(passes=("group is predicted right", "age is off by")),
    ),
    coded("classes 0 and 1", "scikit-learn#34883", "1", "0", r"\b0 \(20\)", r"\b1 \(20\)"),
    coded("classes 1 and 2", "scikit-learn#34883", "2", "1", runs=False),
    coded("classes that are years", "scikit-learn#34883", "2020", "2019"),
    coded("classes 0.0 and 1.0", "scikit-learn#34883", "1.0", "0.0", runs=False),
    coded("classes -1 and 1", "scikit-learn#34883", "1", "-1"),
    coded("classes 00 and 01", "rachis#404", "01", "00"),
    coded("classes TRUE and FALSE", "rachis#648", "TRUE", "FALSE"),
    coded("classes yes and no", "rachis#648", "yes", "no", runs=False),
    coded("classes on and off", "rachis#648", "on", "off", runs=False),
    coded("classes 1e5 and 1E6", "rachis#404", "1e5", "1E6"),
    coded("classes in Hebrew and Arabic", "issue 54", HEBREW, ARABIC),
    coded("classes in HTML", "issue 54", "<b>sick</b>", "R&D <script>x"),
    coded("classes with signs of YAML", "issue 54", "day: 1", "#2, [no]"),
    coded("classes with bars and quotes", "issue 54", "a|b", 'so "called"'),
    coded("classes that begin alike", "issue 54", "case", "case_2", runs=False),
    coded("classes of 200 letters", "issue 54", LONG, "none", runs=False),
    coded("classes of 200 letters that differ in the last", "issue 54", LONG + "1", LONG + "2"),
    coded("classes called predicted and observed", "issue 54", "predicted", "observed"),
    coded("classes of one letter", "issue 54", "T", "F", runs=False),
    Case(
        name="ordered classes 1 to 3",
        report="scikit-learn#34883",
        twist=three_levels,
        kinds={"group": "classification"},
        settings={"tasks": {"group": {"kind": "ordinal", "classes": ["1", "2", "3"]}}},
        runs=True,
        baselines=NUMBERS,
        then=predicted_classes("1", "2", "3"),
    ),
    Case(
        name="ordered classes without quotes",
        report="scikit-learn#34883",
        twist=three_levels,
        settings={"tasks": {"group": {"kind": "ordinal", "classes": [1, 2, 3]}}},
        reading=either(refused=(r"tasks\.group\.classes", "quotes|text")),
        may_be_late=True,
    ),
    Case(
        name="an ordered class that the column lacks",
        report="issue 54",
        twist=three_levels,
        settings={"tasks": {"group": {"kind": "ordinal", "classes": ["low", "2", "3"]}}},
        reading=refused("low", r"\b1\b"),
        may_be_late=True,
    ),
    Case(
        name="True beside TRUE",
        report="rachis#648",
        twist=cells(
            "group", lambda i, c: "FALSE" if c == "control" else ("TRUE", "True")[i % 4 > 1]
        ),
        decided=(
            r"(?-i:\bTrue\b)",
            r"(?-i:\bTRUE\b)",
            "upper|lower|letters|alike|spell|same|one value|look like",
        ),
        reading=either(refused=("True", "TRUE")),
        runs=True,
    ),
    Case(
        name="0 beside 0.0",
        report="rachis#648",
        twist=cells(
            "group",
            lambda i, c: ("1", "1.0")[i % 8 > 4] if c == "case" else ("0", "0.0")[i % 8 > 3],
        ),
        decided=(r"0\.0",),
        reading=either(refused=(r"0\.0",)),
    ),
    Case(
        name="Case beside case",
        report="rachis#648",
        twist=cells("group", lambda i, c: "Case" if c == "case" and i < 12 else c),
        decided=(r"(?-i:\bCase\b)", "upper|lower|letters|alike|spell|same|one value|look like"),
        reading=either(refused=("Case", "case")),
    ),
    Case(
        name="site numbers declared categorical",
        report="rachis#404",
        twist=typed("site", "categorical", lambda i: f"{i % 12 + 1:02d}", 60),
        columns="site",
        kinds={"site": "classification"},
        reading=Outcome(passes=(r"\b01 \(5\)",)),
    ),
    Case(
        name="doses declared numeric",
        report="rachis#568",
        twist=typed("dose", "numeric", lambda i: ("0", "0.5", "5", "50")[i % 4], 60),
        columns="dose",
        kinds={"dose": "regression"},
    ),
    Case(
        name="types declared above the header",
        report="rachis#404",
        twist=types_on_top,
        columns="site",
        kinds={"site": "classification"},
        reading=either(refused=("q2:types", "header|below|under")),
    ),
    Case(
        name="ages with unknown and 90+",
        report="rachis#648",
        twist=replaced("age", *AGES_WITH_WORDS),
        columns="age",
        kinds={"age": "regression"},
        reading=either(refused=("unknown", r"90\+", "age")),
        decided=("unknown", r"90\+"),
        runs=True,
    ),
    Case(
        name="few ages with a word",
        report="rachis#648",
        twist=cells("age", lambda i, age: "unknown" if i < 3 else str(int(age) // 3 * 3)),
        columns="age",
        kinds={"age": "regression"},
        reading=either(refused=("unknown", "age")),
        decided=("unknown",),
    ),
    Case(
        name="Excel's #N/A in ages",
        report="biom-format#284",
        twist=replaced("age", "#N/A", "#N/A", "#DIV/0!"),
        columns="age",
        kinds={"age": "regression"},
        reading=either(refused=("#N/A", "age")),
        decided=("#N/A",),
        runs=True,
    ),
    Case(
        name="dashes and dots for missing ages",
        report="rachis#648",
        twist=replaced("age", "-", ".", "?", "--"),
        columns="age",
        kinds={"age": "regression"},
        reading=either(refused=("age", "'-'")),
        decided=("'-'|`-`|\"-\"|“-”", r"'\?'|`\?`|\"\?\""),
    ),
    Case(
        name="decimal commas",
        report="rachis#648",
        twist=new_column("ph", lambda i: f"{4 + i * 7 % 40 / 10:.1f}".replace(".", ",")),
        columns="ph",
        kinds={"ph": "regression"},
        reading=either(passes=("comma|[4-7],[0-9]",), refused=("ph", "[4-7],[0-9]", "comma|point")),
    ),
    Case(
        name="numbers with units",
        report="rachis#648",
        twist=new_column("weight", lambda i: f"{50 + i} kg"),
        columns="weight",
        reading=either(passes=("kg",), refused=("weight", "kg")),
    ),
    Case(
        name="thousands with commas",
        report="rachis#648",
        twist=new_column("load", lambda i: f"{1000 + 731 * i:,}"),
        columns="load",
        reading=either(passes=(r"\d,\d{3}",), refused=("load", r"\d,\d{3}")),
    ),
    Case(
        name="points for thousands and decimal commas",
        report="rachis#648",
        twist=new_column("load", lambda i: f"{1 + i}.234,{i % 10}"),
        columns="load",
        reading=either(passes=(r"\d\.234,\d",), refused=("load", r"\d\.234,\d")),
    ),
    Case(
        name="limits of detection among numbers",
        report="rachis#648",
        twist=new_column("crp", lambda i: "<0.5" if i % 5 == 0 else f"{i / 3:.2f}"),
        columns="crp",
        kinds={"crp": "regression"},
        reading=either(refused=("crp", r"<0\.5")),
        decided=(r"<0\.5",),
    ),
    Case(
        name="percentages as a target",
        report="rachis#648",
        twist=new_column("fat", lambda i: f"{10 + i}%"),
        columns="fat",
        reading=either(passes=("%",), refused=("fat", "1[0-9]%")),
    ),
    Case(
        name="one -9999 among pH values",
        report="issue 54",
        twist=new_column("ph", lambda i: "-9999" if i == 7 else f"{4 + i * 7 % 40 / 10:.1f}"),
        columns="ph",
        kinds={"ph": "regression"},
        decided=("-9999",),
        runs=True,
    ),
    Case(
        name="numbers over nine decades",
        report="issue 54",
        twist=new_column("cfu", lambda i: str(10 ** (i % 10) + i)),
        columns="cfu",
        kinds={"cfu": "regression"},
        runs=True,
        baselines=("random_forest_median",),
    ),
    Case(
        name="a number that is nearly always 0",
        report="issue 54",
        twist=new_column("drinks", lambda i: str(i // 4 - 2) if i % 4 == 0 and i > 8 else "0"),
        columns="drinks",
        reading=either(refused=("drinks",)),
        runs=True,
    ),
    Case(
        name="a class called NA",
        report="issue 54",
        twist=na_beside_others,
        decided=(r"'NA' in 10 cells|\bNA\b.*\b10\b|\b10\b.*\bNA\b",),
        reading=either(refused=("'NA'",)),
        runs=True,
    ),
    Case(
        name="a class called None",
        report="issue 54",
        twist=recoded("Mild", "None"),
        decided=(r"\bNone\b",),
        reading=either(refused=(r"\bNone\b", r"\b20\b", "group")),
        runs=True,
    ),
    Case(
        name="a class called null",
        report="issue 54",
        twist=recoded("wild-type", "null"),
        decided=(r"\bnull\b",),
        reading=either(refused=(r"\bnull\b", r"\b20\b", "group")),
    ),
    Case(
        name="controls called not applicable",
        report="rachis#624",
        twist=recoded("Crohn", "not applicable"),
        reading=either(refused=("not applicable", r"\b20\b", "group")),
        decided=("not applicable",),
    ),
    Case(
        name="a class of one sample",
        report="ludwig#2831",
        twist=one_rare_class,
        reading=Outcome(passes=("unusual",)),
        decided=("unusual",),
        runs=True,
    ),
    Case(
        name="the same class everywhere",
        report="ampliseq#522",
        twist=recoded("case", "case"),
        reading=refused("group", r"\bcase\b", "one value|same"),
    ),
    Case(
        name="metadata of IDs alone",
        report="ampliseq#522",
        twist=lambda study, folder: study.columns.clear(),
        columns=None,
        reading=either(
            passes=("no column|0 metadata columns",), refused=(r"metadata\.tsv", "column")
        ),
    ),
    Case(
        name="a column of dates",
        report="rachis#648",
        twist=new_column(
            "sampled", lambda i: str(datetime.date(2021, 3, 1) + datetime.timedelta(days=5 * i))
        ),
        columns="sampled",
        reading=refused("sampled", "2021-0"),
    ),
    Case(
        name="a column that Excel made dates of",
        report="rachis#648",
        twist=new_column("titre", lambda i: ("01-Feb", "02-Mar", "03-Apr", "1/8")[i % 4]),
        columns="titre",
        reading=either(passes=("01-Feb",), refused=("01-Feb",)),
    ),
    Case(
        name="a column of one value per sample",
        report="rachis#648",
        twist=new_column("note", lambda i: f"note {i}"),
        columns="note",
        reading=refused("note", r"\b40\b", "note \\d"),
    ),
    Case(
        name="a column that is empty",
        report="rachis#648",
        twist=new_column("later", lambda i: ""),
        columns="later",
        reading=refused("later", "no value|empty"),
    ),
    Case(
        name="a column name with signs",
        report="issue 54",
        twist=named("group", "Group (0=no/1=yes) <b>&"),
        columns="Group (0=no/1=yes) <b>&",
        kinds={"Group (0=no/1=yes) <b>&": "classification"},
        runs=True,
        then=escaped,
    ),
    Case(
        name="a column called predicted",
        report="issue 54",
        twist=named("group", "predicted"),
        columns="predicted",
        kinds={"predicted": "classification"},
        runs=True,
    ),
    Case(
        name="a column called fold",
        report="issue 54",
        twist=named("group", "fold"),
        columns="fold",
        kinds={"fold": "classification"},
    ),
    Case(
        name="a column called index",
        report="issue 54",
        twist=named("group", "index"),
        columns="index",
        kinds={"index": "classification"},
    ),
    Case(
        name="a column of the wrong case",
        report="rachis#648",
        twist=lambda study, folder: None,
        columns="Group",
        reading=refused("Group", "'group'"),
    ),
    Case(
        name="groups that are the same for all",
        report="issue 54",
        twist=new_column("subject", lambda i: "P1"),
        settings={"tasks": {"group": {"folds": {"groups": "subject"}}}},
        reading=refused("subject", "group"),
        may_be_late=True,
    ),
    Case(
        name="groups that are the classes",
        report="issue 54",
        twist=new_column("subject", lambda i: "P1" if i % 2 else "P2"),
        settings={"tasks": {"group": {"folds": {"groups": "subject"}}}},
        reading=refused("subject", "case|control"),
        may_be_late=True,
    ),
    Case(
        name="groups that lack for some samples",
        report="issue 54",
        twist=new_column("subject", lambda i: "" if i < 4 else f"P{i // 2}"),
        reading=either(passes=("subject",), refused=("subject", r"\b4\b|S0[1-4]")),
        decided=("subject",),
        runs=True,
    ),
    Case(
        name="a where that no sample has",
        report="issue 54",
        twist=new_column("site", lambda i: "gut" if i % 3 else "skin"),
        settings={"tasks": {"group": {"where": {"site": ["Gut"]}}}},
        reading=refused("Gut", r"\bgut\b", "site"),
        may_be_late=True,
    ),
    Case(
        name="a column that is not there any more",
        report="issue 54",
        twist=lambda study, folder: None,
        settings={"tasks": {"group": {"column": "diagnosis"}}},
        reading=refused("diagnosis", "age|group"),
        may_be_late=True,
    ),
    Case(
        name="numbers for a column of words",
        report="songbird#151",
        twist=lambda study, folder: None,
        settings={"tasks": {"group": {"kind": "regression", "folds": {"stratified": False}}}},
        reading=refused("group", r"\bcase\b"),
        may_be_late=True,
    ),
    Case(
        name="classes for a column of many numbers",
        report="songbird#151",
        twist=lambda study, folder: None,
        settings={"tasks": {"group": {"column": "age", "folds": {"stratified": False}}}},
        reading=refused("age", "class"),
        may_be_late=True,
    ),
)
