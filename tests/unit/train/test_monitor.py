"""What a run takes, with a clock and a driver that the test plays; the profile of some steps."""

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pynvml import NVMLError
from torch import Tensor, nn

from aam.train.monitoring.monitor import GPU, Monitor, profile_steps

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MODULE = "aam.train.monitoring.monitor"


@pytest.fixture
def asleep(monkeypatch) -> None:
    """Keep the thread from taking samples."""
    monkeypatch.setattr(f"{MODULE}.SAMPLE_EVERY_S", 1e6)


def test_an_interval_has_what_came_since_the_last_reading(asleep, monkeypatch):
    clock = SimpleNamespace(wall=0.0, cpu=0.0)
    times = SimpleNamespace(perf_counter=lambda: clock.wall, process_time=lambda: clock.cpu)
    monkeypatch.setattr(f"{MODULE}.time", times)

    def train(monitor: Monitor, loading_s: float, working_s: float) -> None:
        def batches():
            for _ in range(5):
                clock.wall += loading_s
                yield "batch"

        for batch in monitor.time_loading(batches()):
            assert batch == "batch"
            clock.wall += working_s
            clock.cpu += 2 * working_s
            monitor.step(8)

    with Monitor(CPU, threshold=0.8) as monitor:
        train(monitor, 1.0, 3.0)
        with monitor.pause():
            clock.wall += 100
        values = monitor.read_and_reset()
        assert values["samples_per_s"] == pytest.approx(2), "pauses are left out"
        assert values["step_s"] == pytest.approx(4)
        assert values["loading_share"] == pytest.approx(0.25)
        assert values["cpu_cores"] == pytest.approx(30 / 120)
        train(monitor, 0.0, 1.0)
        values = monitor.read_and_reset()
        assert (values["samples_per_s"], values["loading_share"]) == (8, 0)
        assert values["cpu_cores"] == pytest.approx(2)
        assert monitor.read_and_reset()["samples_per_s"] is None
        summary = monitor.summary()
    assert summary["samples_per_s"] == pytest.approx(80 / 25)
    assert summary["loading_share"] == pytest.approx(5 / 25)
    assert summary["cpu_cores"] == pytest.approx(40 / 125)


def test_memory_follows_the_process_and_the_peak_stays(asleep):
    with Monitor(CPU, threshold=0.8) as monitor:
        before = monitor.read_and_reset()
        block = np.ones(100 * 2**17)
        during = monitor.read_and_reset()
        assert during["memory_mb"] - before["memory_mb"] == pytest.approx(100, abs=10)
        del block
        after = monitor.read_and_reset()
    assert after["memory_mb"] < during["memory_mb"] - 50
    assert after["peak_memory_mb"] >= during["memory_mb"]
    three = [values["memory_mb"] for values in (before, during, after)]
    assert monitor.summary()["memory_mb"] == pytest.approx(np.mean(three))


@pytest.fixture
def accelerator(monkeypatch) -> dict[str, Callable]:
    """Play the driver of one GPU; return what it says of it, to be changed."""
    driver = {
        "utilization": lambda: 80,
        "mem_get_info": lambda: (2 * 2**30, 5 * 2**30),
        "power_draw": lambda: 412_000,
        "max_memory_allocated": lambda: 5 * 2**30,
    }
    for name in driver:
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name: driver[name]())
    return driver


def test_the_accelerator_is_sampled_until_the_run_breaks(accelerator, monkeypatch):
    sampled = threading.Semaphore(0)
    accelerator["power_draw"] = lambda: sampled.release() or 412_000
    monkeypatch.setattr(f"{MODULE}.SAMPLE_EVERY_S", 0.001)

    def run_and_break() -> None:
        with Monitor(CUDA, threshold=0.8):
            assert all(sampled.acquire(timeout=30) for _ in range(3))
            raise KeyError

    with pytest.raises(KeyError):
        run_and_break()
    assert "monitor" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("error", [NVMLError(1), RuntimeError("no driver"), ModuleNotFoundError()])
def test_readings_are_means_without_what_cannot_be_read(accelerator, asleep, error):
    def fail() -> None:
        raise error

    with Monitor(CUDA, threshold=0.8) as monitor:
        values = monitor.read_and_reset()
        assert [values[name] for name in GPU] == [80, 3072, 412]
        assert values["peak_memory_mb"] == 5120
        accelerator |= {"utilization": lambda: 20, "power_draw": fail}
        assert monitor.read_and_reset()["gpu_power_w"] is None
        accelerator["utilization"] = fail
        monitor.read_and_reset()
        summary = monitor.summary()
        assert [summary[name] for name in GPU] == [50, 3072, 412]
        assert [summary[f"{name}_peak"] for name in GPU] == [80, 3072, 412]


def train(folder: Path | None, steps: int | None, total: int, first_step: int = 0) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile_steps(folder, steps, first_step) as profile_step:
        for done in range(total):
            model(torch.randn(4, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profile_step()
            if folder and folder.is_dir() and steps:
                assert (folder / "trace.json").exists() == (done + 1 >= 4 + steps), "at once"
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("steps", "total", "heading", "products"),
    [(3, 10, "Steps 25 to 27, ", 6), (100, 6, "Steps 25 to 26, ", 4)],
    ids=["whole", "ended early"],
)
def test_the_steps_asked_for_are_recorded_and_no_weight_changes(
    tmp_path, steps, total, heading, products
):
    weights = train(tmp_path, steps, total, first_step=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["summary.txt", "trace.json"]
    names = {
        event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    assert sum(name.startswith("ProfilerStep#") for name in names) >= products // 2
    summary = (tmp_path / "summary.txt").read_text()
    assert summary.startswith(heading)
    by_operation, by_shape = summary.split("By operation and shapes of its inputs")
    linear = next(line for line in by_operation.splitlines() if "aten::addmm" in line)
    assert linear.split()[-1] == str(products)
    assert "[5], [4, 6], [6, 5]" in by_shape
    for one, other in zip(weights, train(None, 3, total), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "steps", "total", "said"),
    [
        ("new", 3, 0, ["nothing profiled: the run ended after 0 steps"]),
        ("new", 3, 4, ["nothing profiled: the run ended after 4 steps"]),
        ("new", 0, 8, []),
        ("file", 1, 8, ["the profile could not be written"]),
    ],
)
def test_what_is_not_written_costs_one_warning(tmp_path, caplog, name, steps, total, said):
    (tmp_path / "file").write_text("")
    train(tmp_path / name, steps, total)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [text[: len(words)] for text, words in zip(warned, said, strict=True)] == said
