"""What a study is, from the user's files alone, before anything is computed."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.duration import expected_seconds
from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table, without_empty
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import cut_to, load_tree
from aam.data.metadata import metadata_column
from aam.data.study import sentences
from aam.data.table import FeatureTable
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_text
from aam.util.log import duration


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Read all files, print and write what they hold; a file with a problem ends it."""
    text = "\n".join(_sentences(cfg, inputs)) + "\n"
    print(f"\n{cfg['dataset']}\n{text}")
    write_text(outputs["text"], text)


def _sentences(cfg: Cfg, files: Files) -> list[str]:
    table, dropped = without_empty(load_table(files["table"]))
    sequences = feature_sequences(table, files["table"], files.get("sequences"))
    metadata = pd.DataFrame(index=table.sample_ids)
    if "metadata" in files:
        metadata = load_metadata(files["metadata"])
    found = list(sentences(table, sequences, metadata))
    if len(dropped):
        found.append(f"{len(dropped)} samples and ASVs have no reads, and are left out.")
    if "tree" in files:
        cut_to(load_tree(files["tree"]), table.feature_ids, files["tree"])
        found.append("The tree has a tip for every ASV.")
    if "taxonomy" in files:
        known = load_taxonomy(files["taxonomy"])
        share = sum(name in known for name in table.feature_ids) / len(table.feature_ids)
        found.append(f"{share:.0%} of the ASVs have a taxon.")
    found.append("About how long it takes on two cores like those here:")
    labels = {name: _labelled(task, table, metadata) for name, task in cfg["tasks"].items()}
    longest = max(map(len, sequences.values()))
    for what, seconds in expected_seconds(cfg, table, longest, labels):
        found.append(f"  {what}: {duration(round(seconds, -1) or seconds)}")
    return found


def _labelled(
    task: Mapping[str, Any], table: FeatureTable, metadata: pd.DataFrame
) -> tuple[int, int]:
    """Return the samples that take part in a task, whatever their reads, and its folds."""
    rows = metadata.loc[[name for name in table.sample_ids if name in metadata.index]]
    for column, values in task["where"].items():
        rows = rows[metadata_column(rows, column).isin(values)]
    known = pd.concat([metadata_column(rows, name) for name in task["columns"]], axis=1).notna()
    rows = rows[known.all(axis=1)]
    folds = task["k"] or metadata_column(rows, task["column"]).nunique()
    return len(rows), folds
