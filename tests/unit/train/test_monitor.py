"""What a run takes, with a clock that the test moves and a driver that it plays."""

import logging
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from aam.train.monitoring.monitor import GPU, Monitor

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Return a clock whose `wall` and `cpu` only the test moves."""
    clock = SimpleNamespace(wall=0.0, cpu=0.0)
    times = SimpleNamespace(perf_counter=lambda: clock.wall, process_time=lambda: clock.cpu)
    monkeypatch.setattr("aam.train.monitoring.monitor.time", times)
    return clock


@pytest.fixture
def asleep(monkeypatch) -> None:
    """Keep the thread from taking samples."""
    monkeypatch.setattr("aam.train.monitoring.monitor.SAMPLE_EVERY_S", 1e6)


class Driver:
    """Stands for pynvml with one GPU."""

    class NVMLError(Exception):
        pass

    def __init__(self, handle="GPU-1234", *, starts=True, has_utilisation=True) -> None:
        self.handle, self.starts, self.has_utilisation = handle, starts, has_utilisation
        self.utilisation = 80
        self.open = self.asked = 0
        self.asked_thrice = threading.Event()

    def nvmlInit(self) -> None:
        if not self.starts:
            raise self.NVMLError("no driver")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != self.handle:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):
        if not self.has_utilisation:
            raise self.NVMLError("not supported")
        self.asked += 1
        if self.asked == 3:
            self.asked_thrice.set()
        return SimpleNamespace(gpu=self.utilisation)

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=3 * 2**30)

    def nvmlDeviceGetPowerUsage(self, handle) -> int:
        return 412_000


@pytest.fixture
def install(monkeypatch):
    """Return the function that puts a driver in the place of pynvml."""
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234")
    )
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 5 * 2**30)

    def put(driver):
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        return driver

    return put


def train(monitor: Monitor, clock: SimpleNamespace, loading_s: float, working_s: float) -> None:
    def batches():
        for _ in range(5):
            clock.wall += loading_s
            yield "batch"

    for batch in monitor.timed(batches()):
        assert batch == "batch"
        clock.wall += working_s
        clock.cpu += 2 * working_s
        monitor.step(8)


def test_an_interval_has_what_came_since_the_last_reading_and_pauses_are_left_out(clock, asleep):
    with Monitor(CPU) as monitor:
        train(monitor, clock, 1.0, 3.0)
        with monitor.pause():
            clock.wall += 100
        values = monitor.read_and_reset()
        assert values["samples_per_s"] == pytest.approx(2)
        assert values["step_s"] == pytest.approx(4)
        assert values["loading_share"] == pytest.approx(0.25)
        assert values["cpu_cores"] == pytest.approx(30 / 120)
        train(monitor, clock, 0.0, 1.0)
        values = monitor.read_and_reset()
        assert (values["samples_per_s"], values["loading_share"]) == (8, 0)
        assert values["cpu_cores"] == pytest.approx(2)
        assert monitor.read_and_reset()["samples_per_s"] is None
        summary = monitor.summary()
    assert summary["samples_per_s"] == pytest.approx(80 / 25)
    assert summary["loading_share"] == pytest.approx(5 / 25)
    assert summary["cpu_cores"] == pytest.approx(40 / 125)


def test_memory_follows_the_process_and_the_peak_stays(asleep):
    with Monitor(CPU) as monitor:
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
    assert [after[name] for name in GPU] == [None] * 3


def test_the_accelerator_is_sampled_while_the_run_goes_on(install, monkeypatch):
    driver = install(Driver())
    monkeypatch.setattr("aam.train.monitoring.monitor.SAMPLE_EVERY_S", 0.001)

    def broken() -> None:
        with Monitor(CUDA):
            assert driver.asked_thrice.wait(30)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert driver.open == 0
    assert "monitor" not in [thread.name for thread in threading.enumerate()]


def test_readings_of_the_accelerator_are_means(install, asleep):
    driver = install(Driver())
    with Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
        assert [values[name] for name in GPU] == [80, 3072, 412]
        assert values["peak_memory_mb"] == 5120
        driver.utilisation = 20
        monitor.read_and_reset()
        assert monitor.summary()["gpu_utilisation"] == pytest.approx(50)


def test_a_part_of_an_accelerator_gives_what_it_supports(install, asleep):
    install(Driver("MIG-1234", has_utilisation=False))
    with Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
    assert [values[name] for name in GPU] == [None, 3072, 412]


@pytest.mark.parametrize("driver", [None, Driver(starts=False), Driver("GPU-5")])
def test_without_driver_or_module_the_run_goes_on(install, asleep, caplog, driver):
    install(driver)
    with caplog.at_level(logging.DEBUG, "aam"), Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
    assert [values[name] for name in GPU] == [None] * 3
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
