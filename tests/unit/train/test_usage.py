import psutil
import pytest
import torch

from aam.train.memory import meter
from aam.train.memory.meter import (
    MB,
    PeakMemory,
    budget_mb,
    held_mb,
    host_budget_mb,
    is_out_of_memory,
)

CPU = torch.device("cpu")


def test_the_peak_of_a_step_is_seen_and_not_what_is_left_of_it():
    start_mb = held_mb(CPU)
    with PeakMemory(CPU) as measured:
        large = torch.ones(64 * 2**18)
        for _ in range(8):
            large.add_(1.0)
        del large
    assert measured.peak_mb >= start_mb + 40


def test_a_real_failure_of_an_allocation_is_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**56)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_what_a_failed_step_has_left_is_let_go_of():
    class Knot:
        """Holds itself, as an error holds the frames that hold the error."""

        def __init__(self):
            self.held, self.self = torch.ones(64 * 2**18), self

    before_mb = held_mb(CPU)
    Knot()
    meter.recover()
    assert held_mb(CPU) < before_mb + 32


def test_the_budget_is_the_limit_or_most_of_what_is_free(monkeypatch):
    assert host_budget_mb(1.5) == 1536
    monkeypatch.setattr(meter, "cgroup_limits", list)
    assert 0 < host_budget_mb(None) < psutil.virtual_memory().total / MB
    monkeypatch.setattr(meter, "cgroup_limits", lambda: [10**18, 200 * MB])
    assert host_budget_mb(None) == pytest.approx(180)


def test_the_threshold_is_a_fraction_of_what_an_accelerator_has_free(monkeypatch):
    monkeypatch.setattr(meter, "cgroup_limits", lambda: [200 * MB])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (300 * MB, 900 * MB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100 * MB)
    assert budget_mb(None, torch.device("cuda"), threshold=0.5) == 200
    assert budget_mb(1.5, torch.device("cuda"), threshold=0.5) == 1536
    assert budget_mb(None, CPU, threshold=0.5) == pytest.approx(180)


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        (
            "0::/job/step\n",
            {"job/memory.max": "4096\n", "job/step/memory.max": "max\n", "memory.max": "9999"},
            {4096, 9999},
        ),
        ("0::/only/on/the/host\n", {"memory.max": "5000\n"}, {5000}),
        (
            "5:devices:/x\n4:memory:/slurm/job\n1:cpu,memory2:/y\n",
            {
                "memory/slurm/job/memory.limit_in_bytes": "1000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "x/memory.limit_in_bytes": "1\n",
            },
            {1000, 9223372036854771712},
        ),
        (None, {}, set()),
    ],
)
def test_limits_of_control_groups_are_found(tmp_path, groups, files, limits):
    named = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": groups, **named}.items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    assert set(meter.cgroup_limits(tmp_path)) == limits
