"""Steps on an accelerator that computes nothing: `fake_accelerator.py <result.json>`.

Its tensors are fake ones of PyTorch, with shapes and devices and without numbers. It stands in for
CUDA, whose fake tensors need a PyTorch that was built for it as soon as there is a gradient. Writes
by name of a case what a GPU refuses, or is waited for; an empty list is right. A process of its own
does this, because PyTorch has such a device for good.
"""

import json
import runpy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from aam.batches.dataset import AsvDataset, BatchDataset, EmbeddingDataset
from aam.batches.masking import AsvDropout, Masker
from aam.config.metrics import FAITH_PD
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.target import Target
from aam.distributed.devices import Devices
from aam.model.asv_encoders import Architecture
from aam.model.batch import TARGET, Batch, map_tensors
from aam.model.encoder import Encoder, build_encoder, set_dropout
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.memory.micro_batches import MicroBatches
from aam.train.nonfinite import NonFiniteGuard
from aam.train.options import set_up, step_options
from aam.train.step import train_step
from benchmarks.speed.graphs import new_step, pad_batch

NAME = "gpu"
TINY = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))
SAMPLES = 20
DATA = TINY["make_tiny"](SAMPLES, 41, lengths=(20, 17, 9))
SHAPE = {**TINY["SMALL"], "asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
METRICS = ("unweighted", "weighted_normalized", "bray_curtis")
COMMON = {"store": DATA.store, "tokens": DATA.tokens, "samples": np.arange(SAMPLES)}
COMMON |= {"batch_size": 8, "epochs": 2, "seed": 0}
WEIGHTED = {"classes": ("a", "b", "c"), "class_weights": (1.0, 2.0, 0.5)}
SITE = Target("classification", ("site",), loss="cross_entropy", **WEIGHTED)
TARGETS = {
    "mae": Target("regression", ("age",), (), "mae"),
    "quantile": Target("regression", ("age",), (), "quantile"),
    "cross_entropy": SITE,
    "ordinal": Target("ordinal", ("level",), loss="ordinal", shares=(0.2, 0.3, 0.5), **WEIGHTED),
}
WHOLE = MicroBatches()
HOSTS = Vocabulary(("host",), (("x", "y"),))


class Backend(_DummyBackendModule):
    """What PyTorch asks such a device."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


class DeviceFlow(TorchDispatchMode):
    """Collects operators between devices; a single number of the host is no transfer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        places = {x.device.type for x in given if x.ndim or x.device.type != "cpu"}
        places |= {x.device.type for x in tree_leaves(result) if isinstance(x, Tensor)}
        self.seen += [func._schema.name] * (len(places) > 1)
        return result


def faults_of(step: Callable[[], object]) -> list[str]:
    """Run a step on fake tensors, and return what is wrong with it."""
    flow = DeviceFlow()
    try:
        with flow:
            step()
    except (RuntimeError, AssertionError) as error:
        # An operator whose result the host has to know, or with tensors of two devices.
        return [*flow.seen, f"{type(error).__name__}: {error}".partition("\n")[0]]
    return flow.seen


def on_accelerator(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """Move weights and buffers, as `Module.to` does, and nothing else that a module holds."""
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                moved = mode.from_tensor(weight).detach().to(NAME)
                module._parameters[name] = nn.Parameter(moved, weight.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = mode.from_tensor(buffer).to(NAME)
    return model


def accelerator() -> Devices:
    devices = Devices("fp32", 1)
    devices.device = torch.device(NAME, 0)
    # The wrapper would move the model to the devices that this machine has.
    devices._fabric.setup_module = partial(devices._fabric.setup_module, move_to_device=False)
    return devices


def faults(
    model: nn.Module, feed: BatchDataset, split: MicroBatches, *, steps: int = 1, **changes: str
) -> list[str]:
    """Do the first steps of a model, and return what is wrong with them."""
    settings = Pretraining(optimizer=changes.pop("optimizer", "muon"))
    options = step_options(Optimization(precision="fp32", **changes))
    devices = accelerator()
    guard = NonFiniteGuard(options, feed, devices)
    batches = [split.split(feed.for_device(devices.device)[step]) for step in range(steps)]
    set_dropout(model, 0.1)
    with FakeTensorMode() as mode:
        wrapped, optimizer = set_up(on_accelerator(model, mode), settings, options, devices)
        wrapped.train()
        split.apply(wrapped.module)
        found = []
        for step, batch in enumerate(batches):
            moved: Batch = map_tensors(batch, lambda tensor: mode.from_tensor(tensor).to(NAME))
            one = partial(train_step, wrapped, optimizer, moved, step=step, rate=1e-3, seed=0)
            found += faults_of(partial(one, options=options, devices=devices, guard=guard))
        weights = [weight for weight in wrapped.module.parameters() if weight.requires_grad]
        assert {weight.device.type for weight in weights} == {NAME}
        return found


def encoder(**changes) -> Encoder:
    shape = Architecture(**{**SHAPE, **changes}, max_length_bp=20)
    return build_encoder(shape, seed=0, backend="auto")


def pretraining(split: MicroBatches = WHOLE, shape=None, **changes) -> list[str]:
    return faults(*pretrained(**(shape or {})), split, **changes)


def recorded() -> list[str]:
    """Do a step that could be a CUDA graph, in which nothing may wait."""
    model, feed = pretrained()
    devices = accelerator()
    with FakeTensorMode() as mode:
        options = step_options(Optimization(precision="fp32"))
        settings = Pretraining(optimizer="muon")
        step = new_step(on_accelerator(model, mode), settings, options, devices)
        padded = pad_batch(feed.for_device(devices.device)[0])
        batch: Batch = map_tensors(padded, lambda tensor: mode.from_tensor(tensor).to(NAME))
        return faults_of(partial(step, batch))


def pretrained(**shape) -> tuple[PretrainingModel, BatchDataset]:
    terms = dict.fromkeys((*METRICS, FAITH_PD), 1.0)
    own = encoder(**shape)
    model = PretrainingModel(own, weights=terms, variances=terms, nucleotide_weight=1.0, seed=1)
    faith_pd = np.linspace(-1, 1, SAMPLES, dtype=np.float32)[:, None]
    feed = BatchDataset(
        **COMMON,
        masker=Masker(0.2, 0),
        distances=dict.fromkeys(METRICS, DATA.distances),
        values={FAITH_PD: faith_pd},
    )
    return model, feed


def finetuning(kind: str, dataset: type[BatchDataset] = BatchDataset, **more) -> list[str]:
    target = TARGETS[kind]
    model = Predictor(encoder(), target, vocabulary=HOSTS, seed=0)
    if dataset is not BatchDataset:
        model.encoder.requires_grad_(False)
    columns = len(target.classes) or 1
    values = np.random.default_rng(0).dirichlet(np.ones(columns), SAMPLES).astype(np.float32)
    category_NF = np.arange(SAMPLES)[:, None] % 3
    feed = dataset(**COMMON, values={TARGET: values}, category_NF=category_NF, **more)
    return faults(model, feed, WHOLE)


class Planted(nn.Module):
    """A module with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.recompute = lambda what: None
        self.fault = fault
        self.weight = nn.Parameter(torch.ones(3, 3))
        self.register_buffer("moves", torch.arange(3))
        self.stays = torch.ones(3)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        x = self.weight * 2.0
        faults: dict[str, Callable[[], Tensor]] = {
            "none": lambda: x,
            "item": lambda: x * x.sum().item(),
            "bool": lambda: x if bool(x.sum() > 0) else -x,
            "nonzero": lambda: x[(x > 0).nonzero()[:, 0]],
            "boolean mask": lambda: x[x > 0],
            "to the host": lambda: x.cpu() * 2.0,
            "from the host": lambda: x + torch.arange(3).to(x.device),
            "two devices": lambda: x + torch.arange(3),
            "index of the host": lambda: x[torch.tensor([0, 1])],
            "a tensor that no buffer holds": lambda: x * self.stays,
        }
        return {"loss": faults[self.fault]().sum() + self.moves.sum()}


def planted(fault: str) -> list[str]:
    return faults(Planted(fault), BatchDataset(**COMMON), WHOLE, optimizer="adamw")


FEW = MicroBatches(16, 3, "micro-batches")
FROZEN = {"embedding_RD": torch.zeros(SAMPLES, SHAPE["width"])}
ASVS = {"asv_UD": torch.zeros(41, SHAPE["width"])}
CASES: dict[str, Callable[[], list[str]]] = {
    "pretraining": partial(pretraining, steps=2),
    "pretraining, adamw": partial(pretraining, optimizer="adamw", clipping="value", steps=2),
    "pretraining, plain": partial(pretraining, level="basic", clipping="adaptive"),
    "pretraining, bilstm": partial(pretraining, shape={"encoder": "bilstm"}),
    "pretraining, bdh": partial(pretraining, shape={"encoder": "bdh", "asv_layers": 2}),
    "pretraining, restore": partial(pretraining, FEW, nonfinite="restore"),
    "pretraining, skip": partial(pretraining, optimizer="adamw", nonfinite="skip"),
    "pretraining, layers again": partial(pretraining, MicroBatches(recompute="layers")),
    "pretraining, recorded": recorded,
    **{f"fine-tuning, {kind}": partial(finetuning, kind) for kind in TARGETS},
    "fine-tuning, ASVs left out": partial(finetuning, "mae", asv_dropout=AsvDropout(0.2, 0)),
    "fine-tuning, frozen": partial(finetuning, "mae", EmbeddingDataset, **FROZEN),
    "fine-tuning, partial": partial(finetuning, "mae", AsvDataset, **ASVS),
}
PLANTED = (
    *("none", "item", "bool", "nonzero", "boolean mask", "to the host", "from the host"),
    *("two devices", "index of the host", "a tensor that no buffer holds"),
)


def main(result: Path) -> None:
    torch.set_num_threads(1)
    _setup_privateuseone_for_python_backend(NAME, Backend())
    found = {name: case() for name, case in CASES.items()}
    found |= {f"planted: {fault}": planted(fault) for fault in PLANTED}
    result.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
