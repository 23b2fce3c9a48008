"""What sequences are of: which gene, which part of 16S, which strand, and whether with primers.

The most abundant sequences are aligned by edlib (Šošić and Šikić 2017,
doi:10.1093/bioinformatics/btw753), the whole sequence to any part of a gene, in both strands: to
16S of a bacterium and of an archaeon, and to 18S. No other reference is needed. What is aligned to
the archaeon gets the positions of E. coli by the alignment of the two genes.

Shape suffixes: Q sequences.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import edlib
import numpy as np
from numpy.typing import NDArray

from aam.data.importing.ribosomal_genes import (
    ARCHAEON,
    E_COLI,
    FLANKS_OF_SPACERS,
    FORWARD,
    REVERSE,
    VARIABLE_REGIONS,
    YEAST,
    Primer,
)

ITS_HAS_NO_TREE = (
    "ITS of distant genera cannot be aligned, and a tree of it says little about how they are "
    "related: `tree: false` takes Bray-Curtis in place of UniFrac"
)
SSU_16S = "16S"
SSU_18S = "18S"
ITS = "ITS"
OTHER = "other"
TRIED = 300
"""Sequences that are aligned, the most abundant ones."""
LEAST_BASES = 60
"""Known bases below which nothing is said of a sequence: it would be like any gene by chance."""
MOST_EDITS = 0.44
"""Edits per base up to which a sequence is of a gene, less `EDITS_BY_CHANCE` in all.

Of random sequences of 60 bases one in fifty stays below, of longer ones fewer. 16S has at most
0.42: the farthest are mitochondria; 18S has 0.40 and more to 16S, and ITS 0.46 and more."""
EDITS_BY_CHANCE = 5
LONGEST = 1600
"""Bases from which on a sequence goes beyond the gene: its first `BASES_OF_LONG` are aligned."""
BASES_OF_LONG = 1450
JOINT = re.compile("N{8,}")
"""What stands between two reads of a pair that do not overlap, if they are joined all the same."""
FLANK_EDITS = 0.2
"""Edits per base up to which a flank of the spacers of ITS is found."""
GAP = 40
"""Bases of E. coli that separate the begins, or ends, of two parts of the gene.

Insertions and deletions move the end of a truncated read by less."""
TIP = 20
"""Bases at either end of a sequence that are looked for by themselves.

An end close behind a variable region that lost bases would otherwise be aligned before it."""
TIP_EDITS = 4
"""Edits up to which such an end is found."""
TIP_MOVES = 70
"""Bases that it may lie away from where the whole sequence is aligned."""
NEAR_PRIMER = 5
"""Bases between the end of the reads and a primer, up to which the primer is named."""
PRIMER_EDITS = 2
"""Edits up to which a primer is found."""
PRIMER_WITHIN = 12
"""Bases before or behind a primer at an end of a read, spacers and barcodes."""
COVERED = 1 / 3
"""Fraction of a variable region that is named if so much of it was read."""
UNUSUAL_SHARE = 0.05
"""Fraction of the reads that look otherwise, from which on a sentence says so."""
MOSTLY = 0.9
"""Fraction of the reads from which on a table is one of V4: the reference v4 asks for as much."""
IUPAC = {
    "R": "AG",
    "Y": "CT",
    "S": "CG",
    "W": "AT",
    "K": "GT",
    "M": "AC",
    "B": "CGT",
    "D": "AGT",
    "H": "ACT",
    "V": "ACG",
    "N": "ACGT",
}
COMPLEMENT = str.maketrans("ACGTURYSWKMBDHVN", "TGCAAYRSWMKVHDBN")
_EQUAL = [(letter, base) for letter, bases in IUPAC.items() for base in bases]
_OF_16S = {E_COLI: SSU_16S, ARCHAEON: SSU_16S, YEAST: SSU_18S}


@dataclass(frozen=True)
class GenePart:
    """A part of the 16S gene that reads are of."""

    begin: int
    """First base, as E. coli counts them from 1."""
    end: int
    """Last base."""
    share: float
    """Fraction of the reads of 16S."""
    primers: tuple[str, str] = ("", "")
    """Names of the primers that it lies behind and before; empty where none fits."""

    @property
    def regions(self) -> str:
        """Names of the variable regions, such as `V3-V4`; empty between two of them."""
        names = []
        for name, (first, last) in VARIABLE_REGIONS.items():
            bases = min(self.end, last) - max(self.begin, first) + 1
            if bases >= COVERED * (last - first + 1):
                names.append(name)
        return "-".join(dict.fromkeys([*names[:1], *names[-1:]]))

    def __str__(self) -> str:
        """Return regions, positions and primers."""
        behind, before = self.primers
        places = [f"behind {behind}"] if behind else []
        places += [f"before {before}"] if before else []
        positions = ", ".join([f"E. coli {self.begin} to {self.end}", " and ".join(places)])
        return f"{self.regions} ({positions.removesuffix(', ')})".lstrip()


@dataclass(frozen=True)
class ReadRegion:
    """What the sequences of a table are of, by their most abundant ones."""

    lengths: tuple[int, int]
    """Nucleotides of the shortest and the longest of all."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Fraction of the reads by gene: 16S, 18S, ITS, other."""
    parts: tuple[GenePart, ...] = ()
    """Parts of the 16S gene that each have `UNUSUAL_SHARE` of its reads or more, the most abundant
    first."""
    reverse: float = 0.0
    """Fraction of the reads that are reverse complements of a gene."""
    primers: Mapping[str, float] = field(default_factory=dict)
    """Fraction of the reads by the name of a primer that they still have."""

    @property
    def gene(self) -> str:
        """What more than half of the reads are of; `OTHER` where there is no such gene."""
        common = [gene for gene, share in self.shares.items() if share > 0.5]
        return common[0] if common else OTHER

    @property
    def is_v4(self) -> bool:
        """Whether nine in ten reads of 16S begin about where the primer 515F ends."""
        begin = next(primer.end + 1 for primer in FORWARD if primer.name == "515F")
        shares = [part.share for part in self.parts if abs(part.begin - begin) <= 2 * PRIMER_WITHIN]
        return self.gene == SSU_16S and sum(shares) >= MOSTLY

    def __str__(self) -> str:
        """Return a sentence on lengths, gene and region."""
        first, last = self.lengths
        text = f"Sequences of {first if first == last else f'{first} to {last}'} nucleotides"
        if not self.shares:
            return f"{text}, too few or too short to tell their gene."
        if self.gene == OTHER:
            return f"{text}; most are neither 16S, 18S nor ITS."
        text += f": {self.gene}"
        if self.shares[self.gene] < 1 - UNUSUAL_SHARE:
            text += f" ({self.shares[self.gene]:.0%} of the reads)"
        if self.gene == SSU_16S and len(self.parts) == 1:
            text += f", {self.parts[0]}"
        elif self.gene == SSU_16S:
            text += ", " + "; ".join(f"{part.share:.0%} {part}" for part in self.parts)
        return f"{text}."

    def oddities(self) -> Iterator[str]:
        """Yield sentences on what should be done about the sequences before they are imported."""
        left = {name: share for name, share in self.primers.items() if share > UNUSUAL_SHARE}
        if left:
            sequence_of = {primer.name: primer.sequence for primer in (*FORWARD, *REVERSE)}
            named = [f"{name} {sequence_of[name]} in {share:.0%}" for name, share in left.items()]
            yield (
                f"The reads still have a primer ({'; '.join(named)}), whose ambiguous bases make "
                "several ASVs of one: trim it before the reads are denoised, for example by "
                "cutadapt."
            )
        if self.reverse > 1 - UNUSUAL_SHARE:
            yield (
                "The reads are reverse complements: complement and reverse the sequences before "
                "they are compared with those of other studies."
            )
        elif self.reverse > UNUSUAL_SHARE:
            yield (
                f"{self.reverse:.0%} of the reads are reverse complements, so that one organism "
                "has two ASVs: complement and reverse these sequences; equal ones are then added "
                "up."
            )
        if self.gene == SSU_16S and len(self.parts) > 1:
            yield (
                f"The reads are of {len(self.parts)} parts of 16S, and an organism has other ASVs "
                "in each: cut them to the part that all have, or take a tree of whole genes "
                "(`tree: greengenes`), in which they lie together."
            )
        rest = {gene: share for gene, share in self.shares.items() if gene != self.gene}
        if self.gene != OTHER and sum(rest.values()) > UNUSUAL_SHARE:
            named = [f"{share:.0%} {gene}" for gene, share in rest.items() if gene != OTHER]
            kinds = f" ({', '.join(named)})" if named else ""
            yield (
                f"{sum(rest.values()):.0%} of the reads are unlike {self.gene}{kinds}: "
                "mitochondria of fungi or animals, other genes or artefacts. Leave them out."
            )


@dataclass(frozen=True)
class _Place:
    """Where one sequence is aligned."""

    gene: str
    text: str = ""
    """The sequence in the strand of the gene."""
    is_reversed: bool = False
    begin: int = 0
    end: int = 0


def recognize_region(sequences: Sequence[str], reads_Q: NDArray[np.number]) -> ReadRegion:
    """Return what the most abundant of some sequences are of.

    Parameters
    ----------
    sequences
        Nucleotides, at least one sequence; T or U, upper or lower case, any IUPAC letters.
    reads_Q
        Reads of each.

    Returns
    -------
    ReadRegion
        Shares are of the reads of the `TRIED` most abundant sequences that have enough bases.
    """
    lengths = [len(sequence) for sequence in sequences]
    # Reads of one length may have been cut, and then end at the site of a primer by chance.
    are_cut = len(lengths) > 1 and min(lengths) == max(lengths)
    most = np.argsort(-np.asarray(reads_Q), kind="stable")[:TRIED].tolist()
    texts = [_plain(sequences[row]) for row in most]
    places = [_place(text) if _bases(text) >= LEAST_BASES else None for text in texts]
    told = [(place, float(reads_Q[row])) for place, row in zip(places, most, strict=True) if place]
    total = sum(reads for _, reads in told)
    if total <= 0:
        return ReadRegion(lengths=(min(lengths), max(lengths)))
    shares = dict.fromkeys((SSU_16S, SSU_18S, ITS, OTHER), 0.0)
    primers = {primer.name: 0.0 for primer in (*FORWARD, *REVERSE)}
    reverse = 0.0
    for place, reads in told:
        shares[place.gene] += reads / total
        reverse += place.is_reversed * reads / total
        for name in _primers_left(place, is_cut=are_cut):
            primers[name] += reads / total
    of_16s = [(place, reads) for place, reads in told if place.gene == SSU_16S]
    return ReadRegion(
        lengths=(min(lengths), max(lengths)),
        shares={gene: share for gene, share in shares.items() if share > 0},
        parts=_parts(of_16s),
        reverse=reverse,
        primers={name: share for name, share in primers.items() if share > 0},
    )


def _plain(sequence: str) -> str:
    """Return upper-case DNA, the longer one of two reads that are joined by unknown bases."""
    return max(JOINT.split(sequence.upper().replace("U", "T")), key=len)


def _bases(text: str) -> int:
    """Return the number of bases that are known for sure."""
    return sum(map(text.count, "ACGT"))


def _place(text: str) -> _Place:
    """Return the gene and the strand that a sequence has the fewest edits to."""
    strands = (text, text.translate(COMPLEMENT)[::-1])
    aligned = [strand[:BASES_OF_LONG] if len(text) > LONGEST else strand for strand in strands]
    bases = _bases(aligned[0])
    fewest = int(MOST_EDITS * bases) - EDITS_BY_CHANCE
    best = None
    for gene in _OF_16S:
        for is_reversed, strand in enumerate(aligned):
            edits = _align(strand, gene, at_most=fewest)["editDistance"]
            if edits >= 0 and (best is None or edits < fewest):
                best = gene, bool(is_reversed)
                fewest = edits
    if best is None:
        return _Place(ITS if any(map(_has_flank, strands)) else OTHER)
    gene, is_reversed = best
    strand = strands[is_reversed]
    if _OF_16S[gene] == SSU_18S:
        return _Place(SSU_18S, strand, is_reversed)
    begin, end = _ends(aligned[is_reversed], gene, at_most=fewest)
    place_on_e_coli = _positions(gene)
    return _Place(
        SSU_16S,
        strand,
        is_reversed,
        begin=place_on_e_coli[begin],
        end=len(E_COLI) if len(text) > LONGEST else place_on_e_coli[end],
    )


def _ends(text: str, gene: str, *, at_most: int) -> tuple[int, int]:
    """Return the first and the last base of a gene that a sequence is aligned to, from 0."""
    begin, end = _align(text, gene, at_most=at_most, task="locations")["locations"][0]
    first = max(begin - TIP_MOVES, 0)
    nearby = gene[first : begin + TIP + TIP_MOVES]
    head = _align(text[:TIP], nearby, at_most=TIP_EDITS, task="locations")
    if head["editDistance"] >= 0:
        begin = min((first + at for at, _ in head["locations"]), key=lambda at: abs(at - begin))
    first = max(end + 1 - TIP - TIP_MOVES, 0)
    nearby = gene[first : end + 1 + TIP_MOVES]
    tail = _align(text[-TIP:], nearby, at_most=TIP_EDITS, task="locations")
    if tail["editDistance"] >= 0:
        end = min((first + at for _, at in tail["locations"]), key=lambda at: abs(at - end))
    return begin, end


def _align(text: str, target: str, *, at_most: int, task: str = "distance") -> dict[str, Any]:
    """Return what edlib finds of a text within a target; -1 edits where there are too many."""
    # Without ambiguous letters, edlib is four times faster if it does not know any.
    equal = _EQUAL if _bases(text) < len(text) else None
    return edlib.align(
        text, target, mode="HW", task=task, k=max(at_most, 0), additionalEqualities=equal
    )


def _has_flank(strand: str) -> bool:
    """Return whether a part of the 5.8S gene stands in a sequence."""
    return any(
        _align(flank, strand, at_most=int(FLANK_EDITS * len(flank)))["editDistance"] >= 0
        for flank in FLANKS_OF_SPACERS
    )


@cache
def _positions(gene: str) -> list[int]:
    """Return the position in E. coli of each base of a gene, by the alignment of both."""
    path = edlib.align(gene, E_COLI, mode="NW", task="path")["cigar"]
    positions = []
    position = 0
    for count, step in re.findall(r"(\d+)([=XID])", path):
        for _ in range(int(count)):
            position += step != "I"
            if step != "D":
                positions.append(max(position, 1))
    return positions


def _primers_left(place: _Place, *, is_cut: bool) -> Iterator[str]:
    """Yield the names of the primers at the ends of a sequence of 16S, at most one at each end."""
    if place.gene != SSU_16S:
        return
    if not (is_cut and place.is_reversed):
        begins = {primer: abs(place.begin - primer.begin) for primer in FORWARD}
        # A sequence that begins behind a primer may have a part that is like it by chance.
        near = [primer for primer in FORWARD if place.begin <= primer.begin + NEAR_PRIMER]
        yield from _nearest_found(place.text[: TIP + PRIMER_WITHIN], near, begins)
    if not (is_cut and not place.is_reversed):
        ends = {primer: abs(place.end - primer.end) for primer in REVERSE}
        near = [primer for primer in REVERSE if place.end >= primer.end - NEAR_PRIMER]
        yield from _nearest_found(place.text[-TIP - PRIMER_WITHIN :], near, ends)


def _nearest_found(
    text: str, primers: Sequence[Primer], distances: Mapping[Primer, int]
) -> list[str]:
    """Return the name of the primer of the fewest edits that is found in a text, if there is one.

    The nearest of equals is taken.
    """
    found = []
    for primer in primers:
        letters = primer.sequence
        if primer in REVERSE:
            letters = letters.translate(COMPLEMENT)[::-1]
        edits = _align(letters, text, at_most=PRIMER_EDITS)["editDistance"]
        if edits >= 0:
            found.append((edits, distances[primer], primer.name))
    return [min(found)[-1]] if found else []


def _parts(placed: Sequence[tuple[_Place, float]]) -> tuple[GenePart, ...]:
    """Return the parts of the gene that sequences of 16S begin and end in."""
    parts: list[GenePart] = []
    if not placed:
        return ()
    total = sum(reads for _, reads in placed)
    for same_begin in _divide([(place.begin, (place, reads)) for place, reads in placed]):
        for same in _divide([(place.end, (place, reads)) for place, reads in same_begin]):
            reads = [reads for _, reads in same]
            if sum(reads) >= UNUSUAL_SHARE * total:
                begin = _weighted_median([place.begin for place, _ in same], reads)
                end = _weighted_median([place.end for place, _ in same], reads)
                behind = {primer.name: abs(begin - primer.end - 1) for primer in FORWARD}
                before = {primer.name: abs(end - primer.begin + 1) for primer in REVERSE}
                primers = _nearest_name(behind), _nearest_name(before)
                parts.append(GenePart(begin, end, sum(reads) / total, primers))
    return tuple(sorted(parts, key=lambda part: -part.share))


def _nearest_name(distances: Mapping[str, int]) -> str:
    """Return the name of the nearest primer; empty where none is near enough."""
    nearest = min(distances, key=lambda name: distances[name])
    return nearest if distances[nearest] <= NEAR_PRIMER else ""


def _divide(
    placed: Iterable[tuple[int, tuple[_Place, float]]],
) -> Iterator[list[tuple[_Place, float]]]:
    """Yield groups whose positions lie at most `GAP` bases from the next one of their group."""
    group: list[tuple[_Place, float]] = []
    last = 0
    for position, item in sorted(placed, key=lambda pair: pair[0]):
        if group and position - last > GAP:
            yield group
            group = []
        group.append(item)
        last = position
    yield group


def _weighted_median(values: Sequence[int], weights: Sequence[float]) -> int:
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(np.asarray(weights)[order])
    return int(np.asarray(values)[order][np.searchsorted(cumulated, cumulated[-1] / 2)])
