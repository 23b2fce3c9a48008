"""Results for those who read text: the summary, and a few lines for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.labels import score
from aam.evaluate.page.answers import (
    Caution,
    Verdict,
    answer,
    cautions,
    short_answer,
    verdicts,
)
from aam.evaluate.page.details import encoder_sentences
from aam.evaluate.scores import accuracy_table, of_each_target


@dataclass(frozen=True)
class TaskResults:
    """A task, or one target of it, with all models that were scored on it."""

    name: str
    reports: Sequence[Mapping[str, Any]]
    """One per model."""
    verdicts: Sequence[Verdict]
    """The verdict on each report, corrected for all tasks."""
    scores: pd.DataFrame
    """Its rows of the `accuracy_table`."""


def by_task(reports: Sequence[Mapping[str, Any]]) -> Iterator[TaskResults]:
    """Yield what was found in each task, in the order of the reports.

    `reports` are contents of `metrics.json`: all that a page shows, since verdicts are corrected
    for their number.
    """
    each = of_each_target(reports)
    judged = verdicts(each)
    for task, rows in accuracy_table(reports).groupby("task", sort=False):
        places = [place for place, report in enumerate(each) if report["task"] == task]
        yield TaskResults(
            name=str(task),
            reports=[each[place] for place in places],
            verdicts=[judged[place] for place in places],
            scores=rows,
        )


def summary_page(
    dataset: str,
    pretraining: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[Mapping[str, Any]],
    limits: Sequence[Caution] = (),
    dropped: Sequence[str] = (),
    *,
    networks: Sequence[str] = (),
    page: str = "report.html",
) -> str:
    """Return the answers of a dataset and what limits the trust in them, as Markdown.

    `pretraining` and `tasks` are contents of `metrics.json`; `limits` concern all tasks; `networks`
    is what results without networks say of them, and `page` the file with all of it.
    """
    parts = [f"# Results of `{dataset}`", f"All of it, with figures: [{page}]({page})."]
    for task in by_task(tasks):
        parts.append(f"## {task.name}")
        for report, verdict in zip(task.reports, task.verdicts, strict=True):
            several = f"**{report['model']}**: " if len(task.reports) > 1 else ""
            parts.append(several + answer(report, verdict))
            parts += _items(one.text for one in cautions(report, verdict))
    if networks:
        parts += ["## Without networks", *_items(networks)]
    if pretraining or limits:
        parts.append("## Encoders" if pretraining else "## What limits the trust")
    parts += _items(one.text for one in limits)
    for name, report in pretraining.items():
        parts.append(f"**{name}**: {' '.join(encoder_sentences(report))}")
    if dropped:
        parts += ["## Left out", *_items(dropped)]
    return "\n\n".join(parts) + "\n"


def terminal_lines(
    dataset: str, pretraining: Mapping[str, Mapping[str, Any]], tasks: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the same in a few lines."""
    lines = [f"Results of {dataset}"]
    for model, report in pretraining.items():
        r = report.get("unifrac_pearson")
        known = f"UniFrac of held-out samples at r {score(r)}" if r else "masked nucleotides"
        lines.append(f"  encoder {model}: {known}")
    for task in by_task(tasks):
        for report, verdict in zip(task.reports, task.verdicts, strict=True):
            lines.append(f"  {task.name}, {report['model']}: {answer(report, verdict)}")
    return lines


def closing_lines(page: Path, tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the answer to the first task, its first light, and where the page is.

    `tasks` are contents of `metrics.json`, those of the first task first.
    """
    dataset = page.parent.name
    if not tasks:
        return [f"{dataset}: open {page} in a browser"]
    reports = of_each_target(tasks)
    first, verdict = reports[0], verdicts(reports)[0]
    light = cautions(first, verdict)[0]
    number = len({report["task"] for report in reports})
    every = f", which has all {number} tasks" if number > 1 else ""
    return [
        f"{dataset}, {first['task']}: {short_answer(first, verdict)}",
        f"Light: {light.light}. {light.text}",
        f"Page{every}: open {page} in a browser",
    ]


def _items(lines: Iterable[str]) -> list[str]:
    """Return one list of Markdown, or none."""
    text = "\n".join(f"- {line}" for line in lines)
    return [text] if text else []
