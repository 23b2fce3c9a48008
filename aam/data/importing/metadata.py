"""Sample metadata of the user: the QIIME 2 format, and what spreadsheets, R and pandas write.

The format: https://docs.qiime2.org, "Metadata in QIIME 2".
"""

import csv
import io
import logging
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from aam.data.cell_values import (
    FEW_NUMBERS,
    MISSING,
    group_alike,
    join_spellings,
    missing_among_numbers,
    read_numbers,
)
from aam.data.importing.delimited import (
    SEPARATORS,
    ends_in_empty_cells,
    find_separator,
    lacks_first_name,
    numbers_rows,
    trim,
)
from aam.data.importing.files import (
    find_duplicates,
    lines_of,
    read_text,
    refuse,
    report_names,
)
from aam.data.importing.ids import likely_pairs, match_samples
from aam.data.metadata import TYPES_ATTRIBUTE
from aam.util.errors import InputError, count_names, first_few, first_names, problem

logger = logging.getLogger(__name__)
EXPECTED = "sample metadata: tab-separated text with the sample IDs in its first column"
ID_HEADERS = frozenset(
    "id sampleid sampleids samplename sample samples sampleaccession biosample run runaccession "
    "libraryname featureid otuid xsampleid".split()
)
"""Names of the first column, in lower case and without spaces, dots, dashes and underscores."""
UNNAMED = frozenset(("", "unnamed:0", "rownames", "index", "x", "1"))
"""What pandas, R and readr write above the names of the rows, in the same form; "1" is `...1`."""
COMMENTED_HEADERS = frozenset(
    f"#{name}" for name in ("sampleid", "otuid", "sample", "samplename", "id", "name", "featureid")
)
"""Names of the first column, in the same form, that would be comments otherwise."""
ID_EXAMPLES = "sample-id, #SampleID, sample name, Run or the like"
TYPES = ("categorical", "numeric")
"""What `#q2:types` may say of a column."""
MOST_COLUMNS = 10_000
MOST_IDS = 0.5
"""Share of the samples of a table that a column other than the first has to name, to be taken for
the IDs in its place."""
_DIRECTIVES = ("#q2:types", "#q2:missing")
_TYPES_AS_A_ROW = re.compile(r"(X\.)?#?q2[:.]types", re.IGNORECASE)
"""What is left of `#q2:types` where a program has taken it for a sample."""
_AROUND = string.whitespace + "\xa0\u200b\ufeff"
"""What is no part of a cell at its ends."""
_CHANGED_ID = re.compile(
    r"[0-9](\.[0-9]+)?E\+?-?[0-9]+|[0-9]{1,2}[-. ](jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[-. ][0-9]{2}",
    re.IGNORECASE,
)
"""What spreadsheets make of IDs such as 1E5 and MAR1."""


@dataclass
class _Sheet:
    """The cells of a file, without comments and empty lines."""

    separator: str
    """What separates the cells."""
    header: list[str] = field(default_factory=list)
    directives: dict[str, list[str]] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    """Rows of the header's width, or longer."""
    warnings: list[str] = field(default_factory=list)
    """What was decided for the user, to be said once the file is accepted."""


def metadata_of(path: Path, sample_ids: Sequence[str]) -> pd.DataFrame:
    """Read metadata and return a row per sample of a table.

    The IDs are the first column, or another one where only that has IDs of the table.

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
    given = load_metadata(path, sample_ids)
    match_samples(path, sample_ids, list(given.index))
    return given.reindex([*sample_ids])


def metadata_cells(path: Path, *axes: Sequence[str]) -> pd.DataFrame:
    """Return the cells of metadata by sample ID, of which nothing is checked.

    Parameters
    ----------
    path
        The user's file.
    *axes
        IDs of both axes of a table, one of which are those of its samples: they tell a column of
        IDs whatever its name.

    Raises
    ------
    InputError
        The file cannot be read as text in columns.
    """
    sheet = _sheet(path, read_text(path, EXPECTED, None, takes_workbooks=True))
    _find_ids(path, sheet, *map(frozenset, axes))
    width = len(sheet.header)
    cells = [row[1:width] for row in sheet.rows]
    return pd.DataFrame(cells, index=[row[0] for row in sheet.rows], columns=sheet.header[1:])


def load_metadata(path: Path, sample_ids: Sequence[str] | None = None) -> pd.DataFrame:
    """Read sample metadata in the QIIME 2 format, or as spreadsheets, R and pandas write it.

    Warnings tell what was decided: which separator and column of IDs were taken, which words were
    read as missing values, and which spellings as one value.

    Parameters
    ----------
    path
        The user's file.
    sample_ids
        IDs of a table's samples, which tell a column of IDs whatever its name; None: the first
        column has to have a name of `ID_HEADERS`, of `COMMENTED_HEADERS` or of `UNNAMED`.

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
    sheet = _sheet(path, read_text(path, EXPECTED, None, takes_workbooks=True))
    known = frozenset(sample_ids or ())
    _find_ids(path, sheet, known)
    refuse([*_swallowed_lines(path, sheet, known), *_problems(path, sheet)])
    columns = sheet.header[1:]
    cells = [row[1:] for row in sheet.rows]
    frame = pd.DataFrame(cells, index=[row[0] for row in sheet.rows], columns=columns, dtype=object)
    frame = _with_plain_letters(sheet, frame)
    types = {
        column: kind for column, kind in zip(columns, _types(sheet), strict=False) if kind in TYPES
    }
    _drop_missing(sheet, frame, types)
    _join_spellings(sheet, frame, types)
    refuse(_type_problems(path, frame, types))
    changed = frame.index[frame.index.map(lambda name: bool(_CHANGED_ID.fullmatch(name)))]
    changed = changed.difference(list(sample_ids or ()), sort=False)
    if len(changed):
        sheet.warnings.append(
            f"IDs that look as if a spreadsheet had changed them: {count_names('ID', changed)}; if "
            "the table has others, correct them in a column that is formatted as text"
        )
    for warning in sheet.warnings:
        logger.warning("%s: %s", path, warning)
    frame.attrs[TYPES_ATTRIBUTE] = types
    return frame


def _with_plain_letters(sheet: _Sheet, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with one form of each letter and of each space, and None where empty."""
    joined = []
    broken = 0
    plain = {}
    for column in frame:
        plain[column] = frame[column].map(_plain)
        broken += int(frame[column].map(_has_line_break).sum())
        if plain[column].nunique() < frame[column].nunique():
            pairs = zip(frame[column], plain[column], strict=True)
            changed = sorted({(cell, text) for cell, text in pairs if cell != text})
            joined += [f"{cell!r} as {text!r} in '{column}'" for cell, text in changed]
    if broken:
        where = "1 cell" if broken == 1 else f"{broken} cells"
        sheet.warnings.append(f"line breaks in {where} were read as spaces")
    if joined:
        sheet.warnings.append(
            "values that differ in the encoding of letters or spaces alone were read as one: "
            f"{first_few(joined)}"
        )
    return pd.DataFrame(plain, index=frame.index, columns=frame.columns, dtype=object).replace(
        {"": None}
    )


def _plain(cell: str) -> str:
    """Return a text whose letters are in their composed form, and its white space plain spaces."""
    text = unicodedata.normalize("NFC", cell.replace("\u200b", "").replace("\ufeff", ""))
    return re.sub(r"\s*[^\S ]\s*", " ", text).strip()


def _drop_missing(sheet: _Sheet, frame: pd.DataFrame, types: Mapping[str, str]) -> None:
    """Empty the cells that say in words that there is no value, and say which."""
    schemes = sheet.directives.get("#q2:missing", [])[1:]
    blank = {column for column, scheme in zip(frame, schemes, strict=False) if scheme == "blank"}
    missing_words: Counter[str] = Counter()
    among_numbers: list[str] = []
    for column in frame.columns.difference(list(blank), sort=False):
        counts = _counts(frame[column])
        words = [value for value in counts if MISSING.fullmatch(value)]
        for word in words:
            missing_words[word] += counts.pop(word)
        if types.get(column) != "categorical":
            odd = missing_among_numbers(counts, is_declared=types.get(column) == "numeric")
            among_numbers += [f"{word!r} in {_cells(counts[word])} of '{column}'" for word in odd]
            words += odd
        if words:
            frame[column] = frame[column].mask(frame[column].isin(words), None)
    if missing_words:
        shown = ", ".join(
            f"{word!r} in {_cells(count)}" for word, count in missing_words.most_common(6)
        )
        sheet.warnings.append(
            f"read as missing: {shown}; to keep such words as values of a column, write 'blank' "
            "for it in a line '#q2:missing'"
        )
    if among_numbers:
        sheet.warnings.append(
            f"read as missing among numbers: {first_few(among_numbers)}; if such a word is a value "
            "of its own, write the number that it stands for, or 'categorical' for the column in a "
            "line '#q2:types'"
        )


def _counts(values: pd.Series) -> dict[str, int]:
    """Return the number of cells by value, the most frequent first."""
    return {str(value): int(count) for value, count in values.value_counts().items()}


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _join_spellings(sheet: _Sheet, frame: pd.DataFrame, types: Mapping[str, str]) -> None:
    """Give values one spelling where that is certain, and name others that look like one value."""
    joined = []
    doubtful = []
    for column in map(str, frame.columns):
        counts = _counts(frame[column])
        replaced = {} if types.get(column) == "categorical" else join_spellings(counts)
        if replaced:
            frame[column] = frame[column].replace(replaced)
            old, new = next(iter(replaced.items()))
            joined.append(f"'{column}' ({old!r} as {new!r})")
        # Numbers that are written in two ways are the same number where they are predicted.
        left = [value for value in counts if value not in replaced]
        pairs = group_alike(left)
        if pairs and types.get(column) != "numeric" and not _are_many_numbers(left):
            doubtful.append(f"'{column}' ({' and '.join(map(repr, pairs[0]))})")
    if joined:
        sheet.warnings.append(
            f"spellings of one value were joined in {first_few(joined)}; write 'categorical' for "
            "the column in a line '#q2:types' to keep them apart"
        )
    if doubtful:
        sheet.warnings.append(
            f"values that look like one are kept apart in {first_few(doubtful)}; write them in one "
            "way if they are one"
        )
    names = group_alike(map(str, frame.columns))
    if names:
        sheet.warnings.append(
            f"columns with names that look like one: {' and '.join(map(repr, names[0]))}; they are "
            "different columns"
        )


def _are_many_numbers(values: Collection[str]) -> bool:
    """Return whether values are measurements, of which none is a class."""
    if len(values) <= FEW_NUMBERS:
        return False
    return bool(read_numbers(pd.Series([*values], dtype=object)).values.notna().mean() > 0.5)


def _types(sheet: _Sheet) -> list[str]:
    return [kind.lower() for kind in sheet.directives.get("#q2:types", [])[1:]]


def _sheet(path: Path, text: str) -> _Sheet:
    """Sort the lines of a file into header, directives and rows."""
    separator = _separator(text)
    sheet = _Sheet(separator=separator)
    if separator != "\t":
        sheet.warnings.append(f"read as text that {SEPARATORS[separator]} separate")
    for cells in _records(path, text, separator):
        first = cells[0].lower()
        if first.startswith("#q2:"):
            sheet.directives[first] = cells
        elif _is_comment(first):
            continue
        elif sheet.header:
            sheet.rows.append(cells)
        else:
            sheet.header = cells
    _name_first_column(path, sheet)
    sheet.header = [*sheet.header[:1], *map(_plain, trim(sheet.header)[1:])]
    width = len(sheet.header)
    sheet.rows = [trim(row) + [""] * (width - len(trim(row))) for row in sheet.rows]
    _take_types_out_of_rows(sheet)
    return sheet


def _separator(text: str) -> str:
    """Return what separates the cells: a tab, unless something else does for certain."""
    lines = []
    for line in lines_of(text):
        first = re.split("[\t,;]", line, maxsplit=1)[0].strip(' "')
        if line.strip() and not first.lower().startswith("#q2:") and not _is_comment(first):
            lines.append(line)
    found = find_separator(lines)
    # A space in an unquoted header is more likely a part of a name than a separator.
    if found == " " and '"' not in lines[0]:
        return "\t"
    if found is None and lines:
        # Cells with line breaks in quotes make lines that no separator fits.
        for separator in ",;":
            if separator in lines[0] and _splits_all("\n".join(lines), separator):
                return separator
    return found or "\t"


def _splits_all(text: str, separator: str) -> bool:
    """Return whether a separator divides text with quoted line breaks into rows of one width."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        widths = [len(trim(cells)) for cells in reader if any(cells)]
    except csv.Error:
        return False
    return len(widths) > 1 and max(widths) <= widths[0] + 1 and widths[0] > 1


def _records(path: Path, text: str, separator: str) -> list[list[str]]:
    """Return the cells of all lines that are not empty, without white space around them."""
    try:
        return _split(text, separator)
    except csv.Error as error:
        actual = f"a line that cannot be split into cells ({error})"
        hint = 'a cell with a double quote is written "like ""this"""'
        if '\\"' not in text:
            raise problem(path, actual, EXPECTED, hint) from error
        try:
            # R's write.table puts a backslash before a quote in a cell.
            return _split(text, separator, escape="\\")
        except csv.Error:
            raise problem(path, actual, EXPECTED, hint) from error


def _split(text: str, separator: str, escape: str | None = None) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        strict=True,
        skipinitialspace=separator != "\t",
        doublequote=escape is None,
        escapechar=escape,
    )
    try:
        lines = [[cell.strip() for cell in line] for line in reader]
    except csv.Error as error:
        raise csv.Error(f"line {reader.line_num}: {error}") from error
    # Signs without width stay in values until `_with_plain_letters` can say that it joins two.
    if lines:
        lines[0] = [cell.strip(_AROUND) for cell in lines[0]]
    for cells in lines[1:]:
        cells[:1] = [cell.strip(_AROUND) for cell in cells[:1]]
    return [cells for cells in lines if any(cell.strip(_AROUND) for cell in cells)]


def _is_comment(first: str) -> bool:
    if not first.startswith("#") or _normal(first) in COMMENTED_HEADERS:
        return False
    # A spreadsheet that failed to compute an ID has no comment there.
    return MISSING.fullmatch(first) is None


def _normal(name: str) -> str:
    """Return a name in lower case, without spaces, dots, dashes and underscores."""
    return re.sub(r"[\s._-]+", "", _plain(name).lower())


def _names_ids(name: str) -> bool:
    """Return whether a first column of this name holds IDs."""
    return _normal(name) in ID_HEADERS | UNNAMED | COMMENTED_HEADERS


def _name_first_column(path: Path, sheet: _Sheet) -> None:
    """Give the first column a name where the header has one fewer than all rows have cells.

    Raises an `InputError` where it cannot be told which name is missing.
    """
    if not sheet.header:
        return
    names_ids = _normal(sheet.header[0]) in ID_HEADERS | COMMENTED_HEADERS
    is_named = names_ids or not sheet.header[0]
    if ends_in_empty_cells(sheet.header, sheet.rows) and not is_named:
        raise problem(
            path,
            f"{len(sheet.header)} names above rows of {len(sheet.header) + 1} cells, the last of "
            "which are empty",
            "a name for every column",
            f"write sample-id in front of {sheet.header[0]!r} if that is the name of the second "
            "column, as in files of R's write.table, or else delete the separator at the end of "
            "every row",
        )
    if not lacks_first_name(sheet.header, sheet.rows):
        return
    names, ids = ([row[column] for row in sheet.rows] for column in (0, 1))
    if not names_ids:
        sheet.header = ["", *sheet.header]
        sheet.warnings.append(
            "the header has one name fewer than every row has cells, as in files of R's "
            "write.table; the first cell of each row was taken for the sample ID, and the names of "
            "the header for the cells behind it"
        )
    elif numbers_rows(names) or names == ids:
        sheet.rows = [row[1:] for row in sheet.rows]
        sheet.warnings.append(
            f"the names of the rows, {first_names(names, limit=2)}, were left out; the IDs are in "
            f"'{sheet.header[0]}'"
        )
    else:
        raise problem(
            path,
            f"a header that lacks one name: {len(sheet.header)} names above rows of "
            f"{len(sheet.header) + 1} cells, which begin with {first_names(names, limit=2)} and go "
            f"on with {first_names(ids, limit=2)}",
            "a name for every column",
            f"write the missing name into the header; R's write.table(..., col.names = NA) does "
            f"so. Is '{sheet.header[0]}' the name of the first column or of the second?",
        )


def _take_types_out_of_rows(sheet: _Sheet) -> None:
    """Take a row for the directive that it was before a program read it as a sample."""
    for row in sheet.rows:
        kinds = [cell.lower() for cell in row[1:] if cell]
        if _TYPES_AS_A_ROW.fullmatch(row[0]) and kinds and {*kinds} <= {*TYPES}:
            sheet.rows.remove(row)
            sheet.directives.setdefault("#q2:types", row)
            sheet.warnings.append(f"the row {row[0]!r} was read as the line '#q2:types'")
            return


def _find_ids(path: Path, sheet: _Sheet, *axes: frozenset[str]) -> None:
    """Move the column of the IDs to the front where that is another one than the first.

    Parameters
    ----------
    path
        The user's file.
    sheet
        Its cells.
    *axes
        IDs of the table's samples, or of both its axes where it is not known which has the samples;
        empty: the names of the columns decide alone.

    Raises
    ------
    InputError
        The first line is one of a sample.
    """
    sample_ids = frozenset[str]().union(*axes)
    if not sheet.header or any(len(row) > len(sheet.header) for row in sheet.rows):
        return
    if sheet.header[0] in sample_ids and not _names_ids(sheet.header[0]):
        raise problem(
            path,
            f"no header: the first line begins with '{sheet.header[0]}', which is a sample of the "
            "table",
            "the names of the columns in the first line",
            "add a line with them, whose first name is 'sample-id'",
        )
    values = [[row[column] for row in sheet.rows] for column in range(len(sheet.header))]
    shared = [len(sample_ids & {*column}) for column in values]
    position = shared.index(max(shared))
    is_numbered = _normal(sheet.header[0]) in UNNAMED and numbers_rows(values[0])
    if not any(shared) and is_numbered:
        named = [column for column, name in enumerate(sheet.header) if _normal(name) in ID_HEADERS]
        position = named[0] if named else 0
    if position and len({*values[position]}) == len(sheet.rows):
        # Numbers are IDs of the table by chance, too: ages of people whose samples are numbered.
        axis = max(axes, key=lambda one: len(one.intersection(values[position])))
        are_few = len(axis.intersection(values[position])) < MOST_IDS * len(axis)
        is_called_ids = _normal(sheet.header[position]) in ID_HEADERS
        are_first_changed = any(likely_pairs(sample_ids, values[0]))
        is_chance = are_few or (are_first_changed and not is_called_ids)
        if not (_names_ids(sheet.header[0]) and (shared[0] or is_chance)):
            _move_to_front(sheet, position, "is numbered" if is_numbered else "has none of them")
    elif shared[0] and not _names_ids(sheet.header[0]):
        sheet.warnings.append(
            f"the first column, '{sheet.header[0]}', was taken for the sample IDs, as it has IDs "
            "of the table"
        )
        sheet.header[0] = "sample-id"
    _drop_second_ids(sheet)


def _move_to_front(sheet: _Sheet, position: int, why: str) -> None:
    """Make a column the one of the IDs; row numbers that stood in its place are left out."""
    first = sheet.header[0]
    sheet.warnings.append(
        f"the sample IDs were taken from the column '{sheet.header[position]}', as the first one, "
        f"'{first}', {why}"
    )
    order = [position, *(one for one in range(len(sheet.header)) if one != position)]
    # Numbers of the rows say nothing; a first column with a name of its own stays as a column.
    if _normal(first) in UNNAMED:
        order.remove(0)
    for directive, cells in sheet.directives.items():
        padded = ["", *cells[1:], *[""] * (len(sheet.header) - len(cells))]
        sheet.directives[directive] = [directive, *(padded[one] for one in order[1:])]
    sheet.rows = [[row[one] for one in order] for row in sheet.rows]
    sheet.header = ["sample-id", *(sheet.header[one] for one in order[1:])]


def _drop_second_ids(sheet: _Sheet) -> None:
    """Leave out a column that repeats the IDs under the name that AAM has for them."""
    for position in range(len(sheet.header) - 1, 0, -1):
        if sheet.header[position] != "sample_id":
            continue
        if all(row[position] == row[0] for row in sheet.rows):
            for cells in (sheet.header, *sheet.directives.values(), *sheet.rows):
                del cells[position : position + 1]


def _problems(path: Path, sheet: _Sheet) -> Iterator[InputError]:
    expected = f"a first column with the sample IDs, called {ID_EXAMPLES}"
    if not sheet.header:
        yield problem(path, "nothing but comments", expected, "export or download it again")
        return
    first = sheet.header[0]
    if not _names_ids(first):
        hint = "put the column with the sample IDs first, and call it 'sample-id'"
        if len(sheet.header) == 1 and re.search("[,; ]", first):
            hint = "save it as tab-separated text"
        yield problem(path, f"a header that begins with {first[:40]!r}", expected, hint)
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
        actual = "a column called 'sample_id' with other values than the IDs"
        yield problem(path, actual, "that name for the IDs alone", "rename the column")
    for what, given in (("column names", columns), ("sample IDs", ids)):
        actual = f"{what} that occur more than once:"
        hint = "rename or remove the others"
        yield from report_names(path, find_duplicates(given), actual, "every one once", hint)
    nameless = ids.count("")
    if nameless:
        actual = f"rows without a sample ID: {nameless}"
        yield problem(path, actual, "an ID in every row", "fill in or delete these rows")
    broken = [name for name in ids if _has_line_break(name)]
    hint = "write each on one line"
    yield from report_names(path, broken, "sample IDs with line breaks:", "IDs of one line", hint)
    lines = [*sheet.rows, *map(trim, sheet.directives.values())]
    long = [cells[0] for cells in lines if len(cells) > len(sheet.header)]
    actual = f"rows with more cells than the header's {len(sheet.header)}:"
    hint = "name the columns, or empty them"
    yield from report_names(path, long, actual, "a column name for every cell", hint)
    yield from _directive_problems(path, sheet)


def _swallowed_lines(path: Path, sheet: _Sheet, known: frozenset[str]) -> Iterator[InputError]:
    """Yield a problem where quotes that belong to texts have joined the lines of several samples.

    A cell may have line breaks in quotes. But a tab in a cell of tab-separated text, or the ID of a
    sample as a cell of a later line, means that one row holds parts of several samples.
    """
    for row in sheet.rows:
        for cell in row:
            later = cell.splitlines()[1:]
            if sheet.separator == "\t":
                is_joined = bool(later) and "\t" in cell
            else:
                parts = [part.strip(' "') for line in later for part in line.split(sheet.separator)]
                is_joined = not known.isdisjoint(parts)
            if is_joined:
                actual = f"a quote in the row of {row[0]!r} that goes on over several lines"
                hint = (
                    "delete single double quotes in texts, such as those of inches, or write them "
                    'twice and the whole cell in quotes: "3"" long"'
                )
                yield problem(path, actual, "a line for each sample", hint)
                return


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
        cells = frame[column].dropna()
        unread = cells[read_numbers(cells).values.isna()].unique()
        actual = f"column '{column}' of type numeric with the values"
        hint = "correct them, empty the cells, or call the column categorical"
        yield from report_names(path, unread, actual, "numbers", hint, limit=3)
