"""How the work is carried out: optimizations, benchmark, runtime."""

from typing import Annotated, Literal

from pydantic import Field

from aam.config.sections.base import Section

Attention = Literal["auto", "flash", "memory_efficient", "math"]


class Optimization(Section):
    """Named options of the training step; a level sets those that are null."""

    level: Literal["basic", "advanced"] = "advanced"
    """basic: math attention, plain AdamW; advanced: the fastest attention, fused AdamW."""
    attention: Attention | None = None
    """Back-end of scaled dot product attention; null: as the level says."""
    fused_optimizer: bool | None = None
    """One kernel for the whole AdamW update; null: as the level says."""


class Benchmark(Section):
    """The speed ladder and the accuracy table."""

    batch_sizes: list[Annotated[int, Field(ge=2)]] = Field([8, 64], min_length=1)
    """Samples per step of the optimized modes; the naive mode runs at the first."""
    steps: int = Field(10, ge=2)
    """Timed steps per repeat, after one step of warm-up."""
    seconds: float = Field(20, gt=0)
    """No further step of a repeat is begun after so many seconds."""
    repeats: int = Field(3, ge=1)
    """Repeats of each mode, interleaved; the median and the spread are reported."""
    naive_asvs: int = Field(1024, ge=1)
    """ASVs that the naive mode pads every sample to."""


class Runtime(Section):
    """Means, which never change a result: no key here makes a stage stale."""

    workers: int = Field(2, ge=0)
    """Processes that assemble batches beside the training."""
    log_every_s: float = Field(10, gt=0)
    """Seconds between progress lines."""
    checkpoint_every_s: float = Field(60, gt=0)
    """Seconds between checkpoints."""
