"""The search for micro-batches, and steps without memory; in two processes by `low_memory.py`."""

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from aam.model.build import set_dropout
from aam.train import step_memory
from aam.train.data.dataset import BatchDataset
from aam.train.micro_batches import FEWEST_ASVS, MicroBatches
from aam.train.optimizer import make_optimizer
from aam.train.step_memory import StepMemory, fit_to_memory, heaviest_step, measure_step, size
from aam.util.errors import InputError

GB = 1024.0
HELD, MB_PER_UNIT = 100.0, 0.1
CUDA, CPU = (
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 4000 bytes. Error code 12 (Cannot allocate memory)"
    ),
)


def sizes(batch):
    return (
        max(len(block.tokens_US) for block in batch.asvs),
        max(len(block.asv_BA) for block in batch.samples),
    )


@pytest.fixture(autouse=True)
def recovered(monkeypatch):
    """Count the recoveries, each of which takes its time in a process full of tests."""
    calls = []
    monkeypatch.setattr(step_memory.memory, "recover", lambda: calls.append(True))
    return calls


@pytest.fixture
def dataset(make, new_feed, one_thread):
    """Return a dataset of one batch: 20 samples in blocks of 16 and 4, and 60 ASVs."""
    data = make(features=60)
    return replace(
        new_feed(),
        store=data.store,
        tokens=data.tokens,
        distances={"unweighted": data.distances},
        batch_size=20,
    )


@pytest.fixture
def model(new_model, devices):
    """Return a wrapped model on its device, with dropout and a trained layer in evaluation mode."""
    built = new_model()
    set_dropout(built, 0.2)
    return devices.setup(built, torch.optim.SGD(built.parameters()))[0].train()


@pytest.mark.parametrize("fails", [False, True])
def test_a_measured_step_is_a_real_one_and_leaves_no_trace(
    monkeypatch, model, dataset, devices, fails
):
    model.encoder.sample.eval()
    first = next(model.parameters())
    first.grad = torch.full_like(first, 7.0)
    torch.manual_seed(5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    state, backward, norms = torch.get_rng_state(), devices.backward, []

    def observed(loss):
        backward(loss)
        norms.extend(float(p.grad.norm()) for p in model.parameters() if p.grad is not None)
        if fails:
            raise CUDA

    monkeypatch.setattr(devices, "backward", observed)
    if fails:
        with pytest.raises(torch.OutOfMemoryError):
            measure_step(model, dataset[0], devices)
    else:
        seconds, peak_mb = measure_step(model, dataset[0], devices)
        assert seconds > 0
        assert peak_mb > 10
    assert 0 < sum(norms) < float("inf")
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.grad, torch.full_like(first, 7.0))
    assert all(p.grad is None for p in list(model.parameters())[1:])


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
    """Stands for a machine on which a step takes so many MB per unit of its largest block."""

    def __init__(self, monkeypatch):
        self.most, self.part_factor, self.batches = float("inf"), 1.0, []
        monkeypatch.setattr(step_memory, "measure_step", self.measure)
        monkeypatch.setattr(step_memory.memory, "held_mb", lambda device: HELD)

    def measure(self, model, batch, devices):
        self.batches.append(sizes(batch))
        keeps = model.encoder.keeps_blocks
        units = size(batch) if keeps else max(step_memory._block_sizes(batch))
        taken = MB_PER_UNIT * units * (self.part_factor if batch.size < 20 else 1.0)
        if HELD + taken > self.most:
            raise CUDA
        return 0.5, HELD + taken


@pytest.fixture
def machine(monkeypatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("recompute", ["nothing", "layers"])
def test_a_batch_that_fits_is_left_as_it_is(model, dataset, devices, caplog, recompute):
    """By real steps, of which one line tells."""
    caplog.set_level(logging.INFO)
    fit = fit_to_memory(model, dataset, devices, recompute=recompute)
    assert str(fit).startswith("one micro-batch")
    assert fit.recompute == recompute
    assert model.encoder.asv.keeps_layers == (recompute == "nothing")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "step of 20 samples, in one micro-batch" in line
    assert f"estimated {fit.estimated_mb:.0f} MB, measured {fit.measured_mb:.0f} MB" in line
    assert min(fit.estimated_mb, fit.measured_mb, fit.seconds_per_step) > 0


@pytest.mark.parametrize(("batch_size", "fits"), [(4, True), (20, False)])
def test_room_for_a_larger_batch_is_said(
    machine, model, new_feed, devices, caplog, batch_size, fits
):
    with caplog.at_level(logging.INFO):
        fit_to_memory(model, replace(new_feed(), batch_size=batch_size), devices, 1.0)
    assert ("batches of 20 samples would fit" in caplog.text) == fits


@pytest.mark.parametrize(("part_factor", "fraction"), [(0.3, 0.2), (0.3, 0.35), (1, 0.7), (2, 0.2)])
def test_micro_batches_are_found_that_fit(
    machine, model, dataset, devices, caplog, part_factor, fraction
):
    """And where the part tells so, the whole batch is not tried."""
    machine.part_factor, batch = part_factor, dataset[0]
    room = 0.1 * HELD + fraction * MB_PER_UNIT * size(batch)
    with caplog.at_level(logging.INFO):
        fit = fit_to_memory(model, dataset, devices, (HELD + room) / GB)
    assert fit.recompute == "micro-batches"
    assert not model.encoder.keeps_blocks
    assert HELD < fit.measured_mb <= HELD + room
    is_tried = part_factor * MB_PER_UNIT * size(batch) < room
    assert machine.batches.count(sizes(batch)) == is_tried
    assert fit.split(batch).size == 20, "the batch is never made smaller"
    assert caplog.text.count("memory of a step") == 1


def test_a_step_that_runs_out_of_memory_is_tried_in_smaller_micro_batches(
    machine, model, dataset, devices, recovered
):
    machine.part_factor = 0.01
    machine.most = HELD + 0.2 * MB_PER_UNIT * size(dataset[0])
    fit = fit_to_memory(model, dataset, devices, 1.0)
    assert sizes(dataset[0]) in machine.batches
    assert fit.recompute == "micro-batches"
    assert fit.measured_mb <= machine.most + 1
    assert recovered


def test_where_the_smallest_do_not_fit_the_user_is_told(machine, model, dataset, devices):
    with pytest.raises(InputError, match="100 MB of them held.*at most 90 MB.*max_memory_gb"):
        fit_to_memory(model, dataset, devices, 90 / GB)
    assert machine.batches[-1] == (15, 1)
    assert sizes(dataset[0]) not in machine.batches, "a system would end a process that takes it"
    machine.most = 50.0
    with pytest.raises(InputError, match="more than there is"):
        fit_to_memory(model, dataset, devices, 1.0)


def test_processes_choose_the_same_micro_batches_and_learn_as_one(tmp_path):
    """And one that runs out of memory ends the others with one message."""
    script = Path(__file__).with_name("low_memory.py")
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
    assert (tmp_path / "fails-1.json").exists(), done.stderr[-4000:]
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert found["alone-0"]["micro_batches"] == "one micro-batch"
    losses = pytest.approx(found["alone-0"]["losses"], rel=1e-5)
    for strategy in ("ddp", "fsdp"):
        first, second = (found[f"{strategy}-{rank}"] for rank in (0, 1))
        assert first.pop("losses") == second.pop("losses") == losses
        assert first == second
        assert "of at most 5 samples, each computed again" in first["micro_batches"]
        assert 100 < first["measured_mb"] <= 145, "the largest of both counts"
    assert "one process's shard of a batch (CUDA out of memory.)" in found["fails-1"]["ended"]
    assert "fails-0" not in found


# A step in the course of a run


@pytest.fixture
def optimizer(model, devices):
    """Return an optimizer as the loop has it."""
    bare = make_optimizer(model, "muon", learning_rate=1e-3, weight_decay=0.1, fused=True)
    return devices.setup(nn.Linear(1, 1), bare)[1]


@pytest.fixture
def memory(model, optimizer, devices):
    """Return what keeps a run in its memory, after its search."""
    found = StepMemory(model, optimizer, devices, None, "nothing")
    found.micro_batches = MicroBatches(seconds_per_step=1.0)
    return found


def failing_above(largest, error, model=None):
    """Return a step that has no memory for blocks of more ASVs, and the sizes it was tried with."""
    tried = []

    def step(batch):
        tried.append(sizes(batch))
        if model is not None:
            torch.manual_seed(9)
            model(batch)["loss"].backward()
        if tried[-1][0] > largest:
            raise error
        return "done"

    return step, tried


@pytest.mark.parametrize("error", [CUDA, CPU], ids=["cuda", "cpu"])
def test_a_step_without_memory_is_tried_in_half_the_size(
    model, memory, optimizer, dataset, error, caplog, recovered
):
    batch = dataset[0]
    step, tried = failing_above(20, error, model)
    model.zero_grad(set_to_none=True)
    assert memory.run(step, batch) == "done"
    assert tried == [(60, 16), (30, 8), (15, 4)]
    assert not model.encoder.keeps_blocks
    assert memory.micro_batches.seconds_per_step == 1.0
    assert len(recovered) == caplog.text.count("out of memory: from now on") == 2
    assert "at most 16 ASVs and of at most 4 samples" in caplog.records[-1].getMessage()
    assert not optimizer._optimizer_step_pre_hooks
    # What is left are the gradients of the step that succeeded, not of those that did not.
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    torch.manual_seed(9)
    model(memory.micro_batches.split(batch))["loss"].backward()
    assert all(map(torch.equal, [p.grad for p in model.parameters()], found))
    # The next step begins where this one ended.
    step, tried = failing_above(20, error)
    assert memory.run(step, batch) == "done"
    assert tried == [(15, 4)]


@pytest.mark.parametrize(
    ("processes", "error", "told", "tries"),
    [
        (1, CUDA, f"at most {FEWEST_ASVS} ASVs and of at most 1 samples.*gb", 5),
        (2, CUDA, r"one process's shard of a batch \(CUDA out of memory", 1),
        (1, RuntimeError("loss is not finite"), "not finite", 1),
    ],
    ids=["smallest", "one of several processes", "another error"],
)
def test_a_step_that_cannot_be_done_ends_the_run(
    memory, dataset, monkeypatch, processes, error, told, tries
):
    monkeypatch.setattr(type(memory.devices), "processes", processes)
    step, tried = failing_above(0, error)
    with pytest.raises(InputError if error is CUDA else RuntimeError, match=told):
        memory.run(step, dataset[0])
    assert len(tried) == tries


def test_an_update_that_was_begun_is_not_repeated(model, memory, optimizer, dataset):
    def step(batch):
        model(batch)["loss"].backward()
        optimizer.step()
        raise CUDA

    with pytest.raises(InputError, match="update of the weights"):
        memory.run(step, dataset[0])


def test_micro_batches_survive_a_checkpoint_unless_the_limit_is_another(
    memory, model, dataset, optimizer, devices, machine, tmp_path
):
    memory.micro_batches = MicroBatches(20, 3, "micro-batches", estimated_mb=1.5, measured_mb=2.0)
    torch.save(memory.state(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    for limit_gb, searched in ((None, False), (1.0, True)):
        resumed = StepMemory(model, optimizer, devices, limit_gb, "nothing")
        resumed.restore(state)
        assert resumed.micro_batches == memory.micro_batches
        resumed.prepare(dataset)
        assert bool(machine.batches) == searched
        assert (resumed.micro_batches == memory.micro_batches) == (not searched)
        assert model.encoder.keeps_blocks == searched
    # What was found since is kept where a run goes back to an earlier checkpoint.
    found = resumed.micro_batches
    resumed.restore(state)
    assert resumed.micro_batches is found
