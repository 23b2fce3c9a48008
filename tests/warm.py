"""Commands in forks of one process that has imported everything, so that starts cost nothing.

A run takes a dozen processes: `aam` or Snakemake, and one for the script of each rule. As its own
program this module is the process that forks; `Warm` starts it and asks it for a command. Its
children carry the same code out as `python -m aam`, `python -m snakemake` and `python script.py`
do.
"""

import atexit
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SOCKET = "AAM_WARM_SOCKET"
"""Variable with the path of the socket, for the commands that start scripts."""
LONGEST_S = 600.0
"""Seconds after which a command is taken to hang."""
IMPORTED = (
    "aam.cli",
    "aam.stages.baselines",
    "aam.stages.describe",
    "aam.stages.score",
    "aam.stages.folds",
    "aam.stages.import_metadata",
    "aam.stages.import_table",
    "aam.stages.find_genes",
    "aam.stages.import_taxonomy",
    "aam.stages.import_tree",
    "aam.stages.plot",
    "aam.stages.rarefy",
    "aam.stages.summary",
    "aam.stages.unifrac",
    "aam.report.figures.task",
    "snakemake.cli",
    "snakemake.script",
    "matplotlib.backends.backend_svg",
)
"""What the commands of a first answer import, without the configuration of any."""
NETWORKS = (
    "aam.stages.pretrain",
    "aam.stages.finetune",
    "aam.stages.explain",
    "aam.stages.predict",
    "aam.stages.store_samples",
    "aam.stages.tokenize",
)
"""What a study with networks needs as well."""


class Warm:
    """The process that forks, and what is asked of it."""

    def __init__(self, *modules: str, root: Path = REPOSITORY, is_edited: bool = False) -> None:
        """Start the process.

        Parameters
        ----------
        *modules
            Dotted names of what it imports.
        root
            The checkout whose package it imports.
        is_edited
            Whether the code of the checkout changes meanwhile; otherwise it is compared by what it
            was at the start.
        """
        self.folder = tempfile.TemporaryDirectory(prefix="aam-warm-")
        self.path = Path(self.folder.name, "socket")
        self.root = root
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(64)
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(int(is_edited)), *modules],
            stdin=listener.fileno(),
            cwd=root,
            env=self._environment(),
        )
        listener.close()

    def run(self, folder: Path, *command: str, log: Path, **variables: str) -> int:
        """Carry a command out in a folder; both of its streams go to the file `log`.

        Parameters
        ----------
        folder
            Where it works.
        *command
            `aam` or `snakemake`, and arguments.
        log
            File for what it prints.
        **variables
            Environment variables beside those of this process.

        Returns
        -------
        int
            Exit status, or -9 where it ended without one.
        """
        environment = {**self._environment(), **variables}
        request = {"command": command, "folder": str(folder), "environment": environment}
        with log.open("wb") as handle:
            return ask(self.path, request, [handle.fileno()] * 2)

    def close(self) -> None:
        """End the process; its children have ended with their commands."""
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            SOCKET: str(self.path),
        }


def ask(path: Path, request: Mapping[str, Any], streams: Sequence[int]) -> int:
    """Have a request carried out, with its output and its errors in `streams`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LONGEST_S)
        connection.connect(str(path))
        # The length goes first: a stream has no borders between messages.
        message = json.dumps(request).encode()
        socket.send_fds(connection, [len(message).to_bytes(8, "big")], list(streams))
        connection.sendall(message)
        answer = connection.recv(16)
    return int(answer) if answer else -signal.SIGKILL


def _serve(modules: Sequence[str], *, is_edited: bool) -> None:
    """Carry out one request after the other, each in a fork of this process."""
    for module in modules:
        with suppress(ModuleNotFoundError):
            __import__(module)
    if not is_edited:
        _digest_the_code()
    _start_scripts_here()
    # Nobody waits for a fork: it says itself how it ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(fileno=os.dup(0))
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _carry_out(connection)
        connection.close()


def _digest_the_code() -> None:
    """Read once the code that every start of the workflow compares; the forks inherit it."""
    from aam.config.digest import script_digest

    for script in sorted(Path("workflow", "scripts").resolve().glob("*.py")):
        script_digest(script)


def _start_scripts_here() -> None:
    """Let a run ask this process for a fork, and not one that it starts itself."""
    from aam.util.forks import ForkServer

    def run(
        self: ForkServer, script: str, environment: Mapping[str, str], record: Any = None
    ) -> int:
        request = {"script": script, "folder": str(Path.cwd()), "environment": dict(environment)}
        started_s = time.monotonic()
        status = ask(Path(os.environ[SOCKET]), request, [1, 2])
        if record is not None:
            record.running_time = time.monotonic() - started_s
            record.process_gone = True
        return status

    ForkServer.start = lambda self, *modules: None  # type: ignore[assignment]
    ForkServer.run = run  # type: ignore[method-assign]


def _carry_out(connection: socket.socket) -> None:
    """Do what is asked for in this process, say how it ended, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, *_ = socket.recv_fds(connection, 8, 2)
    message = b""
    while len(message) < int.from_bytes(length, "big"):
        message += connection.recv(1 << 16)
    request = json.loads(message)
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream, number)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # Python has looked for it.
    tempfile.tempdir = None
    # What a command registers is called at its end, and nothing of the process that forks.
    atexit._clear()
    status = 1
    try:
        if "script" in request:
            sys.argv = [request["script"]]
            runpy.run_path(request["script"], run_name="__main__")
        else:
            program, *arguments = request["command"]
            sys.path.insert(0, request["folder"])
            sys.argv = [program, *arguments]
            main_of = {"aam": "aam.cli", "snakemake": "snakemake.cli"}
            importlib.import_module(main_of[program]).main(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(str(status).encode())
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[2:], is_edited=sys.argv[1] == "1")
