"""What a study is, in plain words, from its files alone, and the configuration that suits it."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from aam.data.confounding import TECHNICAL, is_technical, telling_columns
from aam.data.table import FeatureTable
from aam.util.errors import problem, problems

V4 = re.compile("[ACGT]AC[AG][ACGT][AG][ACGT]G")
"""Beginning of nearly all 16S sequences behind the primer 515F."""
PRIMER = re.compile("GTG[CT]CAGC[AC]GCCGCGGTAA")
"""The primer 515F."""
COMPLEMENT = str.maketrans("ACGTURYSWKMBDHVN", "TGCAAYRSWMKVHDBN")
UNUSUAL = 0.05
"""Share of the reads that look wrong, from which on a sentence says so."""
DEPTHS = (500, 1000, 2000, 5000, 10_000, 20_000)
MOST_LOST = 0.05
"""Share of the samples that a proposed depth may lose."""
FOLDS = 5
LEAST_NUMBERS = 30
"""Samples with a number that a task needs."""
MOST_CLASSES = 20
"""Classes that a task may have."""
MANY_LABELS = 1000
"""Samples with a label from which on a new configuration asks for networks: on development studies
of up to 507 labels they add nothing to the baselines, on one of 2537 they do."""
ACTIVE = 2
"""Tasks of a new configuration that are not comments, where no columns are named."""
GROUPING = re.compile(
    "subject|individual|patient|participant|person|donor|animal|mouse|mice|family|household",
    re.IGNORECASE,
)
"""Names of columns that may say whom or what a sample is of."""
GROUP_ID = re.compile(
    rf"({GROUPING.pattern})s?([ _.-]?(id|ids|no|nr|num|number|name|code|identifier))?$"
    "|^host$|host_id|[_ .-]id$",
    re.IGNORECASE,
)
"""Names of columns that do, also where they hold numbers or few values: a patient's history or
weight is none of them."""
RICH = 0.8
"""Groups per sample from which on a column is nearly as rich as the samples."""
NO_TARGET = re.compile(
    "year|month|day|date|.*_date|.*timestamp|.*taxon.*|.*id|.*latitude|.*longitude|elevation"
    "|.*description|title",
    re.IGNORECASE,
)
"""Names of columns that a study is not made to predict."""

Kind = Literal["number", "classes", "one value", "names", "empty"]


@dataclass(frozen=True)
class Column:
    """One metadata column: what it could be, its values by how often they occur, the missing."""

    name: str
    kind: Kind
    counts: pd.Series
    missing: int

    @property
    def frequent(self) -> list[str]:
        """The classes with samples enough to be predicted."""
        return [str(name) for name, count in self.counts.items() if count >= FOLDS]

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}"
        if self.kind == "classes":
            text += " " + ", ".join(f"{name} ({n})" for name, n in self.counts.head(8).items())
            text += ", …" if len(self.counts) > 8 else ""
        elif self.kind == "number":
            values = pd.to_numeric(self.counts.index.to_series())
            text += f" from {values.min():g} to {values.max():g}"
        elif self.kind == "names":
            text += f", {len(self.counts)} different ones"
        return text + (f"; {self.missing} missing" if self.missing else "")


def column_of(values: pd.Series) -> Column:
    """Return what a column of texts, with None where missing, could be."""
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    kind: Kind = "names"
    are_numbers = pd.to_numeric(counts.index.to_series(), errors="coerce").notna().all()
    if len(counts) < 2:
        kind = "one value" if len(counts) else "empty"
    elif are_numbers and len(counts) > MOST_CLASSES // 2:
        kind = "number"
    elif len(counts) <= MOST_CLASSES and counts.iloc[1] > 1:
        kind = "classes"
    return Column(str(values.name), kind, counts, int(values.isna().sum()))


def columns_of(metadata: pd.DataFrame) -> list[Column]:
    """Return what each column could be.

    Parameters
    ----------
    metadata
        Text by sample ID, with None where missing.
    """
    return [column_of(metadata[name]) for name in metadata]


def grouping(columns: list[Column]) -> Column | None:
    """Return the column whose samples should stay together, by its name and its repeated values.

    A column of numbers with decimals is a measurement and never proposed, nor is one that is nearly
    as rich as the samples (`RICH`).

    Parameters
    ----------
    columns
        Columns of the metadata.
    """
    return max(filter(_may_group, columns), key=lambda one: len(one.counts), default=None)


def _may_group(column: Column) -> bool:
    """Return whether a column may say which samples are of one person, animal or family."""
    groups = len(column.counts)
    if groups < 2 or groups > RICH * column.counts.sum() or TECHNICAL.search(column.name):
        return False
    numbers = pd.to_numeric(column.counts.index.to_series(), errors="coerce")
    if (numbers % 1 > 0).any():
        return False
    if GROUP_ID.search(column.name):
        return True
    # A column on a family's history has a few answers; one that names families has many names.
    is_many_names = groups > MOST_CLASSES // 2 and bool(numbers.isna().all())
    return is_many_names and GROUPING.search(column.name) is not None


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
    reads = np.sort(np.asarray(table.counts.sum(axis=1)).ravel())
    depth = int(min(reads[int(MOST_LOST * len(reads))], 10_000))
    digits = max(len(str(depth)) - 2, 0)
    return max(depth // 10**digits * 10**digits, 1)


def sentences(
    table: FeatureTable, sequences: Mapping[str, str], metadata: pd.DataFrame
) -> Iterator[str]:
    """Yield sentences on a study: reads, sequences, depths, columns, groups, missing values.

    Parameters
    ----------
    table
        Raw counts.
    sequences
        Sequence by feature ID.
    metadata
        Text by sample ID, with None where missing.
    """
    reads = np.asarray(table.counts.sum(axis=1)).ravel()
    yield (
        f"{len(reads)} samples, {len(table.feature_ids)} ASVs, {reads.sum():,} reads: "
        f"{np.median(reads):,.0f} in the median sample, {reads.min():,} to {reads.max():,}."
    )
    yield from on_sequences(table, sequences)
    depth = proposed_depth(table)
    shown = sorted({depth, *(one for one in DEPTHS if one <= reads.max())})
    kept = ", ".join(f"{one} keeps {np.mean(reads >= one):.0%}" for one in shown)
    yield f"Rarefaction depths: {kept}. Proposed: {depth}."
    columns = columns_of(metadata)
    unknown = int(metadata.isna().all(axis=1).sum())
    if columns and unknown:
        yield f"{unknown} samples have no metadata."
    yield f"{len(columns)} metadata columns:"
    yield from (f"  {one}" for one in columns)
    together = grouping(columns)
    if together is not None:
        yield (
            f"Samples of one `{together.name}` should stay together (`groups`): there are "
            f"{len(together.counts)}; scores would be too good otherwise."
        )
    technical = [
        one.name for one in columns if TECHNICAL.search(one.name) and one.kind == "classes"
    ]
    if technical:
        yield (
            f"Columns on how samples were processed: {_list_names(technical)}. Check whether the "
            "classes differ in these, as a model would learn them instead."
        )


def on_task(
    name: str,
    cfg: Mapping[str, Any],
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    groups: Sequence[str] | None,
) -> Iterator[str]:
    """Yield sentences on what may flatter the scores of a task: groups, and columns that tell it.

    Parameters
    ----------
    name
        What the task is called.
    cfg
        The slice `folds`.
    metadata
        That of all samples that the task wants.
    values, groups
        Targets and groups of the labelled samples, as `aam.data.splits.labelled` returns them.
    """
    settings = cfg["folds"]
    if groups is None and settings["groups"] is None:
        yield (
            f"Task {name}: nothing says which samples belong together. Set `groups` of its folds "
            "to a column, or to false where every sample is of another person, animal or site."
        )
    group = None if groups is None else pd.Series(groups, index=values.index)
    for target in cfg["columns"]:
        telling = telling_columns(
            values[target],
            metadata,
            kind=cfg["kind"],
            exclude=cfg["columns"],
            seed=settings["seed"],
            groups=group,
        )
        what = f"'{target}'" if len(cfg["columns"]) > 1 else "the target"
        others = []
        for entry in telling:
            column = entry["column"]
            if is_technical(column):
                how = "exactly" if entry["kind"] == "exact" else f"nearly ({entry['score']:.0%})"
                yield (
                    f"Task {name}: `{column}` tells {what} {how}, without any reads. A model may "
                    f"learn `{column}` instead, and no score can tell the two apart."
                )
            elif GROUP_ID.search(column) and groups is None:
                yield (
                    f"Task {name}: samples of one `{column}` share {what}. Set `groups: {column}`, "
                    "or the scores will be too good."
                )
            else:
                others.append(column)
        if others:
            yield (
                f"Task {name}: other columns tell {what} exactly or nearly: {_list_names(others)}. "
                "Are they other names of it, or what follows from it? If not, a model may learn "
                "them instead."
            )


def on_sequences(table: FeatureTable, sequences: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence on the sequences, and others on what looks wrong with them.

    Parameters
    ----------
    table
        Raw counts.
    sequences
        Sequence by feature ID.
    """
    total_F = np.asarray(table.counts.sum(axis=0)).ravel()
    asvs = [sequences[name] for name in table.feature_ids]
    lengths = sorted(map(len, asvs))
    # Sequences that were read from the other end begin as V4 does once they are turned.
    turned = [text.translate(COMPLEMENT)[::-1] for text in asvs]

    def find_share(pattern: re.Pattern[str], texts: Sequence[str]) -> float:
        """Return the share of the reads whose sequence begins with a pattern."""
        begins_F = [pattern.match(text) is not None for text in texts]
        return float(total_F[begins_F].sum() / total_F.sum())

    in_v4 = find_share(V4, asvs)
    in_reverse = find_share(V4, turned)
    with_primer = find_share(PRIMER, asvs)
    length = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else lengths[0]
    yield (
        f"Sequences of {length} nucleotides; {in_v4:.0%} of the reads begin as 16S does "
        "behind the primer 515F (region V4)."
    )
    if with_primer > UNUSUAL:
        yield f"{with_primer:.0%} of the reads still have the primer 515F: trim it."
    elif in_reverse > UNUSUAL:
        yield f"{in_reverse:.0%} look like reverse complements: complement and reverse them."
    elif 0.5 < in_v4 < 1 - UNUSUAL:
        yield f"{1 - in_v4:.0%} of the reads begin elsewhere: cut them, or leave them out."


def require_targets(columns: list[Column], names: Sequence[str], where: Path) -> None:
    """Check that columns of the metadata can be predicted.

    Parameters
    ----------
    columns
        All columns of the metadata.
    names
        Those to predict.
    where
        The file of the metadata.

    Raises
    ------
    InputError
        There is no such column, or its values are too few or too many; all problems in one.
    """
    by_name = {column.name: column for column in columns}
    errors = []
    for name in names:
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "correct the name"
            expected = f"one of its columns, {_list_names(list(by_name), limit=20)}"
            errors.append(problem(where, f"no column '{name}'", expected, hint))
            continue
        column = by_name[name]
        expected = f"numbers, or two classes or more of at least {FOLDS} samples each"
        hint = "name another column, or fill it in"
        if column.kind == "empty":
            errors.append(problem(f"{where}, column '{name}'", "no values", expected, hint))
        elif _kind_of_task(column) is None:
            errors.append(problem(f"{where}, column '{name}'", str(column), expected, hint))
    if errors:
        raise problems(errors)


def _list_names(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _kind_of_task(column: Column) -> str | None:
    """Return as what a column could be predicted."""
    if column.kind == "number":
        return "regression"
    if column.kind == "classes" and len(column.frequent) > 1:
        return "classification"
    return None


def _suits(column: Column) -> bool:
    """Return whether a column is proposed without being asked for."""
    if NO_TARGET.fullmatch(column.name) or TECHNICAL.search(column.name):
        return False
    return column.kind != "number" or column.counts.sum() >= LEAST_NUMBERS


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
    for column in [*(by_name[name] for name in wanted), *suited]:
        kind = _kind_of_task(column)
        if kind is not None:
            tasks.append(_task(column, kind, together))
    active = ACTIVE if targets is None else len(targets)
    commented = [re.sub("^", "#", text, flags=re.MULTILINE) for text in tasks[active:]]
    said = [] if together is not None or not tasks else [_on_groups(columns)]
    parts = [
        "# Read and correct it, then: aam check <this file>, and: aam run <this file>",
        "datasets:\n  mine:\n"
        + "\n".join(f"    {key}: {json.dumps(path)}" for key, path in files.items()),
        f"rarefaction: {{depth: {depth}}}",
        _models(columns),
        "\n".join(["# Columns of the metadata:", *(f"#   {one}" for one in columns)]),
        *said,
        "\n".join(
            ["tasks:" if tasks else "# No column suits a task.", *tasks[:active], *commented]
        ),
    ]
    return "\n\n".join(parts) + "\n"


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


def _on_groups(columns: list[Column]) -> str:
    """Return a comment on groups, where no column is proposed."""
    lines = [
        "No column is proposed as `groups` of the folds. If several samples are of one person,",
        "animal, family or site, name the column that says so, folds: {k: 5, groups: <column>},",
        "or the scores will be too good. If every sample is of another one, write",
        "`groups: false`, and the page will not warn about it.",
    ]
    rich = [
        one.name
        for one in columns
        if GROUP_ID.search(one.name) and len(one.counts) > RICH * one.counts.sum()
    ]
    if rich:
        lines.append(f"Nearly every sample has its own value in: {_list_names(rich)}.")
    return "\n".join(f"# {line}" for line in lines)


def _task(column: Column, kind: str, together: Column | None) -> str:
    """Return the lines of a task; classes of few samples are left out."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", column.name).strip("_") or "target"
    k = FOLDS if together is None else min(FOLDS, len(together.counts))
    folds = f"k: {k}" + ("" if together is None else f", groups: {json.dumps(together.name)}")
    where = ""
    if kind == "classification":
        folds += ", stratified: true"
        if len(column.frequent) < len(column.counts):
            where = f"    where: {{{json.dumps(column.name)}: {json.dumps(column.frequent)}}}\n"
    return (
        f"  {name}:\n    dataset: mine\n    column: {json.dumps(column.name)}\n    kind: {kind}\n"
        f"{where}    folds: {{{folds}}}"
    )
