"""Faults of the machine: what a run can go on from, and what its user must see."""

import errno
import logging
import pickle
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch.distributed.checkpoint.api import CheckpointException

from aam.train.distributed import sharded
from aam.train.monitoring.memory import is_out_of_memory
from aam.util.errors import InputError, first_names, problem

logger = logging.getLogger(__name__)
T = TypeVar("T")
UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,
    KeyError,
    ValueError,
    pickle.UnpicklingError,
    SafetensorError,
    CheckpointException,
)
"""What reading a damaged checkpoint raises, by what is damaged."""
_OF_THE_MACHINE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EMFILE}
)
"""Errors of reading that say nothing of the file."""
UNWRITTEN = (OSError, RuntimeError, CheckpointException)
"""What writing to a full disk raises: torch's own writers know no OSError."""
WORKERS_LOST = 3
"""Workers of one start that may die before the run ends."""


def say_damaged(path: Path, error: BaseException) -> None:
    """Warn that a checkpoint is damaged; raise the error where it is the machine's fault."""
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        raise error
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        raise error
    logger.warning(
        "the checkpoint %s cannot be read (%s): the one before is taken", path, first_line(error)
    )


class NotSaved(OSError):
    """A checkpoint could not be written; those before it are as they were."""


class BestNotSaved(InputError, OSError):
    """The best weights could not be written, which a run with early stopping ends with."""


class WorkerDied(RuntimeError):
    """A process that assembles batches is gone, and the model is as it was after the last step."""


class NoCheckpointToRestore(InputError):
    """A run was to go on from a checkpoint, and there is none."""


class Saver:
    """Saves that may fail: training goes on then, with one warning.

    Parameters
    ----------
    name
        What is trained.
    """

    def __init__(self, name: str) -> None:
        self._name, self._warned = name, False

    def done(self, save: Callable[[], None]) -> bool:
        """Save, and return whether no `NotSaved` was raised."""
        try:
            save()
        except NotSaved as error:
            if not self._warned:
                logger.warning(
                    "%s: %s; training goes on, the checkpoints before stay, and each later one is "
                    "tried",
                    self._name,
                    error,
                )
            self._warned = True
            return False
        return True


def not_saved(path: Path, error: BaseException, *, is_best: bool) -> OSError:
    """Return the error for a file that could not be written."""
    reason = f"{first_line(error)}; {_free_mb(path):.0f} MB free"
    if not is_best:
        return NotSaved(f"the checkpoint {path} could not be written ({reason})")
    told = problem(
        path,
        f"no room or no right to write the best weights ({reason})",
        "a file",
        "make room on that disk and run the same command again: it goes on from the last "
        "checkpoint",
    )
    return BestNotSaved(str(told))


def check(path: Path) -> None:
    """Read a checkpoint; of one in parts the plain part, and what the others hold.

    Raises
    ------
    Exception
        One of `UNREADABLE`, where it is damaged.
    """
    if path.is_file():
        torch.load(path, map_location="cpu", weights_only=True)
        return
    sharded.read_plain(path)
    for part in path.glob("*.safetensors"):
        with safe_open(part, framework="pt"):
            pass


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its name."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def alive(loader: Iterable[T]) -> Iterator[T]:
    """Yield the batches of a loader with workers.

    Raises
    ------
    WorkerDied
        When a worker is found dead while a batch is waited for.
    """
    with without_alarm():
        waiting = iter(loader)
    while True:
        try:
            batch = next(waiting)
        except StopIteration:
            return
        except (ConnectionError, EOFError) as error:
            # A worker hands its batches over through a socket.
            raise WorkerDied(f"DataLoader worker: {first_line(error)}") from error
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker"):
                raise
            raise WorkerDied(first_line(error)) from error
        yield batch


@contextmanager
def without_alarm() -> Iterator[None]:
    """Take back the handler of SIGCHLD that torch installs when a loader starts.

    It raises wherever the process is when a worker dies, in the middle of an update too. Without it
    the next batch that is waited for tells, some seconds later at most.
    """
    before = signal.getsignal(signal.SIGCHLD)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, before)


def finite_rows(rows_RN: NDArray[np.float32], first: int, path: Path, ids: Sequence[str]) -> None:
    """Stop where distances that were read are not finite.

    Parameters
    ----------
    rows_RN
        Some rows of the matrix.
    first
        Number of the first of them.
    path, ids
        The file, and the IDs of the N samples.

    Raises
    ------
    InputError
        Naming the samples.
    """
    bad_R = ~np.isfinite(rows_RN).all(axis=1)
    if bad_R.any():
        samples = [ids[first + row] for row in np.flatnonzero(bad_R).tolist()]
        raise problem(
            path,
            f"distances that are not finite, of samples {first_names(samples)}",
            "numbers of 0 or more",
            "delete the file and run again: the unifrac stage writes none such",
        )


def _free_mb(path: Path) -> float:
    """Return the room on the disk of a file, or of what was to become its folder."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    return shutil.disk_usage(folder).free / 2**20
