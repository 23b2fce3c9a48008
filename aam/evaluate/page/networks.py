"""What a page without networks says of them: what they add to a score, and how long they take.

`networks.tsv` has what they added to the super learner where both were run with default settings:
the means of `docs/leaderboard.tsv`, task by task, with nested weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.page import words

MEASURED = Path(__file__).parent / "networks.tsv"
OF_A_SIZE = 2.0
"""How many times as many samples a study has at most that is of the same size as another."""


@dataclass(frozen=True)
class Gain:
    """What networks added to the super learner on one task."""

    what: str
    labels: int
    kind: str
    draws: int
    """Draws of folds that the scores are means of."""
    without: float
    """Headline score without networks."""
    with_networks: float


@cache
def measured_gains() -> tuple[Gain, ...]:
    """Return what was measured."""
    table = pd.read_csv(MEASURED, sep="\t").rename(columns={"with": "with_networks"})
    columns = list(Gain.__dataclass_fields__)
    rows = table[columns].to_dict("records")
    return tuple(Gain(**{str(key): value for key, value in row.items()}) for row in rows)


def gain_sentences(sizes: Sequence[int], gains: Sequence[Gain]) -> Iterator[str]:
    """Yield what networks added on tasks of these numbers of labelled samples, if it is known."""
    near = {
        gain: [size for size in sizes if 1 / OF_A_SIZE <= size / gain.labels <= OF_A_SIZE]
        for gain in gains
    }
    shown = [gain for gain, matching in near.items() if matching]
    if shown:
        yield words.networks_added(
            [
                (gain.what, gain.labels, gain.kind, gain.draws, gain.without, gain.with_networks)
                for gain in shown
            ]
        )
    answered = {size for matching in near.values() for size in matching}
    unknown = sorted(set(sizes) - answered)
    if unknown:
        yield words.networks_not_measured(unknown)


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
        Contents of the `metrics.json` of all first answers.
    models
        Names of the models of the configuration; none: no network is asked for.
    tasks
        Names of all tasks, those without a first answer included.
    seconds
        How long the networks take, where they are asked for.
    """
    if models:
        yield words.networks_are_coming(models, tasks, seconds)
    else:
        yield words.networks_not_asked_for()
    answered = {report["task"] for report in reports}
    missing = [task for task in tasks if task not in answered]
    if missing:
        yield words.no_first_answer(missing)
    yield from gain_sentences(sorted({report["n"] for report in reports}), measured_gains())
