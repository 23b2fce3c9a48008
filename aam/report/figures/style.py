"""One look for all figures, and one way to save them: the same data give the same bytes."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection, PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aam.util.atomic import atomic_path

WIDTH_IN = 8.0
"""Width of a figure."""
DPI = 150
"""Pixels of a PNG per inch."""

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
BLACK = "#222222"
GREY = "#999999"
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Distinguishable with any colour vision: Okabe, M. & Ito, K. (2008), Color Universal Design."""
ON_DARK = "#FEFEFE"
"""Colour of texts on dark cells; like the cells it stays as it is where the page is dark."""
ON_LIGHT = "#1A1A1A"
"""Colour of texts on light cells."""

LOOK: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "figure.facecolor": "white",
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "svg.hashsalt": "aam",
}
MARK = re.compile(r"<a xlink:href=([\"'])(.*?)\1[^>]*>(.*?)</a>", re.DOTALL)
"""A link in an SVG file, as Matplotlib writes the URL of a mark: its text and what it is around."""
CLIPPED_POINT = re.compile(r"\s*<g clip-path=[^>]*>\s*(<use [^>]*>)\s*</g>\s*")
"""A point: they lie inside of their axes, and thousands of clips would make a file large."""
TEXT_FONT = "'DejaVu Sans'"


@contextmanager
def saved_figure(
    path: Path,
    height_in: float,
    rows: int = 1,
    columns: int = 1,
    width_in: float = WIDTH_IN,
    **grid: Any,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure and its axes, row by row, and save it at the end.

    Parameters
    ----------
    path
        File to write: SVG or PNG, by its ending.
    height_in
        Height in inches, which are 150 px of a PNG.
    rows, columns
        Panels below and next to each other.
    width_in
        Width in inches.
    **grid
        Further arguments of `Figure.subplots`.

    Yields
    ------
    tuple
        The figure, and its axes.
    """
    # A user's own matplotlibrc must not change the figures.
    with matplotlib.style.context(["default", LOOK]):
        figure = Figure(figsize=(width_in, height_in), dpi=DPI)
        FigureCanvasAgg(figure)
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
        axes = figure.subplots(rows, columns, squeeze=False, **grid)
        yield figure, list(axes.flat)
        kind = path.suffix.removeprefix(".")
        # Version and date would be part of the file otherwise.
        hidden = ("Date", "Creator") if kind == "svg" else ("Software",)
        with atomic_path(path) as partial:
            figure.savefig(partial, format=kind, metadata=dict.fromkeys(hidden))
            if kind == "svg":
                text = partial.read_text(encoding="utf-8")
                partial.write_text(_with_titles(text), encoding="utf-8")


def add_tooltips(marks: Collection | Iterable[Artist], texts: Iterable[str]) -> None:
    """Give every point, cell, bar or line of an SVG a text that shows under the pointer.

    Parameters
    ----------
    marks
        The points of one collection, or several marks.
    texts
        A text for each, in the same order.
    """
    if isinstance(marks, Collection):
        marks.set_urls(list(texts))
        return
    for mark, text in zip(marks, texts, strict=True):
        mark.set_url(text)


def _with_titles(svg: str) -> str:
    """Return an SVG with a title instead of each link, and fonts to fall back on."""

    def write_title(mark: re.Match[str]) -> str:
        inner = CLIPPED_POINT.sub(r"\1", mark[3])
        return f"<g><title>{mark[2]}</title>{inner}</g>"

    fonts = f"{TEXT_FONT}, Verdana, sans-serif"
    # Names of classes, which are no tags, may hold anything.
    titled = MARK.sub(write_title, svg)
    return re.sub(r"<[^>]*>", lambda tag: tag[0].replace(TEXT_FONT, fonts), titled)


@contextmanager
def saved_panels(
    path: Path, number: int, row_in: float, extra_in: float = 0.0, **size: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure of so many panels and their axes, and save it at the end.

    Parameters
    ----------
    path
        File to write: SVG or PNG, by its ending.
    number
        Number of panels.
    row_in
        Height of a row in inches.
    extra_in
        Height in inches that is added to that of the rows.
    **size
        `columns`, 2 where it is not given, and further arguments of `saved_figure`.
    """
    columns = min(size.pop("columns", 2), number)
    rows = -(-number // columns)
    with saved_figure(path, row_in * rows + extra_in, rows, columns, **size) as (figure, all_axes):
        yield figure, all_axes[:number]
        for axes in all_axes[number:]:
            axes.set_visible(False)


def colors(number: int) -> list[Any]:
    """Return so many distinguishable colours; beyond seven, steps of one colour map.

    Parameters
    ----------
    number
        How many.
    """
    if number <= len(CYCLE):
        return list(CYCLE[:number])
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.95, number)))


def draw_cells(
    axes: Axes,
    values_RC: NDArray[np.float64],
    cmap: str,
    limits: tuple[float, float],
    texts: Iterable[str],
) -> None:
    """Draw a matrix of coloured squares, row 0 on top, with a text for each.

    Parameters
    ----------
    axes
        Where to draw.
    values_RC
        The matrix.
    cmap
        Name of a colour map.
    limits
        Values at its ends.
    texts
        Texts that show under the pointer, row by row.
    """
    rows, columns = values_RC.shape
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
    squares = [corners + (column, row) for row, column in np.ndindex(rows, columns)]
    drawn = PolyCollection(squares, array=values_RC.ravel(), cmap=cmap, edgecolors="face")
    drawn.set_clim(*limits)
    add_tooltips(drawn, texts)
    axes.add_collection(drawn)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
