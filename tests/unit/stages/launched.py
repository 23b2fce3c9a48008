"""A small stage, and its start in two processes that sleep: `launched.py <folder>`."""

import os
import sys
import time
from pathlib import Path

import torch.distributed as dist

from aam.runtime.run_options import RunOptions
from aam.train.distributed import launch
from aam.util.errors import InputError


class Special(InputError):
    """One of several kinds of messages for a user."""


def run(cfg, *, inputs, outputs, runtime):
    rank = os.environ["RANK"]
    (inputs["folder"] / rank).touch()
    if cfg["does"] == "sleep":
        time.sleep(600)
    dist.init_process_group("gloo")
    dist.barrier()
    if cfg["does"] == "raise" and rank == "1":
        assert runtime.launched
        raise Special("table.biom: got this\nand that")
    if cfg["does"] == "break" and rank == "1":
        raise KeyError("odd")
    dist.barrier()


def start(folder: Path, does: str) -> None:
    means = RunOptions(work=folder / "work", devices=2, threads=2)
    launch.together(
        "launched", {"does": does}, inputs={"folder": folder}, outputs={}, runtime=means
    )


if __name__ == "__main__":
    start(Path(sys.argv[1]), "sleep")
