"""Where and in which arithmetic a model learns: the only module that knows Lightning Fabric."""

import copy
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from lightning_fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning_fabric.strategies import DDPStrategy, ModelParallelStrategy
from torch import Tensor, nn, optim
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from aam.distributed.inference_device import (
    KERNELS,
    InferenceDevice,
    limit_kernels,
    limit_threads,
)
from aam.distributed.processes import World, check_granted, claim_accelerator
from aam.distributed.sharded_weights import free_weights, gather_module
from aam.util.errors import problem

logger = logging.getLogger(__name__)
PATIENCE = timedelta(days=1)
"""How long processes wait on the host: the first one makes digests of the inputs of all."""
_MIXED: dict[str, Any] = {"bf16": "bf16-mixed", "fp16": "16-mixed"}
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


class _Autocast(MixedPrecision):
    """Autocast alone: Fabric would also round counts, distances, targets and embeddings."""

    is_active = True
    """Whether layers compute in 16 bits; if not, all is as without this plugin."""

    def forward_context(self) -> AbstractContextManager[None]:
        return super().forward_context() if self.is_active else nullcontext()

    def convert_input(self, data: Any) -> Any:
        return data


class Devices(InferenceDevice):
    """One device with one precision; with several processes, the device of this process.

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
        world = world or World()
        check_granted(world)
        self.kernels = kernels
        limit_kernels(kernels)
        limit_threads(threads)
        logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
        precision = _possible_precision(precision)
        _set_deterministic(deterministic)
        self._fabric = _make_fabric(world, precision)
        super().__init__(self._fabric.device, world)
        self._precision: Any = self._fabric.strategy.precision
        if precision == "tf32" and not has_tf32(self.device):
            logger.warning("this machine has no tf32: training in fp32")
        self.is_auto = precision == AUTO
        self.is_chosen = not self.is_auto or len(self.candidates) == 1
        self.compute_in(self.candidates[0] if self.is_auto else precision)
        if self.processes > 1:
            self._join_processes()
        # fp16's scale changes in the course of a run. The next model on these devices begins with
        # the first one, as it would in a process of its own.
        self._first_scaling = self.scaling()

    def _join_processes(self) -> None:
        """Meet the other processes, which torchrun's agent has started."""
        self._fabric.launch()
        self.rank = self._fabric.global_rank
        if self.device.type == "cuda":
            # The default group is one of accelerators: values on the host need another one.
            self._host_group = dist.new_group(backend="gloo", timeout=PATIENCE)

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
        """Compute in a precision from now on.

        Parameters
        ----------
        precision
            The precision that was given, or one of the `candidates`.
        """
        self.precision = precision
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        # An LSTM's products are those of cuDNN, which has a switch of its own.
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        if isinstance(self._precision, _Autocast):
            self._precision.is_active = precision in _MIXED

    def choose(self, precision: str) -> None:
        """Settle the precision, where it was not given.

        Parameters
        ----------
        precision
            One of the `candidates`.
        """
        self.compute_in(precision)
        self.is_chosen = True

    def exact(self) -> InferenceDevice:
        """Return the same device for inference in fp32, whose results hardly depend on batches.

        Returns
        -------
        InferenceDevice
            The device, with the same processes. Its method `inference` computes without tf32.
        """
        return InferenceDevice(self.device, self.world, self.rank, self._host_group)

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are sharded among the processes."""
        return self.processes > 1 and self.world.strategy == "fsdp"

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
        free_weights(model)
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
                free_weights(model)

    def finish(self, model: nn.Module, wrapped: Any) -> None:
        """Leave all weights in the model when training is over, in every process.

        Parameters
        ----------
        model
            The model that `setup_model` was given.
        wrapped
            What it returned.
        """
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
        """Scale the gradients down to a largest norm.

        Parameters
        ----------
        model
            The model as `setup_model` returned it.
        optimizer
            Its optimizer as `setup_optimizer` returned it.
        largest_norm
            Largest norm of all gradients together.

        Returns
        -------
        torch.Tensor
            Norm before, on the device, so that nothing waits for it.
        """
        self._average_unsharded(model)
        norm: Any = self._fabric.clip_gradients(
            model, optimizer, max_norm=largest_norm, error_if_nonfinite=False
        )
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def unscale(self, model: nn.Module, optimizer: Any) -> None:
        """Give the gradients their true size before they are looked at; `clip` does so itself.

        Parameters
        ----------
        model
            The model as `setup_model` returned it.
        optimizer
            Its optimizer as `setup_optimizer` returned it.
        """
        self._average_unsharded(model)
        self._precision.unscale_gradients(optimizer.optimizer)

    def leave_out(self) -> None:
        """End a step without an update, for the scaler of fp16."""
        # A scaler that has seen no gradients refuses the call.
        with suppress(AssertionError):
            if self.precision == "fp16":
                self._precision.scaler.update()

    @property
    def loss_scale(self) -> float:
        """What fp16 multiplies losses with, else 1; an accelerator is waited for."""
        return float(self.scaling().get("scale", 1.0))

    def scaling(self) -> dict[str, Any]:
        """Return the state of the gradients' scale, empty in other precisions than fp16."""
        return self._precision.state_dict()

    def restore_scaling(self, state: dict[str, Any]) -> None:
        """Go on with a scale of the gradients.

        Parameters
        ----------
        state
            What `scaling` returned.
        """
        self._precision.load_state_dict(state)

    def _arithmetic(self) -> AbstractContextManager[None]:
        """Return what runs a block in the precision of training."""
        return self._fabric.autocast()

    def _average_unsharded(self, model: Any) -> None:
        """Average the gradients of the parameters that are too small to be sharded, if any is."""
        if not self.is_sharded:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None and p.grad.ndim == 0]
        if gradients:
            stacked = torch.stack(gradients)
            dist.all_reduce(stacked)
            for gradient, mean in zip(gradients, stacked / self.processes, strict=True):
                gradient.copy_(mean)


def _possible_precision(precision: str) -> str:
    """Return the precision, or the nearest one that this CPU is fast in, with a warning."""
    if precision not in _MIXED or torch.cuda.is_available():
        return precision
    possible = "bf16" if has_fast_bf16() else "fp32"
    if possible != precision:
        logger.warning("this CPU has no fast %s: training in %s", precision, possible)
    return possible


def _set_deterministic(deterministic: bool) -> None:
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = not deterministic
    torch.use_deterministic_algorithms(deterministic)


def _make_fabric(world: World, precision: str) -> Fabric:
    """Return what wraps models and optimizers, on the device of this process."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    is_alone = world.processes == 1
    # The environment is set explicitly: Fabric would otherwise take the processes of any SLURM job
    # for its own.
    plugins: list[Any] = [LightningEnvironment() if is_alone else TorchElasticEnvironment()]
    mixed = _MIXED.get("bf16" if precision == AUTO else precision)
    if mixed:
        plugins.append(_Autocast(mixed, kind))
    return Fabric(
        accelerator=kind,
        devices=[claim_accelerator()] if kind == "cuda" and is_alone else world.devices,
        num_nodes=world.nodes,
        strategy=_make_strategy(world, precision),
        plugins=plugins,
    )


def _make_strategy(world: World, precision: str) -> Any:
    if world.processes == 1:
        return "auto"
    # Where there are accelerators another group waits on the host. The group of the accelerators
    # keeps its shorter limit, and notices what hangs.
    limits: dict[str, Any] = {} if torch.cuda.is_available() else {"timeout": PATIENCE}
    if world.strategy == "ddp":
        # The buffers are statistics of the whole batch, which every process computes.
        return DDPStrategy(forward_sync_buffers=False, gradient_as_bucket_view=True, **limits)
    if precision == "fp16":
        hint = "choose precision bf16, or runtime.strategy ddp"
        raise problem("runtime.strategy", "fsdp with precision fp16", "bf16, tf32 or fp32", hint)
    return ModelParallelStrategy(
        _shard_layers, data_parallel_size=world.processes, tensor_parallel_size=1, **limits
    )


def _shard_layers(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard the weights of each layer, gathered when it computes, and those outside of layers."""
    processes = mesh["data_parallel"]
    scalars = {parameter for parameter in model.parameters() if parameter.ndim == 0}
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for module in [*(layer for layers in stacks for layer in layers), model]:
        fully_shard(module, mesh=processes, ignored_params=scalars)
    return model
