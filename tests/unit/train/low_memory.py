"""Short trainings with too little memory: `low_memory.py <folder>`.

By itself it trains with plenty, then with so many more bytes of address space from the third step
on, fewer and fewer until something is said of it: what became of the runs is in `starved.json`.

By torchrun, in two processes, real steps are measured, but their memory is made up: so many MB per
unit of the largest block, of which the last process takes twice as many. Every process writes
`<strategy>-<rank>.json`, then `fails-<rank>.json` of a run in which the last process runs out of
memory in the third step.
"""

import importlib.util
import json
import os
import resource
import sys
from pathlib import Path

import numpy as np
import psutil
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
from aam.train.micro_batches import MicroBatches
from aam.train.options import step_options
from aam.util.errors import InputError

HELD, BUDGET, EPOCHS = 100.0, 145.0, 4
STARVED = (
    {"samples": 20, "features": 200, "lengths": (100,)},
    {"width": 64, "patch_bp": 1},
)
SHARDED = (
    {"samples": 19, "features": 41, "lengths": (20, 17, 9), "views": 2, "cutmix": 0.5},
    {"asv_layers": 1, "sample_layers": 1},
)


def train(case=SHARDED, world=None, folder=None, max_memory_gb=None) -> dict:
    """Train a few steps, each with all samples, and return what became of the run."""
    path = Path(__file__).parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_data", path)
    module = sys.modules["tiny_data"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data_changes, shape_changes = case
    data = module.make_tiny(**data_changes)
    shape = architecture({**module.SMALL, **shape_changes}, max(data_changes["lengths"]))
    model = PretrainingModel(
        build_encoder(shape, seed=0, backend="auto"),
        weights={"unweighted": 1.0},
        variances={"unweighted": 0.05},
        nucleotide_weight=1.0,
        seed=1,
    )
    samples = data_changes["samples"]
    dataset = BatchDataset(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(samples),
        batch_size=samples,
        epochs=EPOCHS,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
    )
    try:
        progress = loop.fit(
            model,
            dataset,
            Pretraining(
                epochs=EPOCHS,
                batch_size=samples,
                learning_rate=1e-3,
                precision="fp32",
                optimizer="adamw",
            ),
            devices=Devices("fp32", 1, world=world or World()),
            options=step_options(Optimization()),
            checkpoints=Checkpoints(folder, "a"),
            name="test",
            runtime=RunOptions(checkpoint_every_s=0.0, max_memory_gb=max_memory_gb),
        )
    except InputError as error:
        return {"ended": str(error)}
    found = progress.parts["memory"].micro_batches
    history = progress.history
    return {
        "ended": "well",
        "step": progress.step,
        "losses": [r["value"] for r in history if (r["split"], r["name"]) == ("train", "loss")],
        "micro_batches": str(found),
        "measured_mb": found.measured_mb,
        "estimated_mb": found.estimated_mb,
    }


def starved(folder: Path, number: int) -> dict:
    """Train with so many more bytes from the third step on, as where the first batch fitted."""
    said, real, limited = [], loop.train_step, []
    step_memory.fit_to_memory = lambda *_, **named: MicroBatches(recompute=named["recompute"])
    step_memory.logger.warning = lambda text, *rest: said.append(text % rest)

    def step(*rest):
        if rest[5] == 2 and not limited:
            limited.append(True)
            taken = psutil.Process().memory_info().vms
            resource.setrlimit(resource.RLIMIT_AS, (taken + number, resource.RLIM_INFINITY))
        return real(*rest)

    loop.train_step = step
    found = train(STARVED, folder=folder)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    state = Checkpoints(folder, "a").load()
    return {**found, "said": said, "kept": None if state is None else state["step"]}


def starve(folder: Path) -> None:
    found = []
    # How much lies free within the process differs from machine to machine.
    for number in (10**12, 10_000_000, 3_000_000, 0):
        path = folder / f"{number}.json"
        if os.fork() == 0:
            path.write_text(json.dumps(starved(folder / str(number), number)))
            os._exit(0)
        os.wait()
        found.append(json.loads(path.read_text()))
        if found[-1]["said"]:
            break
    (folder / "starved.json").write_text(json.dumps(found))


def shard(folder: Path, rank: int) -> None:
    measure, step = step_memory.measure_step, loop.train_step

    def made_up(model, batch, devices):
        seconds, _ = measure(model, batch, devices)
        keeps = model.module.encoder.keeps_blocks
        taken = step_memory.size(batch) if keeps else max(step_memory._block_sizes(batch))
        return seconds, HELD + 0.1 * (1 + rank) * taken

    def failing(*inputs):
        if rank == 1 and inputs[5] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(*inputs)

    step_memory.memory.held_mb = lambda device: HELD
    step_memory.measure_step = made_up
    for name in ("ddp", "fsdp", "fails"):
        loop.train_step = failing if name == "fails" else step
        world = World(2, 1, "ddp" if name == "fails" else name)
        result = train(world=world, max_memory_gb=BUDGET / 1024)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(result))
    sys.exit(1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        shard(Path(sys.argv[1]), int(os.environ["RANK"]))
    else:
        starve(Path(sys.argv[1]))
