"""The table of figures: a rule is made of every entry, and the stage `plot` draws it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aam.config import slices
from aam.config.configuration import Config
from aam.config.questions import STUDIES
from aam.config.settings.plot import PlotSettings


@dataclass(frozen=True)
class Figure:
    """One SVG."""

    draw: str
    """A module of `aam.report.figures` and a function of inputs, settings and the `path`."""
    path_stem: str
    """The path below `figures/`, without its ending."""
    title: str
    caption: str
    """Its file in `workflow/report`."""

    @property
    def name(self) -> str:
        """The name of the output."""
        return self.path_stem.split("/")[-1]


@dataclass(frozen=True)
class Plot:
    """The figures that one rule draws from the same files."""

    category: str
    inputs: Mapping[str, str]
    """Files below the folder of a dataset, by the parameter of a function that gets them."""
    figures: Sequence[Figure]
    """With the wildcards of the inputs in their paths."""
    methods: Sequence[str] = ()
    """Parameters of a function that get what each method of an answer predicts: `baselines`, and
    `networks` where the answer has some."""
    settings: Callable[[Config, str], PlotSettings] | None = None
    """Returns what the figures of a dataset depend on besides files; None: nothing."""
    shown: str = "always"
    """always: with the summary; tasks: where models are fine-tuned to tasks; explained: of each
    task whose predictions are explained; answers: with each answer; on_demand."""
    explains: bool = False
    """Whether it is of the answers alone whose predictions are explained."""
    has_times: bool = False
    """Whether it is of the answers alone whose task says when samples were taken."""
    question: str | None = None
    """The further question whose answers alone it is of; None: those to tasks of the user."""

    @property
    def draw(self) -> dict[str, str]:
        """What draws each output."""
        return {figure.name: figure.draw for figure in self.figures}

    def fill_settings(self, config: Config, dataset: str) -> PlotSettings:
        """Return what draws the figures of a dataset, and what they depend on besides files."""
        settings = PlotSettings() if self.settings is None else self.settings(config, dataset)
        return settings.model_copy(update={"draw": self.draw})

    @property
    def modules(self) -> list[str]:
        """The modules that draw, for the digest of the code: the script names them by words."""
        drawing = {figure.draw.split(".")[0] for figure in self.figures}
        return [f"aam.report.figures.{name}" for name in sorted(drawing)]

    def describe(self, model: str) -> str:
        """Return what is drawn, and of what, in words with wildcards; `model` names a model."""
        titles = [figure.title.removesuffix(", figure") for figure in self.figures]
        names = ["{wildcards.dataset}"]
        for name in self.wildcards:
            names.append(model if name == "model" else f"{{wildcards.{name}}}")
        return f"{', '.join(titles)} of {', '.join(names)}"

    @property
    def wildcards(self) -> list[str]:
        """What a job is of, in addition to the dataset: nothing, `model`, `task`, or both."""
        return re.findall(r"\{(\w+)\}", self.figures[0].path_stem)


PRE = "pretrain/{model}"
"""Folder of a pretrained model below that of a dataset."""
TASK = "finetune/{model}/{task}"
"""Folder of a task's models."""
ANSWER = "answers/{task}/{answer}"
"""Folder of an answer to a task: of its baselines, or of a model's networks and these."""
PLOTS: dict[str, Plot] = {
    "rarefaction": Plot(
        "Data",
        {
            "curve": "rarefied/curve.tsv",
            "dropped": "rarefied/view0.dropped.tsv",
            "table": "inputs/table.biom",
        },
        [Figure("rarefaction.draw", "rarefaction", "rarefaction", "rarefaction")],
        settings=slices.plot_rarefaction,
    ),
    "speed": Plot(
        "Benchmark",
        {"speed": "benchmark/speed.tsv"},
        [Figure("bars.draw_speed", "speed", "speed, figure", "speed_figure")],
        shown="on_demand",
    ),
    "pretraining": Plot(
        "Pretraining",
        {
            **{name: f"{PRE}/{name}.parquet" for name in ("history", "pairs", "embeddings")},
            "metadata": "inputs/metadata.parquet",
        },
        [
            Figure("history.draw", f"{PRE}/history", "training curves", "pretraining"),
            Figure("distances.draw_pairs", f"{PRE}/pairs", "predicted distances", "pairs"),
            Figure("distances.draw_ordination", f"{PRE}/embeddings", "ordination", "embeddings"),
        ],
        settings=slices.plot_pretraining,
    ),
    "finetuning": Plot(
        "Tasks",
        {"history": f"{TASK}/history.parquet"},
        [Figure("history.draw", f"{TASK}/history", "training curves", "finetuning")],
    ),
    "answer": Plot(
        "Tasks",
        {"predictions": f"{ANSWER}/predictions.tsv", "report": f"{ANSWER}/scores.json"},
        [
            Figure("task.draw", f"{ANSWER}/predictions", "predictions", "predictions"),
            Figure("task.draw_others", f"{ANSWER}/methods", "the other methods", "methods"),
        ],
        methods=("baselines", "networks"),
        shown="answers",
    ),
    "clades": Plot(
        "Tasks",
        {
            "clades": "clades/{task}.tsv",
            "samples": "clades/{task}.samples.tsv",
            "tree": "clades/{task}.nwk",
            "report": f"{ANSWER}/scores.json",
        },
        [Figure("clades.draw", f"{ANSWER}/clades", "named clades", "clades")],
        shown="answers",
        explains=True,
    ),
    "studies": Plot(
        "Tasks",
        {"report": f"{ANSWER}/scores.json"},
        [Figure("studies.draw", f"{ANSWER}/studies", "study by study", "studies")],
        shown="answers",
        question=STUDIES,
    ),
    "trajectories": Plot(
        "Tasks",
        {
            "predictions": f"{ANSWER}/predictions.tsv",
            "report": f"{ANSWER}/scores.json",
            "metadata": "inputs/metadata.parquet",
        },
        [Figure("trajectories.draw", f"{ANSWER}/trajectories", "people over time", "trajectories")],
        shown="answers",
        has_times=True,
    ),
    "importance": Plot(
        "Tasks",
        {
            "importance": f"{TASK}/importance.tsv",
            "check": f"{TASK}/importance_check.json",
            "report": "answers/{task}/{model}/scores.json",
            "tree": "inputs/tree.nwk",
        },
        [Figure("importance.draw", f"{TASK}/importance", "important ASVs", "importance")],
        shown="explained",
    ),
    "accuracy": Plot(
        "Benchmark",
        {"accuracy": "benchmark/accuracy.tsv"},
        [Figure("bars.draw_accuracy", "accuracy", "accuracy, figure", "accuracy_figure")],
        shown="tasks",
    ),
}
"""By the name of the rule, without `plot_`; the summary shows the figures in this order."""
