"""What a page without networks says about them: what they add to a score, how long they take.

`networks.tsv` has what they added to the super learner where both were run with default settings:
the means of `docs/leaderboard.tsv`, task by task, with nested weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from aam.config.names import name_models
from aam.report.page.sentences import networks as sentences

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
        least_draws = min(gain.draws for gain in shown)
        yield sentences.introduce_gains(map(_describe, shown), least_draws)
    unknown = sorted(set(sizes) - answered)
    if unknown:
        yield sentences.explain_unmeasured_gain(unknown)


def _is_near(size: int, other: int) -> bool:
    """Return whether two numbers of samples are about the same."""
    return 1 / LARGEST_RATIO <= size / other <= LARGEST_RATIO


def _describe(gain: Gain) -> str:
    return sentences.describe_gain(
        gain.what,
        gain.labels,
        gain.kind,
        gain.unit,
        without=gain.without,
        with_networks=gain.with_networks,
    )


def network_sentences(
    reports: Sequence[Mapping[str, Any]],
    *,
    models: Sequence[str],
    tasks: Sequence[str],
    seconds: float | None,
) -> Iterator[str]:
    """Yield what a page lacks that has no networks, how long they take, and what they bring.

    Parameters
    ----------
    reports
        Contents of the `scores.json` of all first answers.
    models
        Names of the models of the configuration; none: no network is asked for.
    tasks
        Names of all tasks, those without a first answer included.
    seconds
        How long the networks take, where they are asked for.
    """
    if models:
        yield sentences.announce_networks(list(name_models(models).values()), tasks, seconds)
    else:
        yield sentences.explain_no_networks()
    answered = {report["task"] for report in reports}
    missing = [task for task in tasks if task not in answered]
    if missing:
        yield sentences.name_unanswered_tasks(missing)
    yield from gain_sentences(sorted({report["n"] for report in reports}), measured_gains())
