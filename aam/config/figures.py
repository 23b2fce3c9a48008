"""The table of figures: a rule is made of every line, and the stage `plot` draws it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aam.config import slices
from aam.config.configuration import Config


@dataclass(frozen=True)
class Figure:
    """One PNG."""

    draw: str
    """What draws it: a module of `aam.evaluate.figures` and a function, whose parameters are
    inputs, settings and the `path` to write."""
    path: str
    """Below `figures/`; it has the wildcards of its inputs."""
    title: str
    """What a report calls it."""
    caption: str
    """What a report says below it: a file of `workflow/report`."""


@dataclass(frozen=True)
class Plot:
    """The figures that one rule draws from the same files."""

    category: str
    """Part of the report."""
    inputs: Mapping[str, str]
    """Files below the folder of a dataset, by name; a name is what a function gets it as."""
    figures: Mapping[str, Figure]
    """By the name of the output."""
    settings: Callable[[Config, str], Mapping[str, Any]] | None = None
    """Further settings of a dataset."""
    shown: str = "always"
    """always: made and shown with the summary; tasks: where a dataset has tasks; on_demand."""

    @property
    def draw(self) -> dict[str, str]:
        """What draws each output."""
        return {name: figure.draw for name, figure in self.figures.items()}

    @property
    def modules(self) -> list[str]:
        """The modules that run, for the digest of the code."""
        drawing = {figure.draw.split(".")[0] for figure in self.figures.values()}
        return ["aam.stages.plot", *(f"aam.evaluate.figures.{name}" for name in sorted(drawing))]

    @property
    def wildcards(self) -> list[str]:
        """What a job is of, beside the dataset: nothing, `model`, or `model` and `task`."""
        return re.findall(r"\{(\w+)\}", next(iter(self.figures.values())).path)


PRETRAINING, FINETUNING = "pretrain/{model}", "finetune/{model}/{task}"
PLOTS: dict[str, Plot] = {
    "rarefaction": Plot(
        "Data",
        {"curve": "rarefied/curve.tsv", "dropped": "rarefied/view0.dropped.tsv"},
        {"curve": Figure("rarefaction.draw", "rarefaction.png", "rarefaction", "rarefaction")},
        settings=slices.plot_rarefaction,
    ),
    "speed": Plot(
        "Benchmark",
        {"speed": "benchmark/speed.tsv"},
        {"speed": Figure("speed.draw_speed", "speed.png", "speed, figure", "speed_figure")},
    ),
    "pretraining": Plot(
        "Pretraining",
        {name: f"{PRETRAINING}/{name}.parquet" for name in ("history", "pairs", "embeddings")},
        {
            "history": Figure(
                "training.draw", f"{PRETRAINING}/history.png", "training curves", "pretraining"
            ),
            "pairs": Figure(
                "distances.draw_pairs", f"{PRETRAINING}/pairs.png", "predicted distances", "pairs"
            ),
            "embeddings": Figure(
                "distances.draw_ordination",
                f"{PRETRAINING}/embeddings.png",
                "ordination",
                "embeddings",
            ),
        },
    ),
    "task": Plot(
        "Tasks",
        {
            "predictions": f"{FINETUNING}/predictions.tsv",
            "report": f"{FINETUNING}/metrics.json",
            "history": f"{FINETUNING}/history.parquet",
        },
        {
            "history": Figure(
                "training.draw", f"{FINETUNING}/history.png", "training curves", "finetuning"
            ),
            "predictions": Figure(
                "task.draw", f"{FINETUNING}/predictions.png", "predictions", "predictions"
            ),
        },
    ),
    "importance": Plot(
        "Tasks",
        {
            "importance": f"{FINETUNING}/importance.tsv",
            "check": f"{FINETUNING}/importance_check.json",
            "tree": "inputs/tree.nwk",
        },
        {
            "importance": Figure(
                "importance.draw", f"{FINETUNING}/importance.png", "important ASVs", "importance"
            ),
        },
    ),
    "accuracy": Plot(
        "Benchmark",
        {"accuracy": "benchmark/accuracy.tsv"},
        {
            "accuracy": Figure(
                "accuracy.draw", "accuracy.png", "accuracy, figure", "accuracy_figure"
            ),
        },
        shown="tasks",
    ),
    "scaling": Plot(
        "Benchmark",
        {"scaling": "benchmark/scaling.tsv"},
        {"scaling": Figure("scaling.draw", "scaling.png", "scaling, figure", "scaling_figure")},
        shown="on_demand",
    ),
    "models": Plot(
        "Benchmark",
        {"models": "benchmark/models.tsv", "curves": "benchmark/models_curves.tsv"},
        {"models": Figure("models.draw_models", "models.png", "models, figure", "models_figure")},
        shown="on_demand",
    ),
}
"""By the name of the rule, without `plot_`; the summary shows the figures in this order."""
