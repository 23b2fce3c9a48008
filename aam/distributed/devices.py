"""Where and in which arithmetic a model runs: the only module that knows Lightning Fabric.

Shape suffixes: W processes, N rows.
"""

import copy
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from lightning_fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning_fabric.strategies import DDPStrategy, ModelParallelStrategy
from numpy.typing import NDArray
from torch import Tensor, nn, optim
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from aam.distributed.sharded import free, gather_module
from aam.distributed.world import World, check_granted, claimed
from aam.util.errors import problem

logger = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE = timedelta(days=1)
"""How long processes wait on the host: the first one makes digests of the inputs of all."""
_MIXED: dict[str, Any] = {"bf16": "bf16-mixed", "fp16": "16-mixed"}
KERNELS = 256
"""Kernels that oneDNN keeps on a CPU: every shape has its own, and all of them would fill the
memory."""
MORE_KERNELS = 1024
"""Kernels where there is room, with which a run in bf16 makes fewer of them twice."""
MORE_KERNELS_MB = 500.0
"""Memory that these take in addition to the kernels of one step."""
AUTO = "auto"
"""Precision that `aam.train.precision` chooses by measured steps."""


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
    has = torch.cpu.get_capabilities()
    slow = has.get("cpu_name", "").startswith("Intel") and not has.get("amx_bf16")
    return not slow and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_tf32(device: torch.device) -> bool:
    """Return whether a device has units for tf32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def hardware() -> str:
    """Return the name of what is computed on here.

    Returns
    -------
    str
        Name of the accelerator, or else of the kind of CPU.
    """
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return str(torch.cpu.get_capabilities().get("cpu_name", "cpu"))


class _Autocast(MixedPrecision):
    """Autocast alone: Fabric would also round counts, distances, targets and embeddings."""

    is_on = True
    """Whether layers compute in 16 bits; if not, all is as without this plugin."""

    def forward_context(self) -> AbstractContextManager[None]:
        return super().forward_context() if self.is_on else nullcontext()

    def convert_input(self, data: Any) -> Any:
        return data


class Devices:
    """One device with one precision; with several processes, that of this process.

    Parameters
    ----------
    precision
        As in `Optimization.precision`: ``fp32``, ``tf32``, ``bf16``, ``fp16`` or ``auto``.
    threads
        Threads of this process on the CPU; fewer where a scheduler granted fewer cores.
    deterministic
        Whether only deterministic kernels are used.
    world
        The processes, which torchrun's agent has started; None: this one alone.
    kernels
        How many kernels oneDNN keeps, unless the environment says otherwise.

    Attributes
    ----------
    precision
        What layers compute in at the moment.
    kernels
        How many kernels oneDNN keeps, unless the environment says otherwise.
    is_auto
        Whether the precision is chosen by measurement, and not given.
    is_chosen
        Whether the precision is settled. Until it is, the first of `candidates` is used.

    Raises
    ------
    InputError
        There are fewer accelerators than processes, or fp16 is asked for with sharded weights.
    """

    def __init__(
        self,
        precision: str,
        threads: int,
        *,
        deterministic: bool = False,
        world: World | None = None,
        kernels: int = KERNELS,
    ) -> None:
        self.world = world or World()
        check_granted(self.world)
        self.kernels = kernels
        # oneDNN reads these variables when it makes its first kernel.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(kernels))
        os.environ.setdefault("LRU_CACHE_CAPACITY", str(KERNELS))
        # A scheduler may grant fewer cores than the job was planned with.
        granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
        torch.set_num_threads(max(1, min(threads, granted)))
        logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
        if precision in _MIXED and not torch.cuda.is_available():
            possible = "bf16" if has_fast_bf16() else "fp32"
            if possible != precision:
                logger.warning("this CPU has no fast %s: training in %s", precision, possible)
                precision = possible
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = not deterministic
        torch.use_deterministic_algorithms(deterministic)
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        mixed = _MIXED.get("bf16" if precision == AUTO else precision)
        # The environment is set explicitly: Fabric would otherwise take the processes of any SLURM
        # job for its own.
        several = self.processes > 1
        plugins: list[Any] = [TorchElasticEnvironment() if several else LightningEnvironment()]
        if mixed:
            plugins.append(_Autocast(mixed, kind))
        self._fabric = Fabric(
            accelerator=kind,
            devices=[claimed()] if kind == "cuda" and not several else self.world.devices,
            num_nodes=self.world.nodes,
            strategy=_strategy(self.world, precision),
            plugins=plugins,
        )
        self._precision: Any = self._fabric.strategy.precision
        if precision == "tf32" and not has_tf32(self.device):
            logger.warning("this machine has no tf32: training in fp32")
        self.is_auto = precision == AUTO
        self.is_chosen = not self.is_auto or len(self.candidates) == 1
        self.compute_in(self.candidates[0] if self.is_auto else precision)
        if several:
            self._fabric.launch()
        # Values on the host need a group of their own where the default group is of accelerators.
        self._host: Any = None
        if several and kind == "cuda":
            self._host = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._first_scaling = self.scaling()
        self._is_exact = False

    @property
    def candidates(self) -> tuple[str, ...]:
        """The precisions that `auto` may choose, the most exact one first."""
        if self.device.type == "cuda":
            return ("tf32" if has_tf32(self.device) else "fp32", "bf16")
        return ("fp32", "bf16") if has_fast_bf16() else ("fp32",)

    @property
    def kernels_mb(self) -> float:
        """Memory that the kernels of further shapes will take, which a single step does not."""
        has_more = self.kernels > KERNELS and self.device.type == "cpu"
        return MORE_KERNELS_MB if has_more and self.precision == "bf16" else 0.0

    def compute_in(self, precision: str) -> None:
        """Compute in a precision from now on: the given one, or one of the `candidates`."""
        self.precision = precision
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        # An LSTM's products are those of cuDNN, which has a switch of its own.
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        if isinstance(self._precision, _Autocast):
            self._precision.is_on = precision in _MIXED

    def choose(self, precision: str) -> None:
        """Settle on one of the `candidates`, where the precision was not given."""
        self.compute_in(precision)
        self.is_chosen = True

    def exact(self) -> "Devices":
        """Return the same device for inference in fp32, whose results hardly depend on batches.

        Returns
        -------
        Devices
            A copy. Its method `inference` computes in fp32 without tf32.
        """
        same = copy.copy(self)
        same.precision = "fp32"
        same._is_exact = True
        return same

    @property
    def device(self) -> torch.device:
        """The device."""
        return self._fabric.device

    @property
    def processes(self) -> int:
        """Number of processes that work together."""
        return self.world.processes

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return self._fabric.global_rank if self.processes > 1 else 0

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are sharded among the processes."""
        return self.processes > 1 and self.world.strategy == "fsdp"

    def alone(self) -> "Devices":
        """Return the same device for what this process does without the others."""
        own = copy.copy(self)
        own.world = World()
        own._host = None
        return own

    def setup_model(self, model: nn.Module) -> Any:
        """Return the model, on the device and wrapped for training.

        Parameters
        ----------
        model
            The model. Where weights are sharded it has them in `whole` alone.

        Returns
        -------
        Any
            A wrapper. Its `module` is what learns: the model, or, where weights are sharded, a copy
            that shares the buffers.
        """
        self.restore_scaling(self._first_scaling)
        if not self.is_sharded:
            return self._fabric.setup_module(model)
        model.to(self.device)
        twin = copy.deepcopy(model)
        for path, module in twin.named_modules():
            module._buffers.update(model.get_submodule(path)._buffers)
        free(model)
        return self._fabric.setup_module(twin)

    def setup_optimizer(self, optimizer: optim.Optimizer) -> Any:
        """Return the optimizer of a model that was set up, wrapped for training.

        Parameters
        ----------
        optimizer
            Optimizer over the parameters of the wrapper's `module`.

        Returns
        -------
        Any
            Fabric's wrapper, which the other methods take.
        """
        return self._fabric.setup_optimizers(optimizer)

    @contextmanager
    def whole(self, model: nn.Module, wrapped: Any) -> Iterator[None]:
        """Run the block with all weights in the model, in every process.

        Parameters
        ----------
        model
            The model that `setup_model` was given.
        wrapped
            What it returned.
        """
        self.finish(model, wrapped)
        try:
            yield
        finally:
            if self.is_sharded:
                free(model)

    def finish(self, model: nn.Module, wrapped: Any) -> None:
        """Leave all weights in `model` when training is over, in every process."""
        if self.is_sharded:
            gather_module(model, wrapped.module)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients.

        Parameters
        ----------
        loss
            One number, on the device.
        """
        self._fabric.backward(loss)

    def clip(self, model: nn.Module, optimizer: Any, largest_norm: float) -> Tensor:
        """Scale the gradients down to a largest norm; return the norm before, unread."""
        self._average_unsharded(model)
        norm: Any = self._fabric.clip_gradients(
            model, optimizer, max_norm=largest_norm, error_if_nonfinite=False
        )
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def unscale(self, model: nn.Module, optimizer: Any) -> None:
        """Give the gradients their true size before they are looked at; `clip` does so itself."""
        self._average_unsharded(model)
        self._precision.unscale_gradients(optimizer.optimizer)

    def leave_out(self) -> None:
        """Tell the scaler of fp16, if it has seen gradients, that a step ends without an update."""
        with suppress(AssertionError):
            if self.precision == "fp16":
                self._precision.scaler.update()

    @property
    def loss_scale(self) -> float:
        """What fp16 multiplies losses with, else 1; an accelerator is waited for."""
        return float(self.scaling().get("scale", 1.0))

    def scaling(self) -> dict[str, Any]:
        """Return the state of the gradients' scale: empty but in fp16."""
        return self._precision.state_dict()

    def restore_scaling(self, state: dict[str, Any]) -> None:
        """Go on with the scale that `scaling` returned."""
        self._precision.load_state_dict(state)

    @contextmanager
    def inference(self, model: nn.Module) -> Iterator[None]:
        """Run the block in the device's arithmetic, uncompiled, without gradients and dropout.

        Parameters
        ----------
        model
            Model, which is moved to the device. It returns to its mode of training behind the
            block.
        """
        was_training = model.training
        products = torch.get_float32_matmul_precision()
        model.to(self.device).eval()
        arithmetic = nullcontext() if self._is_exact else self._fabric.autocast()
        recurrent = torch.backends.cudnn.allow_tf32
        try:
            if self._is_exact:
                torch.backends.cudnn.allow_tf32 = False
                torch.set_float32_matmul_precision("highest")
            # Graphs of compiled blocks would overwrite each other's results.
            eager = torch.compiler.set_stance("force_eager")
            with torch.inference_mode(), arithmetic, eager:
                yield
        finally:
            torch.backends.cudnn.allow_tf32 = recurrent
            torch.set_float32_matmul_precision(products)
            model.train(was_training)

    def shard(self, all_N: NDArray[Any]) -> NDArray[Any]:
        """Return every W-th row of an array: those of this process.

        Parameters
        ----------
        all_N
            Rows of all processes.

        Returns
        -------
        numpy.ndarray
            A view of the array.
        """
        return all_N[self.rank :: self.processes]

    def all_gather(self, shard_N: Tensor, number: int) -> Tensor:
        """Return the rows of all processes in their order.

        Parameters
        ----------
        shard_N
            What this process computed for the rows that `shard` chose, on the host.
        number
            Number of rows of all processes.

        Returns
        -------
        torch.Tensor
            All rows, [number, ...].
        """
        if self.processes == 1:
            return shard_N
        most = -(-number // self.processes)
        padded = shard_N.new_zeros(most, *shard_N.shape[1:])
        padded[: len(shard_N)] = shard_N
        all_WN = shard_N.new_empty(self.processes * most, *shard_N.shape[1:])
        dist.all_gather_single(all_WN, padded, group=self._host)
        by_row = all_WN.unflatten(0, (self.processes, most)).transpose(0, 1)
        return by_row.flatten(0, 1)[:number]

    def all_reduce_sum(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of an array of counts over all processes.

        Parameters
        ----------
        counts
            Counts of this process, int64.

        Returns
        -------
        numpy.ndarray
            int64, the same in all processes.
        """
        return self._all_reduce(torch.from_numpy(counts.copy()), dist.ReduceOp.SUM).numpy()

    def all_reduce_min(self, number: int) -> int:
        """Return the smallest number that any process says."""
        return int(self._all_reduce(torch.tensor(number), dist.ReduceOp.MIN))

    def _all_reduce(self, value: Tensor, operation: Any) -> Tensor:
        if self.processes > 1:
            dist.all_reduce(value, operation, group=self._host)
        return value

    def broadcast(self, value: T) -> T:
        """Return what the first process says; no accelerator is waited for.

        Parameters
        ----------
        value
            Plain values. Those of other processes than the first are ignored.

        Returns
        -------
        Any
            The same in all processes.
        """
        if self.processes == 1:
            return value
        said = [value]
        dist.broadcast_object_list(said, 0, group=self._host)
        return said[0]

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.processes > 1:
            dist.barrier(group=self._host)

    @property
    def name(self) -> str:
        """Name of the device for records, and of how many there are."""
        own = f"cpu, {torch.get_num_threads()} threads"
        if self.device.type == "cuda":
            own = torch.cuda.get_device_name(self.device)
        return own if self.processes == 1 else f"{self.processes} x {own} ({self.world.strategy})"

    def _average_unsharded(self, model: Any) -> None:
        """Average the gradients of the parameters that are too small to be sharded, if any is."""
        found = [p.grad for p in model.parameters() if p.grad is not None and p.grad.ndim == 0]
        if found and self.is_sharded:
            together = torch.stack(found)
            dist.all_reduce(together)
            for gradient, mean in zip(found, together / self.processes, strict=True):
                gradient.copy_(mean)


def _strategy(world: World, precision: str) -> Any:
    if world.processes == 1:
        return "auto"
    # Where there are accelerators a group of its own waits on the host. The group of the
    # accelerators keeps its shorter limit, and notices what hangs.
    waiting: dict[str, Any] = {} if torch.cuda.is_available() else {"timeout": PATIENCE}
    if world.strategy == "ddp":
        # The buffers are statistics of the whole batch, which every process computes.
        return DDPStrategy(forward_sync_buffers=False, gradient_as_bucket_view=True, **waiting)
    if precision == "fp16":
        hint = "choose precision bf16, or runtime.strategy ddp"
        raise problem("runtime.strategy", "fsdp with precision fp16", "bf16, tf32 or fp32", hint)
    return ModelParallelStrategy(
        _shard_layers, data_parallel_size=world.processes, tensor_parallel_size=1, **waiting
    )


def _shard_layers(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard the weights of each layer, gathered when it computes, and those outside of layers."""
    processes = mesh["data_parallel"]
    scalars = {parameter for parameter in model.parameters() if parameter.ndim == 0}
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for module in [*(layer for layers in stacks for layer in layers), model]:
        fully_shard(module, mesh=processes, ignored_params=scalars)
    return model
