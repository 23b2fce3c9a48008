"""Results for those who read text: the summary, and a few lines for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from aam.evaluate.labels import score
from aam.evaluate.page import words
from aam.evaluate.page.answers import Caution, answer, cautions
from aam.evaluate.scores import accuracy_table, of_each_target


def by_task(
    reports: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, list[dict[str, Any]], pd.DataFrame]]:
    """Yield the name of each task, the reports of all models on it, and its `accuracy_table`."""
    each = of_each_target(reports)
    for task, rows in accuracy_table(reports).groupby("task", sort=False):
        of_task = [report for report in each if report["task"] == task]
        yield str(task), of_task, rows


def summary_page(
    dataset: str,
    pretraining: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[Mapping[str, Any]],
    limits: Sequence[Caution] = (),
    dropped: Sequence[str] = (),
) -> str:
    """Return the answers of a dataset and what limits the trust in them, as Markdown.

    `pretraining` and `tasks` are contents of `metrics.json`; `limits` concern all tasks.
    """
    parts = [f"# Results of `{dataset}`", "All of it, with figures: [report.html](report.html)."]
    for task, of_task, _ in by_task(tasks):
        parts.append(f"## {task}")
        for report in of_task:
            several = f"**{report['model']}**: " if len(of_task) > 1 else ""
            parts += [several + answer(report), *_items(one.text for one in cautions(report))]
    parts += ["## Encoders", *_items(one.text for one in limits)]
    parts += [f"**{name}**: {words.on_encoder(report)}" for name, report in pretraining.items()]
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
    for task, of_task, _ in by_task(tasks):
        lines += [f"  {task}, {report['model']}: {answer(report)}" for report in of_task]
    return lines


def _items(lines: Iterable[str]) -> list[str]:
    """Return one list of Markdown, or none."""
    text = "\n".join(f"- {line}" for line in lines)
    return [text] if text else []
