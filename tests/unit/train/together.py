"""Trainings in one process or several: `together.py <folder>`, in which `starts.json` lies.

That is a list of starts: a number of processes, and cases by name. A case has `steps`; and may have
a `strategy`, `lineages` (in the place of sequences), `settings` of the training, `validations`,
`folder` (of checkpoints), `leaves` (the time limit comes after one step), `bad` (steps with a
distance that is not a number), `full` (the disk, from the third step on) and `max_memory_gb`.
Processes are forked, so that torch is imported once. Each one writes `<number>-<name>-<rank>.json`:
how the run `ended`, all `curves`, sums of the `weights`, `bytes` of both held, `stability`,
micro-batches (`memory`), the `precision`. That of a case may be `auto`, with `step_s`: what each
process takes for the seconds of a step, by precision.
"""

import json
import os
import resource
import runpy
import socket
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.multiprocessing import start_processes
from torch.optim.optimizer import register_optimizer_step_post_hook

from aam.batches.dataset import BatchDataset
from aam.batches.masking import Masker
from aam.batches.words import learn_words
from aam.config.sections.execution import Optimization
from aam.config.sections.model import WORD_BP
from aam.config.sections.training import EarlyStoppingSettings, Pretraining
from aam.data.lineages import SPELLED_BP, spell_lineages
from aam.data.nouns import find_lineages
from aam.data.sequences import tokenize
from aam.data.stores import TokenStore
from aam.distributed import devices as devices_module
from aam.distributed.devices import Devices
from aam.distributed.processes import World
from aam.model.asv_encoders import Architecture
from aam.model.encoder import build_encoder
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train import precision
from aam.train.checkpoint import Checkpoints
from aam.train.loop import TimeIsUp, Validation, fit
from aam.train.memory.meter import StepMeasurement, measure_step
from aam.train.options import step_options
from aam.train.progress import EarlyStopping
from aam.util.errors import InputError
from aam.util.run_options import RunOptions

SAMPLES, HELD_OUT = 19, 5
TINY = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))
DATA = TINY["make_tiny"](SAMPLES + HELD_OUT, 41, lengths=(20, 17, 9), views=2, cutmix=0.5)
SHAPE = Architecture(**{**TINY["SMALL"], "asv_layers": 1, "sample_layers": 1}, max_length_bp=20)
GENERA = [f"k__B;p__{j % 3};f__{j % 6};g__{j}" for j in range(len(DATA.tokens.feature_ids))]
WORDS, LENGTHS = tokenize(
    [*spell_lineages(GENERA, find_lineages(GENERA), "genus").values()], SPELLED_BP
)
LINEAGES = TokenStore(GENERA, LENGTHS, WORDS, are_lineages=True)
OF_LINEAGES = replace(SHAPE, encoder="lineage", patch_bp=WORD_BP, max_length_bp=SPELLED_BP)
VALUES = {"faith_pd": np.linspace(-1, 1, SAMPLES + HELD_OUT, dtype=np.float32)[:, None]}


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


def new_feed(steps, kind=BatchDataset, tokens=DATA.tokens, masker=None, **more):
    """Return a dataset of so many batches of all samples but those held out."""
    common = {"store": DATA.store, "tokens": tokens, "samples": np.arange(SAMPLES), "seed": 0}
    common |= {"distances": {"unweighted": DATA.distances}, "masker": masker or Masker(0.2, 0)}
    return kind(**common, batch_size=SAMPLES, epochs=steps, **more)


def new_model(weights, shape=SHAPE):
    encoder = build_encoder(shape, seed=0, backend="auto")
    options = {"variances": {"unweighted": 0.05}, "nucleotide_weight": 1.0, "seed": 1}
    return PretrainingModel(encoder, weights=weights, **options)


def nbytes(tensors):
    """Return the bytes of some tensors that lie in this process."""
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in local)


def train(case, world):
    faults = {"bad": tuple(case.get("bad", ())), "full": case.get("full", False)}
    tokens, masker, shape = DATA.tokens, Masker(0.2, 0), SHAPE
    if case.get("lineages"):
        tokens, masker, shape = LINEAGES, Masker(0.2, 0, "patch", WORD_BP), OF_LINEAGES
    dataset = new_feed(case["steps"], Faulty, tokens, masker, values=VALUES, **faults)
    model = new_model({"unweighted": 1.0, "faith_pd": 0.5}, shape)
    learn_words(model.encoder, DATA.store, tokens, dataset.samples)
    given = case.get("precision", "fp32")
    devices = Devices(given, 1, world=world)
    if "step_s" in case:

        def measure(*step):
            measure_step(*step)
            return StepMeasurement(case["step_s"][devices.rank][devices.precision], 0.0)

        precision.measure_step = measure
    held_out = HeldOut(
        store=DATA.store,
        tokens=tokens,
        samples=SAMPLES + np.arange(HELD_OUT),
        training_samples=dataset.samples,
        distances=dataset.distances,
        values=VALUES,
        masker=replace(masker, seed=1),
        plotted_pairs=0,
    )
    validation = Validation(
        score=lambda: held_out.score(model, devices),
        times=case.get("validations", 1),
        watched="unweighted_pearson",
        stopping=EarlyStopping(EarlyStoppingSettings(patience=99, min_delta=0.0)),
    )
    held = {}

    def weigh(optimizer, *_):
        moments = [value for state in optimizer.state.values() for value in state.values()]
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        held[id(optimizer)] = nbytes(weights + moments)

    folder = Path(case["folder"]) if case.get("folder") else None
    settings = {"learning_rate": 1e-3, "optimizer": "adamw"}
    settings |= {"epochs": case["steps"], "batch_size": SAMPLES} | case.get("settings", {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    hook = register_optimizer_step_post_hook(weigh)
    try:
        progress = fit(
            model,
            dataset,
            Pretraining(**settings),
            devices=devices,
            options=step_options(Optimization(precision=given, **case.get("options", {}))),
            checkpoints=Checkpoints(folder, "same", writes=devices.rank == 0),
            name="test",
            runtime=RunOptions(
                deadline=time.time() if case.get("leaves") else None,
                checkpoint_every_s=0.0,
                max_memory_gb=case.get("max_memory_gb"),
            ),
            validation=validation if "validations" in case else None,
        )
    except InputError as error:
        is_sharded = folder is not None and any(path.is_dir() for path in folder.rglob("step-*"))
        ended = "late" if isinstance(error, TimeIsUp) else str(error)
        return {"ended": ended, "is_sharded": is_sharded}
    finally:
        hook.remove()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    curves, micro_batches = {}, progress.parts["memory"].micro_batches
    for record in progress.history:
        if record["split"] != "system":
            name = f"{record['split']}/{record['name']}"
            curves.setdefault(name, []).append(record["value"])
    return {
        "ended": "well",
        "curves": curves,
        "weights": {k: float(v.double().abs().sum()) for k, v in model.state_dict().items()},
        "bytes": sum(held.values()),
        "stability": progress.facts["stability"],
        "precision": progress.facts["optimization"]["precision"],
        "memory": [str(micro_batches), micro_batches.measured_mb, micro_batches.estimated_mb],
    }


def as_torchrun(rank, number, port, process, *inputs):
    """Be one of so many processes, with what torchrun would tell it."""
    torchrun = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": number}
    torchrun |= {"LOCAL_WORLD_SIZE": number, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in torchrun.items()})
    process(rank, number, *inputs)


def start(number, process, *inputs):
    """Fork so many processes and wait for them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    start_processes(as_torchrun, (number, port, process, *inputs), number, start_method="fork")


def process(rank, number, folder, cases):
    for name, case in cases.items():
        result = train(case, World(number, 1, case.get("strategy", "ddp")))
        (folder / f"{number}-{name}-{rank}.json").write_text(json.dumps(result))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    # What is compared is alike on every machine.
    devices_module.has_fast_bf16 = lambda: True
    work = Path(sys.argv[1])
    for number, cases in json.loads((work / "starts.json").read_text()):
        start(number, process, work, cases)
