"""Trees and taxonomies that belong to something else, or are written in another way."""

import re
from collections.abc import Callable
from pathlib import Path

from gallery.case import Case, Outcome, Twist, either, refused
from gallery.study import Study, joined


def tree(write: Callable[[Study], str], name: str = "tree.nwk") -> Twist:
    """Return the twist that writes the tree in another way."""

    def twist(study: Study, folder: Path) -> None:
        study.files["tree"] = name
        (folder / name).write_text(write(study))

    return twist


def taxonomy(write: Callable[[Study], str] = Study.taxonomy, name: str = "taxonomy.tsv") -> Twist:
    """Return the twist that gives a taxonomy."""

    def twist(study: Study, folder: Path) -> None:
        study.files["taxonomy"] = name
        (folder / name).write_text(write(study))

    return twist


def nexus(study: Study) -> str:
    """Return the tree as NEXUS, with numbers for the names."""
    newick = study.newick()
    for number, name in reversed([*enumerate(study.features, start=1)]):
        newick = newick.replace(f"{name}:", f"{number}:")
    numbers = ",\n".join(f"\t{i} {name}" for i, name in enumerate(study.features, start=1))
    return f"#NEXUS\nbegin trees;\n\ttranslate\n{numbers};\n\ttree one = [&R] {newick}end;\n"


def star(study: Study) -> str:
    """Return a tree without a root: all tips hang at one node."""
    return "(" + ",".join(f"{name}:0.1" for name in study.features) + ");\n"


def without_lengths(study: Study) -> str:
    return re.sub(r":[0-9.]+", "", study.newick())


def negative(study: Study) -> str:
    return re.sub(r"ASV3:[0-9.]+", "ASV3:-0.0012", study.newick())


def one_long_branch(study: Study) -> str:
    return re.sub(r"ASV3:[0-9.]+", "ASV3:2.9", study.newick())


def of_others(study: Study) -> str:
    return study.newick().replace("ASV", "EU2028")


def without_two(study: Study) -> str:
    return re.sub(r"\bASV(7|8):", r"OTU\1:", study.newick())


def of_dada2(study: Study) -> str:
    """Return the taxonomy with a column per rank."""
    lines = [["", "Kingdom", "Phylum", "Genus"]]
    lines += [[name, "Bacteria", "Firmicutes", "NA"] for name in study.features]
    return joined(lines)


def with_a_blank(study: Study) -> str:
    return re.sub(r"(?m)^(ASV4\t).*$", r"\1", study.taxonomy())


def half_of_it(study: Study) -> str:
    return "".join(study.taxonomy().splitlines(keepends=True)[:16])


LATE = {"may_be_late": True}
CASES = (
    Case(
        "negative branches",
        "gotree#26",
        tree(negative),
        **LATE,
        reading=either(
            refused=("negative", "ASV3", r"tree\.nwk"),
            never=("export the tree with branch lengths",),
        ),
        decided=("negative", "ASV3"),
        runs=True,
    ),
    Case(
        "a tree in NEXUS",
        "phyloseq#235",
        tree(nexus, "tree.nex"),
        **LATE,
        reading=either(refused=(r"tree\.nex", "NEXUS", "Newick")),
    ),
    Case(
        "a tree without a root",
        "phyloseq#235",
        tree(star),
        **LATE,
        reading=refused(r"tree\.nwk", "unrooted", "midpoint-root"),
    ),
    Case(
        "a tree without lengths",
        "phyloseq#1373",
        tree(without_lengths),
        **LATE,
        reading=refused(r"tree\.nwk", "length"),
    ),
    Case(
        "a tree of other IDs",
        "phyloseq#764",
        tree(of_others),
        **LATE,
        reading=refused(r"tree\.nwk", r"\bASV1\b", "EU2028"),
    ),
    Case(
        "a tree that lacks two",
        "phyloseq#764",
        tree(without_two),
        **LATE,
        reading=refused(r"tree\.nwk", r"\bASV7\b", r"\bASV8\b"),
    ),
    Case(
        "a branch of 2.9",
        "phyloseq#936",
        tree(one_long_branch),
        decided=("ASV3", "long"),
        runs=True,
    ),
    Case(
        "FASTA as tree",
        "phyloseq#235",
        tree(Study.fasta, "tree.nwk"),
        **LATE,
        reading=refused(r"tree\.nwk", "Newick"),
    ),
    Case("a taxonomy", "q2-greengenes2#15", taxonomy(), reading=Outcome(passes=("100 ?%",))),
    Case(
        "a taxonomy of other IDs",
        "q2-greengenes2#15",
        taxonomy(lambda s: s.taxonomy().replace("ASV", "GG")),
        **LATE,
        reading=refused(r"taxonomy\.tsv", r"\bASV1\b", r"\bGG1\b"),
    ),
    Case(
        "a taxonomy of half of the ASVs",
        "q2-greengenes2#15",
        taxonomy(half_of_it),
        reading=Outcome(passes=("50 ?%|15",)),
    ),
    Case(
        "a taxonomy with a blank",
        "q2-feature-classifier#122",
        taxonomy(with_a_blank),
        reading=Outcome(passes=("97 ?%|29",)),
    ),
    Case(
        "a taxonomy with a column per rank",
        "phyloseq#1217",
        taxonomy(of_dada2),
        **LATE,
        reading=either(refused=(r"taxonomy\.tsv", "Taxon", "Kingdom"), passes=("100 ?%",)),
    ),
    Case(
        "a taxonomy as CSV",
        "phyloseq#1217",
        taxonomy(lambda s: s.taxonomy().replace("\t", ","), "taxonomy.csv"),
        **LATE,
        reading=either(refused=(r"taxonomy\.csv", "comma|tab"), passes=("100 ?%",)),
    ),
)
