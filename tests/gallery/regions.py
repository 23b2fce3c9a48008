"""Reads of other regions, strands and genes than V4 of 16S, and with primers."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cut_genes import FUNGI, GENES, amplicons
from gallery.case import Case, Outcome, Twist
from gallery.study import BASES, Study, reverse_complement

from aam.data.importing.ribosomal_genes import YEAST

V4 = amplicons("515F", "806R")
V3_V4 = amplicons("341F", "805R")
OF_18S = [YEAST[620:1000], GENES["Arabidopsis_thaliana"][620:1000]]


def reads(kinds: Sequence[str], change: Callable[[int, str], str] = lambda _, text: text) -> Twist:
    """Return the twist that gives features sequences like some, each with a few other bases.

    `change` gets the number of the feature and its sequence. No tree is given.
    """

    def twist(study: Study, folder: Path) -> None:
        draws = random.Random(3)
        sequences = []
        for number in range(len(study.features)):
            letters = list(kinds[number % len(kinds)])
            # The ends stay as they are: primers match there.
            for at in draws.sample(range(40, len(letters) - 40), 4):
                letters[at] = draws.choice(BASES)
            sequences.append(change(number, "".join(letters)))
        study.sequences = sequences
        study.features = [f"ASV{number + 1}" for number in range(len(sequences))]
        del study.files["tree"]

    return twist


def turn_every_third(number: int, text: str) -> str:
    return text if number % 3 else reverse_complement(text)


def says(*facts: str, never: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"reading": Outcome(passes=facts, never=never)}


CASES = (
    Case(
        "V3-V4 without a tree",
        "dada2#2173",
        reads(V3_V4),
        **says(r"V3-V4 \(E\. coli 358 to 784", "341F", "805R", never=("reverse comp", "trim")),
    ),
    Case(
        "reads of both strands",
        "dada2#167",
        reads(V4, turn_every_third),
        **says("V4", never=("trim",)),
        decided=(r"\b\d+ ?% of the reads are reverse complements",),
        runs=True,
        settings={"datasets": {"mine": {"tree": False}}},
    ),
    Case(
        "all reads of the other strand",
        "dada2#146",
        reads(V3_V4, lambda _, text: reverse_complement(text)[:220]),
        **says("reverse complements", "805R"),
    ),
    Case(
        "primers left on",
        "dada2#115",
        reads(amplicons("515F", "806R", with_primers=True)),
        **says("515F", "GTGYCAGCMGCCGCGGTAA", "100 ?%", never=("reverse comp",)),
    ),
    Case(
        "V3-V4 and V4 in a table",
        "dada2#1638",
        reads([*V3_V4, *V4]),
        **says("V3-V4", "358 to 784", "534 to 786", "2 parts"),
    ),
    Case(
        "reads of ITS",
        "q2-fragment-insertion#10",
        reads(FUNGI),
        **says("ITS", "tree: false", never=("greengenes",)),
    ),
    Case(
        "reads of 18S",
        "q2-fragment-insertion#10",
        reads(OF_18S),
        **says("18S", "MAFFT", never=("greengenes",)),
    ),
)
