"""Where networks begin to pay: half-synthetic labels of real human guts, from few to thousands.

    python -m benchmarks.label_curve ../shared/data FOLDER [--samples 500 2000]
    (cd FOLDER && aam run config.yaml)
    python -m benchmarks.leaderboard networks FOLDER/results FOLDER/networks.tsv

The first command writes the human guts of the corpus and four labels of each sample, each half of
which, by variance, is noise:

- tips: whether each of ten ASVs is there;
- depth: the log-shares of ten clades with a tenth to four tenths of the ASVs each, or of fewer, as
  none lies within another;
- abundances: the log-shares of twenty ASVs, each with a sign that is drawn;
- motif: the log-share of the reads that have some six nucleotides anywhere. Among `MOTIFS` that are
  drawn it is the one whose ASVs lie most scattered on the tree.

Of each label some samples have a value: the first so many in a random order, so that fewer are part
of more. Guessing is off by 0.80 then, and what knows the signal by 0.56.

Shape suffixes: N samples, F features, B nodes of the tree.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from aam.data.importing.table import load_table, without_empty
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.table import FeatureTable, write_biom
from aam.data.trees import read_tree, write_newick
from aam.evaluate.clade_tests import Clades
from aam.util.seeds import generator
from benchmarks.false_clades import plant

DEPTH = 1000
SIZES = (500, 2000)
PLANTED = {"tips": "presence", "depth": "large clades", "abundances": "ratios"}
"""Kind of what `benchmarks.false_clades.plant` plants, by signal."""
SIGNALS = 10
STRENGTH = 0.5
"""Fraction of a label's variance that the signal makes."""
MOTIFS = 100
MOTIF_BP = 6
SHARES = (0.1, 0.5)
"""Bounds of the mean share of the reads that have the motif."""


def prepare(data: Path, folder: Path, sizes: Sequence[int]) -> None:
    """Write the study, its labels and the configuration of all tasks.

    Parameters
    ----------
    data
        Folder of the studies, with the corpus.
    folder
        Folder to write.
    sizes
        Numbers of labelled samples.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = read_guts(data)
    path = data / "corpus/tree.nwk"
    write_biom(folder / "table.biom", table, {})
    write_newick(folder / "tree.nwk", cut_tree(load_tree(path), table.feature_ids, path))
    tree = read_tree(folder / "tree.nwk", table.feature_ids)
    clades = Clades.of_table(table.counts, table.feature_ids, tree)
    rng = generator("label_curve")
    signals = {name: plant(clades, kind, rng, signals=SIGNALS)[0] for name, kind in PLANTED.items()}
    signals["motif"] = plant_motif(table, clades, rng)
    order = rng.permutation(len(table.sample_ids))
    metadata = pd.DataFrame(index=pd.Index(table.sample_ids, name="sample-id"))
    for name, signal_N in signals.items():
        noise_N = rng.normal(size=len(signal_N))
        label_N = np.sqrt(STRENGTH) * signal_N + np.sqrt(1 - STRENGTH) * noise_N
        for size in sizes:
            has_label_N = np.isin(np.arange(len(order)), order[:size])
            metadata[f"{name}_{size}"] = np.where(has_label_N, label_N.round(6), np.nan)
    metadata.to_csv(folder / "metadata.tsv", sep="\t")
    task = {"dataset": "gut", "kind": "regression", "folds": {"k": 3}, "importance": False}
    config = {
        "data_dir": ".",
        "datasets": {
            "gut": {"table": "table.biom", "tree": "tree.nwk", "metadata": "metadata.tsv"}
        },
        "rarefaction": {"depth": DEPTH},
        "models": {"base": {}},
        "tasks": {column: task | {"column": column} for column in metadata},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def read_guts(data: Path) -> FeatureTable:
    """Return the samples of human guts, with the features that they have."""
    table = load_table(data / "corpus/table.biom")
    metadata = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
    is_gut_N = (metadata.loc[table.sample_ids, "environment"] == "human-gut").to_numpy()
    return without_empty(table.select_samples(np.flatnonzero(is_gut_N)))[0]


def plant_motif(
    table: FeatureTable, clades: Clades, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the log-share of the reads with a motif, of variance 1.

    Parameters
    ----------
    table
        Reads; the features are named by their sequences.
    clades
        Its clades, by which the most scattered motif is chosen.
    rng
        Draws the motifs.
    """
    reads_N = table.counts.sum(axis=1)
    best: tuple[float, NDArray[np.float64]] | None = None
    for _ in range(MOTIFS):
        motif = "".join(rng.choice([*"ACGT"], size=MOTIF_BP))
        has_motif_F = np.array([motif in sequence for sequence in table.feature_ids])
        share_N = table.counts @ has_motif_F.astype(float) / reads_N
        if not SHARES[0] < share_N.mean() < SHARES[1]:
            continue
        scattered = count_clades_of(has_motif_F, clades) / has_motif_F.sum()
        if best is None or scattered > best[0]:
            logs_N = np.log(share_N + 5e-4)
            best = scattered, (logs_N - logs_N.mean()) / logs_N.std()
    if best is None:
        raise ValueError(f"none of {MOTIFS} motifs is in enough reads")
    return best[1]


def count_clades_of(is_in_F: NDArray[np.bool_], clades: Clades) -> int:
    """Return how many largest clades consist of some features alone.

    Parameters
    ----------
    is_in_F
        Which features.
    clades
        The clades of the frequent ones.
    """
    is_whole_B = np.array(
        [bool(is_in_F[clades.features(node)].all()) for node in range(len(clades.parent_B))]
    )
    return int((is_whole_B & ~is_whole_B[clades.parent_B]).sum())


def main() -> None:
    """Prepare the study."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, nargs="+", default=[*SIZES])
    given = parser.parse_args()
    prepare(given.data, given.folder, given.samples)


if __name__ == "__main__":
    main()
