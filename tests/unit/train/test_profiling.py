"""The profile of a few steps: what it holds, and that it costs nothing but time."""

import json
import logging
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from aam.train.monitoring.profiling import profiled


def train(folder: Path | None, steps: int | None, total: int, first_step: int = 0) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    with profiled(folder, steps, first_step) as profile_step:
        for done in range(total):
            model(torch.randn(4, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profile_step()
            if folder and folder.is_dir() and steps:
                assert (folder / "trace.json").exists() == (done + 1 >= 4 + steps), "at once"
    return [parameter.detach() for parameter in model.parameters()]


def recorded_steps(folder: Path) -> int:
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return len({event["name"] for event in events if event["name"].startswith("ProfilerStep#")})


def test_the_steps_asked_for_are_recorded_and_no_weight_changes(tmp_path):
    weights = train(tmp_path, 3, total=10, first_step=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["summary.txt", "trace.json"]
    assert recorded_steps(tmp_path) == 3
    summary = (tmp_path / "summary.txt").read_text()
    assert summary.startswith("Steps 25 to 27, ")
    by_operation, by_shape = summary.split("By operation and shapes of its inputs")
    assert "aten::addmm" in by_operation
    assert "[5], [4, 6], [6, 5]" in by_shape
    assert "[5], [4, 6], [6, 5]" not in by_operation
    for one, other in zip(weights, train(None, 3, total=10), strict=True):
        assert torch.equal(one, other)


def test_a_run_that_ends_early_leaves_what_was_recorded(tmp_path):
    train(tmp_path, 100, total=6)
    summary = (tmp_path / "summary.txt").read_text()
    assert summary.startswith("Steps 5 to 6, ")
    linear = next(line for line in summary.splitlines() if "aten::addmm" in line)
    assert linear.split()[-1] == "4"
    assert recorded_steps(tmp_path) >= 2


@pytest.mark.parametrize("total", [0, 3, 4])
def test_a_run_too_short_is_told(tmp_path, caplog, total):
    train(tmp_path, 3, total=total)
    assert list(tmp_path.iterdir()) == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"ended after {total} steps" in caplog.text


def test_without_steps_nothing_is_written(tmp_path):
    train(tmp_path, 0, total=8)
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    train(tmp_path / "file", 1, total=8)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
