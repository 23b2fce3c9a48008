"""Sample metadata of the user, in the QIIME 2 format.

The format: https://docs.qiime2.org, "Metadata in QIIME 2".
"""

import csv
import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from aam.data.importing.files import find_duplicates, read_text, refuse, report_names
from aam.data.importing.ids import match_samples
from aam.data.metadata import TYPES_ATTRIBUTE
from aam.util.errors import InputError, count_names, problem

logger = logging.getLogger(__name__)
EXPECTED = "sample metadata in the QIIME 2 format: tab-separated text, sample IDs first"
ID_HEADERS = frozenset(
    {
        "id",
        "sampleid",
        "sample id",
        "sample-id",
        "sample_id",
        "sample_name",
        "featureid",
        "feature id",
        "feature-id",
    }
)
"""Names of the first column, whatever their case."""
LEGACY_HEADERS = frozenset({"#SampleID", "#Sample ID", "#OTUID", "#OTU ID"})
"""Names of the first column that would be comments otherwise."""
TYPES = ("categorical", "numeric")
"""What `#q2:types` may say of a column."""
MISSING = re.compile(
    "na|n/a|nan|null|(missing|not applicable|not collected|not provided|restricted access)(:.*)?",
    re.IGNORECASE,
)
"""Cells that are missing values unless `#q2:missing` says blank: words of spreadsheets and of R,
and those of INSDC's list of missing values, with reasons behind a colon as there and in Qiita."""
MOST_COLUMNS = 10_000
_DIRECTIVES = ("#q2:types", "#q2:missing")


@dataclass
class _Sheet:
    """The cells of a file, stripped, without comments and empty lines."""

    header: list[str] = field(default_factory=list)
    directives: dict[str, list[str]] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)


def metadata_of(path: Path, sample_ids: Sequence[str]) -> pd.DataFrame:
    """Read metadata and return a row per sample of a table.

    Parameters
    ----------
    path
        The user's file.
    sample_ids
        IDs of the table's samples.

    Returns
    -------
    pandas.DataFrame
        As `load_metadata` returns it, in the order of `sample_ids`; samples that the file lacks
        have no values.

    Raises
    ------
    InputError
        The file is no metadata, or has none of the samples.
    """
    given = load_metadata(path)
    match_samples(path, sample_ids, list(given.index))
    return given.reindex([*sample_ids])


def load_metadata(path: Path) -> pd.DataFrame:
    """Read sample metadata in the QIIME 2 format.

    The first column has a name of `ID_HEADERS`, or a legacy one. A warning tells which words were
    taken for missing values (`MISSING`).

    Parameters
    ----------
    path
        The user's file.

    Returns
    -------
    pandas.DataFrame
        Strings by sample ID as it is written, None where a cell is empty or says that there is no
        value. `attrs["q2:types"]` has the types that the file gives.

    Raises
    ------
    InputError
        The file is no metadata; all its problems are named at once.
    """
    sheet = _sheet(path, read_text(path, EXPECTED, None))
    refuse(_problems(path, sheet))
    columns = sheet.header[1:]
    cells = [[cell or None for cell in row[1:]] for row in sheet.rows]
    frame = pd.DataFrame(cells, index=[row[0] for row in sheet.rows], columns=columns, dtype=object)
    _drop_missing(path, frame, sheet.directives.get("#q2:missing", [])[1:])
    types = {
        column: kind for column, kind in zip(columns, _types(sheet), strict=False) if kind in TYPES
    }
    refuse(_type_problems(path, frame, types))
    frame.attrs[TYPES_ATTRIBUTE] = types
    return frame


def _drop_missing(path: Path, frame: pd.DataFrame, schemes: list[str]) -> None:
    """Empty the cells that say in words that there is no value, and say which."""
    blank = {column for column, scheme in zip(frame, schemes, strict=False) if scheme == "blank"}
    missing_words: Counter[str] = Counter()
    for column in frame.columns.difference(list(blank)):
        is_word = frame[column].map(lambda cell: bool(cell and MISSING.fullmatch(cell)))
        missing_words.update(frame.loc[is_word, column])
        frame[column] = frame[column].mask(is_word, None)
    if missing_words:
        words = ", ".join(
            f"{word!r} in {count} {'cell' if count == 1 else 'cells'}"
            for word, count in missing_words.most_common(6)
        )
        logger.warning(
            "%s: read as missing: %s; to keep such words as values of a column, write 'blank' for "
            "it in a line '#q2:missing'",
            path,
            words,
        )


def _types(sheet: _Sheet) -> list[str]:
    return [kind.lower() for kind in sheet.directives.get("#q2:types", [])[1:]]


def _sheet(path: Path, text: str) -> _Sheet:
    """Sort the lines of a file into header, directives and rows; rows get the header's width."""
    sheet = _Sheet()
    reader = csv.reader(io.StringIO(text, newline=""), dialect="excel-tab", strict=True)
    try:
        for line in reader:
            cells = [cell.strip() for cell in line]
            if not any(cells):
                continue
            if not sheet.header:
                if cells[0] in LEGACY_HEADERS or not cells[0].startswith("#"):
                    sheet.header = _trimmed(cells)
            elif cells[0].startswith("#q2:"):
                sheet.directives[cells[0]] = cells
            elif not cells[0].startswith("#"):
                cells = _trimmed(cells)
                sheet.rows.append(cells + [""] * (len(sheet.header) - len(cells)))
    except csv.Error as error:
        actual = f"a line that cannot be split into cells (line {reader.line_num}: {error})"
        hint = 'a cell with a double quote is written "like ""this"""'
        raise problem(path, actual, EXPECTED, hint) from error
    return sheet


def _trimmed(cells: list[str]) -> list[str]:
    """Drop the empty cells at the end of a line, as spreadsheets leave them."""
    width = max(i for i, cell in enumerate(cells) if cell) + 1
    return cells[:width]


def _problems(path: Path, sheet: _Sheet) -> Iterator[InputError]:
    first = sheet.header[0] if sheet.header else ""
    if first.lower() not in ID_HEADERS and first not in LEGACY_HEADERS:
        commas = len(sheet.header) == 1 and "," in first
        hint = "save it tab-separated" if commas else "rename the first column to 'sample-id'"
        actual = f"a header that begins with {first[:40]!r}"
        names = ", ".join(sorted(ID_HEADERS) + sorted(LEGACY_HEADERS))
        yield problem(path, actual, f"a first column called one of {names}", hint)
        return
    if len(sheet.header) > MOST_COLUMNS:
        hint = "give the columns that tasks name; a feature table goes under the key `table`"
        yield problem(path, f"{len(sheet.header)} columns", f"at most {MOST_COLUMNS}", hint)
        return
    if not sheet.rows:
        yield problem(path, "no samples below the header", "one row per sample", "check the export")
    columns = sheet.header[1:]
    ids = [row[0] for row in sheet.rows]
    unnamed = [number for number, name in enumerate(columns, start=2) if not name]
    actual = "columns without a name:"
    hint = "name or delete them"
    yield from report_names(
        path, map(str, unnamed), actual, "a name for every column", hint, quoted=False
    )
    if "sample_id" in columns:
        actual = "a second column called 'sample_id'"
        yield problem(path, actual, "that name for the IDs alone", "rename the column")
    for what, given in (("column names", columns), ("sample IDs", ids)):
        actual = f"{what} that occur more than once:"
        hint = "rename or remove the others"
        yield from report_names(path, find_duplicates(given), actual, "every one once", hint)
    nameless = ids.count("")
    if nameless:
        actual = f"rows without a sample ID: {nameless}"
        yield problem(path, actual, "an ID in every row", "fill in or delete these rows")
    hint = "write these cells on one line"
    broken_names = [name for name in sheet.header if _has_line_break(name)]
    actual = "line breaks in the column names"
    yield from report_names(path, broken_names, actual, "names of one line", hint)
    broken = [row[0] for row in sheet.rows if any(map(_has_line_break, row))]
    yield from report_names(path, broken, "line breaks in cells of", "cells of one line", hint)
    long = [row[0] for row in sheet.rows if len(row) > len(sheet.header)]
    actual = f"rows with more cells than the header's {len(sheet.header)}:"
    hint = "name the columns, or empty them"
    yield from report_names(path, long, actual, "a column name for every cell", hint)
    yield from _directive_problems(path, sheet)


def _has_line_break(cell: str) -> bool:
    return len(cell.splitlines()) > 1


def _directive_problems(path: Path, sheet: _Sheet) -> Iterator[InputError]:
    unknown = [name for name in sheet.directives if name not in _DIRECTIVES]
    expected = f"only {', '.join(_DIRECTIVES)}"
    yield from report_names(path, unknown, "unknown directives:", expected, "remove these lines")
    schemes = sheet.directives.get("#q2:missing", [])[1:]
    correct = "correct them, or leave the cell empty"
    empty = "leave the cells of missing values empty"
    for what, directive, cells, allowed, hint in (
        ("column type", "#q2:types", _types(sheet), TYPES, correct),
        ("scheme", "#q2:missing", schemes, ("blank", "INSDC:missing"), empty),
    ):
        strange = sorted({cell for cell in cells if cell and cell not in allowed})
        if strange:
            actual = f"{count_names(what, strange)} in {directive}"
            yield problem(path, actual, " or ".join(allowed), hint)


def _type_problems(path: Path, frame: pd.DataFrame, types: dict[str, str]) -> Iterator[InputError]:
    for column in [name for name, kind in types.items() if kind == "numeric"]:
        cells = frame[column]
        unread = cells[cells.notna() & pd.to_numeric(cells, errors="coerce").isna()].unique()
        actual = f"column '{column}' of type numeric with the values"
        hint = "correct them, empty the cells, or call the column categorical"
        yield from report_names(path, unread, actual, "numbers", hint, limit=3)
