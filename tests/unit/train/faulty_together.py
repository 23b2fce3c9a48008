"""Broken trainings of one process among several: `faulty_together.py <cases.json>`, by torchrun.

A case is a dictionary: `strategy`, `settings` of the training, `bad` steps with a distance that is
not a number, and may have `folder` (of checkpoints), `full` (the disk from the third step on).
Every process writes `<name>-<rank>.json` beside the file: `losses`, `norms`, `weights` (sums),
`stability` and how it `ended`.
"""

import importlib.util
import json
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.runtime.run_options import RunOptions
from aam.train.checkpoint import Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.loop import fit
from aam.train.options import step_options
from aam.util.errors import InputError

STEPS = 6


def others():
    """Return the module that the tests of undisturbed runs have their model and data from."""
    path = Path(__file__).with_name("together.py")
    spec = importlib.util.spec_from_file_location("together", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, eq=False)
class Faulty(BatchDataset):
    """Breaks distances, and the disk."""

    bad: tuple[int, ...] = ()
    full: bool = False

    def __getitem__(self, step):
        if self.full and step >= 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        batch = super().__getitem__(step)
        if step in self.bad:
            batch.distances["unweighted"][1, 0] = float("nan")
        return batch


def train(case, world):
    together = others()
    data, small = together.tiny_data()
    dataset = Faulty(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(together.SAMPLES),
        batch_size=together.SAMPLES,
        epochs=STEPS,
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
        values={"faith_pd": np.linspace(-1, 1, 24, dtype=np.float32)[:, None]},
        bad=tuple(case.get("bad", ())),
        full=case.get("full", False),
    )
    model, devices = together.new_model(small), Devices("fp32", 1, world=world)
    folder = case.get("folder")
    settings = Pretraining(
        **{
            "epochs": STEPS,
            "batch_size": together.SAMPLES,
            "learning_rate": 1e-3,
            "precision": "fp32",
            "optimizer": "adamw",
            **case["settings"],
        }
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        progress = fit(
            model,
            dataset,
            settings,
            devices=devices,
            options=step_options(Optimization()),
            checkpoints=Checkpoints(
                None if folder is None else Path(folder), "same", writes=devices.rank == 0
            ),
            name="test",
            runtime=RunOptions(checkpoint_every_s=0.0),
        )
    except InputError as error:
        return {"rank": devices.rank, "ended": str(error)}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    curves = {name: [] for name in ("loss", "gradient_norm")}
    for record in progress.history:
        if record["split"] == "train" and record["name"] in curves:
            curves[record["name"]].append(record["value"])
    return {
        "rank": devices.rank,
        "ended": "well",
        "losses": curves["loss"],
        "norms": curves["gradient_norm"],
        "weights": {k: float(v.double().abs().sum()) for k, v in model.state_dict().items()},
        "stability": progress.report["stability"],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    file = Path(sys.argv[1])
    for name, case in json.loads(file.read_text()).items():
        result = train(case, World(int(os.environ["WORLD_SIZE"]), 1, case["strategy"]))
        (file.parent / f"{name}-{result['rank']}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()
