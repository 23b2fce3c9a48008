"""A pretraining that is killed: `killed_pretraining.py <specification.json>`, run by a test."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

import aam.model.store
from aam.stages import pretrain
from aam.stages.entry import RunContext
from aam.train.feed import Feed


def die_writing(path: Path) -> None:
    path.write_bytes(b"half of a file")
    os.kill(os.getpid(), signal.SIGKILL)


def arrange(moment: str) -> None:
    """Have the process killed while it writes, or slow it down until it is killed from outside."""
    save, assemble = torch.save, Feed.assemble
    if moment == "in a checkpoint":
        torch.save = lambda state, path: (
            die_writing(path) if state["step"] == 4 else save(state, path)
        )
    if moment == "in an output":
        aam.model.store.save_file = lambda state, path: die_writing(path)
    if moment == "in training":
        Feed.assemble = lambda *args: time.sleep(2) or assemble(*args)


def paths(names: dict) -> dict:
    return {
        name: [Path(item) for item in value] if isinstance(value, list) else Path(value)
        for name, value in names.items()
    }


spec = json.loads(Path(sys.argv[1]).read_text())
arrange(spec["moment"])
pretrain.run(
    spec["cfg"],
    inputs=paths(spec["inputs"]),
    outputs=paths(spec["outputs"]),
    runtime=RunContext(work=Path(spec["work"]), checkpoint_every_s=0.0),
)
