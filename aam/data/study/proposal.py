"""The configuration that is proposed for a study, with its comments."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from aam.config.baselines import BASELINES, MOST_COMPARED, NEED_DISTANCES
from aam.data.roles import names_units
from aam.data.study.columns import (
    MOST_GROUPS,
    Column,
    lies_within,
    propose_grouping,
    study_columns,
    unit_columns,
)
from aam.data.study.drafts import ACTIVE, TaskDraft, draft_task, propose_studies, rank_suited
from aam.data.study.time_columns import Course, TimeColumn, find_time_columns, propose_course
from aam.data.table import ASV_READS, TableFacts
from aam.data.times import AUTO
from aam.util.errors import InputError, first_few

MOST_LOST = 0.05
"""Share of the samples that a proposed depth may lose."""
LEAST_DEPTH = 500
"""Reads below which a depth is proposed only where it would lose too many samples: rare ASVs are
hardly ever drawn then."""
MOST_LOST_AT_LEAST = 0.2
"""Share of the samples that may be lost to reach `LEAST_DEPTH`."""
MANY_LABELS = 1000
"""Samples with a label from which on a new configuration asks for networks. With 225 to 699 labels
they add little for minutes of a core; with 2537 they made the answer 1 to 2 % better, which could
be chance, too (docs/results.md)."""
WITHOUT_NETWORKS = (
    "# AAM's networks are trained on reads, and these are amounts; the other methods answer.\n"
    "models: {}"
)
"""Models of a configuration for a table that networks cannot be trained on."""
_UNPRINTABLE = re.compile(yaml.reader.Reader.NON_PRINTABLE.pattern)
"""Characters that YAML has only as escapes, such as what is left of a quote of Windows-1252."""
_NAMES_OF_TABLES = frozenset(
    "table tables feature features otu otus asv asvs sequence seqs seqtab nochim count counts "
    "abundance abundances biom data dataset input inputs raw new all final merged filtered "
    "rarefied exported export results output reads rep deblur dada denoised unfiltered frequency "
    "matrix shared genus species family level download downloads desktop documents home users tmp "
    "work projects project study studies metadata qiime public temp".split()
)
"""Words of files and folders that say nothing of a study; nor do words of two letters or digits."""
LONGEST_NAME = 90
"""Characters that a task takes of the name of its column: a number behind them still has room."""


def propose_depth(reads_N: NDArray[np.int64]) -> int:
    """Return a rarefaction depth that loses few samples, at most 10,000.

    Parameters
    ----------
    reads_N
        Reads of the samples that matter.

    Returns
    -------
    int
        Reads, rounded down to two digits. At most a share of `MOST_LOST` of the samples has
        fewer; of `MOST_LOST_AT_LEAST` where the depth would be below `LEAST_DEPTH` otherwise.
    """
    reads = np.sort(reads_N)
    depth = int(min(reads[int(MOST_LOST * len(reads))], 10_000))
    if depth < LEAST_DEPTH:
        depth = int(min(reads[int(MOST_LOST_AT_LEAST * len(reads))], LEAST_DEPTH))
    digits = max(len(str(depth)) - 2, 0)
    return max(depth // 10**digits * 10**digits, 1)


def depth_sentences(reads_N: NDArray[np.int64], depth: int, *, are_labelled: bool) -> Iterator[str]:
    """Yield what a depth, half of it and its double lose, and a warning where it is low.

    Parameters
    ----------
    reads_N
        Reads of the samples that matter.
    depth
        The depth that is proposed or set.
    are_labelled
        Whether the samples that matter are those with a target.
    """
    depths = (max(depth // 2, 1), depth, 2 * depth)
    lost = [f"a depth of {one} loses {int((reads_N < one).sum())}" for one in depths]
    what = "labelled samples" if are_labelled else "samples"
    yield f"Of {len(reads_N)} {what}, {', '.join(lost)}."
    if depth < LEAST_DEPTH:
        yield (
            f"{depth} reads are few: rare ASVs are hardly ever drawn, and scores suffer. "
            f"{LEAST_DEPTH} would lose {int((reads_N < LEAST_DEPTH).sum())} samples."
        )


def plain_name(name: str, otherwise: str) -> str:
    """Return a name in letters that a configuration allows.

    Parameters
    ----------
    name
        Any text.
    otherwise
        What is returned where nothing of it is left.
    """
    letters = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")
    return letters[:LONGEST_NAME] or otherwise


def propose_name(table: Path, otherwise: str) -> str:
    """Return what a study is called: after the file of its table, or the folder of it.

    Parameters
    ----------
    table
        Path of the table, as the user gave it.
    otherwise
        What is returned where these say only that there is a table, as `data/table.qza` does.
    """
    for part in reversed(table.parts):
        name = part.partition(".")[0]
        words = re.findall(r"[a-z]+|\d+", name.casefold())
        if any(word not in _NAMES_OF_TABLES and len(word) > 2 for word in words):
            return plain_name(name, otherwise)
    return otherwise


def propose_configuration(
    keys: Mapping[str, str | bool],
    columns: list[Column],
    depth: int | None,
    targets: Sequence[str] | None = None,
    *,
    groups: Column | Literal[False] | None = None,
    about_depth: Sequence[str] = (),
    facts: TableFacts = ASV_READS,
    dataset: str = "mine",
) -> str:
    """Return a commented configuration in YAML: the files, and a task per column that suits.

    Parameters
    ----------
    keys
        The user's files by their keys, and what else the dataset says of itself.
    columns
        All columns of the metadata.
    depth
        The rarefaction depth; None: the table has no reads.
    targets
        Columns to predict, which `require_targets` has checked; None: those that suit, what a study
        is most likely made for first (`aam.data.roles.finding_rank`).
    groups
        The column whose samples stay together in folds; False: each sample is of a unit of its own;
        None: the one that suits (`aam.data.study.columns.propose_grouping`).
    about_depth
        Sentences on the depth, which become comments.
    facts
        What the table can do: which networks can be trained on it, if any.
    dataset
        What the study is called.

    Returns
    -------
    str
        The configuration. A run accepts its tasks if the columns are those of its samples: classes
        that it would refuse are left out with `where`, and columns that it would refuse are
        comments that say why.

    Raises
    ------
    InputError
        A run would refuse a task for one of the `targets`.
    """
    wanted = targets or []
    if groups is None:
        together = propose_grouping([column for column in columns if column.name not in wanted])
    else:
        together = groups or None
    suited = [one for one in rank_suited(columns, together) if one.name not in wanted]
    by_name = {column.name: column for column in columns}
    asked = [by_name[name] for name in wanted]
    times, no_times = find_time_columns(columns, together)
    tasks, refused = _draft_tasks(
        [*asked, *suited],
        together,
        study_columns(columns),
        times,
        dataset,
        must=wanted,
        are_alone=groups is False,
        must_group=bool(groups),
    )
    active = ACTIVE if targets is None else len(targets)
    commented = [re.sub("^", "#", text, flags=re.MULTILINE) for text in tasks[active:]]
    remarks: list[str] = []
    if tasks and groups is None:
        remarks += _comments_on_groups(columns, together)
    if tasks and no_times:
        header = "# Not proposed as `time`, which asks what changes within:"
        remarks.append("\n".join([header, *(f"#   {' '.join(one.split())}" for one in no_times)]))
    if refused:
        remarks.append("\n".join(["# Not proposed:", *(f"#   {one}" for one in refused)]))
    parts = [
        "# Read and correct it, then: aam check <this file>, and: aam run <this file>",
        f"datasets:\n  {dataset if _is_text(dataset) else _quoted(dataset)}:\n"
        + "\n".join(f"    {key}: {_quoted(path)}" for key, path in keys.items()),
        *_rarefaction(depth, about_depth),
        _models(columns, facts) if facts.is_counted else WITHOUT_NETWORKS,
        "\n".join(["# Columns of the metadata:", *(f"#   {_one_line(one)}" for one in columns)]),
        *remarks,
        "\n".join(
            ["tasks:" if tasks else "# No column suits a task.", *tasks[:active], *commented]
        ),
    ]
    # Text in quotes has escapes; what is left of such characters stands in comments.
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", "\n\n".join(parts) + "\n")


def _rarefaction(depth: int | None, about_depth: Sequence[str]) -> Iterator[str]:
    """Yield the lines on the depth; of a table without reads only what else is to be said."""
    lines = [f"# {one}" for one in about_depth]
    if depth is not None:
        lines.append(f"rarefaction: {{depth: {depth}}}")
    if lines:
        yield "\n".join(lines)


def _draft_tasks(
    columns: list[Column],
    together: Column | None,
    studies: Sequence[Column],
    times: Sequence[TimeColumn],
    dataset: str,
    *,
    must: Collection[str],
    are_alone: bool,
    must_group: bool,
) -> tuple[list[str], list[str]]:
    """Return the lines of each task that a run accepts, and why other columns have none.

    Parameters
    ----------
    columns
        Those to predict, in the order of the tasks.
    together
        The column whose samples stay together; None: there is none.
    studies
        Columns that divide samples as studies do, the surest first.
    times
        Columns that say when samples were taken, the likeliest first.
    dataset
        What the study is called.
    must
        Names of columns whose refusal is an error.
    are_alone
        Whether each sample is known to be of a unit of its own.
    must_group
        Whether `together` was asked for.

    Raises
    ------
    InputError
        A run would refuse a task for one of `must`.
    """
    tasks = []
    refused = []
    names: set[str] = set()
    for column in columns:
        try:
            draft = draft_task(column, together, must_group=must_group)
        except InputError as error:
            if column.name in must:
                raise
            refused.append(f"`{column.name}`: {_reason(error)}")
            continue
        name = _task_name(column, names)
        names.add(name.casefold())
        course = propose_course(draft, times)
        divided_by = propose_studies(draft, studies)
        tasks.append(_task(name, dataset, draft, divided_by, course, are_alone=are_alone))
    return tasks, refused


def _one_line(column: Column) -> str:
    """Return the description of a column without what would end a comment."""
    return " ".join(str(column).split())


def _reason(error: InputError) -> str:
    """Return what a message says there is, and what would be right, on one line."""
    said = str(error)
    if error.actual:
        said = f"{error.actual}; expected {error.expected}; {error.hint}"
    return " ".join(said.split())


def _models(columns: list[Column], facts: TableFacts) -> str:
    """Return the models of a configuration: networks where there are labels enough for them."""
    suited = [one for one in columns if one.kind in ("number", "classes")]
    labels = max((int(one.counts.sum()) for one in suited), default=0)
    models = "{base: {}}" if facts.has_sequences else "{base: {encoder: lineage}}"
    if labels >= MANY_LABELS and facts.has_sequences:
        return (
            f"# AAM, a neural network, is trained; `models: {{}}` leaves it out.\nmodels: {models}"
        )
    if not facts.has_sequences:
        lines = [
            "AAM's networks are not trained: they have added nothing to features without",
            f"sequences so far, see docs/results.md. With `models: {models}`",
            "they are, from the lineages; `aam check` says how long that takes.",
        ]
        return "\n".join([*(f"# {line}" for line in lines), "models: {}"])
    lines = [
        f"AAM's networks are not trained: below {MANY_LABELS} labelled samples they have added",
        "nothing so far, see docs/results.md. With `models: {base: {}}` they are; `aam check` says",
        "how long that takes.",
    ]
    return "\n".join([*(f"# {line}" for line in lines), "models: {}"])


def _comments_on_groups(columns: list[Column], together: Column | None) -> Iterator[str]:
    """Yield comments on groups: why none are proposed, or which other units there are."""
    if together is not None:
        if others := list(other_units(columns, together)):
            line = f"Samples of one `{together.name}` ({len(together.counts)}) stay together."
            yield "\n".join(f"# {one}" for one in [line, *others])
        return
    lines = [
        "No column is proposed as `groups` of the folds. If several samples are of one person,",
        "animal, family or site, name the column that says so, folds: {k: 5, groups: <column>},",
        "or the scores will be too good. If every sample is of another one, write",
        "`groups: false`, and the page will not warn about it.",
    ]
    of_own_groups = [
        one.name
        for one in columns
        if names_units(one.name) and len(one.counts) > MOST_GROUPS * one.counts.sum()
    ]
    if of_own_groups:
        lines.append(f"Nearly every sample has its own value in: {first_few(of_own_groups)}.")
    yield "\n".join(f"# {line}" for line in lines)


def other_units(columns: list[Column], together: Column) -> Iterator[str]:
    """Yield sentences on the columns that could name groups in the place of a proposed one.

    Parameters
    ----------
    columns
        All columns of the metadata.
    together
        The proposed column.
    """
    others = [one for one in unit_columns(columns) if one is not together]
    inside = [f"`{one.name}`" for one in others if lies_within(one, together)]
    if inside:
        yield f"So do those of one {' or '.join(inside)}, which lies within one `{together.name}`."
    if others:
        named = ", ".join(f"{one.name} ({len(one.counts)})" for one in others)
        yield f"Other columns that could name groups: {named}."


def _task_name(column: Column, taken: Collection[str]) -> str:
    """Return a name for the task of a column that a configuration allows and no other task has."""
    base = plain_name(column.name, otherwise="target")
    name = base
    number = 1
    # Some file systems do not tell folders apart whose names differ in case.
    while name.casefold() in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _task(
    name: str,
    dataset: str,
    draft: TaskDraft,
    studies: Column | None,
    course: Course,
    *,
    are_alone: bool,
) -> str:
    """Return the lines of a task; `are_alone` as for `_draft_tasks`, `studies` may be left out."""
    # Without quotes YAML would read some names as numbers, dates or truth values.
    key = name if _is_text(name) else _quoted(name)
    folds = f"k: {draft.k}"
    if draft.groups is not None:
        folds += f", groups: {_quoted(draft.groups)}"
    elif are_alone:
        folds += ", groups: false"
    if draft.kind == "classification":
        folds += ", stratified: true"
    lines = [
        f"  {key}:",
        *(f"    # {' '.join(comment.split())}" for comment in draft.comments),
        f"    dataset: {dataset if _is_text(dataset) else _quoted(dataset)}",
        f"    column: {_quoted(draft.column.name)}",
        f"    kind: {draft.kind}",
    ]
    if draft.where:
        shown = ", ".join(f"{_quoted(one)}: {_quoted(names)}" for one, names in draft.where.items())
        lines.append(f"    where: {{{shown}}}")
    lines.append(f"    folds: {{{folds}}}")
    if studies is not None:
        lines += [
            f"    # Each of the {len(studies.counts)} is also left out once, as one never seen.",
            f"    studies: {_quoted(studies.name)}",
        ]
    lines += _course_lines(course, str(draft.groups))
    labelled = int(draft.column.counts.sum())
    if labelled > MOST_COMPARED:
        suited = ("both", "numbers" if draft.kind == "regression" else "classes")
        names = [
            name
            for name, facts in BASELINES.items()
            if facts.default in suited and name not in NEED_DISTANCES
        ]
        lines += [
            f"    # The distances of all pairs of {labelled} samples would take hours.",
            f"    baselines: [{', '.join(names)}]",
        ]
    return "\n".join(lines)


def _course_lines(course: Course, person: str) -> Iterator[str]:
    """Yield what a task asks of people over time, and why it asks for no more."""
    if course.time is not None:
        yield f"    # What changes within one `{person}` is scored apart."
        yield f"    time: {_quoted(course.time)}"
    if course.has_forecast:
        yield "    # Samples after the time that three in ten are after, from those up to it:"
        yield f"    forecast: {AUTO}"
    if course.why_not is not None:
        yield f"    # {' '.join(course.why_not.split())}."


def _is_text(name: str) -> bool:
    """Return whether YAML reads a name without quotes as the text that it is."""
    try:
        return bool(yaml.safe_load(name) == name)
    except (ValueError, yaml.YAMLError):
        # It looks like a date that the calendar lacks, such as 2020-02-30, or cannot be printed.
        return False


def _quoted(value: str | bool | list[str]) -> str:
    """Return a text, or a list of them, as YAML reads it back."""
    # Escapes of JSON would be read as halves of characters beyond 16 bits.
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
