"""Tables as text: a line per feature or per sample, in columns.

Written by biom-format, mothur, R, pandas and spreadsheets. Which axis holds the samples is decided
elsewhere (`aam.data.importing.layout`), for all formats alike.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.importing.delimited import (
    SEPARATORS,
    find_separator,
    lacks_first_name,
    numbers_rows,
    split_line,
    trim,
)
from aam.data.importing.files import lines_of, refuse, report_names
from aam.data.importing.layout import FEATURE_AXIS, SAMPLE_AXIS, names_rows, simple_name
from aam.data.importing.sequences import is_sequence
from aam.data.importing.taxonomy import RANKS, join_ranks
from aam.data.nouns import rank_of_taxon
from aam.util.errors import InputError, first_names, problem

LINEAGE_COLUMNS = frozenset({"taxonomy", "taxon", "consensuslineage"})
"""Simple names of columns that hold no counts, whatever is in them."""
RANK_COLUMNS = frozenset(
    "taxa tax lineage classification domain superkingdom kingdom phylum class order family genus "
    "species strain".split()
)
"""Simple names of columns that hold none if they hold text."""
DESCRIPTIONS = frozenset(
    "description rank ranklineage idlineage taxonid taxid taxonomyid taxonomylvl ncbitaxid "
    "ncbitaxonid cladetaxid additionalspecies".split()
)
"""Simple names of columns in which profilers describe a row: no counts, even where they are
numbers."""
_BAR_PLOT = "index"
"""Simple name of the first column in the data of QIIME 2's bar plots."""
_LEVEL = "taxonomylvl"
"""Simple name of Bracken's column of ranks."""
BRACKEN_CORNER = "feature name"
"""Name of the first column of Bracken's tables, which is `name` in the file."""
_BRACKEN = re.compile(r"(?P<sample>.+)_(?P<what>num|frac)", re.IGNORECASE)
_LINEAGE = re.compile(r"[A-Za-z]{1,2}(_\d)?__|[^;]+;")
_UNKNOWN = re.compile("(unassigned|unclassified|unknown|na|n/a)?", re.IGNORECASE)
"""Cells that do not tell a column of lineages from others."""
_COUNT_COLUMNS = frozenset({"abundance", "count", "counts", "reads", "value", "frequency"})
_COMMENT = "# "
"""How a comment begins that is no header, where commas, semicolons or spaces separate."""
_GROUPED = re.compile(r"[-+]?\d+([,'\u00a0\u202f ]\d+)+(\.\d+)?")
"""Numbers with separators of thousands or decimal commas."""


@dataclass
class Sheet:
    """The rows and columns of a text, not yet checked."""

    corner: str
    """Name of the first column, empty if there is none."""
    row_ids: list[str]
    column_ids: list[str]
    """Names of the columns of numbers."""
    values: NDArray[np.float64]
    """Their numbers, [columns, rows]."""
    sequences: list[str] | None
    """The cells of a column of sequences, if there is one."""
    notes: list[str]
    """How the text was read, where that is not as tab-separated text."""
    lineages: list[str] | None = None
    """The cells of a column of lineages, or those of ranks joined, if there are any."""
    levels: list[str] | None = None
    """The rank of each row in Bracken's letters, if there are any."""


def parse_classic(path: Path, text: str) -> Sheet:
    """Return the IDs and numbers of a table that is text.

    The header is the last line in columns among the leading lines that start with `#`, else the
    first line. Where lines of as many cells follow each other there, the first of them is the
    header, and the others are refused: they are rows whose ID begins with `#`. The separator, the
    quotes, and a header without a name for the first column are recognized
    (`aam.data.importing.delimited`), as are the tables of mothur and Bracken.

    Parameters
    ----------
    path
        The user's file, for messages.
    text
        Its content.

    Raises
    ------
    InputError
        The text is no table of numbers.
    """
    # Spreadsheets write lines of separators alone.
    lines = [line for line in lines_of(text) if line.strip(" \t,;")]
    if text.startswith("#Compressed Format"):
        hint = "write it without compression in mothur: count.seqs(..., compress=f)"
        raise problem(path, "a compressed count table of mothur", "a count in every cell", hint)
    notes: list[str] = []
    lines = _without_title(lines, notes)
    separator, header_at = _header(path, lines, notes)
    below = [line for line in lines[header_at + 1 :] if not line.startswith("#q2:")]
    _refuse_hashed(path, below, separator)
    body = [line for line in below if not line.startswith("#")]
    header, *rows = _tabbed(path, [lines[header_at], *body], separator)
    names = trim([name.strip() for name in header.split("\t")])
    names, rows = _complete(names, rows, notes)
    names, rows = _without_label(path, names, rows, notes)
    rows = [_trimmed(row, len(names)) for row in rows]
    refuse(_width_problems(path, names, rows))
    if not rows:
        shape = (len(names) - 1, 0)
        return Sheet(names[0], [], names[1:], np.zeros(shape), None, notes)
    # Quotes have been taken off by now. Without `low_memory` a column has one type throughout, and
    # not that of each part that pandas reads at a time.
    cells = pd.read_csv(
        io.StringIO("\n".join(rows)),
        sep="\t",
        header=None,
        names=range(len(names)),
        dtype={0: str},
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        low_memory=False,
    )
    row_ids = [*cells[0].str.strip()]
    names, cells = _without_fractions(names, cells, notes)
    if simple_name(names[0]) in RANKS and any(simple_name(name) in RANKS for name in names[1:]):
        # The first column is one of ranks, too: only all of them together name a row.
        notes.append("its columns of ranks are the IDs of its features")
        row_ids = _join_columns(names, cells)
    if "taxonomy_id" in names and len(set(row_ids)) < len(row_ids):
        taxa = cells[names.index("taxonomy_id")].astype(str)
        row_ids = [f"{name} ({taxon})" for name, taxon in zip(row_ids, taxa, strict=True)]
        notes.append("names that occur more than once have their taxonomy_id behind them")
    return _sheet(path, names, row_ids, cells.iloc[:, 1:], notes)


def _join_columns(names: list[str], cells: pd.DataFrame) -> list[str]:
    """Return the lineage of each row from the columns of ranks."""
    columns = [
        (cells[number].astype(str).str.strip(), RANKS[simple_name(name)])
        for number, name in enumerate(names)
        if simple_name(name) in RANKS
    ]
    return _join_ranks(columns, len(cells))


def _join_ranks(columns: list[tuple[pd.Series, str]], rows: int) -> list[str]:
    """Return a lineage for each row of columns with the prefixes of their ranks."""
    return [
        join_ranks([(str(column.iat[row]), prefix) for column, prefix in columns])
        for row in range(rows)
    ]


def _without_fractions(
    names: list[str], cells: pd.DataFrame, notes: list[str]
) -> tuple[list[str], pd.DataFrame]:
    """Return Bracken's combined table without the fractions that stand beside the reads."""
    parts = [_BRACKEN.fullmatch(name) for name in names]
    samples: dict[str, list[str]] = {"num": [], "frac": []}
    for match in filter(None, parts):
        samples[match["what"].lower()].append(match["sample"])
    if not samples["num"] or samples["num"] != samples["frac"]:
        return names, cells
    notes.append("it is a combined table of Bracken, of which the reads are taken (_num)")
    kept = [i for i, part in enumerate(parts) if part is None or part["what"].lower() == "num"]
    rest = cells[kept].set_axis(range(len(kept)), axis=1)
    taken = [part["sample"] if part else name for part, name in zip(parts, names, strict=True)]
    taken = [taken[i] for i in kept]
    return [BRACKEN_CORNER, *taken[1:]], rest


def _header(path: Path, lines: list[str], notes: list[str]) -> tuple[str, int]:
    """Return the separator, and the position of the header."""
    leading = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    body = [line for line in lines[leading:] if not line.startswith("#")]
    above = lines[leading - 1 : leading] if leading else []
    tabbed = [i for i in range(leading) if "\t" in lines[i]]
    separator = "\t" if tabbed else find_separator([*above, *body]) or find_separator(body)
    if separator is None:
        refuse(_quote_problems(path, [line for line in lines if line.count('"') % 2]))
        raise problem(
            path,
            "text without columns that tabs separate, or commas or semicolons throughout "
            f"({(lines or [''])[0][:40]!r})",
            "a feature table: BIOM, text (TSV or CSV), .xlsx or .qza",
            "check the path; a table starts with '#OTU ID', a tab and the sample IDs",
        )
    if separator != "\t":
        notes.append(f"{SEPARATORS[separator]} separate its cells")
    while len(tabbed) > 1 and lines[tabbed[-2]].count("\t") == lines[tabbed[-1]].count("\t"):
        tabbed.pop()
    if tabbed:
        return separator, tabbed[-1]
    if above and separator in above[0] and not above[0].startswith(_COMMENT):
        return separator, leading - 1
    return separator, leading


def _without_title(lines: list[str], notes: list[str]) -> list[str]:
    """Return the lines below a title: a first line with one cell above at least three."""
    title = lines[0].strip(' \t,;"') if len(lines) > 2 else "#"
    if title.startswith("#") or not {"\t", ",", ";"}.isdisjoint(title):
        return lines
    separator = find_separator(lines[1:])
    # Spaces also separate the words of a letter.
    if separator is None or separator == " ":
        return lines
    header = [cell.strip(' "') for cell in lines[1].split(separator)]
    # What looks like a row of counts is one, below a header that lost its names.
    is_row = all(cell.replace(".", "").isdigit() for cell in header[1:] if cell)
    if sum(map(bool, header)) < 3 or is_row or names_rows(title):
        return lines
    notes.append(f"its first line ({title[:40]!r}) is a title")
    return lines[1:]


def _refuse_hashed(path: Path, lines: list[str], separator: str) -> None:
    """Refuse rows that would be comments."""
    hashed = [line for line in lines if line.startswith("#") and separator in line]
    if separator == " ":
        hashed = [line for line in hashed if not line.startswith(_COMMENT)]
    actual = "rows whose feature ID begins with '#', which makes them comments:"
    hint = "rename these features, or delete the lines if they are none"
    names = [line.partition(separator)[0] for line in hashed]
    refuse(report_names(path, names, actual, "other feature IDs", hint))


def _tabbed(path: Path, lines: list[str], separator: str) -> list[str]:
    """Return lines with tabs between their cells, and no quotes around these."""
    if separator == "\t" and not any('"' in line for line in lines):
        return lines
    tabbed = []
    wrong = []
    for line in lines:
        try:
            cells = split_line(line, separator)
        except ValueError:
            wrong.append(line)
        else:
            tabbed.append("\t".join(cell.replace("\t", " ") for cell in cells))
    refuse(_quote_problems(path, wrong))
    return tabbed


def _quote_problems(path: Path, lines: list[str]) -> Iterator[InputError]:
    """Name lines whose quotes do not match, as where a cell goes on in the next line."""
    actual = "lines with a double quote that is not closed, or not doubled:"
    hint = 'write each cell on one line, and a quote in a cell twice: "like ""this"""'
    shown = [line[:30] for line in lines]
    yield from report_names(path, shown, actual, "cells with closed quotes", hint, limit=3)


def _complete(names: list[str], rows: list[str], notes: list[str]) -> tuple[list[str], list[str]]:
    """Return the header with a name for every column, and the rows without their numbers."""
    is_numbered = numbers_rows([row.partition("\t")[0].strip() for row in rows])
    if lacks_first_name(names, (row.split("\t") for row in rows)):
        # The name of another column is missing where the header begins with that of the IDs.
        if names_rows(names[0]) and not is_numbered:
            return names, rows
        names = ["", *names]
        notes.append("its header has no name for the first column, as R's write.table writes it")
    if len(names) > 2 and not names[0] and is_numbered:
        behind = [row.partition("\t")[2] for row in rows]
        if names_rows(names[1]) or all(is_sequence(row.partition("\t")[0]) for row in behind):
            notes.append("its first column numbers the rows")
            return names[1:], behind
    return names, rows


def _without_label(
    path: Path, names: list[str], rows: list[str], notes: list[str]
) -> tuple[list[str], list[str]]:
    """Return a table of mothur (.shared) from its column `Group` on, without `numOtus`."""
    if [name.lower() for name in names[:2]] != ["label", "group"]:
        return names, rows
    labels = sorted({row.partition("\t")[0] for row in rows})
    if len(labels) > 1:
        raise problem(
            path,
            f"tables of several distances: {first_names(labels)}",
            "one label in a file of mothur (.shared)",
            f"choose one in mothur: get.sharedseqs(shared={path.name}, label={labels[0]})",
        )
    notes.append("it is a .shared file of mothur")
    rows = [row.partition("\t")[2] for row in rows]
    if len(names) > 2 and re.fullmatch("num(otu|asv|phylotype)s", names[2].lower()):
        dropped = [row.split("\t", 2) for row in rows]
        rows = ["\t".join([row[0], *row[2:]]) for row in dropped]
        return [names[1], *names[3:]], rows
    return names[1:], rows


def _trimmed(row: str, width: int) -> str:
    """Return a row without empty cells behind the last column, as spreadsheets leave them."""
    extra = row.count("\t") + 1 - width
    while extra > 0 and row.rstrip(" ").endswith("\t"):
        row = row.rstrip(" ")[:-1]
        extra -= 1
    return row


def _width_problems(path: Path, names: list[str], rows: list[str]) -> Iterator[InputError]:
    wrong = []
    for row in rows:
        width = row.count("\t") + 1
        if width != len(names):
            wrong.append(f"'{(row.split(maxsplit=1) or [''])[0][:20]}' has {width}")
    actual = "rows with another number of columns than the header:"
    hint = "export the table again; a cell without reads holds a 0"
    expected = f"{len(names)} columns in every row"
    yield from report_names(path, wrong, actual, expected, hint, quoted=False)


def _sheet(
    path: Path, names: list[str], row_ids: list[str], cells: pd.DataFrame, notes: list[str]
) -> Sheet:
    """Sort columns into those of numbers, of lineages and of sequences; others are refused."""
    sheet = Sheet(names[0], row_ids, [], np.zeros((0, len(row_ids))), None, notes)
    columns: list[pd.Series] = []
    left_out: list[str] = []
    ranks: list[tuple[pd.Series, str]] = []
    found: list[str] | None = None
    faults = _Faults()
    behind_taxa = _columns_behind_taxa(names)
    for number, name in enumerate(names[1:], start=1):
        values = cells[number]
        if number in behind_taxa:
            left_out.append(name)
            continue
        if simple_name(name) in LINEAGE_COLUMNS:
            sheet.lineages = sheet.lineages or [*values.astype(str).str.strip()]
            continue
        if simple_name(name) in DESCRIPTIONS:
            if simple_name(name) == _LEVEL:
                sheet.levels = [*values.astype(str).str.strip()]
            left_out.append(name)
            continue
        if values.dtype.kind not in "iuf":
            text = values.astype(str).str.strip()
            values = pd.to_numeric(text, errors="coerce")
            is_unread = values.isna() & text.str.lower().ne("nan")
            if is_unread.any() and _holds_no_counts(name, text):
                left_out += [name] if name else []
                if simple_name(name) in RANKS:
                    ranks.append((text, RANKS[simple_name(name)]))
                elif name:
                    found = found or [*text]
                continue
            if is_unread.all() and sheet.sequences is None and all(map(is_sequence, text)):
                sheet.sequences = [*text]
                continue
            unread = [*text[is_unread]]
            rows = [row_ids[row] for row in np.flatnonzero(is_unread)]
            label = name or f"number {number + 1}"
            faults.add(label, unread, rows, is_all=len(unread) == len(text))
        if not name:
            faults.unnamed.append(str(number + 1))
        sheet.column_ids.append(name)
        columns.append(values)
    if faults.texts and _is_long(names):
        raise problem(
            path,
            f"a row for each sample and feature (columns {first_names(names[1:], limit=4)})",
            "a row for each feature, and a column for each sample",
            "spread it: tidyr::pivot_wider in R, DataFrame.pivot in pandas",
        )
    refuse(faults.problems(path))
    if ranks:
        found = _join_ranks(ranks, len(row_ids))
    sheet.lineages = sheet.lineages or found
    if left_out:
        notes.append(f"columns that hold no counts are left out, {first_names(left_out, limit=8)}")
    sheet.values = np.array(columns, dtype=np.float64).reshape(len(columns), len(row_ids))
    return sheet


def _columns_behind_taxa(names: list[str]) -> range:
    """Return the places of the metadata that QIIME 2 writes behind the taxa of a bar plot."""
    taxa = [
        number
        for number, name in enumerate(names)
        if number and (";" in name or rank_of_taxon(name) or _UNKNOWN.fullmatch(name))
    ]
    is_bar_plot = simple_name(names[0]) == _BAR_PLOT and 2 * len(taxa) >= len(names) - 1
    return range(max(taxa) + 1, len(names)) if taxa and is_bar_plot else range(0)


def _is_long(names: list[str]) -> bool:
    """Whether a header has a column of samples, one of features and one of counts."""
    simple = set(map(simple_name, names))
    axes = (simple & SAMPLE_AXIS, simple & FEATURE_AXIS, simple & _COUNT_COLUMNS)
    return all(axes)


def _holds_no_counts(name: str, text: pd.Series) -> bool:
    """Whether a column of text is empty, or holds taxa by its name or by what is in it."""
    if not name and text.eq("").all():
        return True
    if simple_name(name) in RANK_COLUMNS:
        return True
    told = [cell for cell in text if not _UNKNOWN.fullmatch(cell)]
    return bool(told) and all(map(_LINEAGE.match, told))


@dataclass
class _Faults:
    """What cannot be read in columns."""

    unnamed: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    has_groups: bool = False
    has_logicals: bool = False

    def add(self, name: str, unread: list[str], rows: list[str], *, is_all: bool) -> None:
        """Note the cells of a column that are no numbers, or that all of them are none.

        Parameters
        ----------
        name
            Name of the column.
        unread
            Its cells that are no numbers.
        rows
            Name of the row of each of these cells.
        is_all
            Whether the column has no other cells.
        """
        self.has_groups |= any(map(_GROUPED.fullmatch, unread))
        self.has_logicals |= any(cell.lower() in ("true", "false") for cell in unread)
        is_readable = self.has_groups or self.has_logicals
        if is_all and not is_readable and any(unread):
            self.texts.append(f"'{name}' ({first_names(dict.fromkeys(unread), limit=2)})")
        else:
            self.cells += [
                f"{cell!r} in column {name}, row {row[:20]}"
                for row, cell in zip(rows, unread, strict=True)
            ]

    def problems(self, path: Path) -> Iterator[InputError]:
        """Yield one problem for each kind of fault."""
        actual = "columns without a name:"
        hint = "name or delete them"
        expected = "a name for every column"
        yield from report_names(path, self.unnamed, actual, expected, hint, quoted=False)
        actual = "columns of text:"
        hint = (
            "delete them; columns of lineages are called 'taxonomy', or Kingdom, Phylum and so "
            "on, and those that describe samples go into the metadata"
        )
        expected = "counts in every column"
        yield from report_names(path, self.texts, actual, expected, hint, quoted=False)
        if self.cells:
            shown = "; ".join(self.cells[:3])
            actual = f"cells that are no numbers: {len(self.cells)} ({shown})"
            hint = "write 0 where there are no reads"
            if self.has_groups:
                hint = (
                    "write 1234 for 1,234, and 12 for 12,0: no separators of thousands, no commas"
                )
            elif self.has_logicals:
                hint = "presence and absence are no counts: give the raw read counts"
            yield problem(path, actual, "counts", hint)
