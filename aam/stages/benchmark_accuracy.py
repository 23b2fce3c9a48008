"""The accuracy of all models and baselines in one table."""

from collections.abc import Sequence
from pathlib import Path

from aam.evaluate.scores import accuracy_table
from aam.util.atomic import read_json, write_tsv


def gather_accuracy(*, metrics: Sequence[Path], table_out: Path) -> None:
    """Gather the scores of every fine-tuned model and, once per task, of the baselines.

    Parameters
    ----------
    metrics
        JSON files of scores, as `aam.stages.score` writes them.
    table_out
        TSV file to write, with a row per method and task.
    """
    reports = [read_json(path) for path in metrics]
    write_tsv(table_out, accuracy_table(reports))
