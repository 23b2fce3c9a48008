"""Snakemake's logger plugin `aam`, which `aam run` uses: `snakemake --logger aam`.

A dry run, and `--verbose` and its like, are shown as Snakemake shows them.
"""

import os
import sys
from copy import copy
from logging import WARNING, Handler, LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import OutputSettingsLoggerInterface

from snakemake_logger_plugin_aam.console import Console, mended

STOPPING = "Terminating processes on user request"
SHOWN = ("Nothing to be done", STOPPING, "Trying to restart job")
"""Beginnings of what else Snakemake says of a run that its user wants to know."""
REPEATED = (
    "RuleException:\nCalledProcessError",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete",
)
"""Beginnings of what only repeats that a job failed."""


class LogHandler(LogHandlerBase):
    """Shows a line per job, and what is wrong, once."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        is_asked_for_more = settings.verbose or settings.debug_dag or settings.printshellcmds
        self.as_snakemake: Handler | None = None
        if settings.dryrun or is_asked_for_more:
            self.as_snakemake = _snakemakes_handler(settings)
            self.is_mended = not is_asked_for_more
            return
        # Snakemake imports this module at every start: the workflow's own package, which may be
        # another one than is installed, has to be the first `aam` that is imported.
        from aam.util.log import CONSOLE

        # Jobs inherit it: what they log stands in their files alone.
        os.environ[CONSOLE] = "1"
        self.console = Console(colors=not settings.nocolor, lists_jobs=_lists_jobs(settings))
        self.has_started = False
        self.setFormatter(_snakemakes_handler(settings).formatter)

    def emit(self, record: LogRecord) -> None:
        """Show a record, or leave it to the file that Snakemake writes of each run."""
        if self.as_snakemake is not None:
            message = mended(record.getMessage()) if self.is_mended else None
            if message is not None:
                record = copy(record)
                record.msg = message
                record.args = ()
            self.as_snakemake.handle(record)
            return
        try:
            self._show(record)
        except Exception:  # noqa: BLE001
            self.handleError(record)

    def _show(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        values = record.__dict__
        if event == LogEvent.WORKFLOW_STARTED:
            self.has_started = True
        elif event == LogEvent.RUN_INFO:
            self.console.begin(values["stats"])
        elif event == LogEvent.JOB_INFO:
            self.console.start(
                values["jobid"],
                values["rule_msg"] or values["rule_name"],
                log=next(iter(values["log"]), None),
                task=(values.get("wildcards") or {}).get("task"),
                report=values["output"] if values["rule_name"] == "describe" else (),
            )
        elif event == LogEvent.JOB_FINISHED:
            self.console.finish(values["job_id"])
        elif event == LogEvent.JOB_ERROR:
            self.console.fail(values["jobid"])
        elif event in (None, LogEvent.ERROR, LogEvent.GROUP_ERROR):
            self._show_text(record, self.format(record))

    def _show_text(self, record: LogRecord, text: str) -> None:
        if text.startswith(REPEATED) or not text.strip():
            return
        is_of_run = record.levelno < WARNING and (self.has_started or _is_on_start(text))
        if is_of_run and not text.startswith(SHOWN):
            return
        if text.startswith(STOPPING):
            self.console.stop()
        self.console.say(mended(text) or text)

    def close(self) -> None:
        """Take down the line that says what is running."""
        if self.as_snakemake is None:
            self.console.end()
        super().close()


def _is_on_start(text: str) -> bool:
    return text.startswith(("Assuming ", "Building DAG", "Using "))


def _snakemakes_handler(settings: OutputSettingsLoggerInterface) -> Handler:
    """Return the handler that Snakemake itself would have."""
    # Snakemake imports all of its plugins at its start: they cannot import it before.
    from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter

    handler = ColorizingTextHandler(
        nocolor=settings.nocolor, stream=sys.stdout if settings.stdout else sys.stderr
    )
    handler.setFormatter(DefaultFormatter(settings.quiet, settings.show_failed_logs))
    handler.addFilter(
        DefaultFilter(
            settings.quiet,
            settings.debug_dag,
            settings.verbose,
            settings.dryrun,
            settings.printshellcmds,
        )
    )
    return handler


def _lists_jobs(settings: OutputSettingsLoggerInterface) -> bool:
    """Return whether `--quiet` lets the jobs be listed."""
    from snakemake.logging import is_quiet_about

    quiet = settings.quiet or ()
    return not any(is_quiet_about(quiet, kind) for kind in ("rules", "progress"))
