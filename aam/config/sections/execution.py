"""How the work is carried out: optimizations, benchmark, runtime."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aam.config.sections.base import Section

Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Clipping = Literal["norm", "value", "adaptive"]
Nonfinite = Literal["raise", "skip", "restore"]
Attention = Literal["auto", "flash", "memory_efficient", "math"]
Compile = Literal["off", "default", "reduce-overhead", "max-autotune"]
BY_LEVEL = ("attention", "fused_optimizer", "compile", "checkpointing", "deterministic")
"""Options that a level sets."""


class Optimization(Section):
    """Named options of the training step; a level sets those that are null."""

    level: Literal["basic", "advanced", "ultra", "custom"] = "advanced"
    """Sets those of the next five options that are not given. basic: math attention, plain AdamW;
    advanced: the fastest attention, fused AdamW; ultra: also compiled blocks; custom: none."""
    attention: Attention | None = None
    """Attention kernel of PyTorch."""
    fused_optimizer: bool | None = None
    """One kernel for the whole AdamW update."""
    compile: Compile | None = None
    """Mode of torch.compile for every block."""
    checkpointing: bool | None = None
    """Compute activations again in the backward pass: less memory, more time."""
    deterministic: bool | None = None
    """Only algorithms that repeat bit by bit on a GPU."""
    precision: Precision = "auto"
    """Arithmetic of the layers; weights and updates are always fp32. auto: bf16 where measured
    steps are at least a tenth faster, otherwise fp32, or tf32 on a GPU that has it. tf32 and fp16
    need a GPU."""
    clipping: Clipping = "norm"
    """What is limited: the norm of the gradient, each value, or the norm of each unit relative to
    its weights."""
    gradient_clip: float | None = Field(None, gt=0)
    """The limit; null: 1 for norm and value, 0.01 for adaptive."""
    nonfinite: Nonfinite = "raise"
    """What a loss or gradient that is not finite causes. raise: stop; skip: leave out the update;
    restore: return to the last checkpoint with half the learning rate."""
    nonfinite_limit: int = Field(5, ge=1)
    """skip: updates in a row that may be left out; restore: returns in the whole run. One more
    stops it."""
    anomaly: bool = False
    """Name the operation whose gradient became NaN, at half the speed."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        missing = [name for name in BY_LEVEL if getattr(self, name) is None]
        if self.level == "custom" and missing:
            raise ValueError(
                f"got level custom without {', '.join(missing)}; expected every option: it "
                "stands for no choice of its own"
            )
        return self


class Benchmark(Section):
    """How the speed table is measured."""

    batch_sizes: list[Annotated[int, Field(ge=2)]] = Field([8, 64], min_length=1)
    """Samples per step: options are added one by one at the first, and all together at the
    others."""
    alone_batch_size: int | None = Field(2, ge=2)
    """Samples per step where each option alone is added to the naive step; null: not measured."""
    seconds: float = Field(20, gt=0)
    """Seconds after which a repeat starts no further step, once one or two are timed."""
    repeats: int = Field(3, ge=1, le=1000)
    """Repeats of each mode, interleaved."""
    naive_asvs: int = Field(1024, ge=1, le=1_000_000)
    """ASVs to which the naive mode pads every sample."""


class OutputFormats(Section):
    """What is written in addition to the results."""

    qza: bool = False
    """Also write distances, ordinations, predictions and importances as QIIME 2 artifacts."""


class Runtime(Section):
    """Run options: no key here makes a stage stale.

    Other threads give the same up to rounding; a batch cut for memory has other dropout masks.
    """

    threads: int = Field(8, ge=1, le=4096)
    """Maximum cores of one job; fewer let jobs of small studies run in parallel."""
    workers: int = Field(2, ge=0, le=1024)
    """Processes that assemble batches during training on a GPU."""
    checkpoint_every_s: float = Field(60, gt=0)
    """Seconds between checkpoints."""
    max_memory_gb: float | None = Field(None, gt=0)
    """Memory that a training step may take; a larger batch is split. Null: what is free when a job
    starts; set it where several jobs train in parallel on a CPU."""
    memory_threshold: float = Field(0.8, gt=0, le=1)
    """Largest fraction of a GPU's free memory that a training step may take, where `max_memory_gb`
    is null; a batch that needs more is split into micro-batches. On a CPU, too, a run above this
    fraction of all memory frees what it can between two steps, and warns."""
    devices: int = Field(1, ge=1, le=1024)
    """Processes per node that pretrain one encoder and, on GPUs, fine-tune one task."""
    nodes: int = Field(1, ge=1, le=10_000)
    """Nodes that pretrain one encoder together; several need SLURM."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """ddp: every process holds the whole model; fsdp: the processes divide it among them."""
    profile_steps: int = Field(0, ge=0)
    """Steps to record with torch.profiler, next to the log."""

    @property
    def processes(self) -> int:
        """Processes that pretrain one encoder together."""
        return self.devices * self.nodes

    @property
    def allocation(self) -> dict[str, int | str]:
        """What several nodes need of SLURM's executor besides `gpu`, by its names of resources."""
        if self.nodes == 1:
            return {}
        # With `mpi` the executor leaves it to the job to start its tasks, one per node here;
        # without the zero it would ask for so many tasks per accelerator.
        return {"nodes": self.nodes, "tasks": self.nodes, "tasks_per_gpu": 0, "mpi": "srun"}
