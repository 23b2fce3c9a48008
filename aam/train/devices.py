"""Where and in which arithmetic a model runs: the only module that knows Lightning Fabric."""

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn, optim

_PRECISION: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed"}


class Devices:
    """One device with one precision.

    Parameters
    ----------
    precision
        ``fp32`` or ``bf16``; weights stay fp32 in both.
    threads
        Cores granted to this process.
    """

    def __init__(self, precision: str, threads: int) -> None:
        torch.set_num_threads(max(1, threads))
        torch.set_float32_matmul_precision("high")
        logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
        self.precision = precision
        self._fabric = Fabric(accelerator="auto", devices=1, precision=_PRECISION[precision])

    @property
    def device(self) -> torch.device:
        """The device."""
        return self._fabric.device

    def setup(self, model: nn.Module, optimizer: optim.Optimizer) -> tuple[nn.Module, Any]:
        """Return the model and the optimizer, moved to the device and wrapped for training."""
        return self._fabric.setup(model, optimizer)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        self._fabric.backward(loss)

    @contextmanager
    def inference(self, model: nn.Module) -> Iterator[None]:
        """Run the block in the device's arithmetic, without gradients and without dropout."""
        was_training = model.training
        model.to(self.device).eval()
        try:
            with torch.inference_mode(), self._fabric.autocast():
                yield
        finally:
            model.train(was_training)

    def peak_memory_mb(self) -> float:
        """Return the peak memory so far: of the accelerator, or of this process on a CPU."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10

    @property
    def name(self) -> str:
        """Name of the device for records."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"cpu, {torch.get_num_threads()} threads"
