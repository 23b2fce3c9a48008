"""Complete, atomic checkpoints of a training run, and what is done about files that fail.

A save copies the state into host memory and returns; a thread writes the copy while training goes
on.
"""

import copy
import ctypes
import errno
import logging
import shutil
import zipfile
import zlib
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException

from aam.distributed import sharded_weights
from aam.distributed.devices import Devices
from aam.train.memory.meter import MB, is_out_of_memory
from aam.util.atomic import atomic_path, read_json, remove, write_json
from aam.util.digests import check_manifest
from aam.util.errors import InputError, first_line, problem

logger = logging.getLogger(__name__)
PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types of values that a state may hold in dictionaries, lists and tuples, next to tensors."""
KEPT = 2
"""Newest checkpoints of a run that are kept."""
BEST = "best.pt"
"""File of the best weights, next to the checkpoints."""
DECIDED = "decided.json"
"""File of what was decided before the first step, next to the checkpoints."""
SHARDED = ".sharded"
"""Suffix of a folder with the shards of several processes."""
DAMAGED = "damaged-"
"""Begins the name of a checkpoint that could not be read."""
UNWRITTEN = (OSError, RuntimeError, CheckpointException)
"""What writing to a full disk raises: torch's own writers raise a RuntimeError there."""
UNREADABLE = (
    *UNWRITTEN,
    EOFError,
    LookupError,
    ValueError,
    UnpicklingError,
    SafetensorError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged checkpoint raises, by what is damaged."""
_MACHINE_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EMFILE}
)
"""Errors of reading that say nothing about the file."""


class NotSaved(OSError):
    """A checkpoint could not be written; those before it are as they were."""


class Checkpoints:
    """The checkpoints of one run, in `<folder>/<start of the fingerprint>/`.

    Settings that are changed and changed back find their checkpoints again: of the runs with other
    fingerprints in the same folder, the newest is kept.

    Parameters
    ----------
    folder
        Folder of the checkpoints of all runs; None: nothing is written and nothing is found.
    fingerprint
        A digest of settings, code and inputs. It identifies the run.
    background
        Whether a thread writes the files; if not, a save returns when its file is complete.
    writes
        Whether this process writes and deletes files. One of several processes does.
    """

    def __init__(
        self, folder: Path | None, fingerprint: str, *, background: bool = True, writes: bool = True
    ) -> None:
        self.fingerprint = fingerprint
        self._writes = writes
        self._folder = folder
        self._run = Path() if folder is None else folder / fingerprint[:12]
        self._copy = HostCopy() if background else None
        self._thread: futures.ThreadPoolExecutor | None = None
        self._writing: futures.Future[None] | None = None

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Keep the state after `step` steps and delete all but the newest two.

        Parameters
        ----------
        step
            Number of steps done.
        state
            Tensors of any device and values of the types `aam.train.checkpoint.PLAIN`, in
            dictionaries, lists and tuples. Their values at the moment of the call are written.

        Raises
        ------
        NotSaved
            This file could not be written, or, in the background, the one before.
        InputError
            The file before could not be written, and holds the best weights, which a run with early
            stopping ends with.
        TypeError
            The state holds a value of another type, and is written in the background.
        """
        self._put(f"step-{step:09d}.pt", step, state)

    def save_best(self, step: int, state: dict[str, Any]) -> None:
        """Keep the state as the best so far, in place of the one before.

        Parameters and errors are those of `save`.
        """
        self._put(BEST, step, state)

    def save_sharded(self, step: int, state: dict[str, Any], devices: Devices) -> None:
        """Keep a state whose tensors are sharded; return when all processes have written theirs.

        Parameters
        ----------
        step
            Number of steps done.
        state
            As for `save`, with tensors that are sharded among the processes.
        devices
            The processes, all of which call this.

        Raises
        ------
        NotSaved
            Any process could not write its part. All processes raise it.
        """
        if self._folder is None:
            return
        content = {"fingerprint": self.fingerprint, "step": step, **state}
        final = self._run / f"step-{step:09d}{SHARDED}"
        partial = final.with_name(f".partial-{final.name}")
        self.join()
        # All processes raise, or none: one alone would leave the others waiting for it.
        error = _try_in_all(devices, lambda: self._make_folder(partial))
        if error is None:
            error = _try_in_all(devices, lambda: sharded_weights.write(partial, content))
        if error is not None:
            if self._writes:
                shutil.rmtree(partial, ignore_errors=True)
            raise _not_saved(final, error)
        if self._writes:
            remove(final)
            partial.replace(final)
            self._prune()
        devices.barrier()

    def load(self, like: nn.Module | None = None) -> dict[str, Any] | None:
        """Return the newest state that can be read.

        Parameters
        ----------
        like
            The model, which says how the tensors of a sharded state are sharded here.

        Returns
        -------
        dict or None
            The state that was saved, with `step` and `fingerprint`; None: this run has no
            checkpoint.
        """
        if self._folder is None:
            return None
        self.set_damaged_aside()
        paths = self._steps()
        if paths:
            state = _read(paths[-1], like)
            logger.info("resuming after step %d from %s", state["step"], paths[-1])
            return state
        if self._other_runs():
            logger.info(
                "the checkpoints in %s are of other settings, code or inputs: starting at step 1",
                self._folder,
            )
        return None

    def load_best(self) -> dict[str, Any] | None:
        """Return the state that `save_best` kept last in this run.

        Returns
        -------
        dict or None
            The state; None: none was kept.

        Raises
        ------
        InputError
            The file is damaged.
        """
        if self._folder is None:
            return None
        self.wait()
        path = self._run / BEST
        if not path.is_file():
            return None
        try:
            return _read(path)
        except UNREADABLE as error:
            raise problem(
                path,
                f"a damaged file ({first_line(error)})",
                "the best weights of the run",
                "delete it and run the same command again, which ends with the last weights then; "
                f"or delete {self._run}: training then starts at step 1",
            ) from error

    def decide(self, decision: dict[str, Any]) -> None:
        """Keep what was decided before the first step, and would be decided otherwise elsewhere.

        Parameters
        ----------
        decision
            Plain types.

        Raises
        ------
        InputError
            The file cannot be written. Without it a run that goes on could decide otherwise.
        """
        if self._folder is None or not self._writes:
            return
        path = self._run / DECIDED
        try:
            write_json(path, decision)
        except OSError as error:
            raise problem(
                path,
                f"no room or no right to write it ({first_line(error)})",
                "a file",
                "make room on that disk, and run the same command again",
            ) from error

    def decided(self) -> dict[str, Any] | None:
        """Return what `decide` has kept, in this start of the run or in an earlier one.

        Returns
        -------
        dict or None
            None: nothing.

        Raises
        ------
        InputError
            The file is damaged.
        """
        path = self._run / DECIDED
        if self._folder is None or not path.is_file():
            return None
        try:
            decision: dict[str, Any] = read_json(path)
        except UNREADABLE as error:
            raise problem(
                path,
                f"a damaged file ({first_line(error)})",
                "what this run has decided before its first step",
                f"delete {self._run}: training then starts at step 1",
            ) from error
        return decision

    def set_damaged_aside(self) -> None:
        """Rename the newest checkpoints that cannot be read, in the process that writes.

        An error of the machine, such as a lack of memory, says nothing about the file and is
        raised.
        """
        self.wait()
        for path in reversed(self._steps() if self._writes else []):
            try:
                if path.is_file():
                    _read(path)
                else:
                    check_manifest(path, "the one before is taken")
            except UNREADABLE as error:
                if getattr(error, "errno", None) in _MACHINE_ERRORS:
                    raise
                if isinstance(error, RuntimeError) and is_out_of_memory(error):
                    raise
                logger.warning(
                    "the checkpoint %s cannot be read (%s): the one before is taken",
                    path,
                    first_line(error),
                )
                aside = path.with_name(f"{DAMAGED}{path.name}")
                remove(aside)
                path.replace(aside)
            else:
                return

    def join(self) -> None:
        """Return when no write is in flight.

        Raises
        ------
        NotSaved or InputError
            The write failed, see `save`. The error is raised once.
        """
        if self._writing is not None:
            futures.wait([self._writing])
            done = self._writing
            self._writing = None
            done.result()

    def wait(self) -> None:
        """Do as `join`, and leave no thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self.join()

    def clear(self) -> None:
        """Delete the folder of a finished run.

        A file that is still open on NFS stays.
        """
        self.wait()
        if self._writes and self._folder is not None and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _put(self, name: str, step: int, state: dict[str, Any]) -> None:
        """Copy a state for the thread to write, or write it here, after the write before it."""
        if self._folder is None or not self._writes:
            return
        content = {"fingerprint": self.fingerprint, "step": step, **state}
        self.join()
        if self._copy is None:
            self._write(name, content)
            return
        # A thread holds Python's lock for milliseconds while it starts: one serves all saves.
        self._thread = self._thread or futures.ThreadPoolExecutor(1, "checkpoint")
        self._writing = self._thread.submit(self._write, name, self._copy.copy(content))

    def _make_folder(self, path: Path) -> None:
        """Make an empty folder, in the process that writes."""
        if self._writes:
            remove(path)
            path.mkdir(parents=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        """Write a file, then delete the older checkpoints."""
        failed: Exception | None = None
        try:
            with atomic_path(self._run / name) as partial:
                torch.save(content, partial)
        except UNWRITTEN as error:
            failed = _not_saved(self._run / name, error)
        if failed is not None:
            # The error is raised here, where no traceback holds the unfinished file: that file is
            # closed, and its room is free.
            raise failed
        self._prune()

    def _prune(self) -> None:
        """Delete all but the newest checkpoints of this run, and all but the newest other run."""
        for old in [*self._steps()[:-KEPT], *self._run.glob(".partial-*")]:
            remove(old)
        for run in self._other_runs()[:-1]:
            shutil.rmtree(run, ignore_errors=True)

    def _steps(self) -> list[Path]:
        """Return the checkpoints of this run, the newest last."""
        paths = [path for path in self._run.glob("step-*") if path.suffix in (".pt", SHARDED)]
        return sorted(paths, key=lambda path: (path.stem, path.suffix))

    def _other_runs(self) -> list[Path]:
        """Return the folders of other runs, the most recently written last."""
        if self._folder is None or not self._folder.is_dir():
            return []
        files = [*self._folder.glob("*/*.pt"), *self._folder.glob(f"*/*{SHARDED}")]
        runs = {path.parent for path in files} - {self._run}
        return sorted(runs, key=lambda run: (run.stat().st_mtime_ns, run.name))


def _try_in_all(devices: Devices, write: Callable[[], None]) -> BaseException | None:
    """Call a function in all processes, and return what kept any of them from writing."""
    local_error = None
    try:
        write()
    except UNWRITTEN as error:
        local_error = error
    is_written = devices.all_reduce_min(int(local_error is None))
    if is_written:
        return None
    return local_error or OSError("another process")


def _not_saved(path: Path, error: BaseException) -> NotSaved | InputError:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free_mb = shutil.disk_usage(folder).free / MB
    reason = f"{first_line(error)}; {free_mb:.0f} MB free"
    if path.name != BEST:
        return NotSaved(f"the checkpoint {path} could not be written ({reason})")
    return problem(
        path,
        f"no room or no right to write the best weights ({reason})",
        "a file",
        "make room on that disk and run the same command again: it goes on from the last "
        "checkpoint",
    )


def _read(path: Path, like: nn.Module | None = None) -> dict[str, Any]:
    if path.suffix == SHARDED:
        assert like is not None
        return sharded_weights.read(path, like)
    # torch reads the archive and checks neither the checksums in it nor where it begins.
    with zipfile.ZipFile(path) as archive:
        if archive.infolist()[0].header_offset:
            raise ValueError("its first part is not at its beginning")
        part = archive.testzip()
    if part is not None:
        raise ValueError(f"the checksum of its part {part} is wrong")
    return torch.load(path, map_location="cpu", weights_only=True)


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
