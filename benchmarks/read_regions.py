"""What is said of the region of reads, of public studies and of genes that are cut at primers.

    aam reference get greengenes
    python -m benchmarks.read_regions ../shared/data

The first table has the sentence for each study, and the time that it took. The second has genes of
Greengenes, by kind, cut at primers: the fraction that is called 16S, by itself and as its reverse
complement, and the fraction whose begin and end are found within `NEAR` bases of the primers.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import edlib
import numpy as np
import pandas as pd

from aam.data.importing.region import IUPAC, SSU_16S, recognize_region
from aam.data.importing.ribosomal_genes import FORWARD, REVERSE, Primer
from aam.data.importing.table import load_table
from aam.data.table import FeatureTable
from aam.reference_tree.nearest import reverse_complement
from benchmarks.placing import WITH_TREE, Greengenes

KINDS = {"archaea": "k__Archaea", "mitochondria": "mitochondria", "chloroplasts": "Chloroplast"}
"""What the lineages of a kind of genes have; all others are called bacteria."""
REGIONS = [
    ("27F", "338R"),
    ("341F", "534R"),
    ("341F", "805R"),
    ("515F", "806R"),
    ("515F", "926R"),
    ("799F", "1193R"),
    ("926F", "1392R"),
]
GENES = 300
"""Genes of a kind at most."""
MOST_EDITS = 3
"""Edits of a primer."""
NEAR = 5
EQUALITIES = [(letter, base) for letter, bases in IUPAC.items() for base in bases]


def main(data: Path) -> None:
    """Print the tables.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    said = pd.DataFrame(describe_studies(data), columns=["study", "ASVs", "s", "said"])
    print(said.to_markdown(index=False, floatfmt=".2f"))
    rows = list(cut_rows(Greengenes.open()))
    columns = ["genes", "primers", "number", "16S", "16S, turned", "begin", "end"]
    print(pd.DataFrame(rows, columns=columns).to_markdown(index=False, floatfmt=".3f"))


def describe_studies(data: Path) -> Iterator[tuple[str, int, float, str]]:
    """Yield name, ASVs, seconds and sentences of each study.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    for study in WITH_TREE:
        yield study, *describe_table(load_table(data / study / "table.biom"))
    corpus = load_table(data / "corpus/table.biom")
    study_N = np.array([name.partition(".")[0] for name in corpus.sample_ids])
    for study in dict.fromkeys(study_N.tolist()):
        yield study, *describe_table(corpus.select_samples(np.flatnonzero(study_N == study)))


def describe_table(table: FeatureTable) -> tuple[int, float, str]:
    """Return the number of ASVs of a table, the seconds that it took, and what is said."""
    reads_F = np.asarray(table.counts.sum(axis=0)).ravel()
    sequences = [name for name, reads in zip(table.feature_ids, reads_F, strict=True) if reads]
    start = time.perf_counter()
    region = recognize_region(sequences, reads_F[reads_F > 0])
    seconds = time.perf_counter() - start
    return len(sequences), seconds, " ".join([str(region), *region.oddities()])


def cut_rows(greengenes: Greengenes) -> Iterator[tuple[str, str, int, float, float, float, float]]:
    """Yield a row of the second table per kind of genes and region."""
    primer_of = {primer.name: primer for primer in (*FORWARD, *REVERSE)}
    for kind, rows in rows_of_kinds(greengenes.lineages).items():
        for names in REGIONS:
            forward, reverse = (primer_of[name] for name in names)
            genes = map(greengenes.search.text, rows)
            pieces = [piece for gene in genes if (piece := cut(gene, forward, reverse))]
            if not pieces:
                continue
            found = [recognize_region([piece], np.ones(1)) for piece in pieces]
            turned = [recognize_region([reverse_complement(piece)], np.ones(1)) for piece in pieces]
            parts = [part for region in found for part in region.parts]
            yield (
                kind,
                "-".join(names),
                len(pieces),
                mean([region.gene == SSU_16S for region in found]),
                mean([region.gene == SSU_16S and region.reverse == 1 for region in turned]),
                mean([abs(part.begin - forward.end - 1) <= NEAR for part in parts]),
                mean([abs(part.end - reverse.begin + 1) <= NEAR for part in parts]),
            )


def mean(values: Sequence[bool]) -> float:
    """Return the fraction that is true."""
    return sum(values) / len(values)


def rows_of_kinds(lineages: list[str]) -> dict[str, list[int]]:
    """Return the numbers of some genes by kind."""
    rows: dict[str, list[int]] = {"bacteria": [], **{kind: [] for kind in KINDS}}
    for row, lineage in enumerate(lineages):
        kinds = [kind for kind, word in KINDS.items() if word.lower() in lineage.lower()]
        rows[kinds[0] if kinds else "bacteria"].append(row)
    draws = random.Random(0)
    return {kind: draws.sample(some, min(GENES, len(some))) for kind, some in rows.items()}


def cut(gene: str, forward: Primer, reverse: Primer) -> str | None:
    """Return what lies between two primers of a gene; None where it has them not."""
    begin = find(forward.sequence, gene)
    # The other strand is searched from its begin.
    end = find(reverse.sequence, reverse_complement(gene))
    if begin is None or end is None or begin >= len(gene) - end:
        return None
    return gene[begin : len(gene) - end]


def find(primer: str, gene: str) -> int | None:
    """Return the number of bases of a gene up to the end of a primer; None where it is not."""
    found = edlib.align(
        primer, gene, mode="HW", task="locations", k=MOST_EDITS, additionalEqualities=EQUALITIES
    )
    if found["editDistance"] < 0:
        return None
    return int(found["locations"][0][1]) + 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
