"""Complete, atomic checkpoints of a training run, in a folder that is no declared output.

A save copies the state and returns; a thread writes the copy while training goes on.
"""

import copy
import ctypes
import logging
import shutil
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aam.train import faults
from aam.train.distributed import sharded
from aam.train.distributed.devices import Devices
from aam.util.atomic import atomic_path
from aam.util.errors import problem

logger = logging.getLogger(__name__)
KEPT = 2
"""Newest checkpoints of a run that are kept."""
BEST = "best.pt"
"""File of the best weights, beside the checkpoints."""
DIVIDED = ".divided"
"""Suffix of a folder with the parts of several processes."""
DAMAGED = "damaged-"
"""Begins the name of a checkpoint that could not be read."""
FOLDER_CHARACTERS = 12
"""Characters of the fingerprint that name a run's folder."""
PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types of values beside tensors that a state may hold, in dictionaries, lists and tuples."""


class Checkpoints:
    """The checkpoints of one run, in `<folder>/<start of the fingerprint>/`.

    A run with other settings has another folder, so that settings that are changed and changed
    back find their checkpoints again; of such other runs only the newest is kept.

    Parameters
    ----------
    folder
        Where the runs lie; None: nothing is written and nothing is found.
    fingerprint
        Digest of settings, code and inputs; a checkpoint with another one is never resumed.
    background
        Write in a thread; False: a save returns when its file is complete.
    writes
        Whether this process writes and deletes: of several that work together, one does.

    Attributes
    ----------
    blocked_s
        Seconds that callers spent in `save`, `save_best` and `wait`.
    """

    def __init__(
        self,
        folder: Path | None,
        fingerprint: str,
        *,
        background: bool = True,
        writes: bool = True,
    ) -> None:
        self.fingerprint = fingerprint
        self.blocked_s = 0.0
        self._writes = writes
        self._folder = folder
        self._run = Path() if folder is None else folder / fingerprint[:FOLDER_CHARACTERS]
        self._copy = _HostCopy() if background else None
        self._thread: futures.ThreadPoolExecutor | None = None
        self._writing: futures.Future[None] | None = None

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Keep the state after `step` steps and delete all but the newest two.

        Parameters
        ----------
        step
            Steps done.
        state
            Tensors of any device and plain values (`PLAIN`) in dictionaries, lists and tuples.
            What is written are their values at the moment of the call.

        Raises
        ------
        OSError
            When this file or, in the background, the one before could not be written: `NotSaved`,
            or of the best weights `BestNotSaved` (`aam.train.faults`).
        TypeError
            In the background, when the state holds anything else.
        """
        self._put(f"step-{step:09d}.pt", step, state)

    def save_best(self, step: int, state: dict[str, Any]) -> None:
        """Keep the state as the best so far, in place of the one before; else like `save`."""
        self._put(BEST, step, state)

    def save_divided(self, step: int, state: dict[str, Any], devices: Devices) -> None:
        """Keep a state whose tensors are divided among processes, which all have to call this.

        Each process writes its part, and it returns when all have.
        """
        if self._folder is None:
            return
        content = {"fingerprint": self.fingerprint, "step": step, **state}
        final = self._run / f"step-{step:09d}{DIVIDED}"
        partial = final.with_name(f".partial-{final.name}")
        with self._blocking():
            self._join()
            error = self._write_part(partial, content, devices)
            # All processes raise, or none: one alone would leave the others waiting for it.
            if not devices.all_reduce_min(int(error is None)):
                if self._writes:
                    shutil.rmtree(partial, ignore_errors=True)
                raise faults.not_saved(final, error or OSError("another process"), is_best=False)
            if self._writes:
                _remove(final)
                partial.replace(final)
                self._prune()
            devices.barrier()

    def _write_part(
        self, partial: Path, content: dict[str, Any], devices: Devices
    ) -> BaseException | None:
        """Write this process's part, and return what kept it from that."""
        failed: BaseException | None = None
        if self._writes:
            try:
                _remove(partial)
                partial.mkdir(parents=True)
            except OSError as error:
                failed = error
        if devices.all_reduce_min(int(failed is None)):
            try:
                sharded.write(partial, content)
            except faults.UNWRITTEN as error:
                failed = error
        return failed

    def load(self, like: nn.Module | None = None) -> dict[str, Any] | None:
        """Return the newest state of this run, or None; says so when only other runs have any.

        One that cannot be read is renamed, with a warning, and the one before it is taken.

        Parameters
        ----------
        like
            What the state is for: where its weights are divided among processes, a state that was
            saved so comes in parts. None: no such state is looked for.
        """
        if self._folder is None:
            return None
        self.wait()
        others = self._other_runs()
        for path in reversed(self._steps()):
            try:
                state = self._read(path, like)
            except faults.UNREADABLE as error:
                if dist.is_initialized():  # Damaged ones are set aside before: a process ended.
                    raise
                self._set_aside(path, error)
                continue
            if state is not None:
                logger.info("resuming after step %d from %s", state["step"], path)
                return state
            # It would count as the newest of this run's.
            if self._writes:
                _remove(path)
            others.append(path)
        if others:
            anew = "the checkpoints in %s are of other settings, code or inputs: starting anew"
            logger.info(anew, self._folder)
        return None

    def load_best(self) -> dict[str, Any] | None:
        """Return the state that `save_best` kept last in this run, or None."""
        if self._folder is None:
            return None
        self.wait()
        path = self._run / BEST
        if not path.is_file():
            return None
        try:
            return self._read(path)
        except faults.UNREADABLE as error:
            raise problem(
                path,
                f"a damaged file ({faults.first_line(error)})",
                "the best weights of the run",
                "delete it and run the same command again, which ends with the last weights then; "
                f"or delete {self._run}: training begins anew",
            ) from error

    def set_damaged_aside(self) -> None:
        """Rename the newest checkpoints that cannot be read, up to the first that can."""
        if not self._writes:
            return
        self.wait()
        for path in reversed(self._steps()):
            try:
                faults.check(path)
            except faults.UNREADABLE as error:
                self._set_aside(path, error)
            else:
                return

    def join(self) -> None:
        """Return when no write is in flight; else like `wait`."""
        with self._blocking():
            self._join()

    def wait(self) -> None:
        """Return when no write is in flight and no thread is left.

        Raises
        ------
        OSError
            When the write failed; it is raised once.
        """
        with self._blocking():
            if self._thread is not None:
                self._thread.shutdown()
                self._thread = None
            self._join()

    def clear(self) -> None:
        """Delete the folder of a finished run, as far as no open file on NFS is in the way."""
        self.wait()
        if self._writes and self._folder is not None and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _put(self, name: str, step: int, state: dict[str, Any]) -> None:
        if self._folder is None or not self._writes:
            return
        content = {"fingerprint": self.fingerprint, "step": step, **state}
        with self._blocking():
            self._join()
            if self._copy is None:
                self._write(name, content)
                return
            # A thread that starts takes Python's lock for milliseconds: one serves all saves.
            self._thread = self._thread or futures.ThreadPoolExecutor(1, "checkpoint")
            self._writing = self._thread.submit(self._write, name, self._copy.of(content))

    def _join(self) -> None:
        if self._writing is not None:
            futures.wait([self._writing])
            done, self._writing = self._writing, None
            done.result()

    def _write(self, name: str, content: dict[str, Any]) -> None:
        failed: OSError | None = None
        try:
            with atomic_path(self._run / name) as partial:
                torch.save(content, partial)
        except faults.UNWRITTEN as error:
            failed = faults.not_saved(self._run / name, error, is_best=name == BEST)
        if failed is not None:
            # No traceback holds the file that was begun any more: it is closed, its room is free.
            raise failed
        self._prune()

    def _set_aside(self, path: Path, error: BaseException) -> None:
        """Rename a damaged checkpoint, which would count as the newest."""
        faults.say_damaged(path, error)
        if self._writes:
            aside = path.with_name(f"{DAMAGED}{path.name}")
            _remove(aside)
            path.replace(aside)

    def _prune(self) -> None:
        for old in self._steps()[:-KEPT]:
            _remove(old)
        for left_by_killed in self._run.glob(".partial-*"):
            _remove(left_by_killed)
        for run in self._other_runs()[:-1]:
            shutil.rmtree(run, ignore_errors=True)

    def _read(self, path: Path, like: nn.Module | None = None) -> dict[str, Any] | None:
        """Return the content of a file, None if its fingerprint only begins like this run's."""
        if path.suffix == DIVIDED:
            if like is None or sharded.read_plain(path)["fingerprint"] != self.fingerprint:
                return None
            return sharded.read(path, like)
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state if state["fingerprint"] == self.fingerprint else None

    def _steps(self) -> list[Path]:
        """Return the checkpoints of this run, the newest last."""
        found = [p for p in self._run.glob("step-*") if p.suffix in (".pt", DIVIDED)]
        return sorted(found, key=lambda path: (path.stem, path.suffix))

    def _other_runs(self) -> list[Path]:
        """Return the folders of other runs, the most recently written last."""
        if self._folder is None or not self._folder.is_dir():
            return []
        runs = [
            p
            for p in self._folder.iterdir()
            if p != self._run and (any(p.glob("*.pt")) or any(p.glob(f"*{DIVIDED}")))
        ]
        return sorted(runs, key=lambda run: (run.stat().st_mtime_ns, run.name))

    @contextmanager
    def _blocking(self) -> Iterator[None]:
        t0 = time.perf_counter()
        try:
            yield
        finally:
            self.blocked_s += time.perf_counter() - t0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class _HostCopy:
    """Copies of nested states in host memory that is taken once and used again.

    New memory costs a page fault per 4 KiB at the first touch, more than the copy itself.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self._streams: set[torch.cuda.Stream] = set()

    def of(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of `state`, which is valid until the next call.

        Raises
        ------
        TypeError
            When the state holds anything but tensors, `PLAIN` values, dictionaries, lists and
            tuples.
        """
        self._streams.clear()
        with torch.no_grad():
            copied = self._nested(state, ())
        for stream in self._streams:
            stream.synchronize()
        return copied

    def _nested(self, value: Any, path: tuple[object, ...]) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, dict):
            # Keeps what the state of a module has as attributes, too.
            twin = value.copy() if type(value) is dict else copy.copy(value)
            for key, item in value.items():
                if type(item) not in PLAIN:
                    twin[key] = self._nested(item, (path, key))
            return twin
        if _are_records(value):
            return [record.copy() for record in value]
        if isinstance(value, list | tuple):
            return type(value)(
                item if type(item) in PLAIN else self._nested(item, (path, place))
                for place, item in enumerate(value)
            )
        raise TypeError(f"a checkpoint cannot hold {_words(path)}, a {type(value).__name__}")

    def _tensor(self, value: Tensor, path: tuple[object, ...]) -> Tensor:
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[path] = buffer
        if value.is_cpu and value.is_contiguous():
            # Torch would share the work out and, on a busy machine, wait for each other thread.
            ctypes.memmove(buffer.data_ptr(), value.data_ptr(), buffer.nbytes)
            return buffer
        if value.is_cuda:
            self._streams.add(torch.cuda.current_stream(value.device))
        return buffer.copy_(value, non_blocking=value.is_cuda)


def _are_records(value: Any) -> bool:
    """Whether this is a list of flat dictionaries, as a history is."""
    return (
        type(value) is list
        and all(type(item) is dict for item in value)
        and PLAIN.issuperset(map(type, chain.from_iterable(map(dict.values, value))))
    )


def _words(path: Any) -> str:
    """Return the keys that lead to a value: a path is its parent's path and a key."""
    return f"{_words(path[0])}.{path[1]}" if path[0] else str(path[1])
