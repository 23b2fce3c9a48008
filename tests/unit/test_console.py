"""The console of a run, by the records that Snakemake passes to its logger plugins."""

import logging
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.exceptions import (
    IncompleteFilesException,
    LockException,
    MissingRuleException,
    format_exception_to_string,
)
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from aam.train.monitoring.watch import Reporter
from aam.util.log import CONSOLE, FORMAT
from snakemake_logger_plugin_aam import LogHandler
from snakemake_logger_plugin_aam.console import LOOKED_AT_EVERY_S, SILENT, TARGETS, Job, mended

RECORDED = "10:20:30 INFO aam.train: at work\n"


class Run:
    """A run of which nothing but its records exists."""

    def __init__(self, capsys: pytest.CaptureFixture[str], **settings: Any) -> None:
        defaults = {"verbose": False, "debug_dag": False, "printshellcmds": False, "quiet": None}
        defaults |= {"dryrun": False, "nocolor": True, "stdout": False, "show_failed_logs": False}
        self.capsys = capsys
        self.handler = LogHandler(SimpleNamespace(**{**defaults, **settings}), None)

    def tell(self, message: str, level: int = logging.INFO, **values: Any) -> None:
        record = logging.makeLogRecord(
            {"msg": message, "levelno": level, "levelname": logging.getLevelName(level), **values}
        )
        self.handler.handle(record)

    def start(self, number: int, what: str, log: Path, **values: Any) -> None:
        self.tell(
            f"Rule: x, Jobid: {number}",
            event=LogEvent.JOB_INFO,
            jobid=number,
            rule_msg=what,
            rule_name="x",
            reason="Params have changed",
            output=[],
            log=[str(log)],
            **values,
        )

    @property
    def shown(self) -> str:
        return self.capsys.readouterr().err


@pytest.fixture(autouse=True)
def _leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back the variable that a console sets for its jobs."""
    monkeypatch.setenv(CONSOLE, "")
    monkeypatch.delenv(CONSOLE)


def test_a_job_is_a_line_and_what_snakemake_does_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = Run(capsys)
    run.tell("Building DAG of jobs...")
    run.tell("Workflow has started!", event=LogEvent.WORKFLOW_STARTED)
    run.tell("Job stats: ...", event=LogEvent.RUN_INFO, stats={"x": 10, "total": 10})
    run.tell("Select jobs to execute...")
    run.start(7, "Reading the table of mine", tmp_path / "log")
    run.tell("Finished jobid: 7", event=LogEvent.JOB_FINISHED, job_id=7)
    run.tell("1 of 10 steps (10%) done", event=LogEvent.PROGRESS, done=1, total=10)
    run.start(3, "Pretraining base on mine", tmp_path / "log")
    run.handler.close()
    assert run.shown == (
        "[ 1 of 10] Reading the table of mine\n[ 2 of 10] Pretraining base on mine\n"
    )


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (f"{RECORDED}a.tsv: got x; expected y\nb: z\n", "a.tsv: got x; expected y\nb: z"),
        (RECORDED, SILENT),
    ],
    ids=["a problem", "killed"],
)
def test_a_job_that_fails_says_why_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: str, message: str
) -> None:
    path = tmp_path / "x.log"
    path.write_text(log)
    run = Run(capsys)
    run.tell("", event=LogEvent.RUN_INFO, stats={"total": 2})
    run.start(1, "Reading", path)
    failed = {"event": LogEvent.ERROR, "exception": "RuleException"}
    run.tell('RuleException:\nCalledProcessError in file "x.smk"', logging.ERROR, **failed)
    run.tell("Error in rule x", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1)
    run.tell("Exiting because a job execution failed. Look above", logging.ERROR)
    run.tell("WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR)
    assert run.shown == f"[1 of 2] Reading\n\n{message}\n\nStopped: Reading. Its log: {path}\n"


def test_a_job_that_the_user_ends_has_not_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = Run(capsys)
    run.tell("", event=LogEvent.RUN_INFO, stats={"total": 2})
    run.start(1, "Reading", tmp_path / "x.log")
    stopping = "Terminating processes on user request, this might take some time."
    run.tell(stopping)
    run.tell("Error in rule x", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1)
    assert run.shown == f"[1 of 2] Reading\n{stopping}\n"


def test_other_errors_and_warnings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    run.tell("Workflow has started!", event=LogEvent.WORKFLOW_STARTED)
    run.tell("a disk is nearly full", logging.WARNING)
    run.tell("Nothing to be done (all requested files are present and up to date).")
    shown = run.shown
    for words in ("nearly full", "Nothing to be done"):
        assert words in shown


@pytest.mark.parametrize("settings", [{"dryrun": True}, {"verbose": True}])
def test_snakemakes_own_blocks_are_there_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: dict[str, bool]
) -> None:
    run = Run(capsys, **settings)
    run.start(7, "Reading the table of mine", tmp_path / "log")
    assert "Job 7: Reading the table of mine\nReason: Params have changed" in run.shown


def test_quiet_lists_no_jobs_and_hides_no_problem(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.log"
    path.write_text("a.tsv: got x\n")
    run = Run(capsys, quiet={Quietness.ALL})
    run.start(1, "Reading", path)
    run.tell("Error in rule x", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1)
    assert run.shown.startswith("\na.tsv: got x\n")


@pytest.mark.parametrize(
    ("name", "part"), [("pretraining", ""), ("fine-tuning, fold0", "fine-tuning, fold0, ")]
)
def test_the_time_left_is_that_of_the_training_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, part: str
) -> None:
    """The line that a training logs is the one that the console looks for."""
    log = tmp_path / "x.log"
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr("aam.train.monitoring.watch.time.monotonic", lambda: next(clock))
    logger = logging.getLogger("aam.train.monitoring.watch")
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter(FORMAT, datefmt="%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        reporter = Reporter(name, 0, 9)
        for step in range(1, 8):
            reporter.step(step, samples=64)
    finally:
        logger.removeHandler(handler)
        handler.close()
    job = Job("Pretraining base on mine", log, report=())
    assert job.progress == f"{part}step 7 of 9, about 40 s left"
    assert job.last_words == ""


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("data", "if data is a target, write -- before it: --configfile FILE -- data"),
        ("config/main.yaml", "correct the path"),
    ],
)
def test_a_word_that_snakemake_takes_for_a_configuration_is_one_message(name, hint):
    said = f"in load_configfile\nFileNotFoundError: [Errno 2] No such file or directory: '{name}'"
    problem = mended(f"Traceback\n{said}")
    assert problem is not None
    assert problem.startswith(f"{name}: got no such file; expected a configuration")
    assert problem.endswith(f"Hint: {hint}")
    assert mended("KeyError: 'data'") is None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (MissingRuleException("frist"), "target: got frist, .* did you mean first[?]$"),
        (LockException(), "^/.*: got a lock of another run.* --unlock, then without$"),
        (IncompleteFilesException(["a.biom"]), "^a.biom: got files that .* --rerun-incomplete"),
        (OSError(28, "No space left on device", "r/a"), "^r/a: got no space left on device;"),
        (
            PermissionError(13, "Permission denied", "r/a"),
            "^r/a: got a path that cannot be written",
        ),
        (OSError(30, "Read-only file system", "r/a"), "^r/a: got a path that cannot be written"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("settings", [{}, {"dryrun": True}])
def test_what_snakemake_says_of_a_mistake_is_one_message(
    capsys: pytest.CaptureFixture[str],
    said: Exception,
    message: str,
    settings: dict[str, bool],
) -> None:
    try:
        raise said
    except Exception as error:  # noqa: BLE001
        text = format_exception_to_string(error)
    run = Run(capsys, **settings)
    run.tell(text, logging.ERROR, event=LogEvent.ERROR, exception=type(said).__name__)
    (line,) = run.shown.splitlines()
    assert re.search(message, line)
    assert line.count("Hint:") == 1


def test_the_targets_that_are_proposed_are_those_of_the_workflow() -> None:
    workflow = Path(__file__).resolve().parents[2] / "workflow" / "Snakefile"
    rules = re.findall(r"^rule (\w+):", workflow.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(TARGETS) == sorted(rules)


def test_what_a_job_has_found_is_shown_once_while_it_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "site.log"
    found = "10:20:31 INFO aam.stages.first_score: so far: kNN is right in 57.1 %.\n"
    log.write_text(found)
    # The log of an earlier run.
    os.utime(log, (0, 0))
    run = Run(capsys)
    run.start(1, "Fitting the baselines of site", log, wildcards={"task": "site"})
    time.sleep(2.5 * LOOKED_AT_EVERY_S)
    assert "so far" not in run.shown
    log.write_text(RECORDED + found)
    time.sleep(2.5 * LOOKED_AT_EVERY_S)
    assert run.shown == "site, so far: kNN is right in 57.1 %.\n"
    log.write_text(RECORDED + found + RECORDED)
    run.tell("Finished jobid: 1", event=LogEvent.JOB_FINISHED, job_id=1)
    assert run.shown == ""
    # One that ends between two looks.
    run.start(2, "Fitting the baselines of rank", log, wildcards={"task": "rank"})
    run.tell("Finished jobid: 2", event=LogEvent.JOB_FINISHED, job_id=2)
    run.handler.close()
    assert run.shown.endswith("rank, so far: kNN is right in 57.1 %.\n")
