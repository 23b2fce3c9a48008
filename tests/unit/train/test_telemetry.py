"""What a run says: when, how long it takes, and that a terminal is left as it was."""

import io
import logging
import re
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest

from aam.train.monitoring.reporter import PROBED_STEPS, WINDOW_STEPS, Reporter, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Return a clock whose `now` only the test moves."""
    clock = SimpleNamespace(now=0.0)
    times = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("aam.train.monitoring.reporter.time", times)
    return clock


@pytest.fixture
def said(caplog):
    """Return the function that gives the lines since it was last called."""
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        messages = list(caplog.messages)
        caplog.clear()
        return messages

    return lines


@pytest.fixture
def open_terminal(monkeypatch):
    """Return the function that puts a terminal in the place of standard error.

    Pytest puts its own there between the fixtures and the test.
    """

    def put() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        return terminal

    return put


def steps(reporter: Reporter, clock, number: int, seconds: float, samples: int = 0) -> None:
    for _ in range(number):
        clock.now += seconds
        reporter.step(reporter.done + 1, samples)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (41.6, "42 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (3599.8, "1 h"),
        (7529, "2 h 5 min"),
        (86399, "1 d"),
        (100_000, "1 d 4 h"),
        (-3, "0 s"),
    ],
)
def test_durations_are_in_human_units(seconds, text):
    assert duration(seconds) == text


def test_the_whole_run_is_estimated_once_after_the_first_steps(clock, said):
    reporter = Reporter("pretraining", 0, 640, every_s=1e9, validations=8)
    clock.now += 100
    reporter.step(1)
    steps(reporter, clock, PROBED_STEPS - 2, 0.5)
    assert said() == []
    steps(reporter, clock, 100, 0.5)
    assert said() == ["pretraining: 640 steps, about 5 min 20 s, and 8 validations"]


def test_lines_come_every_few_seconds_with_pace_and_time_left(clock, said):
    reporter = Reporter("pretraining", 0, 100, every_s=10)
    reporter.estimate(1)
    assert said() == ["pretraining: 100 steps, about 1 min 40 s"]
    steps(reporter, clock, 19, 1, samples=64)
    assert said() == ["pretraining: step 10 of 100, 64 samples/s, about 1 min 30 s left"]


def test_a_resumed_run_says_from_where_and_estimates_what_is_left(clock, said):
    reporter = Reporter("site, fold 2", 600, 640, every_s=1e9)
    assert said() == ["site, fold 2: going on from step 600 of 640"]
    steps(reporter, clock, PROBED_STEPS, 3)
    assert said() == ["site, fold 2: 40 of 640 steps, about 2 min"]


def test_the_estimate_follows_the_latest_steps_and_the_last_validation(clock, said):
    reporter = Reporter("pretraining", 0, 1000, every_s=1e9, validations=2)
    steps(reporter, clock, 200, 10)
    assert reporter.remaining_s() == pytest.approx(8000)
    clock.now += 30
    reporter.values(200, {"unweighted_pearson": 0.91234})
    assert said()[-1] == "pretraining: step 200 of 1000: unweighted_pearson 0.9123"
    steps(reporter, clock, WINDOW_STEPS, 1)
    assert reporter.remaining_s() == pytest.approx(750 + 30)


def test_a_terminal_shows_a_bar_with_pace_and_time_left(clock, said, open_terminal):
    terminal = open_terminal()
    with closing(Reporter("pretraining", 0, 100, every_s=0)) as reporter:
        steps(reporter, clock, 40, 2, samples=64)
    screen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    last = [line for line in re.split(r"[\r\n]+", screen) if "pretraining" in line][-1]
    for part in ("40/100", "32 samples/s", "2 min"):
        assert part in last
    assert said() == ["pretraining: 100 steps, about 3 min 20 s"]


def test_a_run_that_breaks_gives_the_terminal_back(clock, open_terminal):
    terminal = open_terminal()

    def broken() -> None:
        with closing(Reporter("pretraining", 0, 10, every_s=1)):
            assert "\x1b[?25l" in terminal.getvalue()
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")
    assert sys.stderr is terminal


def test_no_bar_is_drawn_into_a_file(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    with closing(Reporter("pretraining", 0, 10, every_s=1)) as reporter:
        steps(reporter, clock, 10, 1)
        assert sys.stderr.getvalue() == ""
