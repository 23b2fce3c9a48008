"""Trainings of one process among several: `together.py <cases.json>`, started by torchrun.

A case is a dictionary: `strategy`, `optimizer`, `steps`; and may have `rate`, `validations`,
`folder` (of checkpoints), and `leaves`, when the time limit comes after one step. Writes
`<name>.json` beside the file: the values of all curves by name, the sums of the weights, and the
bytes of weights and moments that the first process holds.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import EarlyStoppingSettings, Pretraining
from aam.model.build import architecture, build_encoder
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train import loop
from aam.train.checkpoint import Checkpoints
from aam.train.data.dataset import BatchDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import TimeIsUp, Validation, fit
from aam.train.options import step_options

SAMPLES, HELD_OUT = 19, 5


def tiny_data():
    """Return the data of the other tests: sequences of three lengths, two views, mixed rows."""
    path = Path(__file__).parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_data", path)
    module = sys.modules["tiny_data"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = module.make_tiny(
        samples=SAMPLES + HELD_OUT, features=41, lengths=(20, 17, 9), views=2, cutmix=0.5
    )
    return data, module.SMALL


def new_model(small):
    shape = architecture({**small, "asv_layers": 1, "sample_layers": 1}, 20)
    return PretrainingModel(
        build_encoder(shape, seed=0, backend="auto"),
        weights={"unweighted": 1.0, "faith_pd": 0.5},
        variances={"unweighted": 0.05},
        nucleotide_weight=1.0,
        seed=1,
    )


def held_bytes(model, optimizer_states):
    """Return the bytes of weights and moments that lie in this process."""
    tensors = [*model.parameters(), *optimizer_states]
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in local)


def train(case, world):
    data, small = tiny_data()
    values = {"faith_pd": np.linspace(-1, 1, SAMPLES + HELD_OUT, dtype=np.float32)[:, None]}
    dataset = BatchDataset(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(SAMPLES),
        batch_size=SAMPLES,
        epochs=case["steps"],
        seed=0,
        masker=Masker(0.2, 0),
        distances={"unweighted": data.distances},
        values=values,
    )
    model, devices = new_model(small), Devices("fp32", 1, world=world)
    held_out = HeldOut(
        data.store,
        data.tokens,
        SAMPLES + np.arange(HELD_OUT),
        dataset.samples,
        dataset.distances,
        values,
        Masker(0.2, 1),
    )
    seen = {}
    step = loop.train_step

    def spy(wrapped, optimizer, *rest):
        done = step(wrapped, optimizer, *rest)
        moments = [v for p in optimizer.parts for s in p.state.values() for v in s.values()]
        seen["bytes"] = held_bytes(wrapped.module, moments)
        return done

    loop.train_step = spy
    folder = case.get("folder")
    try:
        progress = fit(
            model,
            dataset,
            Pretraining(
                epochs=case["steps"],
                batch_size=SAMPLES,
                learning_rate=case["rate"],
                precision="fp32",
                optimizer=case["optimizer"],
            ),
            devices=devices,
            options=step_options(Optimization()),
            checkpoints=Checkpoints(
                None if folder is None else Path(folder), "same", writes=devices.rank == 0
            ),
            name="test",
            runtime=RunOptions(deadline=time.time() if case.get("leaves") else None),
            validation=Validation(
                score=lambda: held_out.score(model, devices),
                times=case.get("validations", 2),
                watched="unweighted_pearson",
                stopping=EarlyStopping(EarlyStoppingSettings(patience=99, min_delta=0.0)),
            ),
        )
    except TimeIsUp:
        return {"left": True, "rank": devices.rank}
    finally:
        loop.train_step = step
    curves = {}
    for record in progress.history:
        if record["split"] != "system":
            name = f"{record['split']}/{record['name']}"
            curves.setdefault(name, []).append(record["value"])
    weights = {name: float(value.double().sum()) for name, value in model.state_dict().items()}
    return {"curves": curves, "weights": weights, "rank": devices.rank, **seen}


if __name__ == "__main__":
    torch.set_num_threads(1)
    file = Path(sys.argv[1])
    for name, case in json.loads(file.read_text()).items():
        result = train(case, World(int(os.environ["WORLD_SIZE"]), 1, case["strategy"]))
        if result["rank"] == 0:
            (file.parent / f"{name}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()
