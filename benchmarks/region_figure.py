"""The figure of docs/how-to/merge-studies.md: two studies of other regions in one ordination.

    aam reference get greengenes
    python -m benchmarks.region_figure ../shared/data docs/images/regions.png

Every second sample of moving pictures is read in V4, the others in V1-V2, cut from whole genes as
`benchmarks.regions` does it. The left part compares the sequences as they are, the right one their
places in the tree of Greengenes.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.spatial.distance import squareform
from skbio import DistanceMatrix
from skbio.stats.ordination import pcoa

from aam.data.importing.table import load_table
from aam.data.rarefaction import rarefy
from benchmarks.placing import DEPTH, Greengenes
from benchmarks.regions import PRIMERS, joint_distances, place_pieces, simulate

STUDY = "moving-pictures"
MARKERS = {"V4": "o", "V1-V2": "^"}
METRIC = "unweighted"


def main(data: Path, path: Path) -> None:
    """Draw the figure.

    Parameters
    ----------
    data
        Folder of the studies.
    path
        File to write.
    """
    greengenes = Greengenes.open()
    table = rarefy(load_table(data / STUDY / "table.biom"), DEPTH, 0, 0)
    genes, row_F, pieces = simulate(table, greengenes)
    regions = place_pieces(genes, pieces, greengenes)
    matrix = joint_distances(genes, row_F, regions, greengenes)["regions"][METRIC]
    samples = len(genes.sample_ids)
    region_N = np.array([*MARKERS])[np.arange(samples) % 2]
    first_of = {region: number * samples for number, region in enumerate(PRIMERS)}
    rows = np.array([first_of[region] for region in region_N]) + np.arange(samples)
    placed_NN = matrix[np.ix_(rows, rows)]
    # Sequences of two regions are never the same.
    has_NF = genes.counts.toarray() > 0
    shared_NN = has_NF.astype(float) @ has_NF.T
    counts_N = has_NF.sum(axis=1)
    plain_NN = 1 - shared_NN / (counts_N[:, None] + counts_N - shared_NN)
    plain_NN[region_N[:, None] != region_N] = 1.0
    metadata = pd.read_csv(data / STUDY / "metadata.tsv", sep="\t", index_col=0)
    site_N = metadata["BodySite"].reindex(genes.sample_ids).to_numpy()
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    draw(axes[0], plain_NN, site_N, region_N, "Jaccard, sequences as they are")
    draw(axes[1], placed_NN, site_N, region_N, "unweighted UniFrac, placed in greengenes")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


def draw(
    axis: Axes,
    matrix_NN: NDArray[np.float64],
    site_N: NDArray[np.object_],
    region_N: NDArray[np.str_],
    title: str,
) -> None:
    """Draw an ordination: sites as colours, regions as markers."""
    condensed = squareform(matrix_NN, checks=False)
    found = pcoa(DistanceMatrix(squareform(condensed)), dimensions=2)
    place_N2 = found.samples.to_numpy()
    for number, site in enumerate(np.unique(site_N.astype(str))):
        for region, marker in MARKERS.items():
            chosen = (site_N == site) & (region_N == region)
            one_N, other_N = place_N2[chosen].T
            name = f"{site}, {region}"
            axis.scatter(one_N, other_N, s=24, marker=marker, color=f"C{number}", label=name)
    share = found.proportion_explained
    axis.set_title(title, fontsize=11)
    axis.set_xlabel(f"axis 1: {share.iloc[0]:.0%}")
    axis.set_ylabel(f"axis 2: {share.iloc[1]:.0%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
