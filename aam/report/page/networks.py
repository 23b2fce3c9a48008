"""What a page without networks says about them: what they add to a score, how long they take.

`networks.tsv` has what they added to the super learner where both were run with default settings:
the means of `docs/leaderboard.tsv`, task by task, with nested weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from aam.config.names import name_models
from aam.evaluate.task_report import TaskReport
from aam.report.labels import capitalize, format_amount, format_percent
from aam.util.log import format_duration

MEASURED = Path(__file__).parent / "networks.tsv"
"""File of what was measured."""
LARGEST_RATIO = 2.0
"""Two studies are of about the same size up to this ratio of their labelled samples."""


@dataclass(frozen=True)
class Gain:
    """What networks added to the super learner on one task."""

    what: str
    """What was predicted, in words."""
    labels: int
    """Number of labelled samples."""
    kind: str
    """Kind of the task."""
    unit: str | None
    """Unit of an error, or None."""
    draws: int
    """Draws of folds that the scores are means of."""
    without: float
    """Headline score without networks."""
    with_networks: float


def network_sentences(
    reports: Sequence[TaskReport],
    *,
    models: Sequence[str],
    tasks: Sequence[str],
    seconds: float | None,
    reads_lineages: bool = False,
) -> Iterator[str]:
    """Yield what a page lacks that has no networks, how long they take, and what they bring.

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
    if models:
        yield _announce_networks(list(name_models(models).values()), tasks, seconds)
    else:
        asked = "models: {base: {encoder: lineage}}" if reads_lineages else "models: {base: {}}"
        yield (
            "AAM itself, a neural network, was not trained, because the configuration says "
            f"models: {{}}. With {asked} it is pretrained and fine-tuned to each task, "
            "which takes minutes to hours; the results on this page stay as they are."
        )
    answered = {report.task for report in reports}
    missing = [task for task in tasks if task not in answered]
    if len(missing) == 1:
        yield f"Task {missing[0]} has no baselines: only networks answer it."
    elif missing:
        yield f"Tasks {', '.join(missing)} have no baselines: only networks answer them."
    if reads_lineages:
        return
    sizes = {target.best.n for report in reports for target in report.targets}
    yield from gain_sentences(sorted(sizes), measured_gains())


@cache
def measured_gains() -> tuple[Gain, ...]:
    """Return what was measured."""
    table = pd.read_csv(MEASURED, sep="\t").rename(columns={"with": "with_networks"})
    table = table.astype({"unit": object}).where(table.notna(), None)
    columns = list(Gain.__dataclass_fields__)
    return tuple(Gain(*row) for row in table[columns].itertuples(index=False))


def gain_sentences(sizes: Sequence[int], gains: Sequence[Gain]) -> Iterator[str]:
    """Yield what networks added on tasks of about the same size, as far as it is known.

    Parameters
    ----------
    sizes
        Numbers of labelled samples of the tasks of a page.
    gains
        What was measured.
    """
    shown = []
    answered: set[int] = set()
    for gain in gains:
        matching = [size for size in sizes if _is_near(size, gain.labels)]
        answered.update(matching)
        if matching:
            shown.append(gain)
    if shown:
        draws = min(gain.draws for gain in shown)
        divisions = "one division" if draws == 1 else f"{draws} divisions or more"
        yield (
            "What networks changed in the score of the super learner, the mixture of all methods, "
            f"in studies of about this size: {' '.join(map(_describe, shown))} Each pair of scores "
            f"is from {divisions} into folds, so such differences can be chance."
        )
    unknown = sorted(set(sizes) - answered)
    if unknown:
        yield (
            "What networks add was not measured in studies of about "
            f"{' or '.join(map(str, unknown))} labelled samples."
        )


def _is_near(size: int, other: int) -> bool:
    """Return whether two numbers of samples are about the same."""
    return 1 / LARGEST_RATIO <= size / other <= LARGEST_RATIO


def _describe(gain: Gain) -> str:
    """Say what the super learner of a study reached without and with networks."""
    study = f"{capitalize(gain.what)} ({gain.labels} labelled samples)"
    if gain.kind == "regression":
        return (
            f"{study}: off by {format_amount(gain.without, gain.unit)} on average without "
            f"networks, {format_amount(gain.with_networks, gain.unit)} with them."
        )
    return (
        f"{study}: right in {format_percent(gain.without, 1)} of the samples of a class, averaged "
        f"over the classes, without networks, {format_percent(gain.with_networks, 1)} with them."
    )


def _announce_networks(models: Sequence[str], tasks: Sequence[str], seconds: float | None) -> str:
    """Say what a page of first answers lacks, and how long the rest takes."""
    names = " and ".join(models)
    time = (
        "" if seconds is None else f" in about {format_duration(seconds)} on two cores like these"
    )
    follows = f"{names} follows: its encoder is"
    if len(models) > 1:
        follows = f"{names} follow: their encoders are"
    return (
        f"These answers are from methods without networks. {follows} pretrained without labels "
        f"and then fine-tuned to {', '.join(tasks)}{time}. The page report.html will have these "
        f"answers with {names} among the methods."
    )
