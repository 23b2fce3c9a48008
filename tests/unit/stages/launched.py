"""A small stage; `launched.py <folder> <stage|models>` starts it, or models of a task, to sleep.

Each of two processes leaves a file in the folder, whose name is its process ID.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

import torch.distributed as dist

from aam.runtime.run_options import RunOptions
from aam.tasks.finetune.parallel import in_processes
from aam.train.distributed import launch
from aam.util.errors import InputError


class Special(InputError):
    """One of several kinds of messages for a user."""


def run(cfg, *, inputs, outputs, runtime):
    rank = os.environ["RANK"]
    if cfg["does"] == "sleep":
        sleep(inputs["folder"])
    dist.init_process_group("gloo")
    dist.barrier()
    if cfg["does"] == "raise" and rank == "1":
        assert runtime.launched
        raise Special("table.biom: got this\nand that")
    if cfg["does"] == "break" and rank == "1":
        raise KeyError("odd")
    dist.barrier()


def sleep(folder, *_):
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def start(folder: Path, does: str) -> None:
    means = RunOptions(work=folder / "work", devices=2, threads=2)
    launch.together(
        "launched", {"does": does}, inputs={"folder": folder}, outputs={}, runtime=means
    )


if __name__ == "__main__":
    if sys.argv[2] == "stage":
        start(Path(sys.argv[1]), "sleep")
    in_processes(partial(sleep, Path(sys.argv[1])), [(0, 0), (1, 0)], 2, RunOptions())
