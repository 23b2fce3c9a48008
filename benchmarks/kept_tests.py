"""A plugin of pytest that keeps the outcome of each test as soon as it is there.

Run as `pytest -p benchmarks.kept_tests --kept FILE ...`: tests with an outcome in the file are not
run again. One that ended the process twice, by a crash or a time limit, has that as its outcome.
"""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.kept import append_line, read_lines

BEGUN_AT_MOST = 2


def outcomes(path: Path) -> dict[str, str]:
    """Return what became of each test that has ended, or has ended the process too often."""
    lines = read_lines(path)
    begun = Counter(line["test"] for line in lines if "outcome" not in line)
    results = {
        test: "failure: ended the process, or took too long"
        for test, times in begun.items()
        if times >= BEGUN_AT_MOST
    }
    return results | {line["test"]: line["outcome"] for line in lines if "outcome" in line}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--kept`."""
    parser.addoption("--kept", type=Path, required=True, help="file with the outcomes")


def pytest_configure(config: pytest.Config) -> None:
    """Keep outcomes in the file."""
    config.pluginmanager.register(Keeper(config.getoption("kept")))


class Keeper:
    """The hooks that keep outcomes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out tests that have an outcome."""
        kept = outcomes(self.path)
        done = [item for item in items if item.nodeid in kept]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item.nodeid not in kept]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        append_line(self.path, {"test": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            append_line(self.path, {"test": report.nodeid, "outcome": _outcome(report)})


def _outcome(report: pytest.TestReport) -> str:
    if report.passed:
        return "passed"
    if report.skipped and isinstance(report.longrepr, tuple):
        return f"skipped: {report.longrepr[2].removeprefix('Skipped: ')}"
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(report.longrepr) if crash is None else crash.message
    return f"failure: {said.strip().partition(chr(10))[0]}"
