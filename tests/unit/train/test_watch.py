"""What a run says while it works: lines, a bar, estimates, and curves for TensorBoard."""

import io
import logging
import re
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from aam.train.monitoring.watch import WINDOW_STEPS, CurveWriter, Reporter
from aam.util.log import format_duration


@pytest.fixture
def clock(monkeypatch, caplog) -> SimpleNamespace:
    """Return a clock whose `now` only the test moves."""
    caplog.set_level(logging.INFO)
    clock = SimpleNamespace(now=0.0)
    times = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("aam.train.monitoring.watch.time", times)
    return clock


def steps(reporter: Reporter, clock, number: int, seconds: float, samples: int = 0) -> None:
    for _ in range(number):
        clock.now += seconds
        reporter.step(reporter.done + 1, samples)


def open_stderr(monkeypatch, *, terminal: bool) -> io.StringIO:
    """Put a terminal or a file in the place of standard error, after pytest has put its own."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "120", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return stream


def test_durations_are_in_human_units():
    seconds = (-3, 41.6, 59.7, 200, 3599.8, 7529, 86399, 100_000)
    texts = "0 s, 42 s, 1 min, 3 min 20 s, 1 h, 2 h 5 min, 1 d, 1 d 4 h"
    assert ", ".join(map(format_duration, seconds)) == texts


ESTIMATED = "run: 640 steps, about 5 min 20 s, and 8 validations"


@pytest.mark.parametrize(
    ("done", "total", "passed", "options", "lines"),
    [
        (0, 640, [(1, 100), (3, 0.5)], {"validations": 8}, []),
        (0, 640, [(1, 100), (103, 0.5)], {"validations": 8}, [ESTIMATED]),
        (600, 640, [(5, 3)], {}, ["going on from step 600 of 640", "40 of 640 steps, about 2 min"]),
        (0, 30, [(4, 1), (11, 1, 64)], {"every_s": 10}, ["30 steps, about 30 s", "step 10 of 30,"]),
    ],
    ids=["too early", "once", "resumed", "every few seconds"],
)
def test_a_run_is_estimated_by_its_first_steps_but_one(
    clock, monkeypatch, caplog, done, total, passed, options, lines
):
    settings = {"every_s": 1e9, "validations": 0, **options}
    monkeypatch.setattr("aam.train.monitoring.watch.LINE_EVERY_S", settings["every_s"])
    reporter = Reporter("run", done, total, settings["validations"])
    for some in passed:
        steps(reporter, clock, *some)
    assert len(caplog.messages) == len(lines)
    for message, line in zip(caplog.messages, lines, strict=True):
        assert line in message


def test_the_estimate_follows_the_latest_steps_and_the_last_validation(clock, monkeypatch, caplog):
    monkeypatch.setattr("aam.train.monitoring.watch.LINE_EVERY_S", 1990)
    reporter = Reporter("run", 0, 1000, validations=2)
    reporter.estimate(1)
    steps(reporter, clock, 200, 10, samples=64)
    assert caplog.messages[0].startswith("run: 1000 steps, about 16 min 40 s, and 2")
    assert caplog.messages[1:] == ["run: step 199 of 1000, 6.4 samples/s, about 2 h 14 min left"]
    clock.now += 30
    reporter.values(200, {"unweighted_pearson": 0.91234})
    assert caplog.messages[-1] == "run: step 200 of 1000: unweighted_pearson 0.9123"
    steps(reporter, clock, WINDOW_STEPS, 1)
    assert reporter.remaining_s() == pytest.approx(750 + 30)


def test_a_terminal_shows_a_bar_and_is_given_back_by_a_run_that_breaks(clock, monkeypatch, caplog):
    def run_and_break() -> None:
        with closing(Reporter("run", 0, 100)) as reporter:
            steps(reporter, clock, 40, 2, samples=64)
            raise KeyError

    terminal = open_stderr(monkeypatch, terminal=True)
    with pytest.raises(KeyError):
        run_and_break()
    hidden, shown = (terminal.getvalue().rfind(f"\x1b[?25{end}") for end in "lh")
    assert 0 <= hidden < shown, "the cursor"
    screen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    last = [line for line in re.split(r"[\r\n]+", screen) if "run" in line][-1]
    for part in ("40/100", "32 samples/s", "2 min"):
        assert part in last
    assert caplog.messages == ["run: 100 steps, about 3 min 20 s"]


def test_no_bar_is_drawn_into_a_file(clock, monkeypatch):
    file = open_stderr(monkeypatch, terminal=False)
    with closing(Reporter("run", 0, 10)) as reporter:
        steps(reporter, clock, 10, 1)
    assert file.getvalue() == ""


def write(folder: Path, first_step: int, last_step: int, value: float) -> None:
    with closing(CurveWriter(folder, first_step)) as writer:
        for step in range(first_step + 1, last_step + 1):
            writer.add(step, "train/loss", value)
            writer.add(step, "system/gpu_power_w", None)


@pytest.mark.parametrize("first_step", [0, 1, 4, 6])
def test_a_resumed_run_has_one_curve_and_a_new_one_takes_its_place(
    tmp_path, monkeypatch, first_step
):
    folder = tmp_path / "new" / "folder"
    write(folder, 0, 6, 1.0)
    (folder / "mine.txt").write_text("")
    # Files of the same second are read in the order of a counter, as text: "10" before "9".
    later = time.time() + 1
    monkeypatch.setattr(time, "time", lambda: later)
    write(folder, first_step, 9, 2.0)
    events = EventAccumulator(str(folder)).Reload()
    assert events.Tags()["scalars"] == ["train/loss"], "what was not measured is left out"
    points = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert points == [(step, 1.0 if step <= first_step else 2.0) for step in range(1, 10)]
    assert len(list(folder.iterdir())) == (3 if first_step else 2)


def no_package(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def full_disk(monkeypatch) -> None:
    def full(*arguments) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(SummaryWriter, "add_scalar", full)


@pytest.mark.parametrize(
    ("name", "fault"), [("new", no_package), ("file", lambda _: None), ("new", full_disk)]
)
def test_what_cannot_be_written_costs_the_curves_and_one_warning(
    tmp_path, monkeypatch, caplog, name, fault
):
    (tmp_path / "file").write_text("")
    fault(monkeypatch)
    write(tmp_path / name, 0, 3, 1.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
