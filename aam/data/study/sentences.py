"""Sentences on a study: what its files hold, what looks wrong, and what may flatter its scores."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from aam.data.confounding import predictive_columns
from aam.data.importing.table import NO_READS
from aam.data.roles import is_technical, names_units
from aam.data.study.columns import columns_of, grouping
from aam.data.study.proposal import proposed_depth
from aam.data.study.read_starts import sequence_sentences
from aam.data.study.study import Study
from aam.util.errors import InputError, first_few, first_names
from aam.util.notes import Note

DEPTHS = (500, 1000, 2000, 5000, 10_000, 20_000)


def study_sentences(study: Study, kept: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on a study: reads, sequences, depths, columns, groups, missing values.

    Parameters
    ----------
    study
        Its files.
    kept
        Metadata of the samples that rarefaction keeps, by `Study.at_depth`: columns are described
        as tasks find them.
    """
    table = study.table
    reads = table.reads
    yield (
        f"{len(reads)} samples, {len(table.feature_ids)} ASVs, {reads.sum():,} reads: "
        f"{np.median(reads):,.0f} in the median sample, {reads.min():,} to {reads.max():,}."
    )
    yield next(sequence_sentences(table, study.sequences))
    empty = int((study.left_out["why"] == NO_READS).sum())
    if empty:
        yield f"{empty} samples and ASVs have no reads, and are left out."
    if study.has_tree:
        yield "The tree has a tip for every ASV."
    if study.taxa is not None:
        share = sum(map(bool, study.taxa.values())) / len(study.taxa)
        yield f"{share:.0%} of the ASVs have a taxon."
    blanks = study.blanks
    if blanks:
        yield describe_blanks(blanks)
    depth = proposed_depth(study.reads_that_matter())
    shown = sorted({depth, *(one for one in DEPTHS if one <= reads.max())})
    share_kept = ", ".join(f"{one} keeps {np.mean(reads >= one):.0%}" for one in shown)
    yield f"Rarefaction depths: {share_kept}. Proposed: {depth}."
    columns = columns_of(kept)
    unknown = int(study.metadata.isna().all(axis=1).sum())
    if columns and unknown:
        yield f"{unknown} samples have no metadata."
    yield f"{len(columns)} metadata columns, in the {len(kept)} samples that rarefaction keeps:"
    yield from (f"  {one}" for one in columns)
    together = grouping(columns)
    if together is not None:
        yield (
            f"Samples of one `{together.name}` should stay together (`groups`): there are "
            f"{len(together.counts)}; scores would be too good otherwise."
        )
    technical = [one.name for one in columns if is_technical(one.name) and one.kind == "classes"]
    if technical:
        yield (
            f"Columns on how samples were processed: {first_few(technical)}. Check whether the "
            "classes differ in these, as a model would learn them instead."
        )


def describe_blanks(blanks: Sequence[str]) -> str:
    """Return which samples are blanks by their names, and what follows from it."""
    return (
        f"{len(blanks)} samples are blanks by their names ({first_names(blanks)}): they do not "
        "count for the proposed depth. Leave them out of tasks with `where`."
    )


def decision_lines(notes: Sequence[Note]) -> list[str]:
    """Return what was decided for the user as lines of a terminal, the cautions first.

    Parameters
    ----------
    notes
        Decisions; where there are none, there are no lines.
    """
    if not notes:
        return []
    ordered = sorted(notes, key=lambda note: not note.is_caution)
    return ["Decided for you:", *(f"  {note.text}" for note in ordered)]


@contextmanager
def with_decisions(notes: Sequence[Note]) -> Iterator[None]:
    """Add to a refusal what was decided before it, which may be its cause.

    Parameters
    ----------
    notes
        Decisions; the list may grow inside the block.

    Raises
    ------
    InputError
        What was raised inside, with the decisions below it.
    """
    try:
        yield
    except InputError as error:
        raise InputError("\n".join([str(error), *decision_lines(notes)])) from error


def task_sentences(
    name: str,
    task: Mapping[str, Any],
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    groups: Sequence[str] | None,
) -> Iterator[str]:
    """Yield sentences on what may flatter the scores of a task: groups, and predictive columns.

    Parameters
    ----------
    name
        What the task is called.
    task
        The slice `folds`.
    metadata
        That of all samples that the task wants.
    values, groups
        Targets and groups of the labelled samples, as `aam.data.splits.labelled` returns them.
    """
    settings = task["folds"]
    if groups is None and settings["groups"] is None:
        yield (
            f"Task {name}: nothing says which samples belong together. Set `groups` of its folds "
            "to a column, or to false where every sample is of another person, animal or site."
        )
    group = None if groups is None else pd.Series(groups, index=values.index)
    nearly = "nearly exactly" if task["kind"] == "regression" else "for nearly every sample"
    for target in task["columns"]:
        predictive = predictive_columns(
            values[target],
            metadata,
            kind=task["kind"],
            exclude=task["columns"],
            seed=settings["seed"],
            groups=group,
        )
        what = f"'{target}'" if len(task["columns"]) > 1 else "the target"
        others = []
        for entry in predictive:
            column = entry["column"]
            if is_technical(column):
                how = "exactly"
                if entry["kind"] != "exact":
                    how = f"{nearly} ({entry['score']:.0%})"
                yield (
                    f"Task {name}: `{column}` predicts {what} {how}, without any reads. A model "
                    f"may learn `{column}` instead, and no score can tell the two apart."
                )
            elif names_units(column) and groups is None:
                yield (
                    f"Task {name}: samples of one `{column}` share {what}. Set `groups: {column}`, "
                    "or the scores will be too good."
                )
            else:
                others.append(column)
        if others:
            yield (
                f"Task {name}: other columns predict {what} exactly or {nearly}, without any "
                f"reads: {first_few(others)}. Are they other names of it, or what follows from "
                "it? If not, a model may learn them instead."
            )
