"""What a machine has and what it can do at best, measured in a process of its own."""

from collections.abc import Mapping
from typing import Any

import pynvml
import torch
from torch import nn

from aam.bench import roofline
from aam.distributed.devices import Devices, has_fast_bf16
from aam.train.compilation import compile_blocks


def device(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a machine has.

    Parameters
    ----------
    request
        `threads`, and `compile`: whether the compiler is tried on a CPU.

    Returns
    -------
    dict
        `accelerator` (whether there is one that models run on), `compiles`, `bf16` (whether it is
        fast), `devices` (number of CUDA devices), and `about`: words on the device by name.
    """
    devices = Devices("fp32", request["threads"])
    has_accelerator = devices.device.type != "cpu"
    is_tried = request["compile"] or has_accelerator
    compiles = is_tried and compile_blocks(nn.Module(), "default", devices.device)
    about = {"device": devices.name, "torch": torch.__version__}
    if devices.device.type == "cuda":
        about |= {"cuda": str(torch.version.cuda), "driver": _driver()}
    has_bf16 = has_accelerator or has_fast_bf16()
    return {
        "accelerator": has_accelerator,
        "compiles": compiles,
        "bf16": has_bf16,
        "devices": torch.cuda.device_count(),
        "about": about,
    }


def rates(request: Mapping[str, Any]) -> dict[str, roofline.Rates]:
    """Return the rates of products and copies, by precision.

    Parameters
    ----------
    request
        `threads`, `precisions`, and `width` and `ffn_ratio` of the model.

    Returns
    -------
    dict
        What `aam.bench.roofline.measure` returns.
    """
    return roofline.measure(
        request["precisions"],
        Devices("fp32", request["threads"]).device,
        width=request["width"],
        ffn_ratio=request["ffn_ratio"],
    )


def _driver() -> str:
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown: {error}"
