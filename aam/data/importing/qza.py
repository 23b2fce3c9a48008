"""QIIME 2 artifacts, read as the zip archives that they are, without QIIME 2.

An artifact holds one folder, named by its UUID, with `metadata.yaml` (uuid, type, format) and
the data below `data/`: https://docs.qiime2.org, "Artifact archive structure".
"""

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from aam.util.errors import InputError, first_names, problem

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    # An archive with a compression that zipfile does not know.
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)
EXPECTED = "a QIIME 2 artifact (.qza)"
LARGEST = 2**32
"""Bytes of a data file: a damaged or hostile archive may claim any number."""
EXPANSION = 200
"""Bytes of a large data file per byte of its archive: real ones have a tenth of that at most."""
_AGAIN = "check the path, or export it again"
_HINTS = {
    "FeatureTable": "this is a feature table: give it under the key `table`",
    "FeatureData[Sequence]": "these are sequences: give them under the key `sequences`",
    "FeatureData[Taxonomy]": "this is a taxonomy: give it under the key `taxonomy`",
    "Phylogeny": "this is a tree: give it under the key `tree`",
    "Visualization": (
        "a visualization (.qzv) shows data and holds none of it for other programs: give the file "
        "that it was made from"
    ),
    "": "`qiime tools peek` says what each of your artifacts is",
}
"""What to do with an artifact of another type, by the beginning of that."""
_OFFICE = {
    "xl/": "an Excel workbook (.xlsx)",
    "word/": "a Word document (.docx)",
    "content.xml": "an OpenDocument file (.ods)",
}
"""What other archives are, by the beginning of a member's name."""


@dataclass(frozen=True)
class ArtifactKind:
    """The artifacts that one input accepts."""

    type: str
    """Semantic type."""
    member: str
    """File below `data/`."""
    hints: Mapping[str, str]
    """What to do instead, by the beginning of other semantic types."""


def is_archive(content: bytes) -> bool:
    """Return whether a file is a zip archive, whatever its name.

    Parameters
    ----------
    content
        The first bytes of the file, or all of them.
    """
    return content.startswith(_MAGIC)


def largest_content(size: int) -> int:
    """Return how many bytes a compressed file of some size may hold.

    Parameters
    ----------
    size
        Bytes of the file.
    """
    return min(LARGEST, 2**26 + EXPANSION * size)


def read_artifact(
    path: Path, content: bytes, kind: ArtifactKind | None, expected: str = EXPECTED
) -> bytes:
    """Return the data file of an artifact.

    Parameters
    ----------
    path
        The user's file, for messages.
    content
        Its bytes.
    kind
        The artifact that is accepted; None: none is.
    expected
        What the file should be, in the words of a message.

    Raises
    ------
    InputError
        The archive is damaged, too large, an artifact of another type, or none at all.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            _refuse_office(path, names, expected)
            root = _root(path, names, expected)
            _refuse_large(path, archive, f"{root}/metadata.yaml", 2**20)
            described = yaml.safe_load(archive.read(f"{root}/metadata.yaml"))
            if not isinstance(described, dict) or not isinstance(described.get("type"), str):
                actual = "an archive with a metadata.yaml without a `type`"
                raise problem(path, actual, expected, _AGAIN)
            # Properties say more about an artifact, and change nothing of what it holds.
            given_type = re.sub(r" % Properties\([^)]*\)", "", described["type"])
            if kind is None or given_type != kind.type:
                hints = [*(kind.hints if kind else {}).items(), *_HINTS.items()]
                hint = next(text for start, text in hints if given_type.startswith(start))
                actual = f"an artifact of type {given_type}"
                raise problem(path, actual, expected if kind is None else kind.type, hint)
            member = f"{root}/data/{kind.member}"
            _refuse_large(path, archive, member, largest_content(len(content)))
            return archive.read(member)
    except InputError:
        raise
    except _DAMAGE as error:
        actual = f"a damaged archive ({error})"
        raise problem(path, actual, expected, "download or export it again") from error
    except KeyError as error:
        actual = f"a zip archive without a part of an artifact ({error})"
        raise problem(path, actual, expected, _AGAIN) from error
    except yaml.YAMLError as error:
        actual = "an archive with a metadata.yaml that is not YAML"
        raise problem(path, actual, expected, _AGAIN) from error


def _refuse_office(path: Path, names: list[str], expected: str) -> None:
    """Refuse the archives that office programs write, with what to do."""
    for start, what in _OFFICE.items():
        if any(name.startswith(start) for name in names):
            hint = "save the sheet as text: 'Text (tab delimited)' or 'CSV UTF-8'"
            raise problem(path, what, expected, hint)


def _refuse_large(path: Path, archive: zipfile.ZipFile, name: str, most: int) -> None:
    """Refuse a member that claims to be larger than it can be."""
    size = archive.getinfo(name).file_size
    if size > most:
        actual = f"{name} of {size:,} bytes"
        raise problem(path, actual, f"at most {most:,}", "split the table, or check it")


def _root(path: Path, names: list[str], expected: str) -> str:
    """Return the one folder at the top, after refusing paths that lead out of the archive."""
    outside = [name for name in names if _leads_out(name)]
    if outside:
        actual = f"members with absolute or climbing paths: {first_names(outside)}"
        hint = "do not use this file; download the artifact from its source again"
        raise problem(path, actual, "paths inside of the artifact", hint)
    roots = {PurePosixPath(name).parts[0] for name in names}
    if len(roots) != 1:
        actual = f"a zip archive with {len(roots)} entries at its top"
        raise problem(path, actual, expected, _AGAIN)
    return roots.pop()


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or parts[0] == "/" or ".." in parts or parts[0].endswith(":")
