"""Genes of ribosomes, cut at primers as amplicons are."""

from pathlib import Path

from aam.data.importing.region import IUPAC
from aam.data.importing.ribosomal_genes import E_COLI, FORWARD, REVERSE
from aam.data.importing.sequences import read_sequence_file

GENES = read_sequence_file(Path(__file__).parent / "ribosomal_genes.fasta").sequences
OF_16S = [
    E_COLI,
    GENES["Bacteroides_vulgatus"],
    GENES["Faecalibacterium_prausnitzii"],
    GENES["Akkermansia_muciniphila"],
]
ARCHAEON = GENES["Methanobrevibacter_smithii"]
FUNGI = [text for name, text in GENES.items() if name.startswith("fungus")]
PRIMERS = {primer.name: primer for primer in (*FORWARD, *REVERSE)}
COMPLEMENT = str.maketrans("ACGTRYSWKMBDHVN", "TGCAYRSWMKVHDBN")


def site(name: str, gene: str) -> tuple[int, int]:
    """Return where a primer lies in a gene, which may differ from it, as numbers of letters."""
    primer = PRIMERS[name]
    text = primer.sequence
    if primer in REVERSE:
        text = text.translate(COMPLEMENT)[::-1]

    def differences(begin: int) -> int:
        bases = gene[begin : begin + len(text)]
        return sum(base not in IUPAC.get(x, x) for x, base in zip(text, bases, strict=True))

    begin = min(range(len(gene) - len(text) + 1), key=differences)
    assert differences(begin) <= 4, f"{name} has no site"
    return begin, begin + len(text)


def amplicon(gene: str, forward: str, reverse: str, *, with_primers: bool = False) -> str:
    """Return what lies between two primers."""
    first, begin = site(forward, gene)
    end, last = site(reverse, gene)
    return gene[first:last] if with_primers else gene[begin:end]


def amplicons(forward: str, reverse: str, *, with_primers: bool = False) -> list[str]:
    return [amplicon(gene, forward, reverse, with_primers=with_primers) for gene in OF_16S]
