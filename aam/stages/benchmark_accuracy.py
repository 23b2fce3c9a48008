"""The accuracy of all models and baselines in one table."""

from collections.abc import Mapping
from typing import Any

from aam.evaluate.scores import accuracy_table
from aam.evaluate.summary import accuracy_page
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import atomic_path, read_json, write_text


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Gather the scores of every fine-tuned model and, once per task, of the baselines."""
    reports = [read_json(path) for path in inputs["metrics"]]
    with atomic_path(outputs["table"]) as partial:
        accuracy_table(reports).to_csv(
            partial, sep="\t", index=False, float_format="%.6g", lineterminator="\n"
        )
    write_text(outputs["text"], accuracy_page(reports))
