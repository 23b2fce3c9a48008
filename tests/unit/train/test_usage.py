import psutil
import pytest
import torch

from aam.train.monitoring.memory import PeakMemory, held_mb, is_out_of_memory, recover


def test_the_peak_of_a_step_is_seen_and_not_what_is_left_of_it():
    process = psutil.Process()
    with PeakMemory(torch.device("cpu")) as memory:
        start_mb = process.memory_info().rss / 2**20
        large = torch.ones(64 * 2**18)
        for _ in range(8):
            large.add_(1.0)
        del large
    assert memory.peak_mb >= start_mb + 40


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
