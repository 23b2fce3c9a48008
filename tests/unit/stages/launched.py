"""A small stage; `launched.py <folder>` starts it, and models of a task, only to sleep.

Each process leaves a file in the folder, whose name is its process ID.
"""

import importlib
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import torch.distributed as dist

from aam.distributed import launch
from aam.util.errors import InputError
from aam.util.run_options import RunOptions


class Special(InputError):
    """One of several kinds of messages for a user."""


def run(folder, does, runtime):
    if does == "sleep":
        sleep(folder)
    dist.init_process_group("gloo")
    dist.barrier()
    if os.environ["RANK"] == "1":
        assert runtime.launched
        error = KeyError("odd") if does == "break" else Special("a.biom: got this\nand that")
        raise error
    dist.barrier()


def sleep(folder, *_):
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def start(folder: Path, does: str, **options) -> None:
    options = {"devices": 2, "threads": 2} | options
    # By the name under which the processes import it.
    function = importlib.import_module("launched").run
    runtime = RunOptions(work=folder / "work", **options)
    launch.call_in_processes(function, runtime=runtime, folder=folder, does=does)


if __name__ == "__main__":
    # The processes import this file, too, and need no more of the package than they run.
    from aam.tasks.finetune.parallel import train_in_processes

    stage = Path(sys.argv[1])
    threading.Thread(target=start, args=(stage, "sleep")).start()
    train_in_processes(partial(sleep, stage), [[(0, "full", 0)], [(1, "full", 0)]], RunOptions())
