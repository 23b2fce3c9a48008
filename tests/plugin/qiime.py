"""QIIME 2 with the plugin of this checkout, in processes of its own."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NEEDED = "q2_types, q2_feature_table, q2_metadata, q2_sample_classifier, q2cli"


def interpreter() -> str | None:
    """Return the Python of the command `qiime`, if it has all plugins that are needed."""
    command = shutil.which("qiime")
    if command is None:
        return None
    with Path(command).open(encoding="utf-8", errors="replace") as handle:
        python = handle.readline().removeprefix("#!").strip()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    imported = subprocess.run(
        [python, "-c", f"import {NEEDED}"], env=environment, capture_output=True, check=False
    )
    return python if imported.returncode == 0 else None


PYTHON = interpreter()


@dataclass(frozen=True)
class Qiime:
    """The command `qiime`, and the folder that everything is in."""

    folder: Path
    environment: dict[str, str]

    def try_to(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Call `qiime` in the folder, whether it works or not."""
        return self.shell("qiime", *arguments, **variables)

    def shell(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Call a command in the folder, whether it works or not."""
        return subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def run(self, *arguments: str | Path) -> str:
        """Call `qiime` in the folder, and return what it prints."""
        done = self.try_to(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refuse(self, *arguments: str | Path, **variables: str) -> str:
        """Return the message that `qiime` ends with, in one line and without where its log is."""
        done = self.try_to(*arguments, **variables)
        assert done.returncode != 0, done.stdout
        message = done.stderr.partition("Plugin error from aam:")[2]
        assert message, done.stderr
        return " ".join(message.partition("Debug info has been saved")[0].split())

    def python(self, code: str, *arguments: str | Path) -> str:
        """Run code with QIIME 2's Python in the folder."""
        assert PYTHON is not None
        done = subprocess.run(
            [PYTHON, "-W", "ignore", "-c", code, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def install(folder: Path) -> Qiime:
    """Install the plugin of this checkout beside QIIME 2, and put this AAM on the path.

    Nothing of the machine's own QIIME 2 is changed.
    """
    source = folder / "source"
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(REPOSITORY / "q2_aam", source, ignore=ignored)
    site = folder / "site"
    # The plugin is plain Python, so any pip can put it where QIIME 2 finds it.
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", site, source]
    subprocess.run([sys.executable, "-m", "pip", "install", *map(str, options)], check=True)
    programs = folder / "programs"
    programs.mkdir()
    command = programs / "aam"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m aam "$@"\n', encoding="utf-8"
    )
    command.chmod(0o755)
    hidden = ("VIRTUAL_ENV", "AAM_COMMAND", "AAM_CONSOLE", "PYTHONHOME")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    environment |= {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    work = folder / "work"
    work.mkdir()
    return Qiime(work, environment)
