"""What a pretrained model learned of distances: predicted against true, and an ordination."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from aam.config.metrics import METRICS
from aam.data.metadata import metadata_column
from aam.report.figures.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    WIDTH_IN,
    add_tooltips,
    colors,
    saved_panels,
)
from aam.report.labels import format_quantity, shorten, to_words

BINS = 45
MOST_COLOURS = 6
"""Categories that have a colour each; those of the fewest samples are grey."""
SPLITS = {"training": BLUE, "held-out": VERMILION}


def draw_pairs(pairs: pd.DataFrame, path: Path) -> None:
    """Draw predicted against true distances of held-out pairs, one panel per metric.

    Parameters
    ----------
    pairs
        `metric`, `observed` and `predicted` of each pair.
    path
        The figure to write.
    """
    metrics = list(dict.fromkeys(pairs["metric"])) or [""]
    width_in, row_in = (6.2, 5.4) if len(metrics) == 1 else (WIDTH_IN, 3.7)
    with saved_panels(path, len(metrics), row_in, width_in=width_in) as (figure, all_axes):
        for axes, metric in zip(all_axes, metrics, strict=True):
            _draw_metric(figure, axes, pairs[pairs["metric"] == metric], METRICS[metric].label)


def _draw_metric(figure: Figure, axes: Axes, pairs: pd.DataFrame, name: str) -> None:
    """Draw the pairs of one metric as cells, darker where there are more."""
    observed = pairs["observed"].to_numpy()
    predicted = pairs["predicted"].to_numpy()
    title = f"{name[0].upper()}{name[1:]}\n{len(observed)} held-out pairs"
    axes.set(title=title, xlabel="true distance", ylabel="distance predicted by AAM")
    if not len(observed):
        axes.text(0.5, 0.5, "no pairs recorded", ha="center", transform=axes.transAxes)
        return
    both = np.concatenate([observed, predicted])
    low = float(both.min())
    high = float(both.max())
    margin = 0.03 * max(high - low, 1e-6)
    limits = (low - margin, high + margin)
    look: dict[str, Any] = {"norm": LogNorm(), "cmap": "viridis_r", "linewidths": 0.1}
    extent = (*limits, *limits)
    cells = axes.hexbin(observed, predicted, gridsize=BINS, extent=extent, mincnt=1, **look)
    add_tooltips(cells, (f"{number:.0f} pairs" for number in np.asarray(cells.get_array())))
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


def draw_ordination(
    embeddings: pd.DataFrame, metadata: pd.DataFrame, columns: Sequence[str], path: Path
) -> None:
    """Draw two principal components of the embeddings, coloured by split and by metadata.

    Parameters
    ----------
    embeddings
        `sample_id`, `embedding` (a list of numbers) and `split` of each sample.
    metadata
        Metadata with a column `sample_id`.
    columns
        Metadata columns that get a panel each.
    path
        The figure to write.
    """
    embedding_ND = np.stack(embeddings["embedding"].to_list()).astype(np.float64)
    pca = PCA(n_components=2, svd_solver="full")
    position_N2 = pca.fit_transform(embedding_ND)
    names = embeddings["sample_id"].to_numpy(dtype=str)
    sample_metadata = metadata.set_index("sample_id").reindex(names)
    shares = pca.explained_variance_ratio_
    with saved_panels(path, 1 + len(columns), 4.0, 0.4) as (figure, (first, *others)):
        split = embeddings["split"].to_numpy(dtype=str)
        _draw_classes(first, position_N2, split, SPLITS, names)
        first.set_title("Held-out samples should lie among the others")
        for axes, column in zip(others, columns, strict=True):
            values = metadata_column(sample_metadata, column)
            _draw_column(axes, position_N2, values, names)
        for axes in (first, *others):
            axes.set_xlabel(f"component 1 ({shares[0]:.1%} of the variance)")
            axes.set_ylabel(f"component 2 ({shares[1]:.1%})")
            axes.set_aspect("equal", adjustable="datalim")
        figure.suptitle(f"Embeddings of {len(names)} samples, {embedding_ND.shape[1]} numbers each")


def _draw_column(
    axes: Axes, position_N2: NDArray[np.float64], values: pd.Series, names: NDArray[np.str_]
) -> None:
    """Colour the samples by a metadata column: by its numbers where all of many values are some."""
    value_N = pd.to_numeric(values, errors="coerce")
    if values.nunique() > MOST_COLOURS and value_N.notna().sum() == values.notna().sum():
        _draw_numbers(axes, position_N2, value_N.to_numpy(), names)
    else:
        frequent = values.value_counts().index[:MOST_COLOURS]
        palette = dict(zip(frequent, colors(len(frequent)), strict=True))
        _draw_classes(axes, position_N2, values.to_numpy(object), palette, names)
    axes.set_title(f"By {shorten(to_words(str(values.name)), 40)}")


def _draw_classes(
    axes: Axes,
    position_N2: NDArray[np.float64],
    class_N: NDArray[np.object_],
    palette: Mapping[str, str],
    names: NDArray[np.str_],
) -> None:
    """Draw the classes of the palette in its colours, and all other samples in grey.

    Parameters
    ----------
    axes
        Where to draw.
    position_N2
        Position of each sample.
    class_N
        Its class, or None.
    palette
        Colour by class.
    names
        IDs of the samples.
    """
    is_other_N = ~pd.Series(class_N).isin(list(palette)).to_numpy()
    parts = {"others, or missing": (is_other_N, GREY)}
    for name, color in palette.items():
        parts[name] = (class_N == name, color)
    for name, (is_one_N, color) in parts.items():
        if is_one_N.any():
            label = f"{shorten(str(name), 24)} ({is_one_N.sum()})"
            look: dict[str, Any] = {"color": color, "alpha": 0.65, "linewidths": 0, "label": label}
            x, y = position_N2[is_one_N].T
            points = axes.scatter(x, y, s=_size(len(names)), **look)
            pairs = zip(names[is_one_N], class_N[is_one_N], strict=True)
            texts = [f"{sample}\n{'missing' if pd.isna(one) else one}" for sample, one in pairs]
            add_tooltips(points, texts)
    axes.legend(markerscale=1.6)


def _draw_numbers(
    axes: Axes,
    position_N2: NDArray[np.float64],
    value_N: NDArray[np.float64],
    names: NDArray[np.str_],
) -> None:
    """Draw samples with a number in the colours of a scale, and those without one in grey."""
    is_finite_N = np.isfinite(value_N)
    look: dict[str, Any] = {"s": _size(len(names)), "linewidths": 0}
    missing_x, missing_y = position_N2[~is_finite_N].T
    axes.scatter(missing_x, missing_y, color=GREY, alpha=0.4, **look)
    x, y = position_N2[is_finite_N].T
    points = axes.scatter(x, y, c=value_N[is_finite_N], cmap="viridis", **look)
    pairs = zip(names[is_finite_N], value_N[is_finite_N], strict=True)
    add_tooltips(points, (f"{name}\n{format_quantity(value)}" for name, value in pairs))
    assert axes.figure is not None
    axes.figure.colorbar(points, ax=axes, shrink=0.8)


def _size(samples: int) -> float:
    """Return the size of a point: the more there are, the smaller they are."""
    return float(np.clip(8000 / samples, 5, 26))
