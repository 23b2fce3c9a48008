"""How often a piece of a gene gets the right name, with its gene or its whole genus left out.

    aam reference get greengenes
    python -m benchmarks.naming

Genes are cut to V4 and V3-V4 at their primers. One gene each of 400 genera is left out of the
reference, and all genes of 240 other genera, whose families have more. Then no name is the right
genus. One half of the genera shows which limits would be best there, and the table has the other
half, with the limits of `aam.reference_tree.names`.

Rivals: the nearest sequence; what all of the equally near ones agree in; what 51 % of the ten
first of vsearch agree in, at an identity of 0.8 and of 0.97, as q2-feature-classifier has it
(Bokulich et al. 2018, doi:10.1186/s40168-018-0470-z): vsearch must be on the path. F is the F
measure over both kinds of pieces.
"""

import itertools
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from aam.data.sequences import write_fasta
from aam.reference_tree.names import FARTHEST, LEAST_SHARE, name_sequences
from aam.reference_tree.search import MOST_EDITS
from aam.util.seeds import generator
from benchmarks.placing import Greengenes, find_hits
from benchmarks.regions import cut_gene

REGIONS = ("V4", "V3-V4")
GENERA_WITH_GENE_OUT = 400
GENERA_OUT = 240
PIECES_OF_GENUS = 2
FIRST_HITS = 10
SHARES = (0.51, 0.66, 0.8)
GENUS_LIMITS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12)
FAMILY_LIMITS = (0.08, 0.1, 0.12, 0.15, 0.18, 0.21, MOST_EDITS)
"""The last is the farthest that a hit can be."""
LEVELS = {"family": 5, "genus": 6}
"""Ranks by name: how many a lineage has down to them."""
VSEARCH = (
    "vsearch --id 0.7 --maxaccepts 48 --maxrejects 48 --strand plus --qmask none --dbmask none "
    "--threads 2 --quiet --userfields query+target+mism+gaps+alnlen"
)
Rule = Callable[[pd.DataFrame], tuple[str, ...]]
Hits = dict[tuple[bool, str], pd.DataFrame]
"""What is near each piece, by whether its genus is left out, and its sequence."""


def main() -> None:
    """Print which limits are best on the first half, and the table of the second."""
    greengenes = Greengenes.open()
    pieces = draw_pieces(greengenes)
    hits = find_all_hits(pieces, greengenes, find_hits)
    further = find_all_hits(pieces, greengenes, find_by_vsearch)
    half = pieces["genus"].map(lambda genus: generator("half of names", genus).integers(2))
    scores = []
    for share, genus, family in itertools.product(SHARES, GENUS_LIMITS, FAMILY_LIMITS):
        rule = our_rule(greengenes, share, genus, family)
        row = measure(rule, pieces[half == 0], hits, greengenes)
        total = row["F, family"] + row["F, genus"]
        scores.append((total, share, genus, family))
    print(pd.DataFrame(sorted(scores)[-8:], columns=["F", "share", "genus", "family"]))
    ours = our_rule(greengenes, LEAST_SHARE, FARTHEST["g"], MOST_EDITS)
    rules: dict[str, tuple[Rule, Hits]] = {
        "two thirds of equals": (ours, hits),
        "nearest": (lambda found: agree(found, greengenes, 1, np.inf, 1.0), hits),
        "all equals": (lambda found: agree(found, greengenes, None, 0.0, 1.0), hits),
        "0.51 of ten at 0.8": (
            lambda found: agree(found, greengenes, FIRST_HITS, 0.2, 0.51),
            further,
        ),
        "0.51 of ten at 0.97": (
            lambda found: agree(found, greengenes, FIRST_HITS, 0.03, 0.51),
            further,
        ),
    }
    rows = []
    for region in REGIONS:
        part = pieces[(half == 1) & (pieces["region"] == region)]
        rows += [
            {"region": region, "rule": title, **measure(rule, part, near, greengenes)}
            for title, (rule, near) in rules.items()
        ]
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".2f"))


def ranks(lineage: str) -> tuple[str, ...]:
    """Return the ranks of a lineage of Greengenes; those without a name are empty."""
    parts = [part.strip() for part in lineage.split(";")]
    return tuple("" if part.endswith("__") else part for part in parts)


def draw_pieces(greengenes: Greengenes) -> pd.DataFrame:
    """Return a row per piece: `gene`, `genus`, `region`, `sequence`, and `is_genus_out`."""
    genera: dict[str, list[str]] = {}
    for name, row in greengenes.row_of.items():
        lineage = ranks(greengenes.lineages[row])
        if lineage[4] and lineage[5] and "[" not in lineage[5]:
            genera.setdefault("; ".join(lineage[:6]), []).append(name)
    left = pd.Series([genus.rpartition(";")[0] for genus in genera]).value_counts().to_dict()
    order = generator("naming").permutation(sorted(genera)).tolist()
    genera_out: list[str] = []
    for genus in order:
        family = genus.rpartition(";")[0]
        # A genus of the family stays, so that its name can be found.
        if left[family] > 1 and len(genera_out) < GENERA_OUT:
            genera_out.append(genus)
            left[family] -= 1
    others = [genus for genus in order if genus not in set(genera_out) and len(genera[genus]) > 1]
    rows = []
    for genus in (*genera_out, *others[:GENERA_WITH_GENE_OUT]):
        is_out = genus in set(genera_out)
        genes = generator("naming", genus).permutation(sorted(genera[genus]))
        for gene in genes[: PIECES_OF_GENUS if is_out else 1].tolist():
            for region in REGIONS:
                piece = cut_gene(greengenes.search.text(greengenes.row_of[gene]), region)
                if piece is not None:
                    rows.append((gene, genus, region, piece, is_out))
    columns = ["gene", "genus", "region", "sequence", "is_genus_out"]
    return pd.DataFrame(rows, columns=columns)


def find_all_hits(
    pieces: pd.DataFrame, greengenes: Greengenes, find: Callable[..., pd.DataFrame]
) -> Hits:
    """Return what `find`, a function like `benchmarks.placing.find_hits`, has near each piece."""
    hits: Hits = {}
    for is_out, part in pieces.groupby("is_genus_out"):
        left_out = set(part["gene"])
        if is_out:
            genera = set(part["genus"])
            left_out = {
                name
                for name, row in greengenes.row_of.items()
                if "; ".join(ranks(greengenes.lineages[row])[:6]) in genera
            }
        sequences = part["sequence"].drop_duplicates().tolist()
        found = find(sequences, greengenes, left_out)
        hits |= {(bool(is_out), str(query)): rows for query, rows in found.groupby("query")}
    return hits


def find_by_vsearch(
    sequences: Sequence[str], greengenes: Greengenes, left_out: Collection[str]
) -> pd.DataFrame:
    """Return what vsearch has near some sequences: see `benchmarks.placing.find_hits`.

    The rules of others count hits that are farther away than those which the package looks for.
    """
    with tempfile.TemporaryDirectory() as folder:
        queries, known, found = (Path(folder, name) for name in ("queries", "known", "found"))
        # A dash stands for bases that are not known, and vsearch takes none.
        texts = [text.replace("-", "N") for text in sequences]
        write_fasta(queries, {str(number): text for number, text in enumerate(texts)})
        genes = {
            name: greengenes.search.text(row).replace("-", "N")
            for name, row in greengenes.row_of.items()
            if name not in left_out
        }
        write_fasta(known, genes)
        command = [*VSEARCH.split(), "--db", str(known)]
        command += ["--usearch_global", str(queries), "--userout", str(found)]
        subprocess.run(command, check=True)
        columns = ["number", "target", "mismatches", "gaps", "length"]
        hits = pd.read_csv(found, sep="\t", names=columns, dtype={"target": str})
    hits["row"] = hits["target"].map(greengenes.row_of)
    hits["distance"] = (hits["mismatches"] + hits["gaps"]) / hits["length"]
    hits["query"] = [sequences[number] for number in hits["number"].tolist()]
    return hits.sort_values(["number", "row"])[["query", "row", "distance"]]


def our_rule(greengenes: Greengenes, share: float, genus: float, family: float) -> Rule:
    """Return the rule of the package, with some limits."""

    def rule(found: pd.DataFrame) -> tuple[str, ...]:
        name = name_sequences(
            greengenes.lineages,
            np.array([0, len(found)]),
            found["row"].to_numpy(),
            found["distance"].to_numpy(),
            least_share=share,
            farthest={"f": family, "g": genus, "s": genus},
        )[0]
        return ranks(name.taxon)

    return rule


def agree(
    found: pd.DataFrame, greengenes: Greengenes, most: int | None, reach: float, share: float
) -> tuple[str, ...]:
    """Return what a share of the nearest agree in.

    Parameters
    ----------
    found
        What is near a piece.
    greengenes
        The reference.
    most
        How many of the nearest count; None: all.
    reach
        Largest distance, from the nearest where all count.
    share
        Fraction that has to agree.
    """
    ordered = found.sort_values("distance", kind="stable")
    start = float(ordered["distance"].iloc[0]) if most is None else 0.0
    counted = ordered[ordered["distance"] <= start + reach + 1e-9].iloc[:most]
    lineages = [ranks(greengenes.lineages[row]) for row in counted["row"]]
    named: tuple[str, ...] = ()
    for depth in range(1, 8):
        if not lineages:
            break
        best, count = Counter(lineage[:depth] for lineage in lineages).most_common(1)[0]
        if count < share * len(lineages) - 1e-9 or not best[-1]:
            break
        named = best
    return named


def measure(
    rule: Rule,
    pieces: pd.DataFrame,
    hits: Hits,
    greengenes: Greengenes,
) -> dict[str, float]:
    """Return how many pieces get a name, how many of these the right one, and the F measures."""
    rows = []
    columns = (pieces["gene"], pieces["sequence"], pieces["is_genus_out"])
    for gene, sequence, is_genus_out in zip(*columns, strict=True):
        found = hits.get((bool(is_genus_out), sequence))
        named = () if found is None else rule(found)
        truth = ranks(greengenes.lineages[greengenes.row_of[gene]])
        row: dict[str, object] = {"is_genus_out": is_genus_out}
        for level, depth in LEVELS.items():
            row[f"named {level}"] = len(named) >= depth and bool(named[depth - 1])
            row[f"right {level}"] = row[f"named {level}"] and named[:depth] == truth[:depth]
        rows.append(row)
    table = pd.DataFrame(rows)
    with_genus = table[~table["is_genus_out"]]
    without_genus = table[table["is_genus_out"]]
    return {
        "gene out: genus named": with_genus["named genus"].mean(),
        "right": ratio(with_genus, "genus"),
        "family named": with_genus["named family"].mean(),
        "right ": ratio(with_genus, "family"),
        "genus out: wrong genus": without_genus["named genus"].mean(),
        "family named ": without_genus["named family"].mean(),
        "right  ": ratio(without_genus, "family"),
        "F, family": f_measure(table, "family", len(table)),
        "F, genus": f_measure(table, "genus", len(with_genus)),
    }


def ratio(table: pd.DataFrame, level: str) -> float:
    """Return the fraction of right ones of the names of a level."""
    return float(table[f"right {level}"].sum() / max(table[f"named {level}"].sum(), 1))


def f_measure(table: pd.DataFrame, level: str, nameable: int) -> float:
    """Return the harmonic mean of precision and recall of the names of a level."""
    right = table[f"right {level}"].sum()
    return float(2 * right / max(table[f"named {level}"].sum() + nameable, 1))


if __name__ == "__main__":
    main()
