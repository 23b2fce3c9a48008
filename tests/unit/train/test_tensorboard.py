import logging
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from aam.train.monitoring.watch import CurveWriter


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
