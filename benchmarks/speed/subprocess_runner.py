"""Measurements one after the other, each in a process of its own: its peak memory is its own.

Run as a module this is the server: it loads the package once and forks for every request. Its
arguments are the process that it ends with, and the module whose `run` answers the requests.
"""

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO, Any, Self, cast

from aam.util.machine import end_with

Measure = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""Does a request of `measurements.run` in a process of its own; None where it failed."""
Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class SubprocessRunner:
    """A `Measure`, and a context manager: a server loads the libraries once for all requests.

    The `run` of the module `answers` takes a request and returns its result in plain types. No
    process that a request was given to outlives this one.
    """

    def __init__(self, answers: str = "benchmarks.speed.measurements") -> None:
        self.answers = answers

    def __enter__(self) -> Self:
        # The server finds modules where this process does, and none in the folder of the run.
        command = [sys.executable, "-P", "-m", __name__, str(os.getpid()), self.answers]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            self._server.terminate()
        # The end of its input ends the server; one that is gone already takes no more.
        with suppress(BrokenPipeError):
            self._server.__exit__(kind, None, None)

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result, or None where its process failed; RuntimeError without a server."""
        requests = cast(IO[str], self._server.stdin)
        replies = cast(IO[str], self._server.stdout)
        try:
            print(json.dumps(request, default=str), file=requests, flush=True)
            reply = replies.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            raise RuntimeError("the process that starts the measurements has ended, see above")
        return json.loads(reply)


def serve(parent: int, answers: str) -> None:
    """Answer requests from standard input until it ends, a line on standard output for each."""
    run = importlib.import_module(answers).run
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # What a measurement prints must not look like a reply.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The server only imports: a fork finds no accelerator in use, and one thread, which sleeps.
    end_with(parent)
    forks = sys.platform == "linux"
    start = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    for line in sys.stdin:
        receiver, sender = start.Pipe(duplex=False)
        process = start.Process(target=_answer, args=(run, json.loads(line), sender, os.getpid()))
        process.start()
        sender.close()
        try:
            result = receiver.recv()
        except EOFError:
            result = None
        process.join()
        print(json.dumps(result), file=replies, flush=True)


def _answer(run: Answer, request: dict[str, Any], sender: Connection, parent: int) -> None:
    end_with(parent)
    sender.send(run(request))


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
