"""Micro-batches in one process and in two: `low_memory.py <folder>`.

Real steps are measured, but their memory is made up: so many MB per unit of the largest block, of
which the second process takes twice as many. Every process writes `<case>-<rank>.json`; in the case
`fails` the second one runs out of memory in the third step.
"""

import json
import sys
from pathlib import Path

import torch
from together import start, train
from torch.multiprocessing import ProcessExitedException

from aam.distributed.processes import World
from aam.train import loop
from aam.train.memory import meter, step_memory

HELD, BUDGET = 100.0, 145.0


def process(rank, number, folder):
    measure = meter.measure_step
    step = loop.train_step

    def made_up(model, batch, devices):
        seconds, _ = measure(model, batch, devices)
        keeps = model.module.encoder.keeps_blocks
        taken = step_memory.size(batch) if keeps else max(step_memory.block_sizes(batch))
        return meter.StepMeasurement(seconds, HELD + 0.1 * (1 + rank) * taken)

    def failing(*inputs, **more):
        if rank == 1 and more["step"] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(*inputs, **more)

    meter.held_mb = lambda device: HELD
    meter.measure_step = made_up
    for name in ("ddp", "fsdp", "fails") if number > 1 else ("alone",):
        loop.train_step = failing if name == "fails" else step
        world = World(number, 1, "fsdp" if name == "fsdp" else "ddp")
        result = train({"steps": 4, "max_memory_gb": None if number == 1 else BUDGET / 1024}, world)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(result))
    sys.exit(number - 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number in (1, 2):
        try:
            start(number, process, Path(sys.argv[1]))
        except ProcessExitedException as error:
            print(error)
