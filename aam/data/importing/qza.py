"""QIIME 2 artifacts, read as the zip archives that they are, without QIIME 2.

An artifact holds one folder, named by its UUID, with `metadata.yaml` (uuid, type, format) and
the data below `data/`: https://docs.qiime2.org, "Artifact archive structure".
"""

import io
import lzma
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
LARGEST = 2**32
"""Bytes of a data file: a damaged or hostile archive may claim any number."""
EXPANSION = 200
"""Bytes of a large data file per byte of its archive: real ones have a tenth of that at most."""
_KEYS = {
    "FeatureTable": "this is a feature table: give it under the key `table`",
    "FeatureData[Sequence]": "these are sequences: give them under the key `sequences`",
    "Phylogeny": "this is a tree: give it under the key `tree`",
}


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


def read_artifact(path: Path, content: bytes, kind: ArtifactKind) -> bytes:
    """Return the data file of an artifact.

    Parameters
    ----------
    path
        The user's file, for messages.
    content
        Its bytes.
    kind
        The artifact that is accepted.

    Raises
    ------
    InputError
        The archive is damaged, too large, or an artifact of another type.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            root = _root(path, archive.namelist())
            member = f"{root}/data/{kind.member}"
            largest = min(LARGEST, 2**26 + EXPANSION * len(content))
            for name, most in ((f"{root}/metadata.yaml", 2**20), (member, largest)):
                size = archive.getinfo(name).file_size if name in archive.namelist() else 0
                if size > most:
                    actual = f"{name} of {size:,} bytes"
                    raise problem(path, actual, f"at most {most:,}", "split the table, or check it")
            described = yaml.safe_load(archive.read(f"{root}/metadata.yaml"))
            if not isinstance(described, dict) or not isinstance(described.get("type"), str):
                raise _not_an_artifact(path, "a metadata.yaml without a `type`")
            given_type = described["type"]
            if given_type != kind.type:
                hints = {**kind.hints, **_KEYS, "": "`qiime tools peek` says what each of yours is"}
                hint = next(text for start, text in hints.items() if given_type.startswith(start))
                raise problem(path, f"an artifact of type {given_type}", kind.type, hint)
            return archive.read(member)
    except InputError:
        raise
    except _DAMAGE as error:
        actual = f"a damaged archive ({error})"
        raise problem(path, actual, "a QIIME 2 artifact", "download or export it again") from error
    except KeyError as error:
        raise _not_an_artifact(path, f"a zip archive without a part of it ({error})") from error
    except yaml.YAMLError as error:
        raise _not_an_artifact(path, "a metadata.yaml that is not YAML") from error


def _root(path: Path, names: list[str]) -> str:
    """Return the one folder at the top, after refusing paths that lead out of the archive."""
    outside = [name for name in names if _leads_out(name)]
    if outside:
        actual = f"members with absolute or climbing paths: {first_names(outside)}"
        hint = "do not use this file; download the artifact from its source again"
        raise problem(path, actual, "paths inside of the artifact", hint)
    roots = {PurePosixPath(name).parts[0] for name in names}
    if len(roots) != 1:
        raise _not_an_artifact(path, f"a zip archive with {len(roots)} entries at its top")
    return roots.pop()


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or parts[0] == "/" or ".." in parts or parts[0].endswith(":")


def _not_an_artifact(path: Path, actual: str) -> InputError:
    return problem(path, actual, "a QIIME 2 artifact (.qza)", "check the path, or export it again")
