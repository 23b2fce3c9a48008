import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from aam.data.target import Target
from aam.model.batch import TARGET
from aam.model.build import set_dropout
from aam.model.predictor import Predictor
from aam.train import probe as probing
from aam.train.data.dataset import EmbeddingDataset
from aam.train.memory_estimate import FEWEST_ASVS
from aam.train.micro_batches import Plan
from aam.train.optimizer import make_optimizer
from aam.train.probe import TRIALS, Probe, fit_to_memory, probe, with_splitting
from aam.util.errors import InputError

GB = 1024.0
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
    monkeypatch.setattr(probing, "recover", lambda: calls.append(True))
    return calls


@pytest.fixture
def big_feed(make, new_feed, one_thread):
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


# A step that is measured


def test_a_probe_measures_a_real_step(model, big_feed, devices):
    seen = []

    def backward(loss):
        seen.append(float(loss.detach()))
        devices.backward(loss)
        norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
        assert float(torch.stack(norms).sum()) > 0

    result = probe(model, big_feed[0], devices, backward)
    assert len(seen) == 1
    assert np.isfinite(seen[0])
    assert result.seconds > 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_probe_leaves_no_trace(model, big_feed, devices, fails):
    model.encoder.sample.eval()
    first = next(model.parameters())
    first.grad = torch.full_like(first, 7.0)
    torch.manual_seed(5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    np.random.seed(3)  # noqa: NPY002
    state, array_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def backward(loss):
        devices.backward(loss)
        if fails:
            raise CUDA

    if fails:
        with pytest.raises(torch.OutOfMemoryError):
            probe(model, big_feed[0], devices, backward)
    else:
        probe(model, big_feed[0], devices, backward)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], array_state)  # noqa: NPY002
    assert torch.equal(first.grad, torch.full_like(first, 7.0))
    assert all(p.grad is None for p in list(model.parameters())[1:])


# The search for pieces


class Machine:
    """Stands for a machine on which a step takes what the estimate says, times a factor."""

    def __init__(self, monkeypatch, factor=1.0, limit_mb=float("inf")):
        self.factor, self.limit_mb, self.batches = factor, limit_mb, []
        self.search = None
        monkeypatch.setattr(probing, "probe", self.probe)
        monkeypatch.setattr(probing, "held_mb", lambda device: 100.0)
        made = probing._Search.__init__

        def remember(search, *inputs):
            made(search, *inputs)
            self.search = search

        monkeypatch.setattr(probing._Search, "__init__", remember)

    def probe(self, model, batch, devices, backward):
        self.batches.append(sizes(batch))
        search, whole = self.search, sizes(self.search.batch)
        asvs, samples = (
            None if now == before else now for now, before in zip(sizes(batch), whole, strict=True)
        )
        encoder = model.encoder
        recompute = "pieces" if not encoder.keeps_blocks else "nothing"
        step = search.estimate(Plan(asvs, samples, recompute))
        taken = self.factor * (step.peak_mb - step.weights_mb - step.optimizer_mb)
        if 100.0 + taken > self.limit_mb:
            raise CUDA
        return Probe(0.5, 100.0 + taken)


def peaks(machine, model, dataset, devices):
    """Return the whole batch's estimate, and that of the smallest pieces."""
    search = probing._Search(model, dataset, devices, 1.0, "nothing")
    return search.estimated_mb(Plan()), search.estimated_mb(search.plan(0.0))


def test_a_batch_that_fits_is_probed_twice_and_left_as_it_is(model, big_feed, devices, caplog):
    calls = []
    dataset = big_feed

    def counted(*inputs):
        calls.append(inputs)
        return probe(*inputs)

    with pytest.MonkeyPatch.context() as patched, caplog.at_level(logging.INFO):
        patched.setattr(probing, "probe", counted)
        plan = fit_to_memory(model, dataset, devices, None)
    assert len(calls) == 2, "the second is not slowed by what happens once"
    assert plan.cut == (None, None, "nothing")
    assert plan.split(dataset[0]) is not None
    assert plan.measured_mb is not None
    assert plan.estimated_mb is not None
    assert plan.seconds_per_step is not None
    (line,) = [record.getMessage() for record in caplog.records]
    assert "step of 20 samples, in one piece" in line
    assert f"estimated {plan.estimated_mb:.0f} MB, measured {plan.measured_mb:.0f} MB" in line


def test_what_is_computed_again_without_need_is_kept(model, big_feed, devices):
    assert fit_to_memory(model, big_feed, devices, None, recompute="layers").recompute == "layers"
    assert not model.encoder.asv.keeps_layers
    assert fit_to_memory(model, big_feed, devices, None).recompute == "nothing"
    assert model.encoder.asv.keeps_layers


def test_room_for_a_larger_batch_is_said(monkeypatch, model, new_feed, devices, caplog):
    Machine(monkeypatch)
    with caplog.at_level(logging.INFO):
        fit_to_memory(model, new_feed(), devices, 1.0)
        assert "batches of 20 samples would fit" in caplog.text
        caplog.clear()
        fit_to_memory(model, replace(new_feed(), batch_size=20), devices, 1.0)
        assert "would fit" not in caplog.text


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("share", [0.15, 0.4, 0.8])
def test_pieces_are_found_that_fit(monkeypatch, model, big_feed, devices, caplog, factor, share):
    machine = Machine(monkeypatch, factor)
    whole_mb, least_mb = peaks(machine, model, big_feed, devices)
    budget = 100 + factor * (least_mb - 100) + share * factor * (whole_mb - least_mb)
    with caplog.at_level(logging.INFO):
        plan = fit_to_memory(model, big_feed, devices, budget / GB)
    assert plan.recompute == "pieces"
    assert not model.encoder.keeps_blocks
    assert plan.measured_mb is not None
    assert plan.measured_mb <= budget
    assert len(machine.batches) <= TRIALS
    assert share < 0.4 or plan.measured_mb > 100 + factor * (least_mb - 100)
    # The batch is cut and never made smaller.
    split = plan.split(big_feed[0])
    assert split.size == 20
    assert sum(len(block.asv_BA) for block in split.samples) == 20
    assert sum("memory of a step" in record.getMessage() for record in caplog.records) == 1


def test_a_batch_that_fits_after_all_is_not_cut(monkeypatch, model, big_feed, devices):
    machine = Machine(monkeypatch, factor=0.6)
    whole_mb, _ = peaks(machine, model, big_feed, devices)
    plan = fit_to_memory(model, big_feed, devices, (100 + 0.8 * (whole_mb - 100)) / GB)
    assert plan.cut == (None, None, "nothing")
    assert model.encoder.keeps_blocks
    assert len(machine.batches) == 3


def test_a_step_that_runs_out_of_memory_is_tried_in_smaller_pieces(
    monkeypatch, model, big_feed, devices
):
    machine = Machine(monkeypatch)
    whole_mb, least_mb = peaks(machine, model, big_feed, devices)
    machine.limit_mb = (whole_mb + least_mb) / 2
    plan = fit_to_memory(model, big_feed, devices, 1.0)
    assert machine.batches[0] == sizes(big_feed[0])
    assert plan.recompute == "pieces"
    assert plan.measured_mb is not None
    assert plan.measured_mb <= machine.limit_mb


def test_when_the_smallest_pieces_do_not_fit_the_user_is_told(
    monkeypatch, model, big_feed, devices
):
    machine = Machine(monkeypatch)
    with pytest.raises(InputError, match="100 MB of them held.*at most 90 MB.*max_memory_gb"):
        fit_to_memory(model, big_feed, devices, 90 / GB)
    assert len(machine.batches) <= TRIALS
    assert machine.batches[-1] == (15, 1)
    machine.limit_mb = 50.0
    with pytest.raises(InputError, match="more than there is"):
        fit_to_memory(model, big_feed, devices, 1.0)


def test_another_error_of_a_step_is_not_taken_for_want_of_memory(
    monkeypatch, model, big_feed, devices
):
    def broken(*_):
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(probing, "probe", broken)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        fit_to_memory(model, big_feed, devices, None)


def test_a_head_on_a_frozen_encoder_needs_no_pieces(tiny, new_encoder, devices):
    target = Target.fit("regression", ("age",), [["-1"], ["1"]], np.ones(2, bool))
    predictor = Predictor(new_encoder(20), target, seed=0)
    predictor.encoder.requires_grad_(False)
    dataset = EmbeddingDataset(
        store=tiny.store,
        tokens=tiny.tokens,
        samples=np.arange(20),
        batch_size=4,
        epochs=1,
        seed=0,
        values={TARGET: np.zeros((20, 1), np.float32)},
        embedding_RD=torch.randn(len(tiny.store.row_view), 16),
    )
    plan = fit_to_memory(predictor, dataset, devices, None)
    assert plan.cut == (None, None, "nothing")
    batch = dataset[0]
    assert plan.split(batch) is batch


# A step in the course of a run


@pytest.fixture(params=["adamw", "muon"])
def optimizer(request, model, devices):
    """Return an optimizer as the loop has it."""
    bare = make_optimizer(model, request.param, learning_rate=1e-3, weight_decay=0.1, fused=True)
    return devices.setup(nn.Linear(1, 1), bare)[1]


def failing_above(largest, error, model=None):
    """Return a step that has no memory for pieces of more ASVs, and the sizes it was tried with."""
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
    model, optimizer, big_feed, error, caplog, recovered
):
    batch = big_feed[0]
    step, tried = failing_above(20, error, model)
    model.zero_grad(set_to_none=True)
    result, plan = with_splitting(step, batch, Plan(seconds_per_step=1.0), model, optimizer)
    assert result == "done"
    assert tried == [(60, 16), (30, 8), (15, 4)]
    assert plan.recompute == "pieces"
    assert not model.encoder.keeps_blocks
    assert plan.seconds_per_step == 1.0
    assert len(recovered) == 2
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert f"at most {plan.asvs_per_piece} ASVs" in warnings[-1].getMessage()
    # What is left are the gradients of the step that succeeded, not of those that did not.
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    torch.manual_seed(9)
    model(plan.split(batch))["loss"].backward()
    assert all(
        torch.equal(p.grad, gradient) for p, gradient in zip(model.parameters(), found, strict=True)
    )
    # The next step begins where this one ended.
    step, tried = failing_above(20, error)
    assert with_splitting(step, batch, plan, model, optimizer) == ("done", plan)
    assert len(tried) == 1


def test_a_step_with_enough_memory_gets_the_batch_in_the_pieces_of_the_plan(
    model, optimizer, big_feed
):
    batch, plan = big_feed[0], Plan(20, 3, "pieces")
    step, tried = failing_above(1000, CUDA)
    assert with_splitting(step, batch, plan, model, optimizer) == ("done", plan)
    assert tried == [(20, 3)]
    assert not optimizer._optimizer_step_pre_hooks
    same, _ = with_splitting(lambda given: given, batch, Plan(), model, optimizer)
    assert same is batch


def test_splitting_ends_at_the_smallest_pieces(model, optimizer, big_feed):
    step, tried = failing_above(0, CUDA)
    with pytest.raises(
        InputError, match=f"at most {FEWEST_ASVS} ASVs and of at most 1 samples.*gb"
    ):
        with_splitting(step, big_feed[0], Plan(), model, optimizer)
    assert tried[-1] == (15, 1)
    assert len(tried) <= 7


def test_an_update_that_was_begun_is_not_repeated(model, optimizer, big_feed):
    def step(batch):
        model(batch)["loss"].backward()
        optimizer.step()
        raise CUDA

    with pytest.raises(InputError, match="update of the weights"):
        with_splitting(step, big_feed[0], Plan(), model, optimizer)


def test_another_error_of_a_step_is_raised(model, optimizer, big_feed):
    error = RuntimeError("loss is not finite")
    step, tried = failing_above(0, error)
    with pytest.raises(RuntimeError, match="not finite"):
        with_splitting(step, big_feed[0], Plan(), model, optimizer)
    assert len(tried) == 1
