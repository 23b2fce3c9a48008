"""Where and in which arithmetic a model runs: the only module that knows Lightning Fabric."""

import copy
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from torch import Tensor, nn, optim

logger = logging.getLogger(__name__)
_MIXED: dict[str, Any] = {"bf16": "bf16-mixed", "fp16": "16-mixed"}


class _Autocast(MixedPrecision):
    """Autocast alone: Fabric would also round counts, distances, targets and embeddings."""

    def convert_input(self, data: Any) -> Any:
        return data


class Devices:
    """One device with one precision.

    Parameters
    ----------
    precision
        ``fp32``; ``tf32``: fp32 with products of 10-bit mantissas where the accelerator has them;
        ``bf16``; ``fp16`` with scaled gradients. Weights stay fp32 in all of them.
    threads
        Cores granted to this process.
    deterministic
        Only algorithms with bit-identical reruns on an accelerator; a CPU has no others.
    """

    def __init__(self, precision: str, threads: int, *, deterministic: bool = False) -> None:
        # On a CPU every shape has bf16 kernels of its own; kept, they would fill the memory.
        for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
            os.environ.setdefault(cache, "256")
        torch.set_num_threads(max(1, threads))
        logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
        if precision == "fp16" and not torch.cuda.is_available():
            logger.warning("precision fp16 needs an accelerator: training in bf16")
            precision = "bf16"
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(deterministic)
        self.precision = precision
        kind, mixed = "cuda" if torch.cuda.is_available() else "cpu", _MIXED.get(precision)
        plugins: Any = [_Autocast(mixed, kind)] if mixed else None
        self._fabric = Fabric(accelerator="auto", devices=1, plugins=plugins)
        self._first_scaling = self.scaling()
        self._is_exact = False

    def exact(self) -> "Devices":
        """Return the same device for inference in fp32, whatever the arithmetic of training.

        What one table's batches give is then what another table's give, but for the last bits.
        """
        same = copy.copy(self)
        same.precision, same._is_exact = "fp32", True
        return same

    @property
    def device(self) -> torch.device:
        """The device."""
        return self._fabric.device

    def setup(self, model: nn.Module, optimizer: optim.Optimizer) -> tuple[nn.Module, Any]:
        """Return the model and the optimizer, moved to the device and wrapped for training."""
        self.restore_scaling(self._first_scaling)
        return self._fabric.setup(model, optimizer)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        self._fabric.backward(loss)

    def clip(self, model: nn.Module, optimizer: Any, largest_norm: float) -> Tensor:
        """Scale the gradients down to a largest norm; return the norm before, unread."""
        norm = self._fabric.clip_gradients(
            model, optimizer, max_norm=largest_norm, error_if_nonfinite=False
        )
        assert norm is not None
        # The scaler leaves out a step that overflowed, and goes on with a smaller scale.
        return norm.nan_to_num(nan=0.0, posinf=0.0) if self.precision == "fp16" else norm

    def scaling(self) -> dict[str, Any]:
        """Return the state of the gradients' scale: empty but in fp16."""
        return self._fabric.strategy.precision.state_dict()

    def restore_scaling(self, state: dict[str, Any]) -> None:
        """Go on with the scale that `scaling` returned."""
        self._fabric.strategy.precision.load_state_dict(state)

    @contextmanager
    def inference(self, model: nn.Module) -> Iterator[None]:
        """Run the block in the device's arithmetic, without gradients and without dropout."""
        was_training, products = model.training, torch.get_float32_matmul_precision()
        model.to(self.device).eval()
        arithmetic = nullcontext() if self._is_exact else self._fabric.autocast()
        try:
            if self._is_exact:
                torch.set_float32_matmul_precision("highest")
            with torch.inference_mode(), arithmetic:
                yield
        finally:
            torch.set_float32_matmul_precision(products)
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
