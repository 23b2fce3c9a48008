"""Weights and moments that are sharded among processes, in memory and in files.

Files are safetensors, one per process, written and read by torch.distributed.checkpoint: a run in
another number of processes, or in one, reads its own part of them.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.tensor import DTensor, distribute_tensor, empty

from aam.util.digests import write_manifest

PLAIN = "state.pt"
"""File of all that is not sharded."""
SHARDED = "sharded tensor"
"""Key of what stands in `PLAIN` for a tensor: its name in the other files."""


def free_weights(model: nn.Module) -> None:
    """Let go of the weights of a model; its buffers stay."""
    for parameter in model.parameters():
        parameter.data = torch.empty(0, dtype=parameter.dtype, device=parameter.device)


@torch.no_grad()
def gather_module(model: nn.Module, sharded: nn.Module) -> None:
    """Give a model the weights of its sharded twin: each process gets all."""
    twins = dict(sharded.named_parameters())
    for name, parameter in model.named_parameters():
        twin = twins[name].detach()
        parameter.data = twin.full_tensor() if isinstance(twin, DTensor) else twin.clone()


def write(folder: Path, state: Mapping[str, Any]) -> None:
    """Write nested tensors and plain values into a folder that exists; all processes call it.

    Parameters
    ----------
    folder
        Folder that is filled.
    state
        Nested dictionaries, lists and tuples of tensors and plain values.
    """
    tensors: dict[str, Tensor] = {}

    def describe(value: Any, path: str) -> Any:
        if not isinstance(value, DTensor):
            return value
        tensors[path] = value
        dtype = str(value.dtype).removeprefix("torch.")
        return {SHARDED: path, "shape": list(value.shape), "dtype": dtype}

    plain = _replace_nested(state, describe)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    dcp.save(tensors, storage_writer=writer)
    # All that is not sharded is the same in every process.
    if dist.get_rank() == 0:
        torch.save(plain, folder / PLAIN)
        write_manifest(folder)


def read(folder: Path, like: nn.Module) -> dict[str, Any]:
    """Return a state that `write` wrote.

    Parameters
    ----------
    folder
        Folder of the state.
    like
        A model. Where its weights are sharded all processes call this, and the tensors are sharded
        in the same way. Otherwise the tensors are whole, on the host.

    Returns
    -------
    dict
        Nested like what was written.
    """
    # Any sharded parameter tells how all are placed in this run.
    twin = next((p for p in like.parameters() if isinstance(p, DTensor)), None)
    tensors: dict[str, Tensor] = {}

    def make_tensor(value: Any, path: str) -> Any:
        if not (isinstance(value, dict) and SHARDED in value):
            return value
        shape = value["shape"]
        dtype = getattr(torch, value["dtype"])
        if twin is None:
            tensor = torch.empty(shape, dtype=dtype)
        else:
            mesh = twin.device_mesh
            placements = twin.placements
            tensor = empty(shape, dtype=dtype, device_mesh=mesh, placements=placements)
        tensors[value[SHARDED]] = tensor
        return tensor

    plain = torch.load(folder / PLAIN, map_location="cpu", weights_only=True)
    state = _replace_nested(plain, make_tensor)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        reader = HuggingFaceStorageReader(str(folder))
        dcp.load(tensors, storage_reader=reader, no_dist=twin is None)
    return state


def restore_module(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a model, sharded or not, the weights of a state of either kind.

    Parameters
    ----------
    model
        Model that is filled.
    state
        State of a model of the same shape, whole or sharded.
    """
    weights = {}
    for name, like in model.state_dict().items():
        weights[name] = _shard_like(state[name], like)
    model.load_state_dict(weights)


def restore_optimizer(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Give the optimizer of a model, sharded or not, a state of either kind.

    Parameters
    ----------
    optimizer
        A `CombinedOptimizer` that is filled.
    state
        State of such an optimizer, whole or sharded.
    """
    part_states = {}
    for number, part in enumerate(optimizer.parts):
        part_state = state[str(number)]
        parameters = [p for group in part.param_groups for p in group["params"]]
        moments = {}
        for index, like in enumerate(parameters):
            # A parameter that was never updated has no moments.
            if index in part_state["state"]:
                moments[index] = _shard_moments(part_state["state"][index], like)
        part_states[str(number)] = {**part_state, "state": moments}
    optimizer.load_state_dict(part_states)


def _shard_moments(moments: Mapping[str, Tensor], like: Tensor) -> dict[str, Tensor]:
    """Return the moments of a parameter, those of its shape sharded as it is."""
    sharded = {}
    for name, value in moments.items():
        sharded[name] = _shard_like(value, like) if value.shape == like.shape else value
    return sharded


def _shard_like(value: Tensor, like: Tensor) -> Tensor:
    """Return a tensor sharded as another one is; a whole one for a whole one."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(
        value.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def _replace_nested(value: Any, replace: Callable[[Any, str], Any], path: str = "state") -> Any:
    """Return a copy of nested values, any of which `replace` may replace by another."""
    replacement = replace(value, path)
    if replacement is not value:
        return replacement
    if isinstance(value, dict):
        items = {}
        for key, item in value.items():
            items[key] = _replace_nested(item, replace, f"{path}.{key}")
        return items
    if isinstance(value, list | tuple):
        parts = []
        for index, item in enumerate(value):
            parts.append(_replace_nested(item, replace, f"{path}.{index}"))
        return type(value)(parts)
    return value
