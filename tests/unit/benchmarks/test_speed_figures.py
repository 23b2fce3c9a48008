import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread

from aam.config.figures import PLOTS
from aam.stages.plot import draw_figures
from aam.util.run_options import RunOptions
from benchmarks.speed.ablation import run_ablation

LONG = "a_name_that_somebody_made_far_too_long_for_any_figure"


def draw(name, table, figures, folder) -> Figure:
    """Draw a table from its file, and check that the figure is whole and bounded."""
    table.to_csv(folder / "table.tsv", sep="\t", index=False)
    draw_figures(
        draw=PLOTS[name].draw,
        records={name: folder / "table.tsv"},
        figures_out={name: folder / "drawn.png"},
    )
    height, width = imread(folder / "drawn.png").shape[:2]
    assert width <= 1200
    assert height <= 2200
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= size[0]
    assert drawn.y1 <= size[1]
    return figures[0]


def test_every_mode_has_a_bar_in_the_panel_of_its_group(
    speed_settings, stand_in, figures, tmp_path
):
    speed = run_ablation(stand_in, speed_settings(), {}, RunOptions()).table
    speed.loc[speed.index[-1], "name"] = LONG
    speed.loc[1, "samples_per_s"] = np.nan
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
