"""Whether this machine has a GPU, told without the seconds that importing PyTorch takes."""

import platform
from pathlib import Path

DEVICES = ("nvidia[0-9]*", "nvgpu", "kfd", "dxg")
"""Files of the drivers of NVIDIA, also Jetson's, of AMD, and of Windows' Linux."""


def accelerated(folder: Path = Path("/dev")) -> bool:
    """Return whether there is a GPU, or in doubt its driver.

    Parameters
    ----------
    folder
        Where the system keeps its devices.
    """
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    return apple or any(any(folder.glob(name)) for name in DEVICES)
