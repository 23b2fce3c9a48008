"""A pretraining that is killed again and again: `killed_pretraining.py <specification.json>`.

Each start is a fork of this process, which has imported everything and computed nothing, and runs
until it is killed by SIGKILL at one of the specified moments. Prints a JSON list: per start the
signal that ended it and the files it left in its work folder.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

import aam.model.store
import aam.train.loop
from aam.config.settings.training import PretrainSettings
from aam.stages.pretrain import pretrain_encoder
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.digests import provenance
from aam.util.run_options import RunOptions

OUTPUTS = ("model", "scores", "history", "embeddings", "asvs", "pairs")


def die_writing(path: Path) -> None:
    path.write_bytes(b"half of a file")
    os.kill(os.getpid(), signal.SIGKILL)


def before_each_step(call) -> None:
    """Have `call` called with the number of steps done."""
    train_step = aam.train.loop.train_step

    def step(*args, **more):
        call(more["step"])
        return train_step(*args, **more)

    aam.train.loop.train_step = step


def die_in_a_write(step: int) -> None:
    """Die with half of a checkpoint written, after training has gone on to the next step."""
    save, gone_on = torch.save, threading.Event()

    def half(state, path):
        if state.get("step") != step:
            save(state, path)
        elif gone_on.wait(20):
            die_writing(path)
        else:
            raise RuntimeError("training waited for the write")

    before_each_step(lambda done: gone_on.set() if done == step else None)
    torch.save = half


def run(spec: dict, moment: dict, pipe: int) -> None:
    """Run the stage; at any time, tell when some steps are done, and never do the last one."""

    def at_step(done: int) -> None:
        if done >= moment["step"]:
            os.write(pipe, b".")
        if done == spec["steps"] - 1:
            time.sleep(60)

    if moment["kind"] == "in a write":
        die_in_a_write(moment["step"])
    elif moment["kind"] == "in an output":
        aam.model.store.save_file = lambda state, path, metadata=None: die_writing(path)
    else:
        before_each_step(at_step)
    folder = Path(spec["folder"])
    inputs = {
        **{name: Path(spec["inputs"][name]) for name in ("tokens", "samples")},
        "distances": [Path(path) for path in spec["inputs"]["distances"]],
    }
    pretrain_encoder(
        inputs=PretrainInputs.model_validate(inputs),
        settings=PretrainSettings.model_validate(spec["settings"]),
        runtime=RunOptions(work=folder / "work", checkpoint_every_s=0.0),
        **{f"{name}_out": folder / name for name in OUTPUTS},
        provenance=provenance(spec["settings"], inputs),
    )


def start(spec: dict, moment: dict) -> dict:
    reached, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        run(spec, moment, pipe)
        sys.exit("nobody killed it")
    os.close(pipe)
    if moment["kind"] == "at any time":
        os.read(reached, 1)
        time.sleep(moment["delay_s"])
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    os.close(reached)
    left = [path.name for path in (Path(spec["folder"]) / "work").rglob("*") if path.is_file()]
    return {"signal": os.WTERMSIG(status), "files": sorted(left)}


specification = json.loads(Path(sys.argv[1]).read_text())
print(json.dumps([start(specification, moment) for moment in specification["moments"]]))
