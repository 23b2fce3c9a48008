"""What a training step should take on an accelerator, from what it computes, moves and starts.

Nothing here is measured on an accelerator: the operators of one step are counted where this runs.
"""

from dataclasses import dataclass
from typing import Any

import torch

from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import AUTO, Devices
from aam.model.flops import step_flops
from aam.report.labels import format_quantity
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import prepare
from aam.train.options import set_up, step_options
from aam.train.step import train_step
from benchmarks.speed.measurements import Launches
from benchmarks.speed.tables import markdown_table

LAUNCH_S = 5e-6
"""Time of the host to start one kernel."""
OF_PEAK = 0.4
"""Fraction of a data sheet's products per second that a step is assumed to reach."""
OF_BANDWIDTH = 0.7
"""Fraction of a data sheet's bytes per second that a step is assumed to reach."""
NOTES = f"""**Predicted, not measured.** One step of the first model of
`benchmarks/config/accelerator.json`, which learns one distance, is run on a CPU, and its operators
are counted as an accelerator has them: with `attention: flash`, and samples in one block.
The step takes the longest of three times:

- launches: starting each kernel takes {1e6 * LAUNCH_S:.0f} µs;
- products: matrix products run at {100 * OF_PEAK:.0f} % of the data sheet's dense 16-bit peak with
  fp32 sums;
- memory: every operator reads its tensors from memory and writes them back, at
  {100 * OF_BANDWIDTH:.0f} % of the data sheet's bandwidth.

Settings are those to lay over `config/gpu.yaml`."""


@dataclass(frozen=True)
class Gpu:
    """The peaks of an accelerator's data sheet."""

    name: str
    tflops: float
    """Dense 16-bit products with fp32 sums, in TFLOP/s."""
    gb_per_s: float
    """Bandwidth of the memory."""
    memory_gb: int
    settings: str = "as they are"
    """What to lay over `config/gpu.yaml`, in Markdown."""


FP16 = "`optimization: {precision: fp16}`"
GPUS = (
    Gpu("T4", 65, 320, 16, FP16),
    Gpu("V100", 125, 900, 32, FP16),
    Gpu("A10", 125, 600, 24),
    Gpu("L4", 121, 300, 24),
    Gpu("A100, 80 GB", 312, 2039, 80),
    Gpu("H100 SXM", 989, 3350, 80),
    Gpu("H200", 989, 4800, 141),
    Gpu("RTX 4090", 165, 1008, 24),
)
"""Vendor's data sheets, dense products."""


@dataclass(frozen=True)
class Work:
    """What one step computes, moves and starts."""

    batch_size: int
    launches: int
    """Kernels that are started."""
    flops: int
    """Floating-point operations of matrix products."""
    bytes: int
    """What operators read from memory and write to it."""

    def seconds(self, gpu: Gpu) -> dict[str, float]:
        """Return what launches, products and memory alone would take on an accelerator."""
        return {
            "launches": self.launches * LAUNCH_S,
            "products": self.flops / (OF_PEAK * 1e12 * gpu.tflops),
            "memory": self.bytes / (OF_BANDWIDTH * 1e9 * gpu.gb_per_s),
        }


class Traffic(Launches):
    """Counts the bytes that operators read and write, too."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator."""
        before = self.number
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if self.number > before:
            leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
            self.bytes += sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
        return result


def work_of_a_step(
    settings: PretrainSettings, inputs: PretrainInputs, batch_size: int, threads: int
) -> Work:
    """Count what one training step computes, after a first step that is not counted.

    Parameters
    ----------
    settings
        Architecture, training and optimization.
    inputs
        Files of the pretraining.
    batch_size
        Samples of the step.
    threads
        Threads on the CPU.

    Returns
    -------
    Work
        The work of the step as an accelerator would do it.
    """
    configured = settings.from_scratch()
    training = configured.pretraining.model_copy(update={"batch_size": batch_size})
    changes = {"attention": "flash", "compile": "off"}
    if configured.optimization.precision == AUTO:
        # The named GPUs are fastest in bf16.
        changes["precision"] = "bf16"
    options = step_options(configured.optimization.model_copy(update=changes))
    devices = Devices(options.precision, threads)
    prepared = prepare(configured.model_copy(update={"pretraining": training}), inputs)
    prepared.model.encoder.backend = "flash"
    dataset = prepared.dataset.for_device(torch.device("cuda"))
    wrapped, optimizer = set_up(prepared.model, training, options, devices)
    wrapped.train()
    traffic = Traffic()
    for step in range(2):
        batch = dataset[step].to(devices.device)
        traffic = Traffic()
        with traffic:
            train_step(
                wrapped,
                optimizer,
                batch,
                step=step,
                rate=1e-3,
                seed=training.seed,
                options=options,
                devices=devices,
            )
    flops = step_flops(prepared.model.encoder.shape, batch)
    return Work(batch_size, traffic.number, flops, traffic.bytes)


def table(works: list[Work]) -> str:
    """Return what every accelerator of `GPUS` should take for every step, as Markdown."""
    steps = [f"step of {work.batch_size}, ms: bound by" for work in works]
    head = ["GPU", "memory", "settings", *steps]
    rows = []
    for gpu in GPUS:
        cells = [gpu.name, f"{gpu.memory_gb} GB", gpu.settings]
        for work in works:
            seconds = work.seconds(gpu)
            bound = max(seconds, key=lambda name: seconds[name])
            cells.append(f"{format_quantity(1e3 * seconds[bound])}: {bound}")
        rows.append(cells)
    counted = "; ".join(
        f"{work.batch_size} samples: {work.launches} launches, {work.flops / 1e9:.0f} GFLOP, "
        f"{work.bytes / 1e9:.1f} GB"
        for work in works
    )
    return f"{markdown_table(head, rows)}\n\nCounted: {counted}."
