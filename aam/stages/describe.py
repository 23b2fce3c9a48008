"""What a study is, from the user's files alone, before anything is computed."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from aam.data.folds import TEST
from aam.data.splits import labelled
from aam.data.study.sentences import decision_lines, study_sentences, task_sentences
from aam.data.study.study import Study
from aam.data.table import FeatureTable
from aam.report.duration import Work, expected_parts, is_worth_it, propose_faster
from aam.util.atomic import write_text
from aam.util.log import duration, has_console
from aam.util.notes import collect_notes


def describe_study(
    *,
    table: Path,
    sequences: Path | None = None,
    tree: Path | None = None,
    metadata: Path | None = None,
    taxonomy: Path | None = None,
    dataset: str,
    root: Literal["given", "min_variance"] = "given",
    depth: int,
    drops_long_branches: bool = False,
    max_length_bp: int,
    models: Mapping[str, Mapping[str, Any]] = {},
    tasks: Mapping[str, Mapping[str, Any]] = {},
    text_out: Path,
) -> None:
    """Read all files of the user, and print and write what they hold and how long a run takes.

    Parameters
    ----------
    table
        The user's table: BIOM 2.1, BIOM 1.0, TSV or `.qza`.
    sequences
        FASTA file or `.qza` with the sequences of the features. None: their IDs are the sequences.
    tree, metadata, taxonomy
        Further files of the user, where there are any.
    dataset
        What the dataset is called.
    root
        Where the root of the user's tree lies.
    depth
        Reads that rarefaction will draw from each sample.
    drops_long_branches
        Whether rarefaction leaves out ASVs behind long branches of the given tree.
    max_length_bp
        Length that sequences will be cut to.
    models
        By the name of a model its slice of the configuration, `aam.config.slices.pretrain`.
    tasks
        By the name of a task its slice of the configuration, `aam.config.slices.folds`, with
        `finetuning` and with the number of samples that are `explained`.
    text_out
        Text file to write.

    Raises
    ------
    InputError
        A file has a problem, no sample has enough reads, or a task cannot be learned.
    """
    study = Study.read(
        table=table,
        sequences=sequences,
        tree=tree,
        metadata=metadata,
        taxonomy=taxonomy,
        is_rooted=root == "given",
    )
    plan = {
        "depth": depth,
        "drops_long_branches": drops_long_branches,
        "max_length_bp": max_length_bp,
        "models": models,
        "tasks": tasks,
    }
    text = "\n".join(_sentences(study, plan)) + "\n"
    write_text(text_out, text)
    # A console shows the file.
    if not has_console():
        print(f"\n{dataset}\n{text}")


def _sentences(study: Study, plan: Mapping[str, Any]) -> list[str]:
    """Return what a study has and what its tasks find; `plan` has depth, length, models, tasks."""
    kept = study.at_depth(plan["depth"], drops_long_branches=plan["drops_long_branches"])
    lines = list(study_sentences(study, kept))
    labels: dict[str, tuple[int, int]] = {}
    with collect_notes() as notes:
        for name, task in plan["tasks"].items():
            wanted, values, fold, groups = labelled(
                kept, task, before=study.metadata, depth=plan["depth"]
            )
            samples = int((fold != TEST).sum())
            folds = len({*fold.tolist()} - {TEST})
            labels[name] = (samples, folds)
            lines.append(f"Task {name}: {samples} labelled samples in {folds} folds.")
            lines += task_sentences(name, task, wanted, values, groups)
    lines += decision_lines([*study.notes, *notes])
    return [*lines, "", *_times(plan, study.table, study.sequences, labels)]


def _times(
    plan: Mapping[str, Any],
    table: FeatureTable,
    sequences: Mapping[str, str],
    labels: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
    """Yield how long a run takes, part by part and in all, and what would make it faster."""
    work = Work.from_table(plan, table, longest_bp=max(map(len, sequences.values())))
    yield (
        "Estimated time on two cores of this machine, give or take half (`encoder: auto`: its "
        "budget):"
    )
    parts = expected_parts(plan, work, labels)
    for part in parts:
        yield f"  {part.what}: {_rounded(part.seconds)}"
    total_s = sum(part.seconds for part in parts)
    yield f"Everything: about {_rounded(total_s)}."
    lines, changed = propose_faster(plan, work)
    changed_s = sum(part.seconds for part in expected_parts(changed, work, labels))
    if lines and is_worth_it(total_s, changed_s):
        yield f"Faster, about {_rounded(changed_s)}, with these lines in the configuration:"
        yield from (f"  {line}" for line in lines)


def _rounded(seconds: float) -> str:
    return duration(10 * math.ceil(seconds / 10))
