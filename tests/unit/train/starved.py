"""A short training that is granted no more than some bytes from its third step on.

`starved.py <folder>` trains with plenty, then with less and less until something is said of it. It
prints a JSON list of what became of each run: how it `ended`, its last `step`, the `losses`, what
was `said`, and the step of the checkpoint that was `kept`.
"""

import importlib.util
import json
import logging
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
from aam.train.loop import fit
from aam.train.micro_batches import MicroBatches
from aam.train.options import step_options
from aam.util.errors import InputError


def tiny_data():
    path = Path(__file__).parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_data", path)
    module = sys.modules["tiny_data"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_tiny(features=200, lengths=(100,)), module.SMALL


class Heard(logging.Handler):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def train(folder: Path, number: int) -> dict:
    torch.set_num_threads(1)
    heard = Heard()
    logging.getLogger().addHandler(heard)
    data, small = tiny_data()
    shape = architecture({**small, "width": 64, "patch_bp": 1}, 100)
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
        samples=np.arange(20),
        batch_size=20,
        epochs=4,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
    )
    # As where the first batch fitted: the fault comes in the middle of the run.
    step_memory.fit_to_memory = lambda *_, **named: MicroBatches(recompute=named["recompute"])
    real, before = loop.train_step, {}

    def step(*rest):
        if rest[5] == 2 and not before:
            before["limited"] = True
            taken = psutil.Process().memory_info().vms
            resource.setrlimit(resource.RLIMIT_AS, (taken + number, resource.RLIM_INFINITY))
        return real(*rest)

    loop.train_step = step
    progress, ended = None, "well"
    try:
        progress = fit(
            model,
            dataset,
            Pretraining(epochs=4, batch_size=20, precision="fp32"),
            devices=Devices("fp32", 1),
            options=step_options(Optimization()),
            checkpoints=Checkpoints(folder, "a"),
            name="test",
            runtime=RunOptions(checkpoint_every_s=0.0),
        )
    except InputError as error:
        ended = str(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    state = Checkpoints(folder, "a").load()
    history = [] if progress is None else progress.history
    return {
        "ended": ended,
        "step": None if progress is None else progress.step,
        "losses": [r["value"] for r in history if (r["split"], r["name"]) == ("train", "loss")],
        "said": heard.said,
        "kept": None if state is None else state["step"],
    }


def main(folder: Path) -> None:
    found = []
    # How much lies free within the process differs from machine to machine.
    for number in (10**12, 30_000_000, 10_000_000, 3_000_000, 0):
        path = folder / f"{number}.json"
        child = os.fork()
        if child == 0:
            path.write_text(json.dumps(train(folder / str(number), number)))
            os._exit(0)
        os.waitpid(child, 0)
        found.append(json.loads(path.read_text()))
        if found[-1]["said"]:
            break
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
