"""Opening the user's files, plain or inside a QIIME 2 artifact."""

from pathlib import Path

from aam.data.importing.qza import ArtifactKind, is_archive, read_artifact
from aam.util.errors import problem

_GZIP = b"\x1f\x8b"


def read_content(path: Path, expected: str, kind: ArtifactKind | None) -> bytes:
    """Return the content of a file, or of the data file inside a QIIME 2 artifact.

    Parameters
    ----------
    path
        The file that the user named.
    expected
        What the file should be, in words, for messages.
    kind
        The artifacts that may stand in its place; None where none may.

    Raises
    ------
    InputError
        If the file is missing, empty, a folder, compressed, or an artifact of another type.
    """
    if not path.exists():
        raise problem(
            path,
            "no such file",
            expected,
            "correct the path; paths in the configuration are relative to `data_dir`",
        )
    if path.is_dir():
        raise problem(path, "a folder", expected, "name the file inside of it")
    content = path.read_bytes()
    if not content.strip():
        raise problem(path, "an empty file", expected, "export or download it again")
    if content.startswith(_GZIP):
        raise problem(path, "a gzip file", expected, f"decompress it first: gunzip {path.name}")
    if path.suffix == ".qza" or is_archive(content):
        if kind is None:
            raise problem(
                path,
                "a zip archive",
                expected,
                "export it: `qiime tools export` for .qza, 'save as text' for .xlsx",
            )
        return read_artifact(path, content, kind)
    return content


def read_text(path: Path, expected: str, kind: ArtifactKind | None) -> str:
    """Return the content of a text file (see `read_content`), without a byte order mark.

    Raises
    ------
    InputError
        If the file cannot be read, or is not UTF-8.
    """
    return decoded(path, read_content(path, expected, kind), expected)


def decoded(path: Path, content: bytes, expected: str) -> str:
    """Return UTF-8 bytes as text, without a byte order mark.

    Raises
    ------
    InputError
        If they are not UTF-8 or hold NUL characters: a binary file, or text of another encoding.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        got = f"bytes that are not UTF-8 text, first at byte {error.start}"
        raise problem(path, got, expected, "check the path, or save it as UTF-8 text") from error
    if "\0" in text:
        raise problem(path, "a binary file", expected, "check the path, or save it as UTF-8 text")
    return text


def lines_of(text: str) -> list[str]:
    """Split text into lines, whichever of the three line endings it has."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
