"""What a study is, from the user's files alone, before anything is computed."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from aam.data.duration import Work, expected_parts, is_worth_it, propose_faster
from aam.data.folds import TEST
from aam.data.importing.metadata import metadata_of
from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table, without_empty
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import cut_to, load_tree
from aam.data.rarefaction import too_deep
from aam.data.splits import labelled
from aam.data.study import on_task, sentences
from aam.data.table import FeatureTable
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_text
from aam.util.log import duration, has_console


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Read all files, print and write what they hold; a file with a problem ends it."""
    text = "\n".join(_sentences(cfg, inputs)) + "\n"
    write_text(outputs["text"], text)
    # A console shows the file.
    if not has_console():
        print(f"\n{cfg['dataset']}\n{text}")


def _sentences(cfg: Cfg, files: Files) -> list[str]:
    table, dropped = without_empty(load_table(files["table"]))
    sequences = feature_sequences(table, files["table"], files.get("sequences"))
    metadata = pd.DataFrame(index=table.sample_ids)
    if "metadata" in files:
        metadata = metadata_of(files["metadata"], table.sample_ids)
    found = list(sentences(table, sequences, metadata))
    if len(dropped):
        found.append(f"{len(dropped)} samples and ASVs have no reads, and are left out.")
    if "tree" in files:
        tree = load_tree(files["tree"], is_rooted=cfg["root"] == "given")
        cut_to(tree, table.feature_ids, files["tree"])
        found.append("The tree has a tip for every ASV.")
    if "taxonomy" in files:
        known = load_taxonomy(files["taxonomy"])
        share = sum(name in known for name in table.feature_ids) / len(table.feature_ids)
        found.append(f"{share:.0%} of the ASVs have a taxon.")
    is_deep = table.reads >= cfg["depth"]
    if not is_deep.any():
        raise too_deep(table.sample_ids, table.reads, cfg["depth"])
    deep = metadata[is_deep]
    labels: dict[str, tuple[int, int]] = {}
    for name, task in cfg["tasks"].items():
        wanted, values, fold, groups = labelled(deep, task)
        labels[name] = int((fold != TEST).sum()), len({*fold.tolist()} - {TEST})
        found.append("Task {}: {} labelled samples in {} folds.".format(name, *labels[name]))
        found += on_task(name, task, wanted, values, groups)
    return [*found, "", *_times(cfg, table, sequences, labels)]


def _times(
    cfg: Cfg,
    table: FeatureTable,
    sequences: Mapping[str, str],
    labels: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
    """Yield how long a run takes, part by part and in all, and what would make it faster."""
    work = Work.of_table(cfg, table, longest_bp=max(map(len, sequences.values())))
    yield "Time on two cores like these, give or take half (of `encoder: auto` its budget):"
    parts = expected_parts(cfg, work, labels)
    for part in parts:
        yield f"  {part.what}: {_rounded(part.seconds)}"
    total_s = sum(part.seconds for part in parts)
    yield f"Everything: about {_rounded(total_s)}."
    lines, changed = propose_faster(cfg, work)
    changed_s = sum(part.seconds for part in expected_parts(changed, work, labels))
    if lines and is_worth_it(total_s, changed_s):
        yield f"Faster, about {_rounded(changed_s)}, with these lines in the configuration:"
        yield from (f"  {line}" for line in lines)


def _rounded(seconds: float) -> str:
    return duration(10 * math.ceil(seconds / 10))
