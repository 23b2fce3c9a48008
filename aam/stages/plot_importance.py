"""Picture of the ASVs that a task's predictions rest on."""

from collections.abc import Mapping
from typing import Any

from aam.data.trees.branches import read_tree
from aam.evaluate.figures import importance
from aam.evaluate.importance import read_importance
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import read_json


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw the most important ASVs on their part of the tree.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `importance` (TSV) and `check` (JSON) of an explanation, and `tree`.
    outputs
        `importance` (PNG).
    runtime
        Not used.
    """
    table = read_importance(inputs["importance"]).head(importance.SHOWN)
    tree = read_tree(inputs["tree"], table["feature-id"].tolist())
    importance.draw(table, tree, read_json(inputs["check"]), outputs["importance"])
