"""What only an accelerator shows; `make gpu` runs this, and the tests of training, there."""

import pytest
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.target import Target
from aam.model.heads import Thresholds
from aam.model.losses import ordinal_error
from aam.train.distributed.devices import Devices
from aam.train.options import set_up, step_options
from aam.train.step import train_step
from aam.train.step_memory import StepMemory, measure_step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no accelerator")
OPTIONS = [
    *({"precision": one} for one in ("tf32", "bf16", "fp16")),
    *({"attention": one} for one in ("flash", "memory_efficient", "math")),
    *({"compile": one} for one in ("default", "reduce-overhead", "max-autotune")),
    *({name: True} for name in ("checkpointing", "deterministic", "fused_optimizer")),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_learns_what_plain_arithmetic_does(options, new_model, new_feed):
    """Samples are embedded between the steps, too, as validations do."""
    plain, found = (run(new_model(), new_feed(), **own) for own in ({}, options))
    torch.testing.assert_close(found, plain, rtol=0.05, atol=0.05)


def run(model, feed, precision="fp32", deterministic=False, **options) -> torch.Tensor:
    """Return losses of some steps, and means of what is embedded between them."""
    devices = Devices(precision, 1, deterministic=deterministic)
    options = step_options(Optimization(precision=precision, level="basic", **options))
    wrapped, optimizer, _ = set_up(model, Pretraining(optimizer="muon"), options, devices)
    feed, found = feed.on(devices.device), []
    for step in range(4):
        batch = feed[step].to(devices.device)
        with devices.inference(model):
            means = [model.encoder(batch).sample_BD, model.encoder(batch).sample_BD]
            found += [mean.float().mean() for mean in means]
        about = {"step": step, "rate": 1e-3, "seed": 0, "options": options, "devices": devices}
        found.append(train_step(wrapped, optimizer, batch, **about)[0]["loss"])
    return torch.stack(found).cpu()


def test_ordered_classes_have_an_algorithm_that_is_deterministic():
    devices, true_BK = Devices("fp32", 1, deterministic=True), torch.eye(3, device="cuda")
    head = Thresholds([0.2, 0.3, 0.5]).to(devices.device)
    target = Target(kind="ordinal", columns=("level",), classes=("a", "b", "c"), loss="ordinal")
    ordinal_error(head(torch.zeros(3, 1, device="cuda")), true_BK, target).backward()
    assert head.gaps.grad.isfinite().all()
    torch.use_deterministic_algorithms(False)


def test_a_batch_that_has_no_room_is_cut(new_model, new_encoder, new_feed):
    devices = Devices("fp32", 1)
    model = new_model(new_encoder(20, width=256, heads=8, asv_layers=8, sample_layers=8))
    wrapped, optimizer, _ = set_up(model, Pretraining(), step_options(Optimization()), devices)
    batch = new_feed(batch_size=20).on(devices.device)[0]
    _, peak_mb = measure_step(wrapped, batch, devices)
    held = torch.cuda.memory_allocated()
    limit = held + 0.7 * (peak_mb * 2**20 - held)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info()[1])
    memory = StepMemory(wrapped, optimizer, devices, None, "nothing", micro_batches=None)
    memory.restore({"asvs": None, "samples": None})
    try:
        seen = memory.run(
            lambda part: devices.backward(wrapped(part.to(devices.device))["loss"]), batch
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert seen is None
    assert memory.micro_batches.recompute == "micro-batches"
