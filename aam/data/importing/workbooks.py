"""Workbooks of Excel (.xlsx), read through openpyxl as the text that their first sheet shows.

Excel keeps `00123` as a number and a format, and turns IDs such as `1-2` into dates: the format is
applied again, and a date where an ID belongs is refused, because nobody can say what it was.
"""

import csv
import datetime
import io
import logging
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from aam.util.errors import InputError, first_few, first_names, problem

logger = logging.getLogger(__name__)
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the stream that holds a workbook behind a password."""
_ZEROS = re.compile(r"0{2,20}")
"""Formats of numbers that are shown with zeros in front."""
_FORMULA = re.compile(rb"<(\w+:)?f[ >]")
"""Beginning of a formula in the XML of a sheet."""
_DAMAGE = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    ParseError,
    RuntimeError,
    TypeError,
    UnicodeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def old_workbook(content: bytes) -> tuple[str, str]:
    """Return what a compound file of Microsoft Office is, and what to do with it.

    Parameters
    ----------
    content
        Its bytes.
    """
    if _ENCRYPTED in content:
        return (
            "an Excel workbook with a password",
            "remove the password in Excel (File, Info, Protect Workbook) and save it as .xlsx",
        )
    return "an old Excel workbook (.xls)", "save it as 'Excel Workbook (.xlsx)' or as text"


def is_workbook(names: Iterable[str]) -> bool:
    """Tell whether an archive is a workbook of Excel.

    Parameters
    ----------
    names
        Names of the members.
    """
    return any(name.startswith("xl/") for name in names)


def read_workbook(path: Path, content: bytes, expected: str) -> bytes:
    """Return the first sheet of a workbook as UTF-8 text with tabs between its cells.

    Hidden sheets are passed over. Numbers are written as Excel's file has them, those that are
    shown with zeros in front with these zeros; formulas as their last values.

    Parameters
    ----------
    path
        The user's file, for messages.
    content
        Its bytes, whose members are of acceptable sizes.
    expected
        What the file should be, in the words of a message.

    Raises
    ------
    InputError
        The workbook is damaged, its sheet is empty, or IDs in it have become dates.
    """
    try:
        # A command that reads no workbook should not wait for this library.
        import openpyxl
    except ImportError as error:
        actual = "an Excel workbook, for which the package openpyxl is not installed"
        hint = "pip install openpyxl, or save the sheet as text: 'Text (tab delimited)'"
        raise problem(path, actual, expected, hint) from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if "xl/workbook.bin" in archive.namelist():
                actual = "a binary Excel workbook (.xlsb)"
                raise problem(path, actual, expected, "save it as 'Excel Workbook (.xlsx)'")
            # The library does not read all members to their ends, where the checksums are.
            damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"{damaged} is not what its checksum says")
            names = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
            has_formulas = any(_FORMULA.search(archive.read(name)) for name in names)
        with warnings.catch_warnings():
            # What the library cannot keep, such as pictures, is not read either.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            sheets = visible or list(book.worksheets)
            if not sheets:
                raise problem(path, "a workbook without a sheet", expected, "check the path")
            rows = _read_rows(sheets[0])
            formulas = []
            if has_formulas:
                written = openpyxl.load_workbook(io.BytesIO(content), read_only=True)
                written_rows = _read_rows(written[sheets[0].title])
                formulas = [cell for row in written_rows for cell in row if cell.data_type == "f"]
    except InputError:
        raise
    except _DAMAGE as error:
        actual = (
            f"a damaged Excel workbook ({' '.join(str(error).split()) or type(error).__name__})"
        )
        hint = "save it again in Excel, or save the sheet as text: 'Text (tab delimited)'"
        raise problem(path, actual, expected, hint) from error
    rows = [row for row in rows if any(cell.value is not None for cell in row)]
    title = sheets[0].title
    if not rows:
        hint = "move the sheet with the data to the front"
        raise problem(path, f"an empty sheet {title!r}", expected, hint)
    _refuse_dates(path, rows, expected)
    if formulas:
        _refuse_formulas(path, rows, formulas, expected)
    others = [sheet.title for sheet in book.worksheets if sheet.title != title]
    if others:
        logger.warning(
            "%s: its sheet %r is read, none of the others (%s); to read another one, move it to "
            "the front in Excel",
            path,
            title,
            first_names(others, limit=3),
        )
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerows([_cell_text(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _read_rows(sheet: Any) -> list[list[Any]]:
    """Return the cells of a sheet, row by row."""
    # The size that a sheet claims is often wrong.
    sheet.reset_dimensions()
    return [list(row) for row in sheet.iter_rows()]


def _refuse_formulas(
    path: Path, rows: Sequence[Sequence[Any]], formulas: Sequence[Any], expected: str
) -> None:
    """Refuse formulas of which none has a value: the program that wrote them calculates nothing."""
    # A text without letters is a value, too: Excel gives its cell a type.
    known = {
        cell.coordinate
        for row in rows
        for cell in row
        if cell.value is not None or cell.data_type == "str"
    }
    if any(cell.coordinate in known for cell in formulas):
        return
    # The formula of several cells is an object with a text.
    texts = [str(getattr(cell.value, "text", cell.value)) for cell in formulas]
    few = first_few(
        [f"{text} in cell {cell.coordinate}" for text, cell in zip(texts, formulas, strict=True)],
        limit=3,
    )
    raise problem(
        path,
        f"formulas without their values ({few})",
        expected,
        "open the workbook in Excel or LibreOffice and save it, which calculates them, or delete "
        "them",
    )


def _refuse_dates(path: Path, rows: Sequence[Sequence[Any]], expected: str) -> None:
    """Refuse dates in the header and in the first column: IDs that Excel has rewritten."""
    dates = [
        f"{cell.value:%Y-%m-%d} in cell {cell.coordinate}"
        for cell in [*rows[0], *(row[0] for row in rows[1:])]
        if isinstance(cell.value, datetime.date)
    ]
    if dates:
        raise problem(
            path,
            f"dates where IDs belong ({first_few(dates, limit=3)}): Excel turns IDs such as 1-2 "
            "into dates",
            expected,
            "format these cells as text and enter the IDs again, or export the table as text from "
            "the program that made it, without opening it in Excel",
        )


def _cell_text(cell: Any) -> str:
    """Return a cell as it is shown, without line breaks."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, int) and _ZEROS.fullmatch(cell.number_format or ""):
        return str(value).zfill(len(cell.number_format))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return " ".join(str(value).split())
