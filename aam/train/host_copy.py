"""Copies of nested states in host memory."""

import copy
import ctypes
from typing import Any

import torch
from torch import Tensor

PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types of values that a state may hold in dictionaries, lists and tuples, next to tensors."""


class HostCopy:
    """Copies of nested states in host memory that is taken once and used again.

    New memory costs a page fault per 4 KiB at the first touch, more than the copy itself.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[object, ...], Tensor] = {}

    def copy(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a state, valid until the next call.

        Parameters
        ----------
        state
            Tensors and values of the types `PLAIN`, in dictionaries, lists and tuples.

        Returns
        -------
        dict
            Nested like the state, its tensors on the host.

        Raises
        ------
        TypeError
            The state holds another value, which the message names.
        """
        with torch.no_grad():
            copied = self._copy_nested(state, ())
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return copied

    def _copy_nested(self, value: Any, path: tuple[object, ...]) -> Any:
        if isinstance(value, Tensor):
            return self._copy_tensor(value, path)
        if isinstance(value, dict):
            # The state of a module is a dictionary with attributes, which a shallow copy keeps.
            twin = value.copy() if type(value) is dict else copy.copy(value)
            for key, item in value.items():
                if type(item) not in PLAIN:
                    twin[key] = self._copy_nested(item, (path, key))
            return twin
        if isinstance(value, list | tuple):
            items = []
            for index, item in enumerate(value):
                is_plain = type(item) in PLAIN
                items.append(item if is_plain else self._copy_nested(item, (path, index)))
            return type(value)(items)
        raise TypeError(f"a checkpoint cannot hold {_words(path)}, a {type(value).__name__}")

    def _copy_tensor(self, value: Tensor, path: tuple[object, ...]) -> Tensor:
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[path] = buffer
        if value.is_cpu and value.is_contiguous():
            # Torch would divide the copy among threads, and wait for the slowest of them on a busy
            # machine.
            ctypes.memmove(buffer.data_ptr(), value.data_ptr(), buffer.nbytes)
            return buffer
        return buffer.copy_(value, non_blocking=value.is_cuda)


def _words(path: Any) -> str:
    """Return the keys that lead to a value, joined by dots; a path is a pair (parent path, key)."""
    return f"{_words(path[0])}.{path[1]}" if path[0] else str(path[1])
