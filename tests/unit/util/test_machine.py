"""Whether there is a GPU, by the files of its drivers, and the memory of this process."""

import platform
from pathlib import Path

import pytest

from aam.util.machine import accelerated, peak_memory_mb


@pytest.fixture(autouse=True)
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")


@pytest.mark.parametrize("name", ["nvidia0", "nvgpu", "kfd", "dxg"])
def test_drivers_leave_a_device(tmp_path: Path, name: str) -> None:
    (tmp_path / "null").touch()
    assert not accelerated(tmp_path)
    (tmp_path / name).touch()
    assert accelerated(tmp_path)


def test_a_driver_without_a_device_is_none(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert not accelerated(tmp_path)


def test_apples_own_processors_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    for machine, has_one in (("arm64", True), ("x86_64", False)):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert accelerated(tmp_path) == has_one


def test_the_peak_is_of_this_process_and_stays() -> None:
    before = peak_memory_mb()
    grown = b"x" * int(2**20 * (before + 32))
    assert peak_memory_mb() > before + 30, len(grown)
