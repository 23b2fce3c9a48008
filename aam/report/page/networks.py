"""The sentence of a page without networks: what they add to a score, how long they take.

`networks.tsv` has what they added to the super learner where both were run with default settings,
and is written by `python -m benchmarks.leaderboard networks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from aam.config.names import name_models
from aam.evaluate.task_report import TaskReport
from aam.report.labels import format_percent
from aam.util.log import format_duration

MEASURED = Path(__file__).parent / "networks.tsv"
"""File of what was measured."""
LARGEST_RATIO = 2.0
"""Two studies are of about the same size up to this ratio of their labelled samples."""


@dataclass(frozen=True)
class Gain:
    """What networks added to the super learner on one task."""

    labels: int
    """Number of labelled samples."""
    kind: str
    """Kind of the task."""
    without: float
    """Headline score without networks."""
    with_networks: float

    @property
    def relative(self) -> float:
        """Change of the score for the better, as a fraction of the score without networks."""
        change = self.with_networks / self.without - 1
        return -change if self.kind == "regression" else change


def describe_networks(
    reports: Sequence[TaskReport],
    *,
    models: Sequence[str],
    tasks: Sequence[str],
    seconds: float | None,
    reads_lineages: bool = False,
) -> str:
    """Say what a page lacks that has no networks, how long they take, and what they bring.

    Parameters
    ----------
    reports
        Those of all first answers.
    models
        Names of the models of the configuration; none: no network is asked for.
    tasks
        Names of all tasks, those without a first answer included.
    seconds
        How long the networks take, where they are asked for.
    reads_lineages
        Whether networks would read lineages: what they add was measured on nucleotides.
    """
    answered = {report.task for report in reports}
    missing = [task for task in tasks if task not in answered]
    ending = "."
    if missing:
        ending = f"; without baselines, {' and '.join(missing)} can be answered by networks alone."
    if models:
        return _announce_networks(list(name_models(models).values()), tasks, seconds) + ending
    asked = "models: {base: {encoder: lineage}}" if reads_lineages else "models: {base: {}}"
    text = (
        f"Networks were not trained, because the configuration says models: {{}}; {asked} would "
        "take minutes to hours"
    )
    if reads_lineages:
        return text + ending
    sizes = {target.best.n for report in reports for target in report.targets}
    return f"{text}, and {describe_gains(sizes, measured_gains())}{ending}"


@cache
def measured_gains() -> tuple[Gain, ...]:
    """Return what was measured."""
    table = pd.read_csv(MEASURED, sep="\t").rename(columns={"with": "with_networks"})
    columns = list(Gain.__dataclass_fields__)
    return tuple(Gain(*row) for row in table[columns].itertuples(index=False))


def describe_gains(sizes: set[int], gains: Sequence[Gain]) -> str:
    """Say, as the end of a sentence, what networks added on tasks of about the same size.

    Parameters
    ----------
    sizes
        Numbers of labelled samples of the tasks of a page.
    gains
        What was measured.
    """
    alike = [gain for gain in gains if any(_is_near(size, gain.labels) for size in sizes)]
    if not alike:
        return "what they add was not measured in studies of this size"
    changes = sorted(gain.relative for gain in alike)
    labels = sorted(gain.labels for gain in alike)
    tasks = "one task" if len(alike) == 1 else f"{len(alike)} tasks"
    return (
        "the super learner with networks was "
        f"{_join_range(_describe(changes[0]), _describe(changes[-1]))} in {tasks} of public "
        f"studies with {_join_range(str(labels[0]), str(labels[-1]))} labelled samples, which can "
        "be chance"
    )


def _is_near(size: int, other: int) -> bool:
    """Return whether two numbers of samples are about the same."""
    return 1 / LARGEST_RATIO <= size / other <= LARGEST_RATIO


def _join_range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _describe(change: float) -> str:
    amount = format_percent(abs(change), 1)
    if amount == format_percent(0.0, 1):
        return "unchanged"
    return f"{amount} {'better' if change > 0 else 'worse'}"


def _announce_networks(models: Sequence[str], tasks: Sequence[str], seconds: float | None) -> str:
    """Say what a page of first answers lacks, and how long the rest takes, without a full stop."""
    names = " and ".join(models)
    follow = "follows" if len(models) == 1 else "follow"
    time = (
        "" if seconds is None else f" in about {format_duration(seconds)} on two cores like these"
    )
    return (
        f"{names} {follow}, pretrained without labels and fine-tuned to {', '.join(tasks)}{time}, "
        "on the page report.html"
    )
