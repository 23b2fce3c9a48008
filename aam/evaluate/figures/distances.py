"""What a pretrained model knows of distances: predicted against true, and an ordination."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from aam.evaluate.figures.style import BLACK, BLUE, VERMILION, WIDTH_IN, saved_figure, saved_panels
from aam.evaluate.labels import plain

BINS = 45
SPLITS = {"training": BLUE, "held-out": VERMILION}


def draw_pairs(pairs: pd.DataFrame, path: Path) -> None:
    """Draw predicted against true distances of held-out pairs, one panel per metric."""
    metrics = list(dict.fromkeys(pairs["metric"])) or [""]
    width_in, row_in = (6.2, 5.4) if len(metrics) == 1 else (WIDTH_IN, 3.7)
    with saved_panels(path, len(metrics), row_in, width_in=width_in) as (figure, all_axes):
        for axes, metric in zip(all_axes, metrics, strict=True):
            part = pairs[pairs["metric"] == metric]
            observed, predicted = part["observed"].to_numpy(), part["predicted"].to_numpy()
            _draw_metric(figure, axes, observed, predicted, metric)


def _draw_metric(
    figure: Figure,
    axes: Axes,
    observed: NDArray[np.floating],
    predicted: NDArray[np.floating],
    metric: str,
) -> None:
    axes.set_title(f"{plain(metric).capitalize()} UniFrac\n{len(observed)} held-out pairs")
    axes.set_xlabel("true distance")
    axes.set_ylabel("predicted distance")
    if not len(observed):
        axes.text(0.5, 0.5, "no pairs recorded", ha="center", transform=axes.transAxes)
        return
    both = np.concatenate([observed, predicted])
    low, high = float(both.min()), float(both.max())
    margin = 0.03 * max(high - low, 1e-6)
    limits = (low - margin, high + margin)
    cells = axes.hexbin(
        observed,
        predicted,
        gridsize=BINS,
        extent=(*limits, *limits),
        mincnt=1,
        norm=LogNorm(),
        cmap="viridis_r",
        linewidths=0.1,
    )
    bar = axes.inset_axes((1.03, 0, 0.045, 1))
    figure.colorbar(cells, cax=bar, label="pairs per cell", format="{x:g}")
    # Below a decade there is no room for powers of ten, and one label would not make a scale.
    few = np.max(np.asarray(cells.get_array())) < 20
    bar.yaxis.set_minor_formatter("{x:g}" if few else NullFormatter())
    axes.plot(limits, limits, color=BLACK, linewidth=1, linestyle="--", label="identity")
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    varies = np.ptp(observed) > 0 and np.ptp(predicted) > 0
    r = f"{np.corrcoef(observed, predicted)[0, 1]:.3f}" if varies else "undefined"
    error = float(np.abs(observed - predicted).mean())
    axes.plot([], [], " ", label=f"r = {r}")
    axes.plot([], [], " ", label=f"mean abs. error = {error:.3f}")
    axes.legend(loc="upper left", handlelength=1.6)


def draw_ordination(embeddings: pd.DataFrame, path: Path) -> None:
    """Draw the first two principal components of the sample embeddings, coloured by split."""
    embedding_ND = np.stack(embeddings["embedding"].to_list()).astype(np.float64)
    pca = PCA(n_components=2, svd_solver="full")
    place_N2 = pca.fit_transform(embedding_ND)
    split = embeddings["split"].to_numpy(dtype=str)
    size = float(np.clip(8000 / len(split), 5, 26))
    with saved_figure(path, 5.6) as (_, (axes,)):
        for name, color in SPLITS.items():
            x_N, y_N = place_N2[split == name].T
            label = f"{name} ({len(x_N)})"
            axes.scatter(x_N, y_N, s=size, color=color, alpha=0.65, linewidths=0, label=label)
        shares = pca.explained_variance_ratio_
        axes.set_xlabel(f"principal component 1 ({shares[0]:.1%} of the variance)")
        axes.set_ylabel(f"principal component 2 ({shares[1]:.1%})")
        axes.set_title(
            f"Embeddings of {len(split)} samples, {embedding_ND.shape[1]} dimensions: "
            "held-out samples should lie among the others"
        )
        axes.set_aspect("equal", adjustable="datalim")
        axes.legend(markerscale=1.6)
