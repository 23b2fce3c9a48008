"""Opening the user's files, plain or inside a QIIME 2 artifact, and naming their problems."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from aam.data.importing.qza import ArtifactKind, is_archive, read_artifact
from aam.util.errors import InputError, first_few, first_names, problem, problems

_GZIP = b"\x1f\x8b"


def read_content(path: Path, expected: str, kind: ArtifactKind | None) -> bytes:
    """Return the content of a file, or of the data file in an artifact.

    Parameters
    ----------
    path
        The user's file.
    expected
        What it should be, in the words of a message.
    kind
        The artifact that is accepted; None: none is.

    Raises
    ------
    InputError
        There is no such file, or it is empty, compressed, or an archive of another kind.
    """
    if not path.exists():
        hint = "correct the path; paths in the configuration are relative to `data_dir`"
        raise problem(path, "no such file", expected, hint)
    if path.is_dir():
        raise problem(path, "a folder", expected, "name the file inside of it")
    if not path.is_file():
        raise problem(path, "a device or a pipe", expected, "save it as a file first")
    content = path.read_bytes()
    if not content.strip():
        raise problem(path, "an empty file", expected, "export or download it again")
    if content.startswith(_GZIP):
        raise problem(path, "a gzip file", expected, f"decompress it first: gunzip {path.name}")
    if path.suffix != ".qza" and not is_archive(content):
        return content
    if kind is None:
        hint = "export it: `qiime tools export` for .qza, 'save as text' for .xlsx"
        raise problem(path, "a zip archive", expected, hint)
    return read_artifact(path, content, kind)


def read_text(path: Path, expected: str, kind: ArtifactKind | None) -> str:
    """Return the content of a UTF-8 file, without a byte order mark.

    Parameters
    ----------
    path, expected, kind
        As for `read_content`.

    Raises
    ------
    InputError
        The file cannot be read, or its content is no text.
    """
    return decode_text(path, read_content(path, expected, kind), expected)


def decode_text(path: Path, content: bytes, expected: str) -> str:
    """Return UTF-8 bytes as text, without a byte order mark.

    Parameters
    ----------
    path
        The user's file, for messages.
    content
        Its content.
    expected
        What it should be, in the words of a message.

    Raises
    ------
    InputError
        The bytes are no UTF-8 text, or nothing but white space.
    """
    hint = "check the path, or save it as UTF-8 text"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        actual = f"bytes that are not UTF-8 text, first at byte {error.start}"
        raise problem(path, actual, expected, hint) from error
    if not text.strip():
        raise problem(path, "an empty file", expected, "export or download it again")
    if "\0" in text:
        raise problem(path, "a binary file", expected, hint)
    return text


def lines_of(text: str) -> list[str]:
    """Split text into lines, whichever of the three line endings it has."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def find_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once; empty ones are another problem."""
    return [name for name, count in Counter(names).items() if count > 1 and name]


def report_names(
    path: Path,
    names: Iterable[str],
    actual: str,
    expected: str,
    hint: str,
    *,
    limit: int = 5,
    quoted: bool = True,
) -> Iterator[InputError]:
    """Yield the problem of some names, if there are any.

    Parameters
    ----------
    path
        The user's file.
    names
        Names that the problem is about.
    actual
        What the file holds; the list of names follows it.
    expected, hint
        What would have been right, and what to do.
    limit
        How many names are shown.
    quoted
        Whether quotes are put around each name; False: the names are texts that have them.
    """
    all_names = list(names)
    if all_names:
        shown = first_names(all_names, limit) if quoted else first_few(all_names, limit)
        yield problem(path, f"{actual} {shown}", expected, hint)


def refuse(errors: Iterable[InputError]) -> None:
    """Raise all problems of a file as one; without any, return.

    Parameters
    ----------
    errors
        The problems, as `aam.util.errors.problem` builds them.

    Raises
    ------
    InputError
        There is at least one problem.
    """
    all_errors = list(errors)
    if all_errors:
        raise problems(all_errors)
