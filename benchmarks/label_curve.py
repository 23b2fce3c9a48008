"""Where networks begin to pay: half-synthetic labels of real reads, from few to thousands.

    python -m benchmarks.label_curve study ../shared/data FOLDER [--mixed] [--samples 500 2000]
    (cd FOLDER && aam run config.yaml)
    python -m benchmarks.leaderboard networks FOLDER/results FOLDER/networks.tsv
    python -m benchmarks.label_curve figure FIGURE FOLDER/networks.tsv ...

The first command writes the samples and labels of each, half of which, by variance, is noise:

- tips: whether each of ten ASVs is there;
- depth: the log-shares of ten clades with a tenth to four tenths of the ASVs each, or of fewer, as
  none lies within another;
- abundances: the log-shares of twenty ASVs, each with a sign that is drawn;
- motif: the log-share of the reads that have some six nucleotides anywhere. Among `MOTIFS` that are
  drawn it is the one whose ASVs lie most scattered on the tree.

Of each label some samples have a value: the first so many in a random order, so that fewer are part
of more. Guessing is off by 0.80 then, and what knows the signal by 0.56.

Samples are human guts of the corpus, or with `--mixed` mixtures: a fifth to four fifths of the
reads of one gut, the others of a second one. The guts are divided into families of `FAMILY`, a
mixture is of one family, and each family lies in one fold.

Shape suffixes: N samples, F features, B nodes of the tree.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.table import load_table, without_empty
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable, write_biom
from aam.data.trees import read_tree, write_newick
from aam.evaluate.clade_tests import Clades
from aam.report.figures.style import colors
from aam.util.seeds import generator
from benchmarks.false_clades import plant

DEPTH = 1000
SIZES = (500, 2000)
PLANTED = {"tips": "presence", "depth": "large clades", "abundances": "ratios"}
"""Kind of what `benchmarks.false_clades.plant` plants, by signal."""
MOTIF = "motif"
SIGNALS = 10
STRENGTH = 0.5
"""Fraction of a label's variance that the signal makes."""
MOTIFS = 100
MOTIF_BP = 6
SHARES = (0.1, 0.5)
"""Bounds of the mean share of the reads that have the motif."""
FAMILY = 8
"""Human guts that are mixed with each other."""
DRAWN = {
    "kernel": "best kernel machine",
    "trees": "trees",
    "without": "super learner of the baselines",
    "with": "super learner with networks",
    "network": "networks alone",
}
"""Columns of the table of networks that are lines of the figure, and their names there."""
LINES = ("o-", "s--", "^:")
TICKS = (500, 2000, 10_000)
"""Labelled samples that the axis of the figure names."""


def write_study(
    data: Path, folder: Path, sizes: Sequence[int], signals: Sequence[str], *, is_mixed: bool
) -> None:
    """Write the study, its labels and the configuration of all tasks.

    Parameters
    ----------
    data
        Folder of the studies, with the corpus.
    folder
        Folder to write.
    sizes
        Numbers of labelled samples; all, where there are fewer samples.
    signals
        What labels are of, such as `tips`.
    is_mixed
        Whether samples are mixtures of guts, as many as the largest size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = read_guts(data)
    groups = {}
    if is_mixed:
        table, groups["group"] = mix_guts(table, max(sizes))
    path = data / "corpus/tree.nwk"
    write_biom(folder / "table.biom", table, {})
    write_newick(folder / "tree.nwk", cut_tree(load_tree(path), table.feature_ids, path))
    tree = read_tree(folder / "tree.nwk", table.feature_ids)
    clades = Clades.of_table(table.counts, table.feature_ids, tree)
    rng = generator("label_curve")
    signal_by_name = {
        name: plant(clades, planted, rng, signals=SIGNALS)[0] for name, planted in PLANTED.items()
    }
    signal_by_name[MOTIF] = plant_motif(table, clades, rng)
    order = rng.permutation(len(table.sample_ids))
    labels = pd.DataFrame(index=pd.Index(table.sample_ids, name="sample-id"))
    for name, signal_N in signal_by_name.items():
        noise_N = rng.normal(size=len(signal_N))
        label_N = np.sqrt(STRENGTH) * signal_N + np.sqrt(1 - STRENGTH) * noise_N
        for size in sizes:
            has_label_N = np.isin(np.arange(len(order)), order[:size])
            labels[f"{name}_{size}"] = np.where(has_label_N, label_N.round(6), np.nan)
    names = [f"{name}_{size}" for name in signal_by_name if name in signals for size in sizes]
    labels[names].assign(**groups).to_csv(folder / "metadata.tsv", sep="\t")
    folds = {"k": 3} | ({"groups": "group"} if groups else {})
    task = {"dataset": "gut", "kind": "regression", "folds": folds, "importance": False}
    config = {
        "data_dir": ".",
        "datasets": {
            "gut": {"table": "table.biom", "tree": "tree.nwk", "metadata": "metadata.tsv"}
        },
        "rarefaction": {"depth": DEPTH},
        "models": {"base": {}},
        "tasks": {name: task | {"column": name} for name in names},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def read_guts(data: Path) -> FeatureTable:
    """Return the human guts of the corpus, with the features that they have."""
    table = load_table(data / "corpus/table.biom")
    metadata = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
    is_gut_N = (metadata.loc[table.sample_ids, "environment"] == "human-gut").to_numpy()
    return without_empty(table.select_samples(np.flatnonzero(is_gut_N)))[0]


def mix_guts(guts: FeatureTable, size: int) -> tuple[FeatureTable, list[str]]:
    """Return mixtures of two human guts of one family, and the family of each.

    Each read is kept by chance, so that about half of the mixtures have fewer reads than `DEPTH`:
    rarefaction leaves these out.

    Parameters
    ----------
    guts
        Samples to mix.
    size
        Mixtures.
    """
    guts = rarefy(guts, DEPTH, 0, "label_curve")
    rng = generator("label_curve", "mixtures")
    families = rng.permutation(len(guts.sample_ids) // FAMILY * FAMILY).reshape(-1, FAMILY)
    family_N = np.arange(size) % len(families)
    pairs = np.array([rng.choice(families[family], 2, replace=False) for family in family_N])
    part_N = rng.uniform(0.2, 0.8, size)
    first = csr_array(guts.counts[pairs[:, 0]])
    second = csr_array(guts.counts[pairs[:, 1]])
    first.data = rng.binomial(first.data, np.repeat(part_N, np.diff(first.indptr)))
    second.data = rng.binomial(second.data, np.repeat(1 - part_N, np.diff(second.indptr)))
    counts = csr_array(first + second)
    counts.eliminate_zeros()
    names = [f"mixture{number}" for number in range(size)]
    mixed = without_empty(FeatureTable(names, guts.feature_ids, counts, guts.facts))[0]
    return mixed, [f"family{family}" for family in family_N]


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


def draw_figure(tables: Sequence[Path], path: Path) -> None:
    """Draw the loss of each method by labels: a panel per signal, a kind of line per table.

    Parameters
    ----------
    tables
        What `benchmarks.leaderboard networks` wrote, of each kind of samples.
    path
        File to write.
    """
    parts = [pd.read_csv(table, sep="\t") for table in tables]
    rows = pd.concat(parts, keys=range(len(parts)), names=["table"]).reset_index("table")
    rows["signal"] = rows["task"].str.rpartition(", ")[2]
    signals = [name for name in (*PLANTED, MOTIF) if name in set(rows["signal"])]
    figure, axes = plt.subplots(
        1,
        len(signals),
        figsize=(9, 3.4),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, signal in zip(axes[0], signals, strict=True):
        of_signal = rows[rows["signal"] == signal]
        for (table, part), line in zip(of_signal.groupby("table"), LINES, strict=False):
            for (column, name), color in zip(DRAWN.items(), colors(len(DRAWN)), strict=True):
                label = name if table == 0 else None
                by_labels = part.sort_values("labels")
                axis.plot(
                    by_labels["labels"], by_labels[column], line, label=label, color=color, ms=3
                )
        axis.axhline(np.sqrt(2 / np.pi * (1 - STRENGTH)), color="grey", linestyle=":")
        axis.set_xscale("log")
        axis.set_xticks(TICKS, [f"{count:,}" for count in TICKS])
        axis.minorticks_off()
        axis.set_title(signal)
        axis.set_xlabel("labelled samples")
    axes[0][0].set_ylabel("mean absolute error")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Write the study, or the figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    study = commands.add_parser("study", help="write samples, labels and a configuration")
    study.add_argument("data", type=Path)
    study.add_argument("folder", type=Path)
    study.add_argument("--mixed", action="store_true", help="mixtures of guts, not guts")
    study.add_argument("--samples", type=int, nargs="+", default=[*SIZES])
    study.add_argument("--signals", choices=[*PLANTED, MOTIF], nargs="+", default=[*PLANTED, MOTIF])
    figure = commands.add_parser("figure", help="draw the losses by labels")
    figure.add_argument("figure", type=Path)
    figure.add_argument("tables", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "study":
        write_study(given.data, given.folder, given.samples, given.signals, is_mixed=given.mixed)
    else:
        draw_figure(given.tables, given.figure)


if __name__ == "__main__":
    main()
