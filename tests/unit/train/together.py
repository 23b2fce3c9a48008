"""Trainings of one process among several: `together.py <cases.json>`, started by torchrun.

A case is a dictionary: `strategy`, `steps` and `settings` of the training; and may have
`validations`, `folder` (of checkpoints), `leaves` (the time limit comes after one step), `bad`
(steps with a distance that is not a number) and `full` (the disk, from the third step on). Every
process writes `<name>-<rank>.json` beside the file: how the run `ended`, the values of all `curves`
by name, the sums of the `weights`, the `bytes` of weights and moments that it holds, `stability`.
"""

import importlib.util
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from aam.config.sections.execution import Optimization
from aam.config.sections.training import EarlyStoppingSettings, Pretraining
from aam.model.build import architecture, build_encoder
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train.checkpoint import Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import TimeIsUp, Validation, fit
from aam.train.options import step_options
from aam.util.errors import InputError

SAMPLES, HELD_OUT = 19, 5


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


def tiny_data():
    """Return the data of the other tests: sequences of three lengths, two views, mixed rows."""
    path = Path(__file__).parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_data", path)
    module = sys.modules["tiny_data"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = module.make_tiny(
        samples=SAMPLES + HELD_OUT, features=41, lengths=(20, 17, 9), views=2, cutmix=0.5
    )
    return data, architecture({**module.SMALL, "asv_layers": 1, "sample_layers": 1}, 20)


def nbytes(tensors):
    """Return the bytes of some tensors that lie in this process."""
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in local)


def new_dataset(case, data, values):
    return Faulty(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(SAMPLES),
        batch_size=SAMPLES,
        epochs=case["steps"],
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
        values=values,
        bad=tuple(case.get("bad", ())),
        full=case.get("full", False),
    )


def new_model(shape):
    return PretrainingModel(
        build_encoder(shape, seed=0, backend="auto"),
        weights={"unweighted": 1.0, "faith_pd": 0.5},
        variances={"unweighted": 0.05},
        nucleotide_weight=1.0,
        seed=1,
    )


def train(case, world):
    data, shape = tiny_data()
    values = {"faith_pd": np.linspace(-1, 1, SAMPLES + HELD_OUT, dtype=np.float32)[:, None]}
    dataset, model = new_dataset(case, data, values), new_model(shape)
    devices = Devices("fp32", 1, world=world)
    held = {}

    def weigh(optimizer, *_):
        moments = [value for state in optimizer.state.values() for value in state.values()]
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        held[id(optimizer)] = nbytes(weights) + nbytes(moments)

    held_out = HeldOut(
        data.store,
        data.tokens,
        SAMPLES + np.arange(HELD_OUT),
        dataset.samples,
        dataset.distances,
        values,
        Masker(0.2, 1),
    )
    validation = Validation(
        score=lambda: held_out.score(model, devices),
        times=case.get("validations", 1),
        watched="unweighted_pearson",
        stopping=EarlyStopping(EarlyStoppingSettings(patience=99, min_delta=0.0)),
    )
    folder = Path(case["folder"]) if case.get("folder") else None
    settings = {"learning_rate": 1e-3, "precision": "fp32", "optimizer": "adamw"}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    hook = register_optimizer_step_post_hook(weigh)
    try:
        progress = fit(
            model,
            dataset,
            Pretraining(
                epochs=case["steps"], batch_size=SAMPLES, **settings | case.get("settings", {})
            ),
            devices=devices,
            options=step_options(Optimization()),
            checkpoints=Checkpoints(folder, "same", writes=devices.rank == 0),
            name="test",
            runtime=RunOptions(
                deadline=time.time() if case.get("leaves") else None, checkpoint_every_s=0.0
            ),
            validation=validation if "validations" in case else None,
        )
    except InputError as error:
        ended = "late" if isinstance(error, TimeIsUp) else str(error)
        return {"rank": devices.rank, "ended": ended}
    finally:
        hook.remove()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    curves = {}
    for record in progress.history:
        if record["split"] != "system":
            name = f"{record['split']}/{record['name']}"
            curves.setdefault(name, []).append(record["value"])
    return {
        "rank": devices.rank,
        "ended": "well",
        "curves": curves,
        "weights": {k: float(v.double().abs().sum()) for k, v in model.state_dict().items()},
        "bytes": sum(held.values()),
        "stability": progress.report["stability"],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    file = Path(sys.argv[1])
    for name, case in json.loads(file.read_text()).items():
        result = train(case, World(int(os.environ["WORLD_SIZE"]), 1, case["strategy"]))
        (file.parent / f"{name}-{result['rank']}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()
