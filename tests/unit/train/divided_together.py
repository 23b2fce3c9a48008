"""Micro-batches in several processes: `divided_together.py <folder>`, by torchrun.

Real steps are measured, but their memory is made up: so many MB per unit of the largest block, of
which the last process takes twice as many. Every process writes `<strategy>-<rank>.json`, then
`fails-<rank>.json` of a run in which the last process runs out of memory in the third step.
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
from aam.model.build import architecture, build_encoder
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.model import PretrainingModel
from aam.train import loop, step_memory
from aam.train.checkpoint import Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.options import step_options
from aam.util.errors import InputError

HELD, BUDGET, STEPS, SAMPLES = 100.0, 145.0, 6, 19


def tiny_data():
    path = Path(__file__).parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_data", path)
    module = sys.modules["tiny_data"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = module.make_tiny(samples=SAMPLES, features=41, lengths=(20, 17, 9), views=2, cutmix=0.5)
    return data, architecture({**module.SMALL, "asv_layers": 1, "sample_layers": 1}, 20)


def made_up(rank, real):
    def measure(model, batch, devices):
        seconds, _ = real(model, batch, devices)
        keeps = model.module.encoder.keeps_blocks
        taken = step_memory.size(batch) if keeps else max(step_memory._block_sizes(batch))
        return seconds, HELD + 0.1 * (1 + rank) * taken

    return measure


def train(world, max_memory_gb=None):
    data, shape = tiny_data()
    model = PretrainingModel(
        build_encoder(shape, seed=0, backend="auto"),
        weights={"unweighted": 1.0},
        variances={"unweighted": 0.05},
        nucleotide_weight=1.0,
        seed=1,
    )
    dataset = BatchDataset(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(SAMPLES),
        batch_size=SAMPLES,
        epochs=STEPS,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
    )
    try:
        progress = loop.fit(
            model,
            dataset,
            Pretraining(
                epochs=STEPS, batch_size=64, learning_rate=1e-3, precision="fp32", optimizer="adamw"
            ),
            devices=Devices("fp32", 1, world=world),
            options=step_options(Optimization()),
            checkpoints=Checkpoints(None, ""),
            name="test",
            runtime=RunOptions(max_memory_gb=max_memory_gb),
        )
    except InputError as error:
        return {"ended": str(error)}
    found = progress.parts["memory"].micro_batches
    return {
        "losses": [
            r["value"] for r in progress.history if (r["split"], r["name"]) == ("train", "loss")
        ],
        "micro_batches": str(found),
        "measured_mb": found.measured_mb,
        "estimated_mb": found.estimated_mb,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, rank, processes = Path(sys.argv[1]), int(os.environ["RANK"]), 2
    step_memory.memory.held_mb = lambda device: HELD
    step_memory.measure_step = made_up(rank, step_memory.measure_step)
    step = loop.train_step

    def failing(*inputs):
        if rank == processes - 1 and inputs[5] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(*inputs)

    for name in ("ddp", "fsdp", "fails"):
        loop.train_step = failing if name == "fails" else step
        world = World(processes, 1, "ddp" if name == "fails" else name)
        result = train(world, BUDGET / 1024)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(result))
    sys.exit(1)
