"""Measurements one after the other, each in a process of its own: its peak memory is its own.

Run as a module this is the server: it loads the package once and forks for every request.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO, Any, Self, cast

from aam.bench import measurements

Measure = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""Does a request of `aam.bench.measurements.run` in a process of its own; None where it failed."""


class SubprocessRunner:
    """A `Measure`, and a context manager: a server loads the libraries once for all requests."""

    def __enter__(self) -> Self:
        command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
        self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            self._server.terminate()
        # The end of its input ends the server; one that is gone already takes no more.
        with suppress(BrokenPipeError):
            self._server.__exit__(kind, None, None)

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result, or None where its process failed; RuntimeError without a server."""
        requests, replies = cast(IO[str], self._server.stdin), cast(IO[str], self._server.stdout)
        try:
            print(json.dumps(request, default=str), file=requests, flush=True)
            reply = replies.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            raise RuntimeError("the process that starts the measurements has ended, see above")
        return json.loads(reply)


def serve() -> None:
    """Answer requests from standard input until it ends, a line on standard output for each."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # What a measurement prints must not look like a reply.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The server only imports, so that a fork finds no threads and no accelerator in use.
    forks = sys.platform == "linux"
    start = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    for line in sys.stdin:
        receiver, sender = start.Pipe(duplex=False)
        process = start.Process(target=_answer, args=(json.loads(line), sender))
        process.start()
        sender.close()
        try:
            result = receiver.recv()
        except EOFError:
            result = None
        process.join()
        print(json.dumps(result), file=replies, flush=True)


def _answer(request: dict[str, Any], sender: Connection) -> None:
    sender.send(measurements.run(request))


if __name__ == "__main__":
    serve()
