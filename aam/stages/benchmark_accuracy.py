"""The accuracy of all models and baselines in one table."""

from aam.evaluate.scores import accuracy_table
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import read_json, write_tsv


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Gather the scores of every fine-tuned model and, once per task, of the baselines."""
    reports = [read_json(path) for path in inputs["metrics"]]
    write_tsv(outputs["table"], accuracy_table(reports))
