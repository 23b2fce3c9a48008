"""Opening the user's files, plain, gzipped or inside a QIIME 2 artifact, and naming their problems.

Files of other programs are recognized by their content, so that a message names what to do.
Artifacts are read as the zip archives that they are, without QIIME 2: one folder, named by the
UUID, with `metadata.yaml` (uuid, type, format) and the data below `data/`
(https://docs.qiime2.org, "Artifact archive structure").
"""

import codecs
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import yaml

from aam.data.importing.workbooks import is_workbook, old_workbook, read_workbook
from aam.util.errors import InputError, first_few, first_names, problem, problems
from aam.util.missing_files import suggest_file

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    # Zipfile raises it for a compression that it does not know.
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)
_EXPECTED = "a QIIME 2 artifact (.qza)"
LARGEST = 2**32
"""Bytes of a data file: a damaged or hostile archive may claim any number."""
EXPANSION = 200
"""Bytes of a large data file per byte of its archive: real ones have a tenth of that at most."""
_EXPORT_AGAIN = "check the path, or export it again"
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
_GZIP = b"\x1f\x8b"
_FROM_R = (
    "write it as text in R: write.table(OBJECT, 'FILE.tsv', sep = '\\t'), or "
    "ape::write.tree(OBJECT, 'FILE.nwk') for a tree"
)
_PAGE = "download the file itself; the address of a page that shows it is another one"
_BINARY: dict[bytes, tuple[str, str]] = {
    b"RDX": ("an R workspace (.RData)", _FROM_R),
    b"RDA": ("an R workspace (.RData)", _FROM_R),
    b"X\n\0\0\0": ("an R object (.rds)", _FROM_R),
    b"A\n": ("an R object (.rds)", _FROM_R),
    b"BZh": ("a bzip2 file", "decompress it first: bunzip2 {name}"),
    b"\xfd7zXZ": ("an xz file", "decompress it first: unxz {name}"),
    b"%PDF": ("a PDF document", "give the data behind it as text"),
}
"""What files are that begin so, and what to do."""
_TEXTS: dict[str, tuple[re.Pattern[str], str, str]] = {
    "page": (re.compile(r"<(!doctype|html|\?xml)", re.I), "a web page or XML", _PAGE),
    "pointer": (
        re.compile("version https://git-lfs"),
        "the pointer of Git LFS to a file",
        "fetch the file itself: git lfs pull",
    ),
    "sequences": (
        re.compile(">"),
        "sequences (FASTA)",
        "give them under the key `sequences`",
    ),
    "reads": (
        re.compile(r"@[^\n]*\n[A-Za-z.]+\r?\n\+"),
        "sequencing reads (FASTQ)",
        "denoise them first (DADA2, Deblur), and give the table and the sequences of the features",
    ),
    "nexus": (
        re.compile("#NEXUS", re.I),
        "a tree in the NEXUS format",
        "convert it to Newick, in R: ape::write.tree(ape::read.nexus('{name}'), 'tree.nwk'), and "
        "give that under the key `tree`",
    ),
    "tree": (
        re.compile(r"(\[[^\]]*\]\s*)?\([^;,]*,"),
        "a tree (Newick)",
        "give it under the key `tree`",
    ),
    "table": (
        re.compile(r"\{[^{]*\"(format|rows|id)\""),
        "a table in the format BIOM 1.0",
        "give it under the key `table`",
    ),
}
"""What text is that begins so, and what to do, by its kind: mostly the key that it belongs to."""
_SEPARATOR_LINE = re.compile(r"\Asep=[,;\t]?[ \t,;]*(\r\n|\r|\n)", re.I)
"""The first line of a CSV file that tells Excel its separator."""
_HDF5 = b"\x89HDF\r\n\x1a\n"
_COMPOUND = b"\xd0\xcf\x11\xe0"
"""How the files of old office programs begin, and workbooks with a password."""


@dataclass(frozen=True)
class ArtifactKind:
    """The artifacts that one input accepts."""

    type: str
    """Semantic type."""
    member: str
    """File below `data/`."""
    hints: Mapping[str, str]
    """What to do instead, by the beginning of other semantic types."""
    further_types: tuple[str, ...] = ()
    """Semantic types that are accepted as well."""
    further_members: Mapping[str, str] = field(default_factory=dict)
    """Further semantic types that are accepted, and their files below `data/`."""


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
    path: Path, content: bytes, kind: ArtifactKind | None, expected: str = _EXPECTED
) -> bytes:
    """Return the data file of an artifact.

    Parameters
    ----------
    path, content, kind, expected
        As for `read_typed_artifact`.

    Raises
    ------
    InputError
        As there.
    """
    return read_typed_artifact(path, content, kind, expected)[0]


def read_typed_artifact(
    path: Path, content: bytes, kind: ArtifactKind | None, expected: str = _EXPECTED
) -> tuple[bytes, str]:
    """Return the data file of an artifact, and its semantic type without properties.

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
                raise problem(path, actual, expected, _EXPORT_AGAIN)
            # Properties say more about an artifact, and change nothing of what it holds.
            given_type = re.sub(r" % Properties\([^)]*\)", "", described["type"])
            accepted = (
                {}
                if kind is None
                else {
                    **dict.fromkeys((kind.type, *kind.further_types), kind.member),
                    **kind.further_members,
                }
            )
            if kind is None or given_type not in accepted:
                hints = [*(kind.hints if kind else {}).items(), *_HINTS.items()]
                hint = next(text for start, text in hints if given_type.startswith(start))
                actual = f"an artifact of type {given_type}"
                raise problem(path, actual, expected if kind is None else kind.type, hint)
            member = f"{root}/data/{accepted[given_type]}"
            _refuse_large(path, archive, member, largest_content(len(content)))
            return archive.read(member), given_type
    except InputError:
        raise
    except _DAMAGE as error:
        actual = f"a damaged archive ({error})"
        raise problem(path, actual, expected, "download or export it again") from error
    except KeyError as error:
        actual = f"a zip archive without a part of an artifact ({error})"
        raise problem(path, actual, expected, _EXPORT_AGAIN) from error
    except yaml.YAMLError as error:
        actual = "an archive with a metadata.yaml that is not YAML"
        raise problem(path, actual, expected, _EXPORT_AGAIN) from error


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
        raise problem(path, actual, expected, _EXPORT_AGAIN)
    return roots.pop()


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or parts[0] == "/" or ".." in parts or parts[0].endswith(":")


def read_content(
    path: Path, expected: str, kind: ArtifactKind | None, *, takes_workbooks: bool = False
) -> bytes:
    """Return the content of a file, decompressed, or of the data file in an artifact.

    Parameters
    ----------
    path, expected, kind, takes_workbooks
        As for `read_typed_content`.

    Raises
    ------
    InputError
        As there.
    """
    return read_typed_content(path, expected, kind, takes_workbooks=takes_workbooks)[0]


def read_typed_content(
    path: Path, expected: str, kind: ArtifactKind | None, *, takes_workbooks: bool = False
) -> tuple[bytes, str]:
    """Return the content of a file, and the semantic type of an artifact, empty for other files.

    Parameters
    ----------
    path
        The user's file.
    expected
        What it should be, in the words of a message.
    kind
        The artifact that is accepted; None: none is.
    takes_workbooks
        Whether the first sheet of an Excel workbook is the content, as text; False: workbooks are
        refused.

    Raises
    ------
    InputError
        There is no such file, or it is empty, damaged, of another program, or an archive of
        another kind.
    """
    if not path.exists():
        raise problem(path, "no such file", expected, suggest_file(path, path))
    if path.is_dir():
        raise problem(path, "a folder", expected, suggest_file(path, path))
    if not path.is_file():
        raise problem(path, "a device or a pipe", expected, "save it as a file first")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise problem(
            path, error.strerror or str(error), expected, suggest_file(path, path)
        ) from error
    if not content.strip():
        raise problem(path, "an empty file", expected, "export or download it again")
    if content.startswith(_GZIP):
        content = _decompressed(path, content, expected)
    for magic, (actual, hint) in _BINARY.items():
        if content.startswith(magic):
            raise problem(path, actual, expected, hint.format(name=path.name))
    if content.startswith(_COMPOUND):
        actual, hint = old_workbook(content)
        raise problem(path, actual, expected, hint)
    if takes_workbooks and path.suffix not in (".qza", ".qzv") and _is_workbook(path, content):
        return read_workbook(path, content, expected), ""
    if path.suffix in (".qza", ".qzv") or is_archive(content):
        return read_typed_artifact(path, content, kind, expected)
    return content, ""


def _is_workbook(path: Path, content: bytes) -> bool:
    """Tell whether a file is an Excel workbook, of which no member is too large to be read."""
    if not is_archive(content):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if not is_workbook(archive.namelist()):
                return False
            for member in members:
                _refuse_large(path, archive, member.filename, largest_content(len(content)))
    except zipfile.BadZipFile:
        # What kind of damaged archive it is, the reader of artifacts says.
        return path.suffix.startswith(".xls")
    return True


def _decompressed(path: Path, content: bytes, expected: str) -> bytes:
    """Return what a gzip file holds, unless that is out of proportion to its size."""
    most = largest_content(len(content))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            # One byte more than is allowed tells too much from just enough, without inflating all
            # of it.
            inflated = file.read(most + 1)
    except (EOFError, OSError, zlib.error) as error:
        actual = f"a gzip file that is cut off or damaged ({error})"
        raise problem(path, actual, expected, "download or compress it again") from error
    if len(inflated) > most:
        actual = f"a gzip file of more than {most:,} bytes"
        raise problem(path, actual, expected, f"decompress it first: gunzip {path.name}")
    if not inflated.strip():
        raise problem(path, "a gzip file of nothing", expected, "export or download it again")
    return inflated


def read_text(
    path: Path,
    expected: str,
    kind: ArtifactKind | None,
    *,
    key: str | None = None,
    takes_workbooks: bool = False,
) -> str:
    """Return the content of a text file, without a byte order mark.

    Parameters
    ----------
    path, expected, kind, takes_workbooks
        As for `read_typed_content`.
    key
        As for `decode_text`.

    Raises
    ------
    InputError
        The file cannot be read, or its content is no text or text of another kind.
    """
    content = read_content(path, expected, kind, takes_workbooks=takes_workbooks)
    return decode_text(path, content, expected, key=key)


def decode_text(path: Path, content: bytes, expected: str, *, key: str | None = None) -> str:
    """Return UTF-8 bytes as text, or UTF-16 with a byte order mark, which is left out.

    Parameters
    ----------
    path
        The user's file, for messages.
    content
        Its content.
    expected
        What it should be, in the words of a message.
    key
        The configuration key that the file stands under. Text that belongs under another one is
        refused; None: all that is recognized is.

    Raises
    ------
    InputError
        The bytes are no text, nothing but white space, or text of another kind.
    """
    if content.startswith(_HDF5):
        hint = "give it under the key `table`, if it is a feature table"
        raise problem(path, "an HDF5 file (BIOM 2.1?)", expected, hint)
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _encoding_problem(path, content, expected, error) from error
    text = _SEPARATOR_LINE.sub("", text)
    if not text.strip():
        raise problem(path, "an empty file", expected, "export or download it again")
    if "\0" in text:
        raise problem(path, "a binary file", expected, "check the path, or save it as UTF-8 text")
    begun = text.lstrip()
    for of_key, (pattern, actual, hint) in _TEXTS.items():
        is_whole = of_key != "tree" or begun.rstrip().endswith(";")
        if of_key != key and is_whole and pattern.match(begun):
            raise problem(path, actual, expected, hint.format(name=path.name))
    return text


def _encoding_problem(
    path: Path, content: bytes, expected: str, error: UnicodeDecodeError
) -> InputError:
    """Name bytes that are no UTF-8: those of a text in another encoding, or of no text at all."""
    start = error.start
    controls = set(range(32)) - {*b"\t\n\r"}
    foreign = sum(byte > 127 for byte in content)
    if error.encoding != "utf-8" or not controls.isdisjoint(content) or 3 * foreign > len(content):
        actual = f"bytes that are not UTF-8 text, first at byte {start}"
        return problem(path, actual, expected, "check the path, or save it as UTF-8 text")
    line = content.count(b"\n", 0, start) + 1
    around = content[max(0, start - 15) : start + 15].decode("latin-1")
    actual = (
        f"text that is not UTF-8, but perhaps Latin-1, first in line {line} "
        f"({' '.join(around.split())!r})"
    )
    hint = (
        "save it as UTF-8 ('CSV UTF-8' or 'Unicode text' in Excel), or convert it: "
        f"iconv -f LATIN1 -t UTF-8 {path.name} > NEW"
    )
    return problem(path, actual, expected, hint)


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
