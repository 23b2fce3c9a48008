import psutil
import pytest
import torch

from aam.train.monitoring import memory
from aam.train.monitoring.memory import (
    MB,
    PeakMemory,
    budget_mb,
    cgroup_limits,
    held_mb,
    is_out_of_memory,
    recover,
)


def test_the_peak_of_a_step_is_seen_and_not_what_is_left_of_it():
    process = psutil.Process()
    with PeakMemory(torch.device("cpu")) as measured:
        start_mb = process.memory_info().rss / 2**20
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

    device = torch.device("cpu")
    before_mb = held_mb(device)
    Knot()
    recover()
    assert held_mb(device) < before_mb + 32


def test_a_given_limit_is_the_budget():
    assert budget_mb(1.5, torch.device("cpu")) == 1536


def test_without_a_limit_a_cpu_has_most_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "cgroup_limits", list)
    total_mb = psutil.virtual_memory().total / MB
    assert 0 < budget_mb(None, torch.device("cpu")) < total_mb
    monkeypatch.setattr(memory, "cgroup_limits", lambda: [10**18, 200 * MB])
    assert budget_mb(None, torch.device("cpu")) == pytest.approx(180)


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        (
            "0::/job/step\n",
            {
                "job/memory.max": "4096\n",
                "job/step/memory.max": "max\n",
                "memory.max": "9999",
            },
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
        ("0::/\n", {}, set()),
    ],
)
def test_limits_of_control_groups_are_found(tmp_path, groups, files, limits):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert set(cgroup_limits(tmp_path)) == limits


def test_a_system_without_control_groups_has_no_limits(tmp_path):
    assert cgroup_limits(tmp_path) == []
