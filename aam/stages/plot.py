"""Figures of recorded results, as the table `aam.config.figures` names them."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from aam.config.settings.plot import PlotSettings
from aam.data.predictions import read_results
from aam.evaluate.task_report import TaskReport
from aam.util.atomic import read_json


def draw_figures(
    *,
    settings: PlotSettings,
    records: Mapping[str, Path],
    figures_out: Mapping[str, Path],
) -> None:
    """Draw figures of recorded results.

    Parameters
    ----------
    settings
        What draws the figures; its other fields are arguments of the functions that have
        parameters of these names.
    records
        Files by the parameter of a drawing function that gets their content.
    figures_out
        SVG files to write, by the name of the figure.
    """
    given = {**dict(settings), **{name: _content(name, path) for name, path in records.items()}}
    for figure, path in figures_out.items():
        module, function = settings.draw[figure].split(".")
        draw_figure = getattr(import_module(f"aam.report.figures.{module}"), function)
        names = inspect.signature(draw_figure).parameters.keys() - {"path"}
        # An answer of baselines alone has no networks, which a function then takes as None.
        draw_figure(**{name: given[name] for name in names & given.keys()}, path=path)


def _content(name: str, path: Path) -> Any:
    if name == "report":
        return TaskReport.read(path)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".json":
        return read_json(path)
    if path.suffix == ".tsv":
        return read_results(path)
    return path
