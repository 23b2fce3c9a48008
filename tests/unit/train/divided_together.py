"""Micro-batches in several processes: `divided_together.py <folder> <strategy>`, by torchrun.

Real steps are measured, but their memory is made up: so many MB per unit of the largest block, of
which the last process takes twice as many. Every process writes `<rank>.json`.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.runtime.run_options import RunOptions
from aam.train import step_memory
from aam.train.checkpoint import Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.loop import fit
from aam.train.options import step_options
from aam.util.errors import InputError

HELD, STEPS = 100.0, 6


def others():
    """Return the module that the tests of undisturbed runs have their model and data from."""
    path = Path(__file__).with_name("together.py")
    spec = importlib.util.spec_from_file_location("together", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up(rank, real):
    def measure(model, batch, devices):
        seconds, _ = real(model, batch, devices)
        taken = max(step_memory._block_sizes(batch))
        if model.module.encoder.keeps_blocks:
            taken = step_memory.size(batch)
        return seconds, HELD + 0.1 * (1 + rank) * taken

    return measure


def train(world, *, max_memory_gb=None, fails_at=None):
    together = others()
    data, small = together.tiny_data()
    dataset = BatchDataset(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(together.SAMPLES),
        batch_size=together.SAMPLES,
        epochs=STEPS,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
        values={"faith_pd": np.linspace(-1, 1, 24, dtype=np.float32)[:, None]},
    )
    model, devices = together.new_model(small), Devices("fp32", 1, world=world)
    if fails_at is not None and devices.rank == world.processes - 1:
        real = devices.backward

        def failing(loss, calls=[0]):  # noqa: B006
            calls[0] += 1
            if calls[0] == fails_at:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            real(loss)

        devices.backward = failing
    try:
        progress = fit(
            model,
            dataset,
            Pretraining(
                epochs=STEPS,
                batch_size=together.SAMPLES,
                learning_rate=1e-3,
                precision="fp32",
                optimizer="adamw",
            ),
            devices=devices,
            options=step_options(Optimization()),
            checkpoints=Checkpoints(None, ""),
            name="test",
            runtime=RunOptions(max_memory_gb=max_memory_gb),
        )
    except InputError as error:
        return {"rank": devices.rank, "ended": str(error)}
    fit_found = progress.parts["memory"].micro_batches
    return {
        "rank": devices.rank,
        "ended": "well",
        "losses": [
            r["value"] for r in progress.history if (r["split"], r["name"]) == ("train", "loss")
        ],
        "micro_batches": str(fit_found),
        "measured_mb": fit_found.measured_mb,
        "estimated_mb": fit_found.estimated_mb,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, strategy = Path(sys.argv[1]), sys.argv[2]
    rank = int(os.environ["RANK"])
    step_memory.memory.held_mb = lambda device: HELD
    step_memory.measure_step = made_up(rank, step_memory.measure_step)
    fails_at = 7 if strategy == "fails" else None
    world = World(int(os.environ["WORLD_SIZE"]), 1, "ddp" if fails_at else strategy)
    result = train(world, max_memory_gb=145 / 1024 if not fails_at else None, fails_at=fails_at)
    (folder / f"{rank}.json").write_text(json.dumps(result))
    if result["ended"] != "well":
        sys.exit(1)
    torch.distributed.destroy_process_group()
