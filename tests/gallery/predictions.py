"""Other tables that are predicted: of the same region, of another one, of other names."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gallery.case import Case, Outcome, Ran, Twist, either, refused
from gallery.study import BASES, Study, healthy, joined, reverse_complement

SETTINGS: dict[str, Any] = {
    "predictions": {"new": {"table": "new.tsv", "sequences": "new.fasta", "tasks": ["group"]}}
}
TOLD = ("reads", "training|known|seen|near")
"""What has to be said where the reads of a table are none of those of training."""


def new_study() -> Study:
    """Return other samples of the same ASVs, without metadata."""
    study = healthy(16, seed=9)
    study.samples = [f"N{i + 1:02d}" for i in range(16)]
    return study


def new(change: Callable[[Study, Path], None] | None = None) -> Twist:
    """Return the twist that writes a table to predict, which `change` may change."""

    def twist(study: Study, folder: Path) -> None:
        other = new_study()
        if change is not None:
            change(other, folder)
        for name, text in (("new.tsv", other.table()), ("new.fasta", other.fasta())):
            if not (folder / name).exists():
                (folder / name).write_text(text)

    return twist


def other_strand(study: Study, folder: Path) -> None:
    study.sequences = [reverse_complement(sequence) for sequence in study.sequences]


def other_region(study: Study, folder: Path) -> None:
    """Write sequences as another pair of primers gives them."""
    draws = random.Random(8)
    study.sequences = [
        "GATTAGATACCCTGGTAGTCCACGCCGTAAAC" + "".join(draws.choices(BASES, k=80))
        for _ in study.sequences
    ]


def other_half(study: Study, folder: Path) -> None:
    """Write other sequences for half of the ASVs."""
    other = new_study()
    other_region(other, folder)
    study.sequences[::2] = other.sequences[::2]


def longer(study: Study, folder: Path) -> None:
    """Leave the primer at the beginning of every read."""
    study.sequences = ["GTGCCAGCAGCCGCGGTAA" + sequence for sequence in study.sequences]


def shorter(study: Study, folder: Path) -> None:
    """Cut every read to 90 nucleotides, which other settings of the denoiser do."""
    study.sequences = [sequence[:90] for sequence in study.sequences]


def other_names(study: Study, folder: Path) -> None:
    study.features = [f"{i:032x}" for i in range(1, len(study.features) + 1)]


def shifted_names(study: Study, folder: Path) -> None:
    """Number the ASVs from another one: ASV1 of the new study is ASV2 of the old."""
    study.sequences = study.sequences[1:] + study.sequences[:1]
    study.counts = study.counts[1:] + study.counts[:1]


def turned(study: Study, folder: Path) -> None:
    (folder / "new.tsv").write_text(study.transposed(first="sample"))


def in_percent(study: Study, folder: Path) -> None:
    totals = [sum(column) for column in zip(*study.counts, strict=True)]
    rows = [
        [name, *(f"{100 * n / total:.3f}" for n, total in zip(row, totals, strict=True))]
        for name, row in zip(study.features, study.counts, strict=True)
    ]
    (folder / "new.tsv").write_text(joined([["#OTU ID", *study.samples], *rows]))


def shallow(study: Study, folder: Path) -> None:
    """Give one sample few reads, and one none."""
    for row in study.counts:
        row[0] //= 12
        row[1] = 0


def of_training(study: Study, folder: Path) -> None:
    study.counts = [row[:16] for row in healthy().counts]


def misspelt_task(study: Study, folder: Path) -> None:
    new()(study, folder)


def classes_of(ran: Ran) -> dict[str, str]:
    """Return the predicted class by sample."""
    path = ran.results / "predict" / "first" / "group" / "new.tsv"
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    at = header.index("predicted")
    return {row[0]: row[at] for row in rows}


def all_right(ran: Ran) -> None:
    """Assert that each sample has the class that its reads were made for."""
    expected = {f"N{i + 1:02d}": ("control", "case")[i % 2] for i in range(16)}
    assert classes_of(ran) == expected


def recoded(ran: Ran) -> None:
    expected = {f"N{i + 1:02d}": str(i % 2) for i in range(16)}
    assert classes_of(ran) == expected


def zero_and_one(study: Study, folder: Path) -> None:
    study.recode("group", {"case": "1", "control": "0"})
    new()(study, folder)


def predicted(
    name: str,
    report: str,
    change: Callable[[Study, Path], None] | None,
    outcome: Outcome,
    **more: Any,
) -> Case:
    """Return the case of a table that is predicted after a healthy study."""
    return Case(
        name=name,
        report=report,
        twist=new(change),
        settings=SETTINGS,
        may_be_late=True,
        prediction=outcome,
        **more,
    )


MEANINGLESS = either(passes=TOLD, refused=TOLD)
CASES = (
    predicted("other samples", "siamcat#30", None, Outcome(), then=all_right),
    predicted("other samples under hashes", "siamcat#30", other_names, Outcome(), then=all_right),
    predicted(
        "other samples, ASVs numbered anew",
        "phyloseq#574",
        shifted_names,
        Outcome(),
        then=all_right,
    ),
    predicted(
        "the other strand",
        "dada2#126",
        other_strand,
        either(passes=("reverse|strand|orient",), refused=("reverse|strand|orient",)),
        reading=either(refused=(r"new\.tsv", "reverse|strand|orient")),
    ),
    predicted(
        "another region",
        "siamcat#30",
        other_region,
        MEANINGLESS,
        reading=either(refused=(r"new\.tsv", "region")),
    ),
    predicted(
        "half of the ASVs from another region", "siamcat#30", other_half, Outcome(passes=TOLD)
    ),
    predicted(
        "reads with their primers",
        "siamcat#30",
        longer,
        MEANINGLESS,
        reading=either(refused=(r"new\.tsv", "primer")),
    ),
    predicted("reads that are shorter", "dada2#708", shorter, Outcome(passes=())),
    predicted(
        "a table turned by 90 degrees",
        "picrust2#400",
        turned,
        either(refused=(r"new\.tsv", "transpose|samples in rows|rows"), passes=()),
    ),
    predicted(
        "percentages to predict",
        "phyloseq#1367",
        in_percent,
        refused(r"new\.tsv", "raw|counts"),
        reading=either(refused=(r"new\.tsv",)),
    ),
    predicted(
        "few reads to predict",
        "siamcat#30",
        shallow,
        Outcome(passes=("N01|N02|1 sample|2 samples",)),
    ),
    predicted(
        "samples of training under other names",
        "issue 54",
        of_training,
        Outcome(passes=("training",)),
    ),
    Case(
        "other samples of classes 0 and 1",
        "scikit-learn#34883",
        zero_and_one,
        settings=SETTINGS,
        baselines=("extra_trees", "kernel_clr"),
        prediction=Outcome(),
        then=recoded,
    ),
    Case(
        "names without sequences to predict",
        "siamcat#30",
        new(),
        may_be_late=True,
        settings={"predictions": {"new": {"table": "new.tsv", "tasks": ["group"]}}},
        reading=either(refused=(r"new\.tsv", "sequences")),
        prediction=refused(r"new\.tsv", "sequences"),
    ),
    Case(
        "a task that is not there to predict",
        "issue 54",
        misspelt_task,
        may_be_late=True,
        settings={
            "predictions": {
                "new": {"table": "new.tsv", "sequences": "new.fasta", "tasks": ["grup"]}
            }
        },
        reading=refused("grup", "group"),
    ),
)
