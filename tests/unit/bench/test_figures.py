import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from aam.bench.ablation import run_ablation
from aam.config.figures import PLOTS
from aam.runtime.run_options import RunOptions
from aam.stages import plot

LONG = "a_name_that_somebody_made_far_too_long_for_any_figure"


def draw(name, table, figures, folder) -> Figure:
    """Draw a table from its file, and check that the figure is whole and bounded."""
    table.to_csv(folder / "table.tsv", sep="\t", index=False)
    files = {"inputs": {name: folder / "table.tsv"}, "outputs": {name: folder / "drawn.png"}}
    plot.run({"draw": PLOTS[name].draw}, **files, runtime=RunOptions())
    height, width = imread(folder / "drawn.png").shape[:2]
    assert width <= 1200
    assert height <= 2200
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= size[0]
    assert drawn.y1 <= size[1]
    return figures[0]


def test_every_mode_has_a_bar_in_the_panel_of_its_group(speed_cfg, stand_in, figures, tmp_path):
    speed = run_ablation(stand_in, speed_cfg(), {}, RunOptions()).table
    speed.loc[speed.index[-1], "name"] = LONG
    panels = draw("speed", speed, figures, tmp_path).axes[::2]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert [title.split(" (")[1] for title in titles] == ["batch 4)", "batch 2)", "batch 8)"]
    bars = [len(axes.patches) for axes in panels]
    assert bars == speed.groupby("group", sort=False).size().tolist()
    texts = [text.get_text() for text in panels[0].texts]
    assert texts[0].endswith("(1×)")
    assert texts.count("not run") == 1
    assert len({axes.get_xlim() for axes in panels}) == 1
    # A table in which nothing could run is drawn, too.
    empty = speed.assign(samples_per_s=np.nan, peak_memory_mb=np.nan, speedup=np.nan)
    figures.clear()
    figure = draw("speed", empty[empty["group"] == "batch"], figures, tmp_path)
    assert {text.get_text() for text in figure.axes[0].texts} == {"not run"}


def test_scaling_has_a_column_of_panels_per_experiment(figures, tmp_path):
    sizes = {"batch size": (8, 16, 256), "depth": (4,), "distinct ASVs": (255, 990, 1000)}
    table = pd.DataFrame(
        [(experiment, x) for experiment, xs in sizes.items() for x in xs],
        columns=["experiment", "x"],
    )
    x = table["x"]
    table = table.assign(mode="training step", samples_per_s=1000 / x, peak_memory_mb=500.0 + x)
    table = table.assign(time_ms_median=3.0 * x, time_ms_iqr=9.0 * x)
    table.loc[2, "time_ms_median"] = np.nan
    figure = draw("scaling", table, figures, tmp_path)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    titles = {axes.get_title(loc="left"): axes for axes in shown}
    names = {"Samples per step", "Layers of each encoder", "Distinct ASVs per step"}
    assert set(titles) - {""} == names
    assert len(shown) == 3 * 3
    line = titles["Samples per step"].lines[0]
    np.testing.assert_allclose(line.get_xydata(), [(8, 0.024), (16, 0.048)])
    labels = [label.get_text() for label in titles["Distinct ASVs per step"].get_xticklabels()]
    assert labels == ["255", "990"]
    (bar,) = titles["Layers of each encoder"].patches
    assert bar.get_width() == pytest.approx(0.012)
