"""The configuration that is proposed for a study."""

import json
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import yaml

from aam.data.confounding import is_technical
from aam.data.study.columns import FOLDS, GROUP_ID, MOST_GROUPS, Column, grouping, task_kind
from aam.data.table import FeatureTable
from aam.util.errors import first_few

MOST_LOST = 0.05
"""Share of the samples that a proposed depth may lose."""
LEAST_NUMBERS = 30
"""Samples with a number that a task needs."""
MANY_LABELS = 1000
"""Samples with a label from which on a new configuration asks for networks: on development studies
of up to 507 labels they add no more than chance to the baselines, on one of 2537 they do."""
ACTIVE = 2
"""Tasks of a new configuration that are not comments, where no columns are named."""
NO_TARGET = re.compile(
    "year|month|day|date|.*_date|.*timestamp|.*taxon.*|.*id|.*latitude|.*longitude|elevation"
    "|.*description|title",
    re.IGNORECASE,
)
"""Names of columns that a study is not made to predict."""
LONGEST_NAME = 90
"""Characters that a task takes of the name of its column: a number behind them still has room."""


def proposed_depth(table: FeatureTable) -> int:
    """Return a rarefaction depth that loses few samples, at most 10,000.

    Parameters
    ----------
    table
        Raw counts.

    Returns
    -------
    int
        Reads, rounded down to two digits. At most a share of `MOST_LOST` of the samples has
        fewer.
    """
    reads = np.sort(table.reads)
    depth = int(min(reads[int(MOST_LOST * len(reads))], 10_000))
    digits = max(len(str(depth)) - 2, 0)
    return max(depth // 10**digits * 10**digits, 1)


def configuration(
    files: Mapping[str, str],
    columns: list[Column],
    depth: int,
    targets: Sequence[str] | None = None,
) -> str:
    """Return a commented configuration in YAML: the files, and a task per column that suits.

    Parameters
    ----------
    files
        The user's files by their keys.
    columns
        All columns of the metadata.
    depth
        The rarefaction depth.
    targets
        Columns to predict, which `require_targets` has checked; None: the first that suit.
    """
    wanted = targets or []
    together = grouping([column for column in columns if column.name not in wanted])
    suited = [
        column
        for column in sorted(columns, key=lambda column: column.missing)
        if column.name not in wanted and column is not together and _suits(column)
    ]
    by_name = {column.name: column for column in columns}
    tasks = []
    names: set[str] = set()
    for column in [*(by_name[name] for name in wanted), *suited]:
        kind = task_kind(column)
        if kind is not None:
            name = _task_name(column, names)
            names.add(name)
            tasks.append(_task(name, column, kind, together))
    active = ACTIVE if targets is None else len(targets)
    commented = [re.sub("^", "#", text, flags=re.MULTILINE) for text in tasks[active:]]
    remarks = []
    if together is None and tasks:
        remarks.append(_comment_on_groups(columns))
    parts = [
        "# Read and correct it, then: aam check <this file>, and: aam run <this file>",
        "datasets:\n  mine:\n"
        + "\n".join(f"    {key}: {_quoted(path)}" for key, path in files.items()),
        f"rarefaction: {{depth: {depth}}}",
        _models(columns),
        "\n".join(["# Columns of the metadata:", *(f"#   {one}" for one in columns)]),
        *remarks,
        "\n".join(
            ["tasks:" if tasks else "# No column suits a task.", *tasks[:active], *commented]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _suits(column: Column) -> bool:
    """Return whether a column is proposed without being asked for."""
    if NO_TARGET.fullmatch(column.name) or is_technical(column.name):
        return False
    return column.kind != "number" or column.counts.sum() >= LEAST_NUMBERS


def _models(columns: list[Column]) -> str:
    """Return the models of a configuration: networks where there are labels enough for them."""
    suited = [one for one in columns if one.kind in ("number", "classes")]
    labels = max((int(one.counts.sum()) for one in suited), default=0)
    if labels >= MANY_LABELS:
        return (
            "# AAM, a neural network, is trained; `models: {}` leaves it out.\nmodels: {base: {}}"
        )
    lines = [
        "Without AAM's networks the other methods answer in a minute or two. Networks take 5 to 20",
        f"minutes more on two cores; below {MANY_LABELS} labelled samples they have added nothing",
        "so far, see docs/results.md. With `models: {base: {}}` AAM is trained too.",
    ]
    return "\n".join([*(f"# {line}" for line in lines), "models: {}"])


def _comment_on_groups(columns: list[Column]) -> str:
    """Return a comment on groups, where no column is proposed."""
    lines = [
        "No column is proposed as `groups` of the folds. If several samples are of one person,",
        "animal, family or site, name the column that says so, folds: {k: 5, groups: <column>},",
        "or the scores will be too good. If every sample is of another one, write",
        "`groups: false`, and the page will not warn about it.",
    ]
    of_own_groups = [
        one.name
        for one in columns
        if GROUP_ID.search(one.name) and len(one.counts) > MOST_GROUPS * one.counts.sum()
    ]
    if of_own_groups:
        lines.append(f"Nearly every sample has its own value in: {first_few(of_own_groups)}.")
    return "\n".join(f"# {line}" for line in lines)


def _task_name(column: Column, taken: Collection[str]) -> str:
    """Return a name for the task of a column that a configuration allows and no other task has."""
    letters = re.sub(r"[^A-Za-z0-9_-]+", "_", column.name)
    base = letters.strip("_-")[:LONGEST_NAME] or "target"
    name = base
    number = 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _task(name: str, column: Column, kind: str, together: Column | None) -> str:
    """Return the lines of a task; classes of few samples are left out."""
    # Without quotes YAML would read some names as numbers, dates or truth values.
    key = name if _is_text(name) else _quoted(name)
    k = FOLDS if together is None else min(FOLDS, len(together.counts))
    folds = f"k: {k}" + ("" if together is None else f", groups: {_quoted(together.name)}")
    where = ""
    if kind == "classification":
        folds += ", stratified: true"
        if len(column.frequent) < len(column.counts):
            where = f"    where: {{{_quoted(column.name)}: {_quoted(column.frequent)}}}\n"
    return (
        f"  {key}:\n    dataset: mine\n    column: {_quoted(column.name)}\n    kind: {kind}\n"
        f"{where}    folds: {{{folds}}}"
    )


def _is_text(name: str) -> bool:
    """Return whether YAML reads a name without quotes as the text that it is."""
    try:
        return bool(yaml.safe_load(name) == name)
    except ValueError:
        # It looks like a date that the calendar lacks, such as 2020-02-30.
        return False


def _quoted(value: str | list[str]) -> str:
    """Return a text, or a list of them, as YAML reads it back."""
    # Escapes of JSON would be read as halves of characters beyond 16 bits.
    return json.dumps(value, ensure_ascii=False)
