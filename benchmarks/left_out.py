"""How near distances on a reference tree come to those on a tree that has every ASV.

`python -m benchmarks.left_out corpus ../shared/data TABLE` leaves each study of the corpus out of
the reference in turn, places its ASVs in the tree of the others, and compares with the tree of all,
which is one joint tree: the study's own ASVs had a part in it.
`python -m benchmarks.left_out own ../shared/data TABLE` compares the reference that comes with the
package with the tree that each of three studies brings, and with one that MAFFT and FastTree make.

`python -m benchmarks.left_out development ../shared/data TABLE` compares the reference with trees
that MAFFT and FastTree make of two studies that settings may be chosen on. `--second NEWICK` names
another tree of the known ASVs.

Rivals know no tree, or nothing of ASVs that the reference lacks. Of a study at most `SAMPLES` are
drawn.

Shape suffixes: N samples, F features.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform
from threadpoolctl import threadpool_limits

from aam.config.references import REFERENCES, TREE
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.data.tree_building import build_tree
from aam.data.trees import find_branches
from aam.distances.in_batch import BatchDistances
from aam.reference_tree.tree import ReferenceTree, place_reads, place_sequences
from aam.util.atomic import write_tsv
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

SAMPLES = 200
DEPTH = 1000
METRICS = ("unweighted", "weighted_normalized", "generalized")
ALPHA = 0.5
DEVELOPMENT = ("westernization", "mackerel")
DEVELOPMENT_SAMPLES = 100
"""Studies of the corpus that a reference may be chosen by, and how many samples of each."""
OWN = {"moving-pictures": "moving pictures", "ecam": "infant guts", "oral": "oral"}
"""Studies with trees of their own, which nothing of the reference was chosen by."""

Distances = Mapping[str, NDArray[np.float64]]


def distances(
    table: FeatureTable, tree: TreeNode, is_kept_F: NDArray[np.bool_] | None = None
) -> Distances:
    """Return the distances [N, N] of some metrics, of all features or of some of them.

    Samples without any of these features have no distances: not a number.
    """
    above_FE, length_E = find_branches(tree, table.feature_ids)
    counts = table.counts.astype(np.float64)
    if is_kept_F is not None:
        counts = csr_array(counts.multiply(is_kept_F[None, :]).tocsr())
        counts.eliminate_zeros()
    measure = BatchDistances(METRICS, ALPHA, above_FE.astype(np.float64), length_E)
    with np.errstate(invalid="ignore", divide="ignore"):
        return measure(counts)


def without_tree(table: FeatureTable) -> Distances:
    """Return distances that need no tree, [N, N]."""
    dense = table.counts.toarray()
    return {
        "Jaccard": squareform(pdist(dense > 0, "jaccard")),
        "Bray-Curtis": squareform(pdist(dense.astype(np.float64), "braycurtis")),
    }


def agreement(one_NN: NDArray[np.float64], other_NN: NDArray[np.float64]) -> tuple[float, float]:
    """Return Pearson's r of the pairs that both have, and the mean absolute difference."""
    above = np.triu_indices(len(one_NN), 1)
    one = one_NN[above]
    other = other_NN[above]
    is_known = np.isfinite(one) & np.isfinite(other)
    r = float(np.corrcoef(one[is_known], other[is_known])[0, 1])
    return r, float(np.abs(one - other)[is_known].mean())


def compare(
    table: FeatureTable, truth: TreeNode, reference: ReferenceTree, sequences: Mapping[str, str]
) -> dict[str, float]:
    """Return how distances on a reference, and its rivals, agree with those on another tree."""
    reads_F = np.asarray(table.counts.sum(axis=0)).ravel()
    texts = {name: sequences[name] for name in table.feature_ids}
    placement, near = place_reads(reference, texts, reads_F)
    is_new_F = placement.nearest.differences_Q > 0
    placed = placement.to_tree()
    expected = distances(table, truth)
    distances_by_metric = distances(table, placed)
    row: dict[str, float] = {
        "samples": len(table.sample_ids),
        "ASVs": len(table.feature_ids),
        "new ASVs": float(is_new_F.mean()),
        "new reads": float(reads_F[is_new_F].sum() / reads_F.sum()),
        "near reads": near,
    }
    for metric in METRICS:
        row[f"{metric}: r"], row[f"{metric}: error"] = agreement(
            distances_by_metric[metric], expected[metric]
        )
    known_asvs_alone = distances(table, placed, ~is_new_F)
    rivals = {"known ASVs alone": known_asvs_alone["unweighted"], **without_tree(table)}
    for name, matrix in rivals.items():
        row[f"unweighted, {name}: r"] = agreement(matrix, expected["unweighted"])[0]
    row["weighted_normalized, Bray-Curtis: r"] = agreement(
        rivals["Bray-Curtis"], expected["weighted_normalized"]
    )[0]
    new = distances(table, placed, is_new_F)["unweighted"]
    new_expected = distances(table, truth, is_new_F)["unweighted"]
    row["unweighted, new ASVs alone: r"] = agreement(new, new_expected)[0]
    return row


def draw_samples(table: FeatureTable, rows: NDArray[np.intp], seed: str) -> FeatureTable:
    """Return at most `SAMPLES` of some samples."""
    chosen = generator("left out", seed).permutation(rows)[:SAMPLES]
    return table.select_samples(np.sort(chosen))


def corpus_rows(data: Path) -> pd.DataFrame:
    """Return a row for each study of the corpus, left out of the reference."""
    folder = data / "corpus"
    table = load_table(folder / "table.biom")
    metadata = pd.read_csv(folder / "metadata.tsv", sep="\t", dtype=str).set_index("sample-id")
    study_N = metadata.loc[table.sample_ids, "study"].to_numpy()
    reference = ReferenceTree.read(REFERENCES["v4"] / TREE)
    names = reference.sequences()
    rows = []
    for study in np.unique(study_N):
        others = set(table.select_samples(np.flatnonzero(study_N != study)).feature_ids)
        is_left_out = np.array([name not in others for name in names])
        part = draw_samples(table, np.flatnonzero(study_N == study), study)
        sequences = {name: name for name in part.feature_ids}
        truth = place_sequences(reference, sequences).to_tree()
        row = compare(part, truth, reference.without(is_left_out), sequences)
        rows.append({"study": study, **row})
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def development_rows(data: Path, second: Path | None) -> pd.DataFrame:
    """Return a row for each development study: the reference against a tree of MAFFT and FastTree.

    The study's ASVs are known to the reference. `second` is the file of another tree of the known
    ASVs, which is compared in the same way.
    """
    table = load_table(data / "corpus/table.biom")
    trees = {"v4": ReferenceTree.read(REFERENCES["v4"] / TREE)}
    if second is not None:
        rooted = load_tree(second, is_rooted=False).root_at_midpoint()
        trees["second"] = ReferenceTree.from_tree(rooted, trees["v4"].length_bp)
    rows = []
    for study in DEVELOPMENT:
        is_study = [name.startswith(f"{study}.") for name in table.sample_ids]
        part = draw_samples(table, np.flatnonzero(is_study)[:DEVELOPMENT_SAMPLES], study)
        sequences = {name: name for name in part.feature_ids}
        expected = distances(part, build_tree(sequences, 2, None))
        row: dict[str, float | str] = {"study": study}
        for name, tree in trees.items():
            distances_by_metric = distances(part, place_sequences(tree, sequences).to_tree())
            for metric in METRICS:
                row[f"{metric}, {name}: r"] = agreement(
                    distances_by_metric[metric], expected[metric]
                )[0]
        rows.append(row)
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def own_rows(data: Path, second: Path | None) -> pd.DataFrame:
    """Return two rows for each study with a tree of its own: the reference, and a made tree.

    `second` is the file of another tree of the known ASVs, rooted at its midpoint here; the mean of
    the distances on both is compared, too.
    """
    reference = ReferenceTree.read(REFERENCES["v4"] / TREE)
    other = None
    if second is not None:
        tree = load_tree(second, is_rooted=False).root_at_midpoint()
        other = ReferenceTree.from_tree(tree, reference.length_bp)
    rows: list[dict[str, float | str]] = []
    row: dict[str, float | str]
    for folder, title in OWN.items():
        path = data / folder / "tree.nwk"
        table = load_table(data / folder / "table.biom")
        deep = rarefy(table, DEPTH, 0, 0)
        part = draw_samples(deep, np.arange(len(deep.sample_ids)), folder)
        truth = cut_tree(load_tree(path), part.feature_ids, path)
        sequences = {name: name for name in part.feature_ids}
        reads_F = np.asarray(part.counts.sum(axis=0)).ravel()
        row = {"study": title, **compare(part, truth, reference, sequences)}
        on_reference = distances(part, place_reads(reference, sequences, reads_F)[0].to_tree())
        if other is not None:
            expected = distances(part, truth)
            on_other = distances(part, place_reads(other, sequences, reads_F)[0].to_tree())
            for metric in METRICS:
                mean = (on_reference[metric] + on_other[metric]) / 2
                row[f"{metric}, second tree: r"] = agreement(on_other[metric], expected[metric])[0]
                row[f"{metric}, mean of both: r"] = agreement(mean, expected[metric])[0]
        rows.append(row)
        print(rows[-1], flush=True)
        made = distances(part, build_tree(sequences, 2, None))
        expected = distances(part, truth)
        row = {"study": f"{title}, tree of MAFFT and FastTree"}
        for metric in METRICS:
            r, error = agreement(made[metric], expected[metric])
            row |= {f"{metric}: r": r, f"{metric}: error": error}
            row[f"{metric}, to the reference: r"] = agreement(made[metric], on_reference[metric])[0]
        rows.append(row)
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table of one comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("what", choices=["corpus", "own", "development"])
    parser.add_argument("data", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--second", type=Path, help="another tree of the known ASVs")
    given = parser.parse_args(arguments)
    with threadpool_limits(2):
        if given.what == "corpus":
            table = corpus_rows(given.data)
        elif given.what == "own":
            table = own_rows(given.data, given.second)
        else:
            table = development_rows(given.data, given.second)
    write_tsv(given.table, table)
    print(table.drop(columns="study").mean(numeric_only=True).round(4).to_string())


if __name__ == "__main__":
    main()
