"""Notes: what was decided for the user while files were read, for the page and the console.

A module that decides something for the user logs a warning, one complete sentence. A stage collects
these warnings and writes them next to its results, because nobody opens the log of a run that
worked.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aam.util.atomic import write_tsv

CAUTION = {"is_caution": True}
"""`extra` of a warning that limits the trust in results: it becomes a light of the page."""
_LOGGER = "aam"
_COLUMNS = ["light", "text"]


@dataclass(frozen=True)
class Note:
    """One decision."""

    text: str
    """A sentence: the file, what it has, what was done, how to have it otherwise."""
    is_caution: bool = False
    """Whether it limits the trust in results."""


class _Collector(logging.Handler):
    """Keeps the warnings of the package, each once."""

    def __init__(self, notes: list[Note]) -> None:
        super().__init__(logging.WARNING)
        self.notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        """Add the message of a record."""
        text = " ".join(record.getMessage().split())
        note = Note(text, is_caution=getattr(record, "is_caution", False))
        if note not in self.notes:
            self.notes.append(note)


@contextmanager
def collect_notes() -> Iterator[list[Note]]:
    """Yield a list that every warning of the package is added to, in the order of the warnings.

    Yields
    ------
    list of Note
        It has grown when the block ends. Warnings are logged all the same.
    """
    notes: list[Note] = []
    collector = _Collector(notes)
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(collector)
    try:
        yield notes
    finally:
        logger.removeHandler(collector)


def write_notes(path: Path, notes: Iterable[Note]) -> None:
    """Write notes as TSV, atomically.

    Parameters
    ----------
    path
        File to write, with the columns `light`, which is "caution" or empty, and `text`.
    notes
        The notes; none is fine.
    """
    rows = [("caution" if note.is_caution else "", note.text) for note in notes]
    write_tsv(path, pd.DataFrame(rows, columns=_COLUMNS))


def read_notes(path: Path) -> list[Note]:
    """Read notes.

    Parameters
    ----------
    path
        A file that `write_notes` wrote.
    """
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    return [
        Note(text, is_caution=light == "caution")
        for light, text in zip(table["light"], table["text"], strict=True)
    ]
