"""What only an accelerator shows; `make gpu` runs this there, on CUDA alone."""

from functools import partial

import pytest
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.target import Target
from aam.distributed.devices import Devices
from aam.model.batch import TARGET
from aam.model.heads import Thresholds
from aam.model.predictor import Predictor, TargetLoss
from aam.train.memory.meter import measure_step
from aam.train.memory.step_memory import StepMemory
from aam.train.options import set_up, step_options
from aam.train.step import load_batches, train_step

on_cuda_alone = pytest.mark.parametrize("device", ["cuda"], indirect=True)
OPTIONS = [
    *({"precision": one} for one in ("tf32", "bf16", "fp16")),
    *({"attention": one} for one in ("flash", "memory_efficient", "math")),
    *({"compile": one} for one in ("default", "reduce-overhead", "max-autotune")),
    *({name: True} for name in ("checkpointing", "deterministic", "fused_optimizer")),
]
ENCODERS = {
    "transformer": {},
    "bilstm": {"encoder": "bilstm"},
    "bdh": {"encoder": "bdh", "asv_layers": 2},
}
WEIGHTED = {"classes": ("a", "b", "c"), "class_weights": (1.0, 2.0, 0.5)}
TARGETS = {
    "quantile": Target("regression", ("age",), (), "quantile"),
    "classes": Target("classification", ("site",), loss="cross_entropy", **WEIGHTED),
    "ordinal": Target("ordinal", ("level",), loss="ordinal", shares=(0.2, 0.3, 0.5), **WEIGHTED),
}


@pytest.fixture(autouse=True)
def any_algorithm():
    """Leave no test with the deterministic algorithms of another."""
    yield
    torch.use_deterministic_algorithms(False)


def run(model, feed, precision="fp32", deterministic=False, **options) -> torch.Tensor:
    """Return losses of some steps, and means of what is embedded between them."""
    devices = Devices(precision, 1, deterministic=deterministic)
    options = step_options(Optimization(precision=precision, level="basic", **options))
    wrapped, optimizer = set_up(model, Pretraining(optimizer="muon"), options, devices)
    feed, found = feed.for_device(devices.device), []
    for step in range(4):
        batch = feed[step].to(devices.device)
        with devices.inference(model):
            means = [model.encoder(batch).sample_BD, model.encoder(batch).sample_BD]
            found += [mean.float().mean() for mean in means]
        about = {"step": step, "rate": 1e-3, "seed": 0, "options": options, "devices": devices}
        found.append(train_step(wrapped, optimizer, batch, **about)[0]["loss"])
    assert found[-1].device.type == devices.device.type
    return torch.stack(found).cpu()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_learns_what_plain_arithmetic_does(options, device, new_model, new_feed):
    """Samples are embedded between the steps, too, as validations do."""
    if device.type == "cpu" and "compile" in options:
        pytest.skip("a CPU compiles for a minute: tests/unit/train/test_compilation.py")
    if device.type == "cpu" and options == {"precision": "tf32"}:
        pytest.skip("a CPU has no tf32, and would be compared with itself")
    plain, found = (run(new_model(), new_feed(), **own) for own in ({}, options))
    torch.testing.assert_close(found, plain, rtol=0.05, atol=0.05)


@on_cuda_alone
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_learns_in_every_precision_what_a_cpu_does(
    kind, precision, device, on_cpu, new_model, new_encoder, new_feed
):
    def new():
        sizes = {"asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
        return new_model(new_encoder(20, **{**sizes, **ENCODERS[kind]}))

    found = run(new(), new_feed(), precision=precision)
    with on_cpu():
        plain = run(new(), new_feed())
    near = 1e-3 if precision == "fp32" else 0.05
    torch.testing.assert_close(found, plain, rtol=near, atol=near)


@pytest.mark.parametrize("kind", ENCODERS)
def test_deterministic_steps_are_the_same_to_the_bit(
    kind, device, new_model, new_encoder, new_feed
):
    def found():
        model = new_model(new_encoder(20, patch_bp=5, **ENCODERS[kind]))
        losses = run(model, new_feed(), precision="bf16", deterministic=True)
        return [losses, *(weight.detach().cpu() for weight in model.parameters())]

    first, again = found(), found()
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@on_cuda_alone
@pytest.mark.parametrize("name", TARGETS)
def test_the_loss_of_every_target_is_that_of_a_cpu(name, device):
    """With class weights and levels of quantiles on the device, and a deterministic gradient."""
    target = TARGETS[name]
    columns = {"quantile": 5, "classes": 3, "ordinal": 2}[name]
    draw = torch.Generator().manual_seed(0)
    output = torch.randn(8, columns, generator=draw)
    true = torch.rand(8, len(target.classes) or 1, generator=draw)
    found = []
    for place in (device, torch.device("cpu")):
        devices = Devices("fp32", 1, deterministic=True)
        loss, own = TargetLoss(target).to(place), output.to(place).requires_grad_()
        value = loss(own, true.to(place))
        value.backward()
        found += [value.detach().cpu(), own.grad.cpu()]
        assert devices.device.type == "cuda"
    torch.testing.assert_close(found[:2], found[2:])


@on_cuda_alone
def test_ordered_classes_have_an_algorithm_that_is_deterministic(device):
    devices = Devices("fp32", 1, deterministic=True)
    head = Thresholds([0.2, 0.3, 0.5]).to(devices.device)
    loss = TargetLoss(TARGETS["ordinal"]).to(devices.device)
    true_BK = torch.eye(3, device=devices.device)
    loss(head(torch.zeros(3, 1, device=devices.device)), true_BK).backward()
    assert head.gaps.grad.isfinite().all()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_from_workers_and_from_pinned_memory(workers, device, new_feed):
    pinned = device.type == "cuda"
    feed = new_feed().for_device(device)
    found = list(load_batches(feed, 3, workers=workers, pin=pinned))
    assert len(found) == len(feed) - 3
    for step, batch in enumerate(found, 3):
        own, expected = batch.asvs[0].tokens_US, feed[step].asvs[0].tokens_US
        assert torch.equal(own, expected)
        assert own.is_pinned() == pinned
        moved = batch.to(device)
        assert moved.asvs[0].tokens_US.device.type == device.type
        assert torch.equal(moved.asvs[0].tokens_US.cpu(), expected)


@pytest.mark.parametrize("name", ["pretraining", *TARGETS])
@on_cuda_alone
def test_a_step_waits_for_nothing(name, device, new_model, new_encoder, new_feed):
    devices = Devices("bf16", 1)
    options = step_options(Optimization(precision="bf16"))
    model, feed = new_model(), new_feed()
    if name != "pretraining":
        target = TARGETS[name]
        model = Predictor(new_encoder(20, asv_layers=1, sample_layers=1), target, seed=0)
        values = torch.rand(20, len(target.classes) or 1).numpy()
        feed = new_feed(distances={}, values={TARGET: values})
    feed = feed.for_device(devices.device)
    wrapped, optimizer = set_up(model, Pretraining(optimizer="muon"), options, devices)
    about = {"rate": 1e-3, "seed": 0, "options": options, "devices": devices}
    step = partial(train_step, wrapped, optimizer, **about)
    # Kernels are made, and memory is asked for, in the first steps.
    for number in range(3):
        batch = feed[0].to(devices.device)
        if number == 2:
            torch.cuda.set_sync_debug_mode("error")
        try:
            step(batch, step=number)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@on_cuda_alone
def test_a_batch_that_has_no_room_is_cut(device, new_model, new_encoder, new_feed):
    devices = Devices("fp32", 1)
    model = new_model(new_encoder(20, width=256, heads=8, asv_layers=8, sample_layers=8))
    wrapped, optimizer = set_up(model, Pretraining(), step_options(Optimization()), devices)
    batch = new_feed(batch_size=20).for_device(devices.device)[0]
    _, peak_mb = measure_step(wrapped, batch, devices)
    held = torch.cuda.memory_allocated()
    limit = held + 0.7 * (peak_mb * 2**20 - held)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info()[1])
    memory = StepMemory(
        wrapped, optimizer, devices, limit_gb=None, recompute="nothing", threshold=0.8
    )
    memory.restore({"asvs": None, "samples": None})
    try:
        seen = memory.run(
            lambda part: devices.backward(wrapped(part.to(devices.device))["loss"]), batch
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert seen is None
    assert memory.micro_batches.recompute == "micro-batches"
