"""The memory that this process takes, of an accelerator or of the machine."""

import ctypes
import gc
import threading
from types import TracebackType

import psutil
import torch

MB = 2**20
SAMPLED_S = 0.005
"""Seconds between two looks at the memory of a process on a CPU."""
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "ALLOC_FAILED")


class PeakMemory:
    """Peak memory while a block runs; a context manager.

    Parameters
    ----------
    device
        On CUDA the peak of all tensors is read, elsewhere the resident memory of the process is
        sampled.

    Attributes
    ----------
    peak_mb
        The peak, complete when the block is left.
    """

    def __init__(self, device: torch.device) -> None:
        self.peak_mb = 0.0
        self._device = device
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._device.type == "cuda":
            self.peak_mb = torch.cuda.max_memory_allocated(self._device) / MB
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            self._stop.set()
            self._thread.join()
            self._look()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLED_S):
            self._look()

    def _look(self) -> None:
        self.peak_mb = max(self.peak_mb, held_mb(self._device))


def held_mb(device: torch.device) -> float:
    """Return what is held at the moment, in MB: on CUDA by tensors, else by the process."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / MB
    return psutil.Process().memory_info().rss / MB


def release() -> None:
    """Give freed memory back to the system, so that the next measurement begins at the bottom."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    # The GNU C library keeps freed pages until it is told; others have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def recover() -> None:
    """Let go of all that a step has left that ran out of memory."""
    gc.collect()
    release()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that an allocation failed, on an accelerator or a CPU."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        words in str(error) for words in _OUT_OF_MEMORY
    )
