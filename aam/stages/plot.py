"""Figures of recorded results, as the table `aam.config.figures` names them."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.predictions import read_predictions, read_results
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import read_json


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw every output with its function in `cfg["draw"]`: it gets files and settings by name."""
    given = {**cfg, **{name: _content(name, path) for name, path in inputs.items()}}
    for output, path in outputs.items():
        module, function = cfg["draw"][output].split(".")
        draw = getattr(import_module(f"aam.evaluate.figures.{module}"), function)
        names = inspect.signature(draw).parameters.keys() - {"path"}
        draw(**{name: given[name] for name in names}, path=path)


def _content(name: str, path: Path) -> Any:
    if name == "predictions":
        return read_predictions(path)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".json":
        return read_json(path)
    if path.suffix == ".tsv":
        return read_results(path)
    return path
