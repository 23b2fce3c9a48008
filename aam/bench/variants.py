"""The modes of training that are timed: added up, each alone, and at larger batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aam.config.sections.execution import Optimization
from aam.distributed.devices import AUTO
from aam.train.options import step_options

ORDER = "order"
"""Group in which each mode adds a change to the one before it."""
ALONE = "alone"
"""Group in which each mode adds a change to the naive one."""
BATCH = "batch"
"""Group of larger batches."""
NAIVE = "naive"
OF_BATCH = ("copies", "chunks", "encoded_padding", "asvs_per_sample")
OF_OPTIMIZATION = (
    *("attention", "precision", "fused_optimizer", "compile", "checkpointing"),
    "deterministic",
)
"""Options of a mode that `aam.bench.batches.NaiveDataset` and the section `optimization` have."""
SAVINGS: dict[str, dict[str, Any]] = {
    "padded to the richest sample": {"asvs_per_sample": 0},
    "padding not encoded": {"encoded_padding": False},
    "nothing computed again": {"recompute": False},
    "distinct ASVs once": {"copies": False},
    "ASVs in one block": {"chunks": False},
    "samples in groups": {"asvs_per_sample": None},
}
"""What every batch of a training has and the naive one has not, in the order of adding up."""


@dataclass(frozen=True)
class Mode:
    """How a training step is done: the batch with all savings, in the plainest arithmetic.

    `recompute` is whether the backward pass computes every block again; `workers` are processes
    that assemble batches, into memory that an accelerator copies from while it computes where it is
    `pinned`; the rest is as in the configuration.
    """

    copies: bool = False
    chunks: bool = False
    encoded_padding: bool = False
    asvs_per_sample: int | None = None
    recompute: bool = False
    patch_bp: int = 1
    precision: str = "fp32"
    optimizer: str = "adamw"
    attention: str = "math"
    fused_optimizer: bool = False
    compile: str = "off"
    checkpointing: bool = False
    deterministic: bool = False
    workers: int = 0
    pinned: bool = False


@dataclass(frozen=True)
class Variant:
    """One line of the speed table."""

    group: str
    name: str
    batch_size: int
    mode: Mode

    def __str__(self) -> str:
        return f"{self.group}: {self.name}, batch {self.batch_size}"


@dataclass(frozen=True)
class Hardware:
    """Whether there is an accelerator, a working compiler, fast bf16; loading processes; GPUs."""

    accelerator: bool = False
    compiles: bool = False
    workers: int = 0
    bf16: bool = True
    devices: int = 0


def variants(cfg: Mapping[str, Any], hardware: Hardware) -> list[Variant]:
    """Return what the speed table has to hold.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.benchmark`.
    hardware
        What the machine has.
    """
    wanted = usual(cfg, hardware)
    plain = Mode(patch_bp=wanted.patch_bp, optimizer=wanted.optimizer)
    lacking: dict[str, Any] = dict.fromkeys((*OF_BATCH[:3], "recompute"), True)
    naive = replace(plain, **lacking, asvs_per_sample=cfg["naive_asvs"])
    changes = SAVINGS | {
        format_option(key, getattr(wanted, key)): {key: getattr(wanted, key)}
        for key in (*OF_OPTIMIZATION, "workers", "pinned")
        if getattr(wanted, key) != getattr(plain, key)
    }
    first, *larger = cfg["batch_sizes"]
    alone = cfg["alone_batch_size"]
    mode = naive
    timed = [Variant(ORDER, NAIVE, first, naive)]
    for name, change in changes.items():
        mode = replace(mode, **change)
        timed.append(Variant(ORDER, f"+ {name}", first, mode))
    if alone is not None:
        each = {NAIVE: naive}
        for name, change in changes.items():
            each[name] = replace(naive, **change)
        each["all together"] = mode
        timed += [Variant(ALONE, name, alone, one) for name, one in each.items()]
    names = {replace(mode, precision="fp32"): "all together but in fp32", mode: "all together"}
    for batch_size in larger:
        timed += [Variant(BATCH, name, batch_size, one) for one, name in names.items()]
    return timed


def format_option(key: str, value: Any) -> str:
    """Return an option in words.

    Parameters
    ----------
    key, value
        Name of the option, and its value.
    """
    if isinstance(value, bool):
        value = "on" if value else "off"
    return f"{key}: {value}".replace("_", " ")


def usual(cfg: Mapping[str, Any], hardware: Hardware) -> Mode:
    """Return the mode in which `aam.stages.pretrain` trains with a configuration on a machine.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.benchmark`.
    hardware
        What the machine has. Of the precisions that `auto` chooses from it gets bf16, if it has it.
    """
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    chosen = {key: getattr(options, key) for key in OF_OPTIMIZATION}
    if chosen["precision"] == AUTO:
        # What `auto` chooses is known only in a run; the larger batches are timed in fp32, too.
        chosen["precision"] = "bf16"
    if chosen["precision"] == "fp16" and not hardware.accelerator:
        chosen["precision"] = "bf16"
    if chosen["precision"] == "bf16" and not hardware.bf16:
        chosen["precision"] = "fp32"
    if not hardware.compiles:
        chosen["compile"] = "off"
    chosen["workers"] = hardware.workers if hardware.accelerator else 0
    chosen["pinned"] = hardware.accelerator
    patch_bp = cfg["model"]["patch_bp"]
    optimizer = cfg["pretraining"]["optimizer"]
    return Mode(patch_bp=patch_bp, optimizer=optimizer, **chosen)
