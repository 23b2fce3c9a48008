"""The search for micro-batches, and steps without memory; in two processes by `low_memory.py`."""

import json
import logging
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from aam.batches.dataset import BatchDataset
from aam.config.sections.training import Pretraining
from aam.distributed import devices as devices_module
from aam.distributed.devices import MORE_KERNELS, MORE_KERNELS_MB, Devices
from aam.distributed.inference_device import KERNELS
from aam.model.encoder import set_dropout
from aam.train.memory import meter
from aam.train.memory.meter import StepMeasurement, measure_step
from aam.train.memory.micro_batches import FEWEST_ASVS, MicroBatches
from aam.train.memory.step_memory import (
    StepMemory,
    block_sizes,
    fit_to_memory,
    heaviest_step,
    largest_batch_size,
    size,
)
from aam.train.optimizer import make_optimizer
from aam.util.errors import InputError

GB, HELD, INF = 1024.0, 100.0, float("inf")
MB = 0.1
"""What a step takes per unit of its largest block, on a machine that is made up."""
CUDA, CPU = (
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 4000 bytes. Error code 12 (Cannot allocate memory)"
    ),
)


def fit_with(model, dataset, devices, limit_gb=None, recompute="nothing"):
    return fit_to_memory(model, dataset, devices, limit_gb, recompute, threshold=0.8)


def sizes(batch):
    return (
        max(len(block.tokens_US) for block in batch.asvs),
        max(len(block.asv_BA) for block in batch.samples),
    )


@pytest.fixture(autouse=True)
def recoveries(monkeypatch):
    """Count the recoveries, each of which takes its time in a process full of tests."""
    calls = []
    monkeypatch.setattr(meter, "recover", lambda: calls.append(True))
    return calls


@pytest.fixture
def dataset(make, new_feed, one_thread):
    """Return a dataset of one batch: 20 samples in blocks of 16 and 4, and 60 ASVs."""
    return new_feed(data=make(features=60), batch_size=20)


@pytest.fixture
def model(new_model, devices):
    built = new_model()
    set_dropout(built, 0.2)
    return devices.setup_model(built).train()


@pytest.mark.parametrize("fails", [False, True])
def test_a_measured_step_is_a_real_one_and_leaves_no_trace(
    monkeypatch, model, dataset, devices, fails
):
    parameters = list(model.parameters())
    backward, norms = devices.backward, []

    def observe(loss):
        backward(loss)
        norms.extend(float(p.grad.norm()) for p in parameters if p.grad is not None)
        if fails:
            raise CUDA

    def traces():
        tensors = [*model.state_dict().values(), torch.get_rng_state()]
        return [tensor.tolist() for tensor in tensors], [p.grad for p in parameters]

    before = traces()
    monkeypatch.setattr(devices, "backward", observe)
    with pytest.raises(torch.OutOfMemoryError) if fails else nullcontext():
        seconds, peak_mb = measure_step(model, dataset[0], devices)
        assert seconds > 0
        assert peak_mb > 10
    assert 0 < sum(norms) < INF
    assert traces() == before


def test_the_heaviest_batch_has_the_most_to_encode(make):
    data = make(samples=160, lengths=(20, 17, 9))
    common = {"store": data.store, "tokens": data.tokens, "samples": np.arange(160), "seed": 0}
    few = BatchDataset(**common, batch_size=40, epochs=3)

    def weight(step):
        batch = few[step]
        lengths = [int((block.tokens_US > 0).sum()) for block in batch.asvs]
        return sum(lengths) + sum(int(block.present_BA.sum()) for block in batch.samples)

    assert heaviest_step(few) == max(range(4), key=weight)
    assert 0 <= heaviest_step(BatchDataset(**common, batch_size=2, epochs=3)) < 80


class Machine:
    """A step takes `MB`, of a small batch `part_factor` times as much, but fails beyond `most`."""

    most, part_factor = INF, 1.0

    def measure(self, model, batch, devices):
        self.batches.append(sizes(batch))
        keeps = model.encoder.keeps_blocks
        units = size(batch) if keeps else max(block_sizes(batch))
        taken = MB * units * (self.part_factor if batch.size < 20 else 1.0)
        if HELD + taken > self.most:
            raise CUDA
        return StepMeasurement(0.5, HELD + taken)


@pytest.fixture
def machine(monkeypatch) -> Machine:
    machine = Machine()
    machine.batches = []
    monkeypatch.setattr(meter, "measure_step", machine.measure)
    monkeypatch.setattr(meter, "held_mb", lambda device: HELD)
    return machine


@pytest.mark.parametrize("recompute", ["nothing", "layers"])
def test_a_batch_that_fits_is_left_as_it_is(model, dataset, devices, caplog, recompute):
    """By real steps, of which one line tells."""
    caplog.set_level(logging.INFO)
    fit = fit_with(model, dataset, devices, recompute=recompute)
    assert str(fit).startswith("one micro-batch")
    assert fit.recompute == recompute
    assert model.encoder.asv.keeps_layers == (recompute == "nothing")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "step of 20 samples in fp32, in one micro-batch" in line
    assert f"estimated {fit.estimated_mb:.0f} MB, measured {fit.measured_mb:.0f} MB" in line
    assert min(fit.estimated_mb, fit.measured_mb, fit.seconds_per_step) > 0


def test_the_kernels_of_other_batches_are_a_part_of_the_memory(
    machine, model, dataset, monkeypatch
):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    fits = {}
    for kernels in (KERNELS, MORE_KERNELS):
        for precision in ("fp32", "bf16"):
            devices = Devices(precision, 1, kernels=kernels)
            fits[kernels, precision] = fit_with(model, dataset, devices)
    expected = fits[KERNELS, "fp32"]
    assert fits[KERNELS, "bf16"] == fits[MORE_KERNELS, "fp32"] == expected
    more = fits[MORE_KERNELS, "bf16"]
    is_cpu = devices.device.type == "cpu"
    assert more.estimated_mb == expected.estimated_mb + is_cpu * MORE_KERNELS_MB
    assert more.measured_mb == expected.measured_mb + is_cpu * MORE_KERNELS_MB


@pytest.mark.parametrize(("batch_size", "fits"), [(4, True), (20, False)])
def test_room_for_a_larger_batch_is_said(
    machine, model, new_feed, devices, caplog, batch_size, fits
):
    with caplog.at_level(logging.INFO):
        fit_with(model, new_feed(batch_size=batch_size), devices, 1.0)
    assert ("batches of 20 samples would fit" in caplog.text) == fits


@pytest.mark.parametrize("overestimates", [False, True])
@pytest.mark.parametrize("holds", [2, 4, 8, 20])
def test_batches_grow_to_what_a_real_step_fits(
    machine, model, new_feed, devices, holds, overestimates, recoveries
):
    """Also where the first estimate was too high, and a step runs out of memory."""
    sizes_tried = [2, 4, 8, 20]
    feeds = {number: new_feed(batch_size=number) for number in sizes_tried}
    units = {number: size(feed[heaviest_step(feed)]) for number, feed in feeds.items()}
    room = 1.01 * MB * units[holds]
    limit_gb = (HELD + room + 3 * machine_weights_mb(model)) / GB
    if overestimates:
        limit_gb *= 100
        machine.most = HELD + room
    found = largest_batch_size(
        model, feeds[2], sizes_tried, devices, limit_gb, "nothing", threshold=0.8
    )
    assert found == holds
    assert bool(recoveries) == (overestimates and holds < 20)
    assert max(batch[1] for batch in machine.batches) <= (20 if overestimates else holds)
    assert model.encoder.keeps_blocks


def machine_weights_mb(model):
    return sum(p.nbytes for p in model.parameters()) / 2**20


@pytest.mark.parametrize(
    ("part_factor", "fraction", "most"),
    [(0.3, 0.2, INF), (0.3, 0.35, INF), (1, 0.7, INF), (2, 0.2, INF), (0.01, 2, 0.2)],
)
def test_micro_batches_are_found_that_fit(
    machine, model, dataset, devices, caplog, recoveries, part_factor, fraction, most
):
    """Where the part tells so, the whole batch is not tried; the last case runs out of memory."""
    batch, machine.part_factor = dataset[0], part_factor
    room, machine.most = 0.1 * HELD + fraction * MB * size(batch), HELD + most * MB * size(batch)
    caplog.set_level(logging.INFO)
    fit = fit_with(model, dataset, devices, (HELD + room) / GB)
    assert fit.recompute == "micro-batches"
    assert not model.encoder.keeps_blocks
    assert HELD < fit.measured_mb <= min(HELD + room, machine.most)
    assert machine.batches.count(sizes(batch)) == (part_factor * MB * size(batch) < room)
    assert fit.split(batch).size == 20, "the batch is never made smaller"
    assert caplog.text.count("memory of a step") == 1
    assert bool(recoveries) == (most < INF)


def test_where_the_smallest_do_not_fit_the_user_is_told(machine, model, dataset, devices):
    with pytest.raises(InputError, match="100 MB of them held.*at most 90 MB.*max_memory_gb"):
        fit_with(model, dataset, devices, 90 / GB)
    assert machine.batches[-1] == (15, 1)
    assert sizes(dataset[0]) not in machine.batches, "a system would end a process that takes it"
    machine.most = 50.0
    with pytest.raises(InputError, match="more than there is"):
        fit_with(model, dataset, devices, 1.0)


def test_processes_choose_the_same_micro_batches_and_learn_as_one(tmp_path):
    """And one that runs out of memory ends the others with one message."""
    script = Path(__file__).with_name("low_memory.py")
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
    assert (tmp_path / "fails-1.json").exists(), done.stderr[-4000:]
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert results["alone-0"]["memory"][0] == "one micro-batch"
    losses = pytest.approx(results["alone-0"]["curves"]["train/loss"], rel=1e-5)
    for strategy in ("ddp", "fsdp"):
        first, second = (results[f"{strategy}-{rank}"] for rank in (0, 1))
        assert first["curves"]["train/loss"] == second["curves"]["train/loss"] == losses
        assert first["memory"] == second["memory"]
        micro_batches, measured_mb, _ = first["memory"]
        assert "of at most 5 samples, each computed again" in micro_batches
        assert 100 < measured_mb <= 145, "the largest of both counts"
    assert "one process's shard of a batch (CUDA out of memory.)" in results["fails-1"]["ended"]
    assert "fails-0" not in results


# A step in the course of a run


@pytest.fixture
def memory(model, devices):
    """Return what keeps a run in its memory, after its search."""
    bare = make_optimizer(model, Pretraining(optimizer="muon"), fused=True)
    optimizer = devices.setup_optimizer(bare)
    return StepMemory(
        model,
        optimizer,
        devices,
        limit_gb=None,
        recompute="nothing",
        micro_batches=MicroBatches(measured_mb=1.0),
        threshold=0.8,
    )


def failing_above(largest, error, model=None):
    """Return a step that has no memory for blocks of more ASVs, and the sizes it was tried with."""
    attempts = []

    def step(batch):
        attempts.append(sizes(batch))
        if model is not None:
            torch.manual_seed(9)
            model(batch)["loss"].backward()
        if attempts[-1][0] > largest:
            raise error
        return "done"

    return step, attempts


@pytest.mark.parametrize("error", [CUDA, CPU], ids=["cuda", "cpu"])
def test_a_step_without_memory_is_tried_in_half_the_size(
    model, memory, dataset, error, caplog, recoveries
):
    batch = dataset[0]
    step, attempts = failing_above(20, error, model)
    model.zero_grad(set_to_none=True)
    assert memory.run(step, batch) == "done"
    assert attempts == [(60, 16), (30, 8), (15, 4)]
    assert not model.encoder.keeps_blocks
    assert memory.micro_batches.measured_mb == 1.0
    assert len(recoveries) == caplog.text.count("out of memory: from now on") == 2
    assert "at most 16 ASVs and of at most 4 samples" in caplog.records[-1].getMessage()
    assert not memory.optimizer._optimizer_step_pre_hooks
    # What is left are the gradients of the step that succeeded, not of those that did not.
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    torch.manual_seed(9)
    model(memory.micro_batches.split(batch))["loss"].backward()
    assert all(map(torch.equal, [p.grad for p in model.parameters()], gradients))
    # The next step begins where this one ended.
    step, attempts = failing_above(20, error)
    assert memory.run(step, batch) == "done"
    assert attempts == [(15, 4)]


@pytest.mark.parametrize(
    ("processes", "error", "message", "tries"),
    [
        (1, CUDA, f"at most {FEWEST_ASVS} ASVs and of at most 1 samples.*gb", 5),
        (2, CUDA, r"one process's shard of a batch \(CUDA out of memory", 1),
        (1, RuntimeError("loss is not finite"), "not finite", 1),
    ],
    ids=["smallest", "one of several processes", "another error"],
)
def test_a_step_that_cannot_be_done_ends_the_run(
    memory, dataset, monkeypatch, processes, error, message, tries
):
    monkeypatch.setattr(type(memory.devices), "processes", processes)
    step, attempts = failing_above(0, error)
    with pytest.raises(InputError if error is CUDA else RuntimeError, match=message):
        memory.run(step, dataset[0])
    assert len(attempts) == tries


def test_an_update_that_was_begun_is_not_repeated(model, memory, dataset):
    def step(batch):
        model(batch)["loss"].backward()
        memory.optimizer.step()
        raise CUDA

    with pytest.raises(InputError, match="update of the weights"):
        memory.run(step, dataset[0])


def test_micro_batches_survive_a_checkpoint_unless_the_limit_is_another(
    memory, model, dataset, machine
):
    kept = memory.micro_batches = MicroBatches(20, 3, "micro-batches", measured_mb=2.0)
    state = json.loads(json.dumps(memory.state()))
    for limit_gb, searched in ((None, False), (1.0, True)):
        resumed = replace(memory, limit_gb=limit_gb, micro_batches=None)
        resumed.restore(state)
        assert resumed.micro_batches == kept
        resumed.prepare(dataset)
        assert bool(machine.batches) == searched
        assert (resumed.micro_batches == kept) == (not searched)
        assert model.encoder.keeps_blocks == searched
    # What was found since is kept where a run goes back to an earlier checkpoint.
    chosen = resumed.micro_batches
    resumed.restore(state)
    assert resumed.micro_batches is chosen
