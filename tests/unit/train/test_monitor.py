"""What a run takes, with a clock that the test moves and a driver that it plays."""

import logging
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from aam.train.monitoring.monitor import Monitor

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
GPU = ("gpu_utilisation", "gpu_memory_mb", "gpu_power_w")


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

    def __init__(self, handles=("GPU-1234",), unsupported=()) -> None:
        self.handles, self.unsupported = handles, unsupported
        self.utilisation = 80
        self.open = 0
        self.asked_thrice, self.asked = threading.Event(), 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.handles:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):
        if "utilisation" in self.unsupported:
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


def test_pace_and_share_of_loading_leave_pauses_out(clock, asleep):
    with Monitor(CPU) as monitor:
        train(monitor, clock, 1.0, 3.0)
        with monitor.pause():
            clock.wall += 100
        values = monitor.read_and_reset()
        assert values["samples_per_s"] == pytest.approx(2)
        assert values["step_s"] == pytest.approx(4)
        assert values["loading_share"] == pytest.approx(0.25)
        assert values["cpu_cores"] == pytest.approx(30 / 120)


def test_an_interval_holds_what_came_since_the_last_reading(clock, asleep):
    with Monitor(CPU) as monitor:
        train(monitor, clock, 1.0, 3.0)
        monitor.read_and_reset()
        train(monitor, clock, 0.0, 1.0)
        values = monitor.read_and_reset()
        assert (values["samples_per_s"], values["loading_share"]) == (8, 0)
        assert values["cpu_cores"] == pytest.approx(2)
        assert monitor.read_and_reset()["samples_per_s"] is None
    clock.wall += 1000
    summary = monitor.summary()
    assert summary["samples_per_s"] == pytest.approx(80 / 25)
    assert summary["loading_share"] == pytest.approx(5 / 25)
    assert summary["cpu_cores_mean"] == pytest.approx(40 / 25)


def test_loading_counts_even_when_it_breaks(clock, asleep):
    def broken(monitor: Monitor) -> None:
        with monitor.loading():
            clock.wall += 3
            raise KeyError

    with Monitor(CPU) as monitor:
        with pytest.raises(KeyError):
            broken(monitor)
        clock.wall += 1
        monitor.step(1)
        assert monitor.read_and_reset()["loading_share"] == pytest.approx(0.75)


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
    summary = monitor.summary()
    assert summary["memory_mb_peak"] == pytest.approx(during["memory_mb"])
    assert summary["memory_mb_mean"] < summary["memory_mb_peak"] <= summary["peak_memory_mb"]


def test_without_an_accelerator_its_values_are_none(asleep):
    with Monitor(CPU) as monitor:
        values = monitor.read_and_reset()
    assert [values[name] for name in GPU] == [None] * 3
    assert [monitor.summary()[f"{name}_peak"] for name in GPU] == [None] * 3


def test_the_accelerator_is_sampled_while_the_run_goes_on(install, monkeypatch):
    driver = install(Driver())
    monkeypatch.setattr("aam.train.monitoring.monitor.SAMPLE_EVERY_S", 0.001)
    with Monitor(CUDA):
        assert driver.asked_thrice.wait(30)
    assert driver.open == 0


def test_readings_of_the_accelerator_are_means_and_peaks(install, asleep):
    driver = install(Driver())
    with Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
        assert [values[name] for name in GPU] == [80, 3072, 412]
        assert values["peak_memory_mb"] == 5120
        driver.utilisation = 20
    summary = monitor.summary()
    assert summary["gpu_utilisation_mean"] == pytest.approx(50)
    assert summary["gpu_utilisation_peak"] == 80


def test_a_part_of_an_accelerator_gives_what_it_supports(install, asleep):
    install(Driver(handles=("MIG-1234",), unsupported=("utilisation",)))
    with Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
    assert [values[name] for name in GPU] == [None, 3072, 412]


class NoDriver(Driver):
    def nvmlInit(self) -> None:
        raise self.NVMLError("no driver")


@pytest.mark.parametrize("driver", [None, NoDriver(), Driver(handles=())])
def test_without_driver_or_module_the_run_goes_on(install, asleep, caplog, driver):
    install(driver)
    with caplog.at_level(logging.DEBUG, "aam"), Monitor(CUDA) as monitor:
        values = monitor.read_and_reset()
    assert [values[name] for name in GPU] == [None] * 3
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_no_thread_outlives_the_block():
    def broken() -> None:
        with Monitor(CPU):
            assert "monitor" in [thread.name for thread in threading.enumerate()]
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert "monitor" not in [thread.name for thread in threading.enumerate()]
