"""Tables whose features have no sequences: genera, OTUs, amounts, genomes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gallery.case import Case, Outcome, Ran, Twist, refused
from gallery.predictions import new_study
from gallery.study import Study, joined

SETTINGS: dict[str, Any] = {"predictions": {"new": {"table": "new.tsv", "tasks": ["group"]}}}
WITHOUT_TREE = ("kernel_clr", "kernel_bray_curtis", "random_forest")
WITH_TREE = ("kernel_clr", "kernel_unifrac", "kernel_clades")
Cell = Callable[[int, int], int | float]


def genera(study: Study) -> list[str]:
    """Return lineages as QIIME 2 writes them where it sums a table to genera."""
    names = [
        f"k__Bacteria;p__P{i % 3};c__C{i % 3};o__O{i % 6};f__F{i % 12};g__G{i}"
        for i in range(len(study.features) - 2)
    ]
    return [*names, "k__Bacteria;p__P0;c__C0;o__O0;f__F0;__", "Unassigned;__;__;__;__;__"]


def numbers(study: Study) -> list[str]:
    return [str(4479944 + 17 * i) for i in range(len(study.features))]


def genomes(study: Study) -> list[str]:
    return [f"G{900000000 + i}" for i in range(len(study.features))]


def plain(study: Study) -> list[str]:
    return [f"Bacteroides_{i}" for i in range(len(study.features))]


def without_sequences(
    name_features: Callable[[Study], Sequence[str]], *, tree: bool = False, amounts: bool = False
) -> Twist:
    """Return the twist that leaves out the sequences, and writes a table to predict."""

    def twist(study: Study, folder: Path) -> None:
        other = new_study()
        del study.files["sequences"]
        if not tree:
            del study.files["tree"]
        for one, name in ((study, "table.tsv"), (other, "new.tsv")):
            one.features = list(name_features(one))
            if amounts:
                totals = [sum(column) for column in zip(*one.counts, strict=True)]
                rows = [
                    [feature, *(f"{n / total:.7f}" for n, total in zip(row, totals, strict=True))]
                    for feature, row in zip(one.features, one.counts, strict=True)
                ]
                (folder / name).write_text(joined([["#OTU ID", *one.samples], *rows]))
            else:
                (folder / name).write_text(one.table())

    return twist


def other_rank(study: Study, folder: Path) -> None:
    """Learn from genera, and predict a table of families."""
    without_sequences(genera)(study, folder)
    other = new_study()
    other.features = [f"k__Bacteria;p__P{i % 3};f__F{i}" for i in range(len(other.features))]
    (folder / "new.tsv").write_text(other.table())


def other_style(study: Study, folder: Path) -> None:
    """Learn from genera of QIIME 2, and predict the same ones as MetaPhlAn writes them."""
    without_sequences(genera)(study, folder)
    other = new_study()
    other.features = [
        name.replace("k__", "d__").replace(";", "|").replace("__G", "__g") for name in genera(other)
    ]
    (folder / "new.tsv").write_text(other.table())


def says(label: str, *, never: str) -> Callable[[Ran], None]:
    """Return what asserts that the page has a method, and never a word."""

    def look(ran: Ran) -> None:
        assert label in ran.page
        assert "models: {base: {}}" not in ran.page, "networks cannot be trained on these"
        found = re.findall(rf".{{0,60}}\b(?:{never})\b.{{0,40}}", " ".join(ran.page.split()))
        assert found == [], found
        header, *rows = (ran.results / "predict/first/group/new.tsv").read_text().splitlines()
        right = sum(
            row.split("\t")[1] == ("case" if i % 2 else "control") for i, row in enumerate(rows)
        )
        assert (len(rows), right >= 14) == (16, True), rows

    return look


def case(name: str, report: str, twist: Twist, **more: Any) -> Case:
    """Return a case that goes to the page and predicts another table."""
    return Case(
        name, report, twist, runs=True, settings=SETTINGS, prediction=Outcome(passes=()), **more
    )


CASES = (
    case(
        "genera of QIIME 2",
        "phyloseq#1367",
        without_sequences(genera),
        baselines=WITH_TREE,
        decided=("30 genera|genera", "lineages"),
        then=says("kernel on UniFrac", never="ASVs?|nucleotides?|sequence variants"),
    ),
    case(
        "genera in the style of another program",
        "phyloseq#1367",
        other_style,
        baselines=WITH_TREE,
        decided=("30 genera|genera", "lineages"),
        then=says("kernel on UniFrac", never="ASVs?|nucleotides?|sequence variants"),
    ),
    case(
        "numbers of OTUs alone",
        "picrust2#400",
        without_sequences(numbers),
        baselines=WITHOUT_TREE,
        decided=("30 OTUs",),
        then=says("kernel on Bray-Curtis", never="ASVs?|nucleotides?|UniFrac|sequence variants"),
    ),
    case(
        "relative abundances alone",
        "phyloseq#1480",
        without_sequences(plain, amounts=True),
        baselines=WITHOUT_TREE,
        decided=("amounts", "30 features"),
        then=says(
            "kernel on Bray-Curtis", never="ASVs?|nucleotides?|UniFrac|rarefied (?:to|tables?)"
        ),
    ),
    case(
        "genomes with their tree",
        "phyloseq#1341",
        without_sequences(genomes, tree=True),
        baselines=WITH_TREE,
        decided=("30 genomes",),
        then=says("kernel on clades", never="ASVs?|nucleotides?|sequence variants"),
    ),
    Case(
        "a table of another rank",
        "phyloseq#1367",
        other_rank,
        settings=SETTINGS,
        reading=refused("families", "genera"),
        may_be_late=True,
    ),
    Case(
        "networks for genera",
        "phyloseq#1367",
        without_sequences(genera),
        settings={"models": {"base": {}}},
        reading=refused("models", "transformer", "encoder: lineage"),
        may_be_late=True,
    ),
)
