"""What this machine computes on, and the precisions that it has fast instructions for."""

import torch


def has_fast_bf16() -> bool:
    """Return whether this CPU multiplies bf16 faster than fp32.

    Without instructions for bf16 it takes 40 times as long; on Intel without AMX, 1.7 times.

    Returns
    -------
    bool
        False also where oneDNN is not available.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    capabilities = torch.cpu.get_capabilities()
    is_intel = capabilities.get("cpu_name", "").startswith("Intel")
    if is_intel and not capabilities.get("amx_bf16"):
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_tf32(device: torch.device) -> bool:
    """Return whether a device has units for tf32.

    Parameters
    ----------
    device
        An accelerator, or the CPU, which has none.

    Returns
    -------
    bool
        True on CUDA devices from compute capability 8.0 on.
    """
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def hardware_name() -> str:
    """Return the name of what is computed on here.

    Returns
    -------
    str
        Name of the accelerator, or else of the kind of CPU.
    """
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return str(torch.cpu.get_capabilities().get("cpu_name", "cpu"))
