"""Weights and moments that are divided among processes, in memory and in files.

Files are safetensors, one per process, written and read by torch.distributed.checkpoint: a run in
another number of processes, or in one, reads its own part of them.
"""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn, optim
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.tensor import DTensor, distribute_tensor, empty

PLAIN = "state.pt"
"""File of all that is not divided."""
DIVIDED = "divided tensor"
"""Key of what stands in `PLAIN` for a tensor: its name in the other files."""


def free(model: nn.Module) -> None:
    """Let go of the weights of a model; its buffers stay."""
    for parameter in model.parameters():
        parameter.data = torch.empty(0, dtype=parameter.dtype, device=parameter.device)


@torch.no_grad()
def gather_module(model: nn.Module, divided: nn.Module) -> None:
    """Give a model the weights of its divided twin: each process gets all."""
    twins = dict(divided.named_parameters())
    for name, parameter in model.named_parameters():
        twin = twins[name].detach()
        parameter.data = twin.full_tensor() if isinstance(twin, DTensor) else twin.clone()


def write(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a state into a folder that exists; all processes have to call it.

    Parameters
    ----------
    folder
        The same for all processes.
    state
        Tensors, divided or the same in all processes, and plain values in dictionaries, lists and
        tuples.
    """
    tensors: dict[str, Tensor] = {}
    plain = _without_divided(state, "state", tensors)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    dcp.save(tensors, storage_writer=writer)
    if dist.get_rank() == 0:
        torch.save(plain, folder / PLAIN)


def read_plain(folder: Path) -> dict[str, Any]:
    """Return what is not divided of a state, with a dictionary in place of each other tensor."""
    return torch.load(folder / PLAIN, map_location="cpu", weights_only=True)


def read(folder: Path, like: nn.Module) -> dict[str, Any]:
    """Return a state that `write` wrote.

    Parameters
    ----------
    folder
        Where it lies.
    like
        The model: where its weights are divided all processes have to call this, and the tensors
        are divided as they are; else they are whole, on the host.
    """
    divided = [p for p in like.parameters() if isinstance(p, DTensor)]
    plain = read_plain(folder)
    tensors = {}
    for standing in _standing(plain):
        shape, dtype = standing["shape"], getattr(torch, standing["dtype"])
        tensors[standing[DIVIDED]] = (
            empty(
                shape,
                dtype=dtype,
                device_mesh=divided[0].device_mesh,
                placements=divided[0].placements,
            )
            if divided
            else torch.empty(shape, dtype=dtype)
        )
    reader = HuggingFaceStorageReader(str(folder))
    with warnings.catch_warnings():
        # That there are no other processes is what is meant.
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        dcp.load(tensors, storage_reader=reader, no_dist=not divided)
    return _with_divided(plain, tensors)


def restore_module(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a model, divided or not, the weights of a state of either kind."""
    model.load_state_dict(
        {name: _placed(state[name], like) for name, like in model.state_dict().items()}
    )


def restore_optimizer(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Give the `CombinedOptimizer` of a model, divided or not, a state of either kind."""
    placed = {}
    for number, part in enumerate(optimizer.parts):
        own = state[str(number)]
        moments = {
            index: {
                name: _placed(value, like) if value.shape == like.shape else value
                for name, value in own["state"][index].items()
            }
            for index, like in enumerate(_parameters(part))
            if index in own["state"]
        }
        placed[str(number)] = {**own, "state": moments}
    optimizer.load_state_dict(placed)


def _parameters(optimizer: optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _placed(value: Tensor, like: Tensor) -> Tensor:
    """Return a tensor divided as another one is; a whole one for a whole one."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(
        value.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def _without_divided(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return a copy with a description in place of each divided tensor, which is put aside."""
    if isinstance(value, DTensor):
        tensors[path] = value
        dtype = str(value.dtype).removeprefix("torch.")
        return {DIVIDED: path, "shape": list(value.shape), "dtype": dtype}
    if isinstance(value, dict):
        return {
            key: _without_divided(item, f"{path}.{key}", tensors) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            _without_divided(item, f"{path}.{place}", tensors) for place, item in enumerate(value)
        )
    return value


def _standing(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions that stand for tensors."""
    if isinstance(value, dict) and DIVIDED in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _standing(item)


def _with_divided(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if DIVIDED in value:
            return tensors[value[DIVIDED]]
        return {key: _with_divided(item, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_divided(item, tensors) for item in value)
    return value
