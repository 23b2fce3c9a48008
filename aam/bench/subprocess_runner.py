"""Measurements one after the other, each in a process of its own: its peak memory is its own.

Run as a module this is the server: it loads the package once and forks for every request.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aam.bench import case
from aam.util.atomic import read_json, write_json


class SubprocessRunner:
    """Runs requests of `aam.bench.case.run`; a context manager.

    Loading the libraries takes longer than many a measurement, so a server does it once.
    """

    def __enter__(self) -> "SubprocessRunner":
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", __name__]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._server.terminate()
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()
        self._folder.cleanup()

    def __call__(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, or None where its process failed.

        Raises
        ------
        RuntimeError
            When the server itself has ended.
        """
        asked, answered = (Path(self._folder.name, name) for name in ("asked", "answered"))
        # `write_json` sorts keys, but the order of the metrics is that of the files of distances.
        asked.write_text(json.dumps(spec), encoding="utf-8")
        answered.unlink(missing_ok=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            self._server.stdin.write(f"{json.dumps([str(asked), str(answered)])}\n")
            self._server.stdin.flush()
            reply = self._server.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            raise RuntimeError("the process that starts the measurements has ended, see above")
        return read_json(answered) if answered.is_file() else None


def serve() -> None:
    """Answer requests from standard input until it ends, a line on standard output for each."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # What a measurement prints must not look like a reply.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The server only imports, so that a fork finds no threads and no accelerator in use.
    forks = sys.platform == "linux"
    start = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    for line in sys.stdin:
        process = start.Process(target=_answer, args=json.loads(line))
        process.start()
        process.join()
        replies.write(f"{process.exitcode}\n")
        replies.flush()


def _answer(asked: str, answered: str) -> None:
    write_json(Path(answered), case.run(read_json(Path(asked))))


if __name__ == "__main__":
    serve()
