"""The accuracy of all models and baselines in one table."""

from collections.abc import Sequence
from pathlib import Path

from aam.evaluate.task_report import TaskReport, accuracy_table
from aam.util.atomic import write_tsv


def gather_accuracy(*, scores: Sequence[Path], table_out: Path) -> None:
    """Gather the scores of every fine-tuned model and, once per task, of the baselines.

    Parameters
    ----------
    scores
        JSON files of scores, as `aam.stages.score` writes them.
    table_out
        TSV file to write, with a row per method and task.
    """
    write_tsv(table_out, accuracy_table([TaskReport.read(path) for path in scores]))
