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
def test_a_resumed_run_has_one_curve(tmp_path, first_step):
    with closing(CurveWriter(tmp_path, 0)) as writer:
        for step in range(1, 7):
            writer.add(step, "train/loss", 1.0)
    with closing(CurveWriter(tmp_path, first_step)) as writer:
        for step in range(first_step + 1, 10):
            writer.add(step, "train/loss", 2.0)
    expected = [(step, 1.0 if step <= first_step else 2.0) for step in range(1, 10)]
    assert curves(tmp_path) == {"train/loss": expected}


def test_a_new_run_takes_the_place_of_an_older_one_and_of_nothing_else(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    with closing(CurveWriter(tmp_path, 0)) as writer:
        writer.add(1, "train/loss", 1.0)
        writer.add(2, "train/faith_pd_loss", 1.0)
    with closing(CurveWriter(tmp_path, 0)) as writer:
        writer.add(3, "train/loss", 2.0)
    assert curves(tmp_path) == {"train/loss": [(3, 2.0)]}
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with closing(CurveWriter(None, 0)) as writer:
        writer.add(1, "train/loss", 3.0)
    assert list(tmp_path.iterdir()) == []
    assert caplog.records == []


def test_without_the_package_there_is_one_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with closing(CurveWriter(tmp_path / "curves", 0)) as writer:
        writer.add(1, "train/loss", 3.0)
        writer.add(2, "train/loss", 3.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert not (tmp_path / "curves").exists()


def test_a_folder_that_cannot_be_made_costs_the_curves_only(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with closing(CurveWriter(tmp_path / "file", 0)) as writer:
        writer.add(1, "train/loss", 3.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_full_disk_costs_the_curves_only(tmp_path, monkeypatch, caplog):
    def full(*arguments) -> None:
        raise OSError("no space left on device")

    with closing(CurveWriter(tmp_path, 0)) as writer:
        writer.add(1, "train/loss", 3.0)
        monkeypatch.setattr(SummaryWriter, "add_scalar", full)
        writer.add(2, "train/loss", 3.0)
        writer.add(3, "train/loss", 3.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no space left" in caplog.text
