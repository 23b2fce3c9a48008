"""What a study is, in plain words, from its files alone, and the configuration that suits it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from aam.data.table import FeatureTable
from aam.util.errors import first_names

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
LEAST_NUMBERS, MOST_CLASSES = 30, 20
"""Samples with a number, and classes, that a task needs or may have."""
ACTIVE = 2
"""Tasks of a new configuration that are not comments."""
GROUPING = re.compile(
    "subject|individual|patient|participant|person|donor|animal|mouse|mice|family|household"
    "|^host$|host_id|[_ .-]id$",
    re.IGNORECASE,
)
TECHNICAL = re.compile(
    "barcode|primer|run|plate|batch|center|lane|extract|sequenc|instrument|platform", re.IGNORECASE
)
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
    """Return what each column could be."""
    return [column_of(metadata[name]) for name in metadata]


def grouping(columns: list[Column]) -> Column | None:
    """Return the column whose samples should stay together, by its name and its repeated values."""
    found = [one for one in columns if GROUPING.search(one.name) and 1 < len(one.counts)]
    found = [one for one in found if one.counts.max() > 1 and not TECHNICAL.search(one.name)]
    return max(found, key=lambda one: len(one.counts), default=None)


def proposed_depth(table: FeatureTable) -> int:
    """Return a depth, rounded to two digits, that loses few samples, at most 10,000."""
    reads = np.sort(np.asarray(table.counts.sum(axis=1)).ravel())
    depth = int(min(reads[int(MOST_LOST * len(reads))], 10_000))
    digits = max(len(str(depth)) - 2, 0)
    return max(depth // 10**digits * 10**digits, 1)


def sentences(
    table: FeatureTable, sequences: Mapping[str, str], metadata: pd.DataFrame
) -> Iterator[str]:
    """Yield sentences on a study: reads, sequences, depths, columns, groups, missing values."""
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
    columns, unknown = columns_of(metadata), int(metadata.isna().all(axis=1).sum())
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
            f"On how samples were processed: {first_names(technical)}. Look whether the classes "
            "differ in this, as a model would learn it instead."
        )


def on_sequences(table: FeatureTable, sequences: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence on the sequences, and others on what looks wrong with them."""
    total_F = np.asarray(table.counts.sum(axis=0)).ravel()
    own = [sequences[name] for name in table.feature_ids]
    lengths = sorted(map(len, own))
    turned, share = [text.translate(COMPLEMENT)[::-1] for text in own], {}
    for what, pattern, texts in (("V4", V4, own), ("reverse", V4, turned), ("primer", PRIMER, own)):
        begins_F = [pattern.match(text) is not None for text in texts]
        share[what] = float(total_F[begins_F].sum() / total_F.sum())
    length = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else lengths[0]
    yield (
        f"Sequences of {length} nucleotides; {share['V4']:.0%} of the reads begin as 16S does "
        "behind the primer 515F (region V4)."
    )
    if share["primer"] > UNUSUAL:
        yield f"{share['primer']:.0%} of the reads still have the primer 515F: trim it."
    elif share["reverse"] > UNUSUAL:
        yield f"{share['reverse']:.0%} look like reverse complements: complement and reverse them."
    elif 0.5 < share["V4"] < 1 - UNUSUAL:
        yield f"{1 - share['V4']:.0%} of the reads begin elsewhere: cut them, or leave them out."


def configuration(files: Mapping[str, str], columns: list[Column], depth: int) -> str:
    """Return a commented configuration in YAML: the files, and a task per column that suits."""
    together, tasks = grouping(columns), []
    for one in sorted(columns, key=lambda one: one.missing):
        if one is together or NO_TARGET.fullmatch(one.name) or TECHNICAL.search(one.name):
            continue
        if one.kind == "number" and one.counts.sum() >= LEAST_NUMBERS:
            tasks.append(_task(one, "regression", together))
        elif one.kind == "classes" and len(one.frequent) > 1:
            tasks.append(_task(one, "classification", together))
    commented = [re.sub("^", "#", text, flags=re.MULTILINE) for text in tasks[ACTIVE:]]
    parts = [
        "# Run it with: snakemake --cores 8 --configfile <this file>",
        "datasets:\n  mine:\n"
        + "\n".join(f"    {key}: {json.dumps(path)}" for key, path in files.items()),
        f"rarefaction: {{depth: {depth}}}",
        "\n".join(["# Columns of the metadata:", *(f"#   {one}" for one in columns)]),
        "\n".join(
            ["tasks:" if tasks else "# No column suits a task.", *tasks[:ACTIVE], *commented]
        ),
    ]
    return "\n\n".join(parts) + "\n"


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
