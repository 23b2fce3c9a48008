"""Where a model predicts and embeds: PyTorch alone, so that a job that trains nothing starts fast.

Lightning Fabric and PyTorch's compiler, which training needs, take as long to import as PyTorch.
"""

import copy
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import torch
from torch import nn

from aam.distributed.processes import Processes, World, claim_accelerator

KERNELS = 256
"""Kernels that oneDNN keeps on a CPU: every shape has its own, and all of them would fill the
memory."""


class InferenceDevice(Processes):
    """A device that computes in fp32 without tf32: results hardly depend on batches.

    Parameters
    ----------
    device
        The device of this process.
    world
        The processes that work together.
    rank
        Number of this process.
    host_group
        The group of processes that exchange values on the host; None: the default one.

    Attributes
    ----------
    device
        The device of this process.
    precision
        What layers compute in.
    """

    def __init__(
        self, device: torch.device, world: World, rank: int = 0, host_group: Any = None
    ) -> None:
        super().__init__(world, rank, host_group)
        self.device = device
        self.precision = "fp32"

    @classmethod
    def claim(cls, threads: int) -> "InferenceDevice":
        """Claim a device for this process, which works without others.

        Parameters
        ----------
        threads
            Threads on the CPU; fewer where a scheduler granted fewer cores.

        Returns
        -------
        InferenceDevice
            An accelerator where there is one, else the CPU.
        """
        limit_kernels(KERNELS)
        limit_threads(threads)
        if torch.cuda.is_available():
            return cls(torch.device("cuda", claim_accelerator()), World())
        return cls(torch.device("cpu"), World())

    def alone(self) -> Self:
        """Return the same device for what this process does without the others.

        Returns
        -------
        InferenceDevice
            A copy, which exchanges nothing.
        """
        same = copy.copy(self)
        same.world = World()
        same.rank = 0
        same._host_group = None
        return same

    @contextmanager
    def inference(self, model: nn.Module) -> Iterator[None]:
        """Run the block in the device's arithmetic, uncompiled, without gradients and dropout.

        Parameters
        ----------
        model
            Model, which is moved to the device. After the block it returns to the mode, training or
            evaluation, that it had before.
        """
        was_training = model.training
        model.to(self.device).eval()
        try:
            with torch.inference_mode(), self._arithmetic(), _uncompiled():
                yield
        finally:
            model.train(was_training)

    def _arithmetic(self) -> AbstractContextManager[None]:
        """Return what runs a block with exact products."""
        return _exact_products()

    @property
    def name(self) -> str:
        """Name of the device for records, and of how many there are."""
        device_name = f"cpu, {torch.get_num_threads()} threads"
        if self.device.type == "cuda":
            device_name = torch.cuda.get_device_name(self.device)
        if self.processes == 1:
            return device_name
        return f"{self.processes} x {device_name} ({self.world.strategy})"


def limit_kernels(kernels: int) -> None:
    """Set how many kernels oneDNN keeps, unless the environment says otherwise.

    Parameters
    ----------
    kernels
        Largest number.
    """
    # oneDNN reads these variables when it makes its first kernel.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(kernels))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(KERNELS))


def limit_threads(threads: int) -> None:
    """Set the number of threads, within the cores that this process may use.

    Parameters
    ----------
    threads
        Largest number.
    """
    # A scheduler may grant fewer cores than the job was planned with.
    granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    torch.set_num_threads(max(1, min(threads, granted)))


@contextmanager
def _exact_products() -> Iterator[None]:
    """Run the block without tf32."""
    product_precision = torch.get_float32_matmul_precision()
    recurrent_tf32 = torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = recurrent_tf32
        torch.set_float32_matmul_precision(product_precision)


def _uncompiled() -> AbstractContextManager[Any]:
    """Return what runs a block without compiled blocks.

    Their graphs would overwrite each other's results. Where nothing has imported the compiler,
    nothing is compiled, and it need not be imported, which takes a second.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
