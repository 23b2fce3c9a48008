import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

from aam.model.asv_encoders import Architecture
from aam.model.batch import AsvBlock, Batch, Masked, Movable, SampleBlock
from aam.model.build import architecture, build_encoder, set_dropout
from aam.tasks.pretrain.model import PretrainingModel
from aam.train import memory_estimate
from aam.train.activations import FULL, Work, attention_kernel, layer_bytes
from aam.train.data.collate import bucket
from aam.train.data.dataset import BatchDataset, EmbeddingDataset
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.memory_estimate import (
    BatchShape,
    batch_shape,
    estimate,
    first_epoch,
    largest_block,
    piece_limits,
)
from aam.train.micro_batches import in_pieces

MB = 2**20
PLACES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# Lengths with numbers of ASVs, samples, ASVs of the richest, and the architecture.
SHORT = (((100, 120), (90, 30)), 20, 40, {"width": 64, "heads": 4, "patch_bp": 5, "ffn_ratio": 4})
ENCODERS = [
    {"encoder": "bilstm"},
    {"encoder": "bdh"},
    {"encoder": "bdh", "bdh_attention": "softmax"},
    # Few neurons: where there is a token per nucleotide the state is cheaper than the pairs.
    {"encoder": "bdh", "bdh_neurons": 1, "patch_bp": 1},
]
LONG = (((100, 24),), 8, 90, {"width": 32, "heads": 2, "patch_bp": 1, "ffn_ratio": 2})


def describe(batch: Batch) -> BatchShape:
    return BatchShape(
        asvs=tuple(
            (*reversed(block.tokens_US.shape), len(block.masked.asv_M) if block.masked else 0)
            for block in batch.asvs
        ),
        richness=tuple(tuple(block.present_BA.sum(dim=1).tolist()) for block in batch.samples),
        samples=batch.size,
    )


def draw(lengths, samples, richest) -> Batch:
    """Return a batch of random sequences and communities, 15 % of the nucleotides masked."""
    random = torch.Generator().manual_seed(0)
    asvs, blocks = [], []
    for length, number in lengths:
        tokens_US = torch.randint(1, 5, (number, length), generator=random).to(torch.uint8)
        asv_M, position_M = (torch.rand(number, length, generator=random) < 0.15).nonzero().T
        masked = Masked(asv_M, position_M, tokens_US[asv_M, position_M].long() - 1)
        asvs.append(AsvBlock(tokens_US, masked))
    richness_B = torch.randint(richest // 2, richest + 1, (samples,), generator=random).sort()[0]
    for richness in richness_B.split(16):
        present_BA = torch.arange(bucket(int(richness.max()))) < richness[:, None]
        asv_BA = torch.randint(0, 24, present_BA.shape, generator=random) * present_BA
        blocks.append(SampleBlock(asv_BA, present_BA, present_BA * 7.0))
    distances = {"unweighted": torch.rand(samples, samples, generator=random)}
    return Batch(asvs, blocks, torch.randperm(samples, generator=random), distances, {})


def new_model(lengths, settings, backend="auto", dropout=0.0) -> PretrainingModel:
    plain = {"encoder": "transformer", "asv_layers": 2, "sample_layers": 2, **settings}
    shape = architecture(plain, max(length for length, _ in lengths))
    model = PretrainingModel(
        build_encoder(shape, seed=0, backend=backend),
        weights={"unweighted": 1.0},
        variances={"unweighted": 1.0},
        nucleotide_weight=1.0,
        seed=0,
    )
    set_dropout(model, dropout)
    return model.train()


def tensors(thing) -> list[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        return [thing]
    parts = []
    if isinstance(thing, Movable):
        parts = [getattr(thing, field.name) for field in fields(thing)]
    elif isinstance(thing, list | dict):
        parts = list(thing.values()) if isinstance(thing, dict) else thing
    return [tensor for part in parts for tensor in tensors(part)]


def kept_bytes(model, batch, precision, device) -> int:
    """Return the bytes that autograd keeps beside the weights and the batch, each storage once."""
    model, batch = model.to(device), batch.to(torch.device(device))
    own = [*model.parameters(), *model.buffers(), *tensors(batch)]
    known = {tensor.untyped_storage().data_ptr() for tensor in own}
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            found[storage.data_ptr()] = storage
        return tensor

    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.bfloat16)
    autocast = torch.autocast(device, dtype=low, enabled=precision not in ("fp32", "tf32"))
    with saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
        losses = model(batch)
    assert torch.isfinite(losses["loss"])
    return sum(storage.nbytes() for storage in found.values())


def work_of(model, precision, device) -> Work:
    return replace(Work.of(model, Devices("fp32", 1)), precision=precision, device=device)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("backend", ["auto", "math", "flash", "memory_efficient"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", [SHORT, LONG], ids=["short", "long"])
def test_the_estimate_is_what_autograd_keeps(kind, precision, backend, dropout, device):
    lengths, samples, richest, settings = kind
    batch, model = draw(lengths, samples, richest), new_model(lengths, settings, backend, dropout)
    estimated = estimate(work_of(model, precision, device), describe(batch))
    assert estimated.activations_mb * MB == pytest.approx(
        kept_bytes(model, batch, precision, device), rel=0.03 if device == "cpu" else 0.15
    )


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "changes", ENCODERS, ids=lambda changes: "-".join(map(str, changes.values()))
)
def test_the_estimate_knows_other_encoders(changes, kind, precision, dropout):
    lengths, samples, richest, settings = kind
    batch = draw(lengths, samples, richest)
    model = new_model(lengths, {**settings, **changes}, dropout=dropout)
    for recompute in ("nothing", "layers"):
        model.encoder.recompute(recompute)
        work = work_of(model, precision, "cpu")
        estimated = estimate(work, describe(batch), recompute=recompute)
        assert estimated.activations_mb * MB == pytest.approx(
            kept_bytes(model, batch, precision, "cpu"), rel=0.04 if recompute == "nothing" else 0.15
        )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("recompute", ["layers", "pieces"])
def test_the_estimate_knows_what_is_computed_again(recompute, precision):
    lengths, samples, richest, settings = SHORT
    batch, model = draw(lengths, samples, richest), new_model(lengths, settings)
    model.encoder.recompute(recompute)
    estimated = estimate(work_of(model, precision, "cpu"), describe(batch), recompute=recompute)
    assert estimated.activations_mb * MB == pytest.approx(
        kept_bytes(model, batch, precision, "cpu"), rel=0.15
    )


@pytest.mark.parametrize(
    ("recompute", "asvs", "samples"), [("nothing", None, None), ("pieces", 32, 4)]
)
def test_the_estimated_peak_is_that_of_a_step(recompute, asvs, samples, tmp_path):
    lengths, number, richest, settings = SHORT
    batch, model = draw(lengths, number, richest), new_model(lengths, settings)
    model.encoder.recompute(recompute)
    sizes = {"asvs": asvs, "samples": samples}
    step = estimate(work_of(model, "fp32", "cpu"), describe(batch), recompute=recompute, **sizes)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        model(in_pieces(batch, asvs, samples))["loss"].backward()
    # The profiler counts what the step allocates: neither weights nor moments are among that.
    assert step.peak_mb - step.weights_mb - step.optimizer_mb == pytest.approx(
        allocated_peak_mb(profiler, tmp_path / "trace.json"), rel=0.08 if asvs is None else 0.15
    )


def allocated_peak_mb(profiler, path: Path) -> float:
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    memories = [event for event in events if event.get("name") == "[memory_estimate]"]
    memories.sort(key=lambda event: event["ts"])
    return max(np.cumsum([event["args"]["Bytes"] for event in memories])) / MB


def test_weights_gradients_and_moments_are_counted():
    shape = BatchShape(asvs=(), richness=(), samples=0)
    work = replace(work_of(new_model(*SHORT[::3]), "fp32", "cpu"), weights=MB, trainable=MB // 2)
    step = estimate(work, shape)
    assert (step.weights_mb, step.optimizer_mb) == (4.0, 4.0)
    assert step.peak_mb == 4.0 + 2.0 + 4.0


LIMITS = st.integers(1, 200)


@given(asvs=LIMITS, fewer_asvs=LIMITS, samples=LIMITS, fewer_samples=LIMITS)
@settings(deadline=None, max_examples=40)
def test_smaller_pieces_never_need_more(asvs, fewer_asvs, samples, fewer_samples):
    work = Work(Architecture("", 64, 4, 2, 2, 5, 4, 100), "math", "bf16", "cpu", False, 9, 9, 1)
    shape = BatchShape(((100, 150, 900), (90, 40, 500)), (tuple(range(5, 21)), (30, 40)), 18)
    whole = estimate(work, shape, recompute="pieces", asvs=asvs, samples=samples)
    parts = estimate(
        work,
        shape,
        recompute="pieces",
        asvs=min(asvs, fewer_asvs),
        samples=min(samples, fewer_samples),
    )
    assert parts.largest_piece_mb <= whole.largest_piece_mb * (1 + 1e-6)
    assert parts.activations_mb == pytest.approx(whole.activations_mb, rel=0.01)


@given(size=st.floats(1e3, 1e9))
@settings(deadline=None, max_examples=40)
def test_limits_of_pieces_keep_to_the_bytes_that_they_were_asked_for(size):
    work = Work(Architecture("", 64, 4, 2, 2, 5, 4, 100), "math", "bf16", "cpu", False, 9, 9, 1)
    shape = BatchShape(((100, 150, 900), (90, 40, 500)), (tuple(range(5, 21)), (30, 40)), 18)
    asvs, samples = piece_limits(work, shape, size)
    in_parts = estimate(work, shape, recompute="pieces", asvs=asvs, samples=samples)
    at_work = in_parts.largest_piece_mb * MB - 2 * work.cast
    assert at_work <= size * 1.01 or asvs == memory_estimate.FEWEST_ASVS or samples == 1
    if size >= largest_block(work, shape):
        assert (asvs, samples) == (None, None)


def test_the_shape_of_a_batch_is_known_without_building_it(make):
    data = make(samples=40, lengths=(20, 17, 9))
    dataset = BatchDataset(
        store=data.store,
        tokens=data.tokens,
        samples=np.arange(40),
        batch_size=20,
        epochs=2,
        seed=0,
        masker=Masker(0.2, 0),
    )
    for step in range(len(dataset)):
        predicted, built = batch_shape(dataset, step), describe(dataset[step])
        assert predicted.richness == built.richness
        assert predicted.samples == built.samples == 20
        assert [block[:2] for block in predicted.asvs] == [block[:2] for block in built.asvs]
        masked = [sum(block[2] for block in shape.asvs) for shape in (predicted, built)]
        assert masked[0] == pytest.approx(masked[1], rel=0.3)
    assert all(not block[2] for block in batch_shape(replace(dataset, masker=None), 0).asvs)


def test_at_most_64_batches_of_the_first_epoch_are_looked_at(make):
    data = make(samples=160)
    common = {"store": data.store, "tokens": data.tokens, "samples": np.arange(160)}
    few = BatchDataset(**common, batch_size=40, epochs=3, seed=0)
    assert list(first_epoch(few)) == [0, 1, 2, 3]
    many = BatchDataset(**common, batch_size=2, epochs=3, seed=0)
    steps = list(first_epoch(many))
    assert len(steps) == len(set(steps)) == 64
    assert (steps[0], steps[-1]) == (0, 79)
    assert max(np.diff(steps)) <= 2


def test_embeddings_made_before_have_neither_asvs_nor_samples(tiny):
    dataset = EmbeddingDataset(
        store=tiny.store,
        tokens=tiny.tokens,
        samples=np.arange(20),
        batch_size=4,
        epochs=1,
        seed=0,
        embedding_RD=torch.zeros(20, 16),
    )
    assert batch_shape(dataset, 0) == BatchShape((), (), 4)


@pytest.mark.parametrize(
    ("backend", "precision", "has_absent", "kernel"),
    [
        ("auto", "bf16", True, "fused"),
        ("auto", "fp32", False, "fused"),
        ("memory_efficient", "fp32", True, "fused"),
        ("flash", "bf16", False, "fused"),
        ("flash", "bf16", True, "math"),
        ("flash", "tf32", False, "math"),
        ("math", "fp16", False, "math"),
    ],
)
def test_an_accelerator_keeps_probabilities_only_without_a_kernel(
    backend, precision, has_absent, kernel
):
    shape = Architecture("", 64, 4, 2, 2, 5, 4, 100)
    work = Work(shape, backend, precision, "cuda", False, 0, 0, 0)
    assert attention_kernel(work, 300, has_absent=has_absent) == kernel
    short, long = (
        layer_bytes(work, 4000, positions, has_rotary=False, has_absent=has_absent)
        for positions in (100, 200)
    )
    grown = 4000 * shape.heads * 100 * FULL
    assert long - short == (grown if kernel == "math" else 0)
