"""Operators of a step that would start kernels, or wait for an accelerator."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.target import Target
from aam.distributed.devices import Devices
from aam.model.batch import TARGET
from aam.model.predictor import Predictor
from aam.train.options import set_up, step_options
from aam.train.step import train_step
from benchmarks.speed.measurements import Launches

MOST = 860
METRICS = ("unweighted", "weighted_normalized", "bray_curtis")


def test_views_and_memory_start_no_kernel_and_a_list_of_tensors_one():
    x = torch.ones(3, 4)
    with Launches() as launches:
        torch._foreach_add([x.T, x.detach().view(4, 3)], 1.0)
        torch.empty_like(x)
    assert launches.number == 1


def test_a_step_on_an_accelerator_starts_few_kernels(new_model, new_encoder, new_feed, tiny):
    """Whatever the batch size: samples are one block there, and matrices are updated together."""
    encoder = new_encoder(20, asv_layers=4, sample_layers=4, patch_bp=5)
    encoder.backend = "flash"
    model = new_model(
        encoder, weights=dict.fromkeys(METRICS, 1.0), variances=dict.fromkeys(METRICS, 1.0)
    )
    distances = dict.fromkeys(METRICS, tiny.distances)
    options = step_options(Optimization(precision="bf16"))
    devices = Devices("bf16", 1)
    wrapped, optimizer = set_up(model, Pretraining(optimizer="muon"), options, devices)
    step = partial(
        train_step, wrapped, optimizer, rate=1e-3, seed=0, options=options, devices=devices
    )
    numbers = []
    for size in (4, 20):
        feed = new_feed(batch_size=size, distances=distances).for_device(torch.device("cuda"))
        step(feed[0], step=0)
        with Launches() as launches:
            step(feed[1], step=1)
        numbers.append(launches.number)
    assert numbers[0] == numbers[1] <= MOST


class Waits(TorchDispatchMode):
    """Collects the operators that make a tensor of numbers of the host, or read one."""

    OPERATORS = ("aten::lift_fresh", "aten::_local_scalar_dense", "aten::nonzero")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        self.seen += [name] * (name in self.OPERATORS)
        return func(*args, **(kwargs or {}))


def test_what_waits_is_seen():
    with Waits() as waits:
        float(torch.tensor([1.0]).sum())
        torch.ones(2).new_tensor([3.0, 4.0])
    expected = ["aten::lift_fresh", "aten::_local_scalar_dense", "aten::lift_fresh"]
    assert waits.seen == expected


WEIGHTED = {"classes": ("a", "b", "c"), "class_weights": (1.0, 2.0, 0.5)}


@pytest.mark.parametrize(
    "target",
    [
        None,
        Target("regression", ("age",), (), "quantile"),
        Target("classification", ("site",), loss="cross_entropy", **WEIGHTED),
        Target("ordinal", ("level",), loss="ordinal", shares=(0.2, 0.3, 0.5), **WEIGHTED),
    ],
    ids=lambda target: "pretraining" if target is None else target.loss,
)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_waits_for_no_accelerator(target, optimizer, new_model, new_encoder, new_feed):
    settings = Pretraining(optimizer=optimizer)
    options, devices = step_options(Optimization(precision="fp32")), Devices("fp32", 1)
    model, feed = new_model(), new_feed()
    if target is not None:
        model = Predictor(new_encoder(20, asv_layers=1, sample_layers=1), target, seed=0)
        rng = np.random.default_rng(0)
        columns = len(target.classes) or 1
        values = rng.dirichlet(np.ones(columns), 20) if columns > 1 else rng.normal(size=(20, 1))
        feed = new_feed(distances={}, values={TARGET: values.astype(np.float32)})
    wrapped, wrapped_optimizer = set_up(model, settings, options, devices)
    for step in range(2):
        batch = feed[step]
        with Waits() as waits:
            train_step(
                wrapped,
                wrapped_optimizer,
                batch,
                step=step,
                rate=1e-3,
                seed=0,
                options=options,
                devices=devices,
            )
    assert waits.seen == []
