"""The script that builds the package unifrac: it never stands in the way of what works without."""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def install(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with some programs replaced by a line of shell each."""
    folder.mkdir()
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["bash", str(REPOSITORY / "workflow" / "install_unifrac.sh"), str(folder / "python")],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_message_says_why_the_package_is_not_built(tmp_path: Path) -> None:
    failing = dict.fromkeys(["python", "sudo", "apt-get", "dpkg-query"], "exit 1")
    done = install(tmp_path / "programs", **failing)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("WARNING") == len(done.stderr.splitlines()) == 1
    assert "unifrac is not installed: its build needs g++ make hdf5-helpers" in done.stderr
    assert "python3-dev (apt-get install, as root)" in done.stderr


def test_a_package_that_is_there_is_left_alone(tmp_path: Path) -> None:
    done = install(tmp_path / "programs", python="exit 0", **{"apt-get": "exit 1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
