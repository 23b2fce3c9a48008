"""What this machine and its processes tell, without the seconds that importing PyTorch takes."""

import os
import re
import resource
import sys
import threading
import time
from pathlib import Path

DRIVER_FILES = ("nvidia[0-9]*", "nvgpu", "kfd", "dxg")
"""Devices of the drivers of NVIDIA, also Jetson's, of AMD, and of Windows' Linux. Apple's GPUs are
not used."""
RSS_UNITS_PER_MB = 2**20 if sys.platform == "darwin" else 2**10
"""Units of the kernel's `ru_maxrss`."""
PARENT_CHECKED_EVERY_S = 1.0


def accelerated(folder: Path = Path("/dev")) -> bool:
    """Return whether there is a GPU, or in doubt its driver.

    Parameters
    ----------
    folder
        Folder with the device files of the system.
    """
    return any(any(folder.glob(name)) for name in DRIVER_FILES)


def peak_memory_mb() -> float:
    """Return the most resident memory that this process has had, in MB of 2^20 bytes."""
    status = Path("/proc/self/status")
    # The kernel's `ru_maxrss` of a process begins with that of the process that started it.
    if status.is_file():
        peak = re.search(r"VmHWM:\s+(\d+)", status.read_text("ascii"))
        if peak is not None:
            return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / RSS_UNITS_PER_MB


def end_with(parent: int) -> None:
    """End this process at once when the one that started it is gone.

    Parameters
    ----------
    parent
        ID of the process that started this one. The parent passes it: it may be gone before this
        process can ask for it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECKED_EVERY_S)
        # `sys.exit` would end this thread alone.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
