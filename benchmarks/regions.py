"""What distances and predictions keep when the same samples are read in another region.

    aam reference get greengenes
    python -m benchmarks.regions ../shared/data

Each ASV of a study becomes the full-length gene that it lies next to, so that samples have genes in
the amounts of real ones. The genes are cut to three regions at their primers, their own sequences
are left out of the reference, and the pieces are placed next to what remains: V4, V3-V4 and V1-V2
of the same samples.

The first table has r of UniFrac between samples, of two regions, and of a region and the genes
themselves. The second has the mean absolute error of kernel ridge regression on UniFrac for
subjects that are left out, trained in one region and asked in another.

Shape suffixes: N samples, F features.
"""

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path

import edlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GroupKFold

from aam.data.importing.table import load_table
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.reference_tree.equals import choose_among_equals
from aam.reference_tree.tree import PER_DIFFERENCE
from benchmarks.placing import (
    DEPTH,
    Greengenes,
    correlate,
    distances,
    draw_samples,
    find_hits,
)

PRIMERS = {
    "V4": ("GTGYCAGCMGCCGCGGTAA", "ATTAGAWACCCBNGTAGTCC", (200, 300)),
    "V3-V4": ("CCTACGGGNGGCWGCAG", "GGATTAGATACCCBDGTAGTC", (360, 480)),
    "V1-V2": ("", "ACTCCTACGGGAGGCAGCA", (230, 400)),
}
"""Forward primer, the reverse complement of the reverse primer, and the lengths of pieces. Genes of
Greengenes begin behind 27F or within it."""
MOST_EDITS = 3
"""Edits of a primer."""
BASES_OF_LETTER = {"R": "AG", "Y": "CT", "M": "AC", "W": "AT", "B": "CGT", "D": "AGT", "N": "ACGT"}
EQUALITIES = [(letter, base) for letter, bases in BASES_OF_LETTER.items() for base in bases]
SAMPLES = 200
LABELS = {"ecam": ("day_of_life", "host_subject_id"), "oral": ("host_age", None)}
"""Column that is predicted, and the column whose values are kept together; none: each sample."""
FOLDS = 5
RIDGE = 0.1


def main(data: Path) -> None:
    """Print the tables.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    agreements = []
    scores = []
    greengenes = Greengenes.open()
    for study in LABELS:
        table = rarefy(load_table(data / study / "table.biom"), DEPTH, 0, 0)
        labelled = select_labelled(table, read_labels(study, data))
        genes, row_F, pieces = simulate(draw_samples(labelled, study, SAMPLES), greengenes)
        regions = place_pieces(genes, pieces, greengenes)
        found = joint_distances(genes, row_F, regions, greengenes)
        agreements += agreement_rows(study, found)
        scores += score_rows(study, found, genes.sample_ids, read_labels(study, data))
    print(pd.DataFrame(agreements).to_markdown(index=False, floatfmt=".3f"))
    print(pd.DataFrame(scores).to_markdown(index=False, floatfmt=".2f"))


def cut_gene(gene: str, region: str) -> str | None:
    """Return the part of a gene between two primers; None where it has them not.

    Parameters
    ----------
    gene
        The whole gene.
    region
        A key of `PRIMERS`.
    """
    forward, reverse, (least, most) = PRIMERS[region]
    begin = 0
    if forward:
        site = _find(forward, gene)
        if site is None:
            return None
        begin = site[1] + 1
    site = _find(reverse, gene)
    if site is None:
        return None
    piece = gene[begin : site[0]]
    return piece if least <= len(piece) <= most else None


def _find(primer: str, gene: str) -> tuple[int, int] | None:
    """Return the first and last base of a primer in a gene."""
    found = edlib.align(
        primer, gene, mode="HW", task="locations", k=MOST_EDITS, additionalEqualities=EQUALITIES
    )
    return found["locations"][0] if found["editDistance"] >= 0 else None


def read_labels(study: str, data: Path) -> pd.DataFrame:
    """Return columns `label` and `group` by sample ID."""
    column, group = LABELS[study]
    metadata = pd.read_csv(data / study / "metadata.tsv", sep="\t", index_col=0, dtype=str)
    labels = pd.DataFrame({"label": pd.to_numeric(metadata[column], errors="coerce")})
    labels["group"] = metadata.index if group is None else metadata[group]
    return labels.dropna()


def select_labelled(table: FeatureTable, labels: pd.DataFrame) -> FeatureTable:
    """Return the samples that have a label."""
    is_labelled = [name in labels.index for name in table.sample_ids]
    return table.select_samples(np.flatnonzero(is_labelled))


def simulate(
    table: FeatureTable, greengenes: Greengenes
) -> tuple[FeatureTable, NDArray[np.int64], Mapping[str, list[str]]]:
    """Turn ASVs into genes.

    Parameters
    ----------
    table
        A study.
    greengenes
        The reference.

    Returns
    -------
    genes : FeatureTable
        The same samples; genes that cannot be cut to all regions are left out.
    row_F : numpy.ndarray
        Number of each gene in the reference.
    pieces : Mapping
        By region the piece of each gene.
    """
    hits = find_hits(table.feature_ids, greengenes)
    row_Q = nearest_rows(table.feature_ids, hits, greengenes)
    names = [*greengenes.row_of]
    pieces: dict[int, list[str]] = {}
    for row in np.unique(row_Q[row_Q >= 0]).tolist():
        cut = [cut_gene(greengenes.search.text(row), region) for region in PRIMERS]
        whole = [piece for piece in cut if piece is not None]
        if len(whole) == len(PRIMERS):
            pieces[row] = whole
    rows = sorted(pieces)
    column_of = {row: column for column, row in enumerate(rows)}
    kept = np.array([row in pieces for row in row_Q.tolist()])
    columns = [column_of[row] for row in row_Q[kept].tolist()]
    joined = csr_array(
        (np.ones(kept.sum(), np.int64), (np.flatnonzero(kept), columns)),
        shape=(len(row_Q), len(rows)),
    )
    counts = csr_array(table.counts @ joined)
    counts.sort_indices()
    genes = FeatureTable(table.sample_ids, [names[row] for row in rows], counts, table.facts)
    by_region = {
        region: [pieces[row][number] for row in rows] for number, region in enumerate(PRIMERS)
    }
    return genes, np.array(rows), by_region


def nearest_rows(
    sequences: list[str], hits: pd.DataFrame, greengenes: Greengenes
) -> NDArray[np.int64]:
    """Return the known sequence that each sequence lies next to, -1 where none is near."""
    count_Q = hits["query"].value_counts().reindex(sequences).fillna(0).astype(int).to_numpy()
    offset_Q = np.cumsum([0, *count_Q])
    row_H = hits["row"].to_numpy()
    return choose_among_equals(greengenes.paths, offset_Q, row_H, hits["distance"].to_numpy())


def place_pieces(
    genes: FeatureTable, pieces: Mapping[str, list[str]], greengenes: Greengenes
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return by region the known sequence next to each gene's piece, and the branch's length.

    The genes themselves are left out of the reference.
    """
    regions = {}
    for region, texts in pieces.items():
        sequences = list(dict.fromkeys(texts))
        hits = find_hits(sequences, greengenes, set(genes.feature_ids))
        rows = nearest_rows(sequences, hits, greengenes)
        least = hits.groupby("query")["distance"].min().reindex(sequences).to_numpy()
        number = {text: position for position, text in enumerate(sequences)}
        column_F = np.array([number[text] for text in texts])
        regions[region] = (rows[column_F], PER_DIFFERENCE * least[column_F])
    return regions


def joint_distances(
    genes: FeatureTable,
    row_F: NDArray[np.int64],
    regions: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]],
    greengenes: Greengenes,
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return distances by metric of all samples in all regions, and by `genes` the true ones.

    Returns
    -------
    dict
        Keys `genes` [N, N] and `regions` [R N, R N], the samples of one region behind another's.
    """
    tree = greengenes.tree.tree_of(genes.feature_ids, row_F, np.zeros(len(row_F)))
    truth = distances(genes, tree)
    is_placed_F = np.all([rows >= 0 for rows, _ in regions.values()], axis=0)
    kept = np.flatnonzero(is_placed_F)
    names = []
    rows = []
    lengths = []
    blocks = []
    for region, (row, length) in regions.items():
        names += [f"{region} {genes.feature_ids[column]}" for column in kept]
        rows.append(row[kept])
        lengths.append(length[kept])
        block = csr_array(genes.counts[:, kept])
        blocks.append(block)
    count = len(kept)
    data = np.concatenate([block.data for block in blocks])
    columns = np.concatenate(
        [block.indices + number * count for number, block in enumerate(blocks)]
    )
    indptr = np.concatenate(
        [[0], *(block.indptr[1:] + number * blocks[0].nnz for number, block in enumerate(blocks))]
    )
    counts = csr_array((data, columns, indptr), shape=(len(indptr) - 1, len(names)))
    samples = [f"{region} {name}" for region in regions for name in genes.sample_ids]
    joint = FeatureTable(samples, names, counts, genes.facts)
    placed = greengenes.tree.tree_of(names, np.concatenate(rows), np.concatenate(lengths))
    return {"genes": truth, "regions": distances(joint, placed)}


def block_of(matrix: NDArray[np.float64], one: int, other: int) -> NDArray[np.float64]:
    """Return the distances of the samples in one region to those in another."""
    count = len(matrix) // len(PRIMERS)
    return matrix[one * count : (one + 1) * count, other * count : (other + 1) * count]


def agreement_rows(
    study: str, found: Mapping[str, Mapping[str, NDArray[np.float64]]]
) -> list[dict[str, object]]:
    """Return a row for each two regions, and for each region and the genes."""
    rows = []
    for metric, matrix in found["regions"].items():
        own = {region: block_of(matrix, i, i) for i, region in enumerate(PRIMERS)}
        row: dict[str, object] = {"study": study, "metric": metric}
        for one, other in itertools.combinations(PRIMERS, 2):
            row[f"{one}, {other}"] = correlate(own[one], own[other])
        for region in PRIMERS:
            row[f"{region}, genes"] = correlate(own[region], found["genes"][metric])
        rows.append(row)
    return rows


def score_rows(
    study: str,
    found: Mapping[str, Mapping[str, NDArray[np.float64]]],
    sample_ids: list[str],
    labels: pd.DataFrame,
) -> list[dict[str, object]]:
    """Return the mean absolute errors by metric and region of training, for each region asked."""
    target_N = labels.loc[sample_ids, "label"].to_numpy(float)
    group_N = labels.loc[sample_ids, "group"].to_numpy()
    folds = [*GroupKFold(FOLDS).split(target_N, groups=group_N)]
    rows = []
    for metric in ("unweighted", "weighted_normalized"):
        matrix = found["regions"][metric]
        for one, trained in enumerate(PRIMERS):
            row: dict[str, object] = {"study": study, "metric": metric, "trained on": trained}
            own = block_of(matrix, one, one)
            scale = np.median(own[own > 0])
            for other, asked in enumerate(PRIMERS):
                across = block_of(matrix, other, one)
                errors = []
                for train, test in folds:
                    model = KernelRidge(alpha=RIDGE, kernel="precomputed")
                    mean = target_N[train].mean()
                    kernel = np.exp(-own[np.ix_(train, train)] / scale)
                    model.fit(kernel, target_N[train] - mean)
                    asked_kernel = np.exp(-across[np.ix_(test, train)] / scale)
                    predicted = model.predict(asked_kernel) + mean
                    errors.append(np.abs(predicted - target_N[test]))
                row[asked] = float(np.concatenate(errors).mean())
            row["mean of labels"] = float(np.abs(target_N - target_N.mean()).mean())
            rows.append(row)
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]))
