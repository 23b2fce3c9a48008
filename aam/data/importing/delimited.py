"""Text in columns, as spreadsheets, R, pandas and the programs of the field write it."""

import csv
import re
from collections.abc import Callable, Iterable, Sequence

SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
"""What may lie between two cells, with its name."""
_QUOTED = re.compile('"(?:[^"]|"")*"')


def find_separator(lines: Sequence[str]) -> str | None:
    """Return what separates the cells of a text, where that is certain.

    These are tabs if the first line has any. Otherwise tabs, commas, semicolons or single spaces
    are taken if they give all lines the same number of cells, at least two; the first line may
    have one cell fewer, as in files of R's `write.table`.

    Parameters
    ----------
    lines
        The header and the lines below it, without comments and empty lines.

    Returns
    -------
    str or None
        A key of `SEPARATORS`. None: no separator fits, or commas and semicolons do equally.
    """
    if lines and "\t" in lines[0]:
        return "\t"
    fitting = [separator for separator in SEPARATORS if _fits(lines, separator)]
    # Lineages have semicolons and spaces, too, which separate nothing in the header.
    fitting = [separator for separator in fitting if separator in lines[0]] or fitting
    if len(fitting) > 1 and fitting[-1] == " ":
        fitting.pop()
    return fitting[0] if len(fitting) == 1 else None


def _fits(lines: Sequence[str], separator: str) -> bool:
    """Whether a separator splits two lines or more into as many cells each."""
    if len(lines) < 2 or separator not in lines[1]:
        return False
    try:
        first, width, *others = (count_cells(line, separator) for line in lines)
    except ValueError:
        return False
    return first in (width, width - 1) and all(other == width for other in others)


def split_line(line: str, separator: str) -> list[str]:
    """Return the cells of a line, without the white space and the quotes around them.

    A cell is in quotes as in CSV: a quote in it is doubled. In text that tabs separate, other
    pairs of quotes belong to the cell, as in lineages.

    Parameters
    ----------
    line
        One line.
    separator
        A key of `SEPARATORS`.

    Raises
    ------
    ValueError
        A quote is not closed on the line, or other text follows it in the cell.
    """
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    try:
        # Spaces between a separator and a quote would make the quote a part of the cell.
        (cells,) = csv.reader(
            [line.strip(" ")], delimiter=separator, skipinitialspace=True, strict=True
        )
    except csv.Error as error:
        cells = line.split(separator)
        is_paired = all(cell.count('"') % 2 == 0 for cell in cells)
        if separator != "\t" or not is_paired:
            raise ValueError("a double quote that is not closed, or not doubled") from error
        cells = [_unquoted(cell.strip()) for cell in cells]
    return [cell.strip() for cell in cells]


def count_cells(line: str, separator: str) -> int:
    """Return how many cells a line has.

    Parameters
    ----------
    line, separator
        As for `split_line`.

    Raises
    ------
    ValueError
        As in `split_line`.
    """
    return len(split_line(line, separator)) if '"' in line else line.count(separator) + 1


def lacks_first_name(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Tell whether the first column has no name in the header, as R's `write.table` writes it.

    Every row then has one cell more than the header. Rows whose additional cell is the empty one
    behind a separator at their end are no such rows.

    Parameters
    ----------
    header
        The names of the columns.
    rows
        The cells of each line below; only as many are looked at as it takes.
    """
    is_filled = False
    for row in rows:
        if len(row) != len(header) + 1:
            return False
        is_filled |= bool(row[-1])
    return is_filled


def ends_in_empty_cells(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether every row has one cell more than the header, and that is empty.

    Either a separator stands at the end of each row, or the first column has no name and the last
    one no value, as R's `write.table` writes it with `na = ""`.

    Parameters
    ----------
    header
        The names of the columns.
    rows
        The cells of each line below.
    """
    return bool(rows) and all(len(row) == len(header) + 1 and not row[-1] for row in rows)


def numbers_rows(cells: Sequence[str]) -> bool:
    """Tell whether the cells of a column count its rows, from 1 as in R or from 0 as in pandas.

    Parameters
    ----------
    cells
        The cells of the column; there is at least one.
    """
    starts = {"0": 0, "1": 1}
    if not cells or cells[0] not in starts:
        return False
    start = starts[cells[0]]
    return list(cells) == [str(number) for number in range(start, start + len(cells))]


def complete_header(
    header: Sequence[str], rows: Sequence[Sequence[str]], is_id_name: Callable[[str], bool]
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return a header with a name for every column, and rows that begin with their ID.

    The name of a column without one is empty: R's `write.table` leaves out that of the row names,
    `write.csv` and pandas write an empty one. A first column that only numbers the rows is dropped
    where the second is called one of IDs.

    Parameters
    ----------
    header
        The names of the columns.
    rows
        The cells of each line below.
    is_id_name
        Tells whether a name is that of a column of IDs.

    Returns
    -------
    header : list of str
        The names.
    rows : list of list of str
        The cells.
    notes : list of str
        What was found, as ends of a sentence on the file.
    """
    names = list(header)
    cells = [list(row) for row in rows]
    notes = []
    is_numbered = numbers_rows([row[0] if row else "" for row in cells])
    # The name of another column is missing where the header begins with that of the IDs.
    if names and lacks_first_name(names, cells) and (is_numbered or not is_id_name(names[0])):
        names = ["", *names]
        notes.append("its header has no name for the first column, as R's write.table writes it")
    if len(names) > 1 and not names[0] and is_numbered and is_id_name(names[1]):
        notes.append("its first column numbers the rows")
        return names[1:], [row[1:] for row in cells], notes
    return names, cells, notes


def trim(cells: Sequence[str]) -> list[str]:
    """Return cells without the empty ones at the end, as spreadsheets leave them.

    Parameters
    ----------
    cells
        The cells of a line.
    """
    width = max((number for number, cell in enumerate(cells, start=1) if cell), default=0)
    return list(cells[:width])


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"').strip() if _QUOTED.fullmatch(cell) else cell
