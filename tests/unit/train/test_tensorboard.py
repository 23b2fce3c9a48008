"""Curves for TensorBoard, read back as TensorBoard reads them."""

import logging
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from aam.train.monitoring.tensorboard import CurveWriter


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder)).Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_points_are_written_and_missing_ones_left_out(tmp_path):
    with closing(CurveWriter(tmp_path / "new" / "folder", 0)) as writer:
        writer.add(1, "train/loss", 3.0)
        writer.add(2, "train/loss", 2.5)
        writer.add(2, "system/gpu_power_w", None)
        writer.add(2, "validation/unweighted_pearson", 0.5)
    assert curves(tmp_path / "new" / "folder") == {
        "train/loss": [(1, 3.0), (2, 2.5)],
        "validation/unweighted_pearson": [(2, 0.5)],
    }


@pytest.mark.parametrize("first_step", [0, 1, 4, 6])
def test_a_resumed_run_has_one_curve_and_a_new_one_takes_its_place(tmp_path, first_step):
    (tmp_path / "mine.txt").write_text("")
    with closing(CurveWriter(tmp_path, 0)) as writer:
        for step in range(1, 7):
            writer.add(step, "train/loss", 1.0)
    with closing(CurveWriter(tmp_path, first_step)) as writer:
        for step in range(first_step + 1, 10):
            writer.add(step, "train/loss", 2.0)
    expected = [(step, 1.0 if step <= first_step else 2.0) for step in range(1, 10)]
    assert curves(tmp_path) == {"train/loss": expected}
    assert len(list(tmp_path.iterdir())) == (3 if first_step else 2)


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
    with closing(CurveWriter(tmp_path / name, 0)) as writer:
        for step in range(3):
            writer.add(step, "train/loss", 3.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with closing(CurveWriter(None, 0)) as writer:
        writer.add(1, "train/loss", 3.0)
    assert list(tmp_path.iterdir()) == []
    assert caplog.records == []
