"""Labels that nothing can tell, through whole stages: how often a first answer claims something.

`python -m benchmarks.null_stages prepare STUDY FOLDER` draws labels for a study that
`benchmarks.leaderboard` has prepared (the published figures are of `leaderboard/mackerel`), four
columns of each of the five kinds of `benchmarks.null`, and writes metadata and a configuration
into FOLDER. Snakemake then makes the first answers, and
`python -m benchmarks.null_stages claims RESULTS` counts the claims of all `scores.json` below
RESULTS.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from aam.evaluate.task_report import TaskReport
from aam.util.atomic import write_text
from benchmarks.null import CLAIMS, MEANS, WAYS, claims_of, labels_of
from benchmarks.speed.tables import markdown_table

DRAWS = 4
"""Columns of each kind of labels."""
GROUP = "host"
DATASET = "null"


def prepare(study: Path, folder: Path) -> None:
    """Write labels by sample and the tasks that predict them."""
    metadata = pd.read_csv(study / "metadata.tsv", sep="\t", dtype=str, index_col=0)
    group_N = metadata[GROUP].to_numpy(np.str_)
    columns: dict[str, list[str]] = {GROUP: group_N.tolist()}
    tasks: dict[str, dict[str, Any]] = {}
    for way_number, way in enumerate(WAYS):
        for draw in range(DRAWS):
            name = f"{way.replace(' ', '_').replace('%', 'percent')}_{draw}"
            rng = np.random.default_rng([draw, way_number])
            label_N = labels_of(group_N, way, rng)
            columns[name] = label_N.astype(str).tolist()
            is_number = way.startswith("numbers")
            tasks[name] = {
                "dataset": DATASET,
                "column": name,
                "kind": "regression" if is_number else "classification",
                "folds": {"k": 5, "stratified": not is_number, "seed": draw},
            }
            if way.endswith("by group"):
                tasks[name]["folds"]["groups"] = GROUP
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(columns, index=pd.Index(metadata.index, name="sample-id"))
    write_text(folder / "metadata.tsv", frame.to_csv(sep="\t"))
    files = {"table": study / "table.biom", "tree": study / "tree.nwk"}
    dataset = {name: str(path.resolve()) for name, path in files.items()}
    dataset["metadata"] = str((folder / "metadata.tsv").resolve())
    config = {"datasets": {DATASET: dataset}, "models": {}, "tasks": tasks}
    write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))


def claims(results: Path) -> pd.DataFrame:
    """Return the claims of every first answer, a row each."""
    rows = []
    for path in sorted(results.glob("*/answers/*/first/scores.json")):
        report = TaskReport.read(path)
        rows.append({"task": report.task, **claims_of(report)})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the study, or count the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    first.add_argument("study", type=Path)
    first.add_argument("folder", type=Path)
    second = commands.add_parser("claims")
    second.add_argument("results", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "prepare":
        prepare(given.study, given.folder)
        return
    table = claims(given.results)
    rows = []
    for claim in [name for name in CLAIMS if name in table]:
        part = table[table["has an interval"]] if "interval" in claim else table
        rows.append([claim, f"{part[claim].sum()} of {len(part)}"])
    for name in MEANS:
        values = table[name].dropna().astype(float)
        error = values.std(ddof=1) / np.sqrt(len(values))
        rows.append([f"{name}, mean (standard error)", f"{values.mean():+.4f} ({error:.4f})"])
    print(markdown_table(["", "first answers"], rows))


if __name__ == "__main__":
    main()
