"""Build the source distribution and the wheel of the last commit: the same bytes each time.

    python .ci/dist.py FOLDER

setuptools dates a wheel by SOURCE_DATE_EPOCH, but not a source distribution, which is packed again.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

BUILD = "import sys, setuptools.build_meta as build; getattr(build, sys.argv[1])(sys.argv[2])"


def build(source: Path, folder: Path, epoch: int) -> None:
    """Build both, the wheel from the source distribution.

    Parameters
    ----------
    source
        A copy of the repository, which setuptools may write to.
    folder
        Where they are written; it is made.
    epoch
        Seconds since 1970 that date every file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _run("build_sdist", work, source, epoch)
        (made,) = work.glob("*.tar.gz")
        archive = folder / made.name
        archive.write_bytes(pack_again(made.read_bytes(), epoch))
        with tarfile.open(archive) as handle:
            handle.extractall(work, filter="data")
        _run("build_wheel", folder.resolve(), work / made.name.removesuffix(".tar.gz"), epoch)


def pack_again(content: bytes, epoch: int) -> bytes:
    """Return a source distribution with sorted members of one date, one owner and plain rights.

    Parameters
    ----------
    content
        A .tar.gz.
    epoch
        The date.
    """
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as given,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for member in sorted(given.getmembers(), key=lambda one: one.name):
            mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            plain = member.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
            plain.pax_headers = {}
            written.addfile(plain, given.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def _run(step: str, folder: Path, source: Path, epoch: int) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-c", BUILD, step, str(folder)]
    subprocess.run(command, cwd=source, env=environment, check=True, umask=0o022)


def main(folder: Path) -> None:
    """Build what the last commit has.

    Parameters
    ----------
    folder
        Where both are written.
    """
    said = subprocess.run(["git", "log", "-1", "--format=%ct"], check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as source:
        archive = subprocess.run(["git", "archive", "HEAD"], check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as handle:
            handle.extractall(source, filter="data")
        build(Path(source), folder, int(said.stdout))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
