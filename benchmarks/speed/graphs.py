"""A whole step as one CUDA graph: `make gpu` tries it, and no training uses it.

Forward pass, backward pass, clipping and update of a batch's shape are recorded once and started by
one call, where a step otherwise starts hundreds of kernels. Shapes have to recur, so batches are
padded to few sizes. The learning rate is constant here, since a graph has its numbers in it.

Shape suffixes: U distinct ASVs, M masked nucleotides.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from aam.batches.collate import bucket
from aam.config.sections.training import Training
from aam.config.settings.training import PretrainSettings
from aam.data.sequences import PAD
from aam.distributed.batch_shards import join_blocks
from aam.distributed.devices import AUTO, Devices
from aam.model.batch import AsvBlock, Batch, Masked, map_tensors
from aam.model.flops import step_flops
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import prepare
from aam.train.memory.meter import peak_mb
from aam.train.monitoring import roofline
from aam.train.optimizer import set_rate
from aam.train.options import StepOptions, set_up, step_options
from aam.train.step import clip_gradients
from aam.util.errors import first_line
from benchmarks.speed.measurements import DeviceClock

BITS = 3
"""Binary digits of padded sizes, which differ by 14 to 25 %."""
BATCHES = 16
"""Most batches that steps are done with, again and again."""
UNTIMED_PASSES = 2
"""Passes over these batches in which kernels and graphs are made."""
PASSES = 5
"""All passes."""
IGNORED = -100
"""The base of a masked nucleotide that cross-entropy leaves out."""
RATE = 0.1
"""Constant learning rate, in units of the peak."""
Step = Callable[[Batch], Tensor]
Replay = Callable[[], None]
Capture = Callable[[Callable[[], Tensor]], tuple[Replay, Tensor]]
"""Records a call, which is not carried out, and returns what does it, and where its result is."""


def pad_batch(batch: Batch, bits: int = BITS) -> Batch:
    """Return a batch of the same loss, whose sizes recur.

    Parameters
    ----------
    batch
        Any batch, on the host.
    bits
        Binary digits of the sizes.

    Returns
    -------
    Batch
        With more sequences that no sample has, wider samples, and masked nucleotides that are left
        out of the loss.
    """
    blocks = [_pad_asvs(block, bits) for block in batch.asvs]
    starts = [0, *accumulate(len(block.tokens_US) for block in blocks)]
    # The rows that are added to a block move those of the blocks behind it.
    number_U = torch.cat(
        [
            start + torch.arange(len(block.tokens_US))
            for start, block in zip(starts, batch.asvs, strict=False)
        ]
    )
    samples = []
    for block in batch.samples:
        wide = join_blocks([block], bucket(block.asv_BA.shape[1], bits))
        samples.append(replace(wide, asv_BA=number_U[wide.asv_BA]))
    return replace(batch, asvs=blocks, samples=samples)


def _pad_asvs(block: AsvBlock, bits: int) -> AsvBlock:
    rows = bucket(len(block.tokens_US), bits) - len(block.tokens_US)
    tokens_US = pad(block.tokens_US, (0, 0, 0, rows), value=PAD)
    if block.masked is None:
        return AsvBlock(tokens_US, None)
    more = bucket(len(block.masked.asv_M), bits) - len(block.masked.asv_M)
    return AsvBlock(
        tokens_US,
        Masked(
            # They are sorted by ASV: the last one gets those that are added.
            asv_M=pad(block.masked.asv_M, (0, more), value=len(tokens_US) - 1),
            position_M=pad(block.masked.position_M, (0, more)),
            base_M=pad(block.masked.base_M, (0, more), value=IGNORED),
        ),
    )


def tensors_of(batch: Batch) -> list[Tensor]:
    """Return all tensors of a batch, in a fixed order."""
    found: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(batch, collect)
    return found


class GraphedSteps:
    """Does steps by replaying graphs, one for each shape of batch.

    The first batch of a shape is done without a graph: libraries take the memory that they keep in
    it, and the optimizer makes its moments.

    Parameters
    ----------
    step
        A step, which neither waits for the device nor needs new numbers of the host.
    capture
        Records a step.
    warm_up
        Does the first step of a shape.

    Attributes
    ----------
    seen
        Batches by shape.
    """

    def __init__(self, step: Step, capture: Capture, warm_up: Callable[..., Tensor]) -> None:
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self._step = step
        self._capture = capture
        self._warm_up = warm_up
        self._graphs: dict[tuple[torch.Size, ...], tuple[list[Tensor], Replay, Tensor]] = {}

    def __call__(self, batch: Batch) -> Tensor:
        """Do a step, and return its loss."""
        given = tensors_of(batch)
        shapes = tuple(tensor.shape for tensor in given)
        self.seen[shapes] += 1
        if self.seen[shapes] == 1:
            return self._warm_up(partial(self._step, batch))
        if shapes not in self._graphs:
            # The graph reads the batch where it lay when the step was recorded.
            fixed = map_tensors(batch, torch.clone)
            self._graphs[shapes] = (tensors_of(fixed), *self._capture(partial(self._step, fixed)))
        places, replay, loss = self._graphs[shapes]
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor)
        replay()
        # The next step writes its loss to the same place.
        return loss.clone()


def cuda_capture() -> Capture:
    """Return what records steps as CUDA graphs, which share their memory."""
    pool = torch.cuda.graph_pool_handle()

    def capture(step: Callable[[], Tensor]) -> tuple[Replay, Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            loss = step()
        return graph.replay, loss

    return capture


def on_side_stream(step: Callable[[], Tensor]) -> Tensor:
    """Do a step as PyTorch asks for before one is recorded: on another stream than the usual."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss = step()
    torch.cuda.current_stream().wait_stream(stream)
    return loss


def called_again(step: Callable[[], Tensor]) -> tuple[Replay, Tensor]:
    """Stand in for a graph where there is no CUDA: the step is called each time."""
    loss = torch.zeros(())

    def replay() -> None:
        loss.copy_(step())

    return replay, loss


def new_step(model: nn.Module, training: Training, options: StepOptions, devices: Devices) -> Step:
    """Return a step of a model at a constant rate, and without a look for what is not finite."""
    wrapped, optimizer = set_up(model, training, options, devices)
    wrapped.train()
    set_rate(optimizer, RATE * training.learning_rate)
    if devices.device.type == "cuda":
        for group in optimizer.param_groups:
            # Muon's groups have no such key: nothing of its update is on the host.
            if "capturable" in group:
                group["capturable"] = True

    def step(batch: Batch) -> Tensor:
        loss: Tensor = wrapped(batch)["loss"]
        devices.backward(loss)
        clip_gradients(wrapped, optimizer, devices, options.clipping, options.clipping_limit)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def time_passes(
    step: Step, batches: Sequence[Batch], device: torch.device
) -> tuple[list[float], list[float]]:
    """Do all passes; return the loss of every step, and seconds of the timed ones."""
    losses = []
    clock = DeviceClock(device)
    for number in range(PASSES):
        for batch in batches:
            if number == UNTIMED_PASSES and not clock.instants:
                clock.mark()
            losses.append(step(batch))
            if clock.instants:
                clock.mark()
    return [float(loss) for loss in losses], clock.intervals_s()


def compare(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do the same steps with and without graphs.

    Parameters
    ----------
    request
        `settings` and `inputs` of a pretraining, and `threads`.

    Returns
    -------
    dict
        `is_graph`: whether there is CUDA; `precision`; `shapes` and `batches`, their numbers; and
        for ``kernels`` and ``graphs`` each `losses`, `step_s`, `peak_memory_mb` and
        `model_flop_utilisation`, of the products without padding. Where steps cannot be recorded,
        ``failed`` has the reason.
    """
    settings = PretrainSettings.model_validate(request["settings"])
    settings = settings.model_copy(
        update={"pretraining": settings.pretraining.model_copy(update={"dropout": 0.0})}
    )
    options = step_options(settings.optimization)
    devices = Devices(options.precision, request["threads"])
    if options.precision == AUTO:
        devices.choose(devices.candidates[-1])
    prepared = prepare(settings, PretrainInputs.model_validate(request["inputs"]))
    dataset = prepared.dataset.for_device(devices.device).whole()
    host = [dataset[step] for step in range(min(BATCHES, len(dataset)))]
    flops = [step_flops(prepared.model.encoder.shape, batch) for batch in host]
    batches = [pad_batch(batch).to(devices.device) for batch in host]
    peak_flops = roofline.peak_flops(devices.precision, devices.device)
    is_graph = devices.device.type == "cuda"
    found: dict[str, Any] = {"is_graph": is_graph, "precision": devices.precision}
    for mode in ("kernels", "graphs"):
        step = new_step(copy.deepcopy(prepared.model), settings.pretraining, options, devices)
        graphed = None
        if mode == "graphs":
            capture, warm_up = (
                (cuda_capture(), on_side_stream) if is_graph else (called_again, _plainly)
            )
            graphed = GraphedSteps(step, capture, warm_up)
        try:
            losses, step_s = time_passes(graphed or step, batches, devices.device)
        except RuntimeError as error:
            # CUDA refuses to record some operators, in words of its own.
            return {**found, "failed": f"{mode}: {first_line(error)}"}
        flops_per_s = sum(flops) * (PASSES - UNTIMED_PASSES) / sum(step_s)
        found[mode] = {
            "losses": losses,
            "step_s": step_s,
            "peak_memory_mb": peak_mb(devices.device),
            "model_flop_utilisation": flops_per_s / peak_flops,
        }
        if graphed is not None:
            found |= {"shapes": len(graphed.seen), "batches": len(batches)}
    return found


def _plainly(step: Callable[[], Tensor]) -> Tensor:
    return step()
