"""Results for those who read text: the summary, and a few lines for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aam.config.names import name_models
from aam.report.page.answers import write_answer, write_short_answer
from aam.report.page.cautions import Caution, list_cautions
from aam.report.page.details import encoder_sentences
from aam.report.page.reports import label_reports, model_label
from aam.report.page.task_results import group_by_task
from aam.report.page.verdicts import judge_all
from aam.util.errors import first_few


def summary_page(
    dataset: str,
    pretraining: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[Mapping[str, Any]],
    limits: Sequence[Caution] = (),
    dropped: Sequence[str] = (),
    *,
    decisions: Sequence[str] = (),
    networks: Sequence[str] = (),
    page: str = "report.html",
) -> str:
    """Return the answers of a dataset and what limits the trust in them, as Markdown.

    Parameters
    ----------
    dataset
        Name of the dataset.
    pretraining
        Contents of `scores.json` of each pretrained model, by name.
    tasks
        Contents of `scores.json` of each task and model.
    limits
        Cautions that concern all tasks.
    dropped
        Sentences on samples and features that were left out.
    decisions
        Sentences on what was decided for the user.
    networks
        Sentences on networks where the results have none.
    page
        File of the page with all results, relative to the summary.
    """
    parts = [f"# Results of `{dataset}`", f"All of it, with figures: [{page}]({page})."]
    for task in group_by_task(tasks):
        parts.append(f"## {task.name}")
        for report, verdict in zip(task.reports, task.verdicts, strict=True):
            several = f"**{model_label(report)}**: " if len(task.reports) > 1 else ""
            parts.append(several + write_answer(report, verdict))
            parts += _list_items(one.text for one in list_cautions(report, verdict))
    if decisions:
        parts += ["## Decided for you", *_list_items(decisions)]
    if networks:
        parts += ["## Without networks", *_list_items(networks)]
    if pretraining or limits:
        parts.append("## Encoders" if pretraining else "## What limits the trust")
    parts += _list_items(one.text for one in limits)
    labels = name_models(pretraining)
    for name, report in pretraining.items():
        parts.append(f"**{labels[name]}**: {' '.join(encoder_sentences(report))}")
    if dropped:
        parts += ["## Left out", *_list_items(dropped)]
    return "\n\n".join(parts) + "\n"


def closing_lines(
    page: Path,
    tasks: Sequence[Mapping[str, Any]],
    *,
    cautions: Sequence[str] = (),
    left_over: Sequence[str] = (),
) -> list[str]:
    """Return the answer to the first task, its lights, and where the page is.

    Parameters
    ----------
    page
        The page of results, in the folder of the dataset.
    tasks
        Contents of `scores.json`, those of the first task first.
    cautions
        What limits the trust in all tasks because of the files.
    left_over
        Folders of tasks that the configuration no longer has.
    """
    dataset = page.parent.name
    unasked = []
    if left_over:
        shown = f"{first_few(left_over)} in {page.parent}"
        unasked = [f"Not asked for any more, and not on the page: {shown}"]
    if not tasks:
        return [f"{dataset}: open {page} in a browser", *unasked]
    reports = label_reports(tasks)
    first = reports[0]
    verdict = judge_all(reports)[0]
    light = list_cautions(first, verdict)[0]
    number = len({report["task"] for report in reports})
    every = f", which has all {number} tasks" if number > 1 else ""
    return [
        f"{dataset}, {first['task']}: {write_short_answer(first, verdict)}",
        f"Light: {light.light}. {light.text}",
        *(f"Light: caution. {text}" for text in cautions),
        f"Page{every}: open {page} in a browser",
        *unasked,
    ]


def _list_items(lines: Iterable[str]) -> list[str]:
    """Return one list of Markdown, or none."""
    text = "\n".join(f"- {line}" for line in lines)
    return [text] if text else []
