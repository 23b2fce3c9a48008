"""Operators of a step that would start kernels: what an accelerator waits for."""

from functools import partial

import torch

from aam.bench.timing import Launches
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.train.distributed.devices import Devices
from aam.train.options import set_up, step_options
from aam.train.step import train_step

MOST = 800
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
    wrapped, optimizer, _ = set_up(model, Pretraining(optimizer="muon"), options, devices)
    step = partial(
        train_step, wrapped, optimizer, rate=1e-3, seed=0, options=options, devices=devices
    )
    found = []
    for size in (4, 20):
        feed = new_feed(batch_size=size, distances=distances).on(torch.device("cuda"))
        step(feed[0], step=0)
        with Launches() as launches:
            step(feed[1], step=1)
        found.append(launches.number)
    assert found[0] == found[1] <= MOST
