"""What one sees of a run: a line per job, and on a terminal one more on what is running."""

import difflib
import errno
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console as Terminal
from rich.live import Live
from rich.text import Text

RECORD = re.compile(r"^\d\d:\d\d:\d\d [A-Z]+ [\w.]+: .*$", re.MULTILINE)
"""The first line of a record in the log of a job."""
PROGRESS = re.compile(r": ([^:]+): (step \d+ of \d+), (?:.*, )?(about .* left)$", re.MULTILINE)
"""What a training logs every few seconds (`aam.train.monitoring.watch`): name, step, time."""
SO_FAR = re.compile(r"^\d\d:\d\d:\d\d INFO aam\.stages\.first_score: (.*)$", re.MULTILINE)
"""What a stage logs before it ends because people wait for it (`aam.stages.first_score`)."""
LOOKED_AT_EVERY_S = 0.5
"""Seconds between two looks at the logs of the jobs that run."""
WHOLE = "pretraining"
"""The training that is all that its job does; others are parts of one."""
NO_CONFIGURATION = re.compile(
    r"load_configfile.*FileNotFoundError: \[Errno 2\] No such file or directory: '(.*)'", re.DOTALL
)
NO_TARGET = re.compile(r"^MissingRuleException[^\n]*:\nNo rule to produce (.+) \(if you use input")
LOCKED = re.compile(r"^LockException:\nError: Directory cannot be locked[^\n]*\n(.+)")
NO_INPUT = re.compile(r"^MissingInputException.*affected files:\n((?: +\S[^\n]*\n?)+)", re.DOTALL)
INCOMPLETE = re.compile(
    r"^IncompleteFilesException.*Incomplete files:\n((?:\S[^\n]*\n?)+)", re.DOTALL
)
FULL = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_SYSTEM = r"\[Errno ({})\] ([^:'\n]+)(?:: '([^'\n]*)')?"
_NUMBERS = "|".join(map(str, (*FULL, *UNWRITABLE)))
NO_WRITING = re.compile(
    r"^(?:Traceback|\w*Error\b).*" + _SYSTEM.format(_NUMBERS),
    re.DOTALL,
)
NO_FOLDER = re.compile(
    r"^WorkflowError:\nFailed to create output directory.*" + _SYSTEM.format(r"\d+"), re.DOTALL
)
TARGETS = ("all", "first", "data", "pretraining", "finetuning", "bench")
"""What `workflow/Snakefile` makes by name."""
CONFIGURATIONS = (".yaml", ".yml", ".json")
"""Endings of configurations; targets that people name have none."""
SILENT = "Its log has no message: it was killed, perhaps for lack of memory."
TAIL_BYTES = 20_000
"""What is read of the end of a log."""
REDRAWN_PER_S = 2


@dataclass(frozen=True)
class Job:
    """A job that runs."""

    what: str
    """What it does for the study."""
    log: Path | None
    report: Sequence[str]
    """Files of text that are shown when it has ended."""
    task: str | None = None
    """The task that it works for; None: it works for all of a study."""
    started_s: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.time)
    """The same since 1970."""

    @property
    def progress(self) -> str:
        """How far it is: the time left where its log says so, else the time that it took."""
        # Not above: see `LogHandler`.
        from aam.util.log import format_duration

        lines = PROGRESS.findall(_tail(self.log))
        if not lines:
            return format_duration(time.monotonic() - self.started_s)
        name, step, left = lines[-1]
        return f"{step}, {left}" if name == WHOLE else f"{name}, {step}, {left}"

    @property
    def so_far(self) -> list[str]:
        """What it has found by now, a line each."""
        # Snakemake removes the log of an earlier run a little later. Times of files are rounded.
        if (
            self.log is None
            or not self.log.is_file()
            or self.log.stat().st_mtime < self.started - 1
        ):
            return []
        return SO_FAR.findall(_tail(self.log))

    @property
    def last_words(self) -> str:
        """What its log says behind its last record: the message that it ended with."""
        text = _tail(self.log)
        ends = [record.end() for record in RECORD.finditer(text)]
        return text[ends[-1] if ends else 0 :].strip("\n")


class Console:
    """Writes to standard error."""

    def __init__(self, *, colors: bool, lists_jobs: bool) -> None:
        self.terminal = Terminal(stderr=True, no_color=not colors, highlight=False, markup=False)
        self.lists_jobs = lists_jobs
        self.total = 0
        self.number = 0
        self.jobs: dict[int, Job] = {}
        self.said: dict[int, int] = {}
        """How many lines of what a job has found were shown, by its number."""
        self.watch: threading.Thread | None = None
        self.has_ended = threading.Event()
        self.lock = threading.Lock()
        self.live: Live | None = None
        self.is_stopping = False

    def begin(self, stats: Mapping[str, int]) -> None:
        """Take note of how many jobs there are, by rule."""
        self.total = stats["total"]

    def start(
        self,
        identifier: int,
        what: str,
        *,
        log: str | None,
        report: Sequence[str] = (),
        task: str | None = None,
    ) -> None:
        """Show what a job does."""
        self.number += 1
        self.jobs[identifier] = Job(what, None if log is None else Path(log), report, task)
        if not self.lists_jobs:
            return
        if self.watch is None:
            self.watch = threading.Thread(target=self._watch, daemon=True)
            self.watch.start()
        width = len(str(self.total))
        self.say(f"[{self.number:{width}} of {self.total}] {what}")
        if self.terminal.is_terminal and self.live is None:
            self.live = Live(
                get_renderable=self._running,
                console=self.terminal,
                refresh_per_second=REDRAWN_PER_S,
                transient=True,
            )
            self.live.start()

    def finish(self, identifier: int) -> None:
        """Take a job from those that run, and show what it reports."""
        self._say_so_far(identifier)
        job = self.jobs.pop(identifier, None)
        if job is None:
            return
        for path in job.report:
            # What was asked for goes to standard output, the rest to standard error.
            self.close()
            print(f"\n{Path(path).read_text(encoding='utf-8')}", flush=True)

    def fail(self, identifier: int) -> None:
        """Show the message that a job ended with, and where the rest is."""
        job = self.jobs.pop(identifier, None)
        if job is None or self.is_stopping:
            return
        words = job.last_words or SILENT
        self.say(f"\n{words}\n\nStopped: {job.what}. Its log: {job.log}")

    def stop(self) -> None:
        """Take note that the user ends the run, so that jobs that end have not failed."""
        self.is_stopping = True
        self.close()

    def say(self, text: str) -> None:
        """Write lines, over the one on what is running."""
        self.terminal.print(text, soft_wrap=True)

    def end(self) -> None:
        """Show nothing more of jobs."""
        self.has_ended.set()
        self.close()

    def close(self) -> None:
        """Take down the line on what is running."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _watch(self) -> None:
        """Show what jobs find while they run."""
        while not self.has_ended.wait(LOOKED_AT_EVERY_S):
            for identifier in list(self.jobs):
                self._say_so_far(identifier)

    def _say_so_far(self, identifier: int) -> None:
        with self.lock:
            job = self.jobs.get(identifier)
            if job is None or not self.lists_jobs or self.has_ended.is_set():
                return
            lines = job.so_far
            said = self.said.get(identifier, 0)
            for line in lines[said:]:
                self.say(line if job.task is None else f"{job.task}, {line}")
            # An attempt that follows another begins the log again.
            self.said[identifier] = max(said, len(lines))

    def _running(self) -> Text:
        # The jobs change in another thread.
        shown = [f"{job.what}: {job.progress}" for job in list(self.jobs.values())]
        return Text("; ".join(shown), style="dim", no_wrap=True, overflow="ellipsis")


def mended(text: str) -> str | None:
    """Return one message in place of what Snakemake says of a mistake; None: it says it well.

    Parameters
    ----------
    text
        What Snakemake shows: the name of an exception and its words, or a traceback.
    """
    for explain in (
        _configuration_problem,
        _target_problem,
        _lock_problem,
        _input_problem,
        _incomplete_problem,
        _writing_problem,
    ):
        message = explain(text)
        if message is not None:
            return str(message)
    return None


def _configuration_problem(text: str) -> Exception | None:
    """Snakemake takes all words behind `--configfile` for configurations."""
    # Not above: see `LogHandler`.
    from aam.util.errors import problem

    match = NO_CONFIGURATION.search(text)
    if match is None:
        return None
    name = match[1]
    if Path(name).suffix in CONFIGURATIONS:
        return problem(name, "no such file", "a configuration", "correct the path")
    expected = "a configuration, because --configfile takes every word after it"
    hint = f"if {name} is a target, write -- before it: --configfile FILE -- {name}"
    return problem(name, "no such file", expected, hint)


def _target_problem(text: str) -> Exception | None:
    from aam.util.errors import problem

    match = NO_TARGET.search(text)
    if match is None:
        return None
    name = match[1]
    expected = f"one of {', '.join(TARGETS)}, or the path of a result"
    path = Path(name)
    near = difflib.get_close_matches(name, TARGETS, n=1)
    hint = "the files of all stages are in docs/reference/artifacts.md"
    if path.is_file() and path.suffix in CONFIGURATIONS:
        hint = f"write {name} before the target: all configurations stand first"
        if path.suffix == ".json":
            hint = f"a configuration behind the first has the ending .yaml: rename {name}"
    elif near:
        hint = f"did you mean {near[0]}?"
    elif path.parent.is_dir() and len(path.parts) > 1:
        there = {one.name for one in path.parent.iterdir()}
        near = difflib.get_close_matches(path.name, sorted(there), n=1)
        if near and near[0] != path.name:
            hint = f"did you mean {path.parent / near[0]}?"
    return problem("target", f"{name}, which nothing makes", expected, hint)


def _lock_problem(text: str) -> Exception | None:
    from aam.util.errors import problem

    match = LOCKED.search(text)
    if match is None:
        return None
    return problem(
        match[1],
        "a lock of another run, or of one that was killed",
        "no run that makes the same files",
        "wait for the other run, on other machines, too; if there is none, run the command with "
        "--unlock, then without",
    )


def _input_problem(text: str) -> Exception | None:
    from aam.util.errors import problem

    match = NO_INPUT.search(text)
    if match is None:
        return None
    names = ", ".join(map(str.strip, match[1].splitlines()))
    hint = "correct the path in the configuration, or put the file there"
    return problem(names, "no such file", "a file of yours, which no job makes", hint)


def _incomplete_problem(text: str) -> Exception | None:
    from aam.util.errors import problem

    match = INCOMPLETE.search(text)
    if match is None:
        return None
    names = ", ".join(map(str.strip, match[1].splitlines()))
    hint = "run the command with --rerun-incomplete, which makes them again"
    return problem(names, "files that a killed run may have half written", "whole files", hint)


def _writing_problem(text: str) -> Exception | None:
    """Explain a folder that cannot be written, or a full disk."""
    from aam.util.errors import problem

    match = NO_WRITING.search(text) or NO_FOLDER.search(text)
    if match is None:
        return None
    number = int(match[1])
    path = match[3] or "a file of the run"
    if number in FULL:
        return problem(path, match[2].lower(), "room on the disk", "free some, then run again")
    hint = "set results_dir to a folder of your own, or give yourself the right to write there"
    return problem(path, f"a path that cannot be written ({match[2].lower()})", "a folder", hint)


def _tail(path: Path | None) -> str:
    """Return the end of a file; nothing where there is none."""
    if path is None or not path.is_file():
        return ""
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return handle.read().decode("utf-8", errors="replace")
