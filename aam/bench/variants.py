"""The modes of training that are timed: added up, each alone, and at larger batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aam.config.sections.execution import Optimization
from aam.train.options import step_options

ORDER, ALONE, BATCH = "order", "alone", "batch"
"""Groups: each mode adds to the one before it; each adds to the naive one; larger batches."""
NAIVE = "naive"
OF_BATCH = ("copies", "chunks", "encoded_padding", "asvs_per_sample")
OF_OPTIMIZATION = ("precision", "attention", "fused_optimizer", "compile", "checkpointing")
"""Options of a mode that the section `optimization` has."""
DEFAULTS = {"precision": "bf16", "attention": "auto", "compile": "default"}
"""What is timed where the configuration has the naive value."""


@dataclass(frozen=True)
class Mode:
    """How a training step is done: the batch with all savings, in the plainest arithmetic.

    `recompute` is whether the backward pass computes blocks again; the other options of the batch
    are those of `aam.bench.batches.NaiveDataset`, and the rest is as in the configuration.
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
    workers: int = 0


@dataclass(frozen=True)
class Variant:
    """One line of the speed table; without a mode nothing is run, for the reason in the name."""

    group: str
    name: str
    batch_size: int
    mode: Mode | None

    def __str__(self) -> str:
        return f"{self.group}: {self.name}, batch {self.batch_size}"


@dataclass(frozen=True)
class Hardware:
    """What the machine has: a working torch.compile, loading processes, products of bf16.

    With an `accelerator` compilation is timed unasked, and loading in processes.
    """

    accelerator: bool = False
    compiles: bool = False
    workers: int = 0
    bf16: bool = True


def variants(cfg: Mapping[str, Any], hardware: Hardware) -> list[Variant]:
    """Return what the speed table has to hold, by the slice `aam.config.slices.benchmark`."""
    model = {"patch_bp": cfg["model"]["patch_bp"], "optimizer": cfg["pretraining"]["optimizer"]}
    naive = Mode(True, True, True, cfg["naive_asvs"], True, **model)
    changes = _changes(cfg, naive, hardware)
    (first, *larger), alone = cfg["batch_sizes"], cfg["alone_batch_size"]
    mode, found = naive, [Variant(ORDER, NAIVE, first, naive)]
    for name, change in changes.items():
        mode = replace(mode, **(change or {}))
        found.append(Variant(ORDER, f"+ {name}", first, None if change is None else mode))
    if alone is not None:
        found.append(Variant(ALONE, NAIVE, alone, naive))
        found += [
            Variant(ALONE, name, alone, replace(naive, **change))
            for name, change in changes.items()
            # The naive step computes all blocks twice anyway.
            if change is not None and "checkpointing" not in change
        ]
        found.append(Variant(ALONE, "all together", alone, mode))
    wanted = configured(cfg, mode, hardware)
    if wanted != mode:
        found.append(Variant(BATCH, "as configured", first, wanted))
    fp32 = replace(mode, precision="fp32")
    names = {wanted: "as configured", fp32: "all together but in fp32", mode: "all together"}
    return found + [
        Variant(BATCH, name, size, one) for size in larger for one, name in reversed(names.items())
    ]


def usual(cfg: Mapping[str, Any], hardware: Hardware) -> Mode:
    """Return the mode in which `aam.stages.pretrain` trains with a configuration."""
    workers = hardware.workers if hardware.accelerator else 0
    return configured(cfg, Mode(workers=workers), hardware)


def configured(cfg: Mapping[str, Any], mode: Mode, hardware: Hardware) -> Mode:
    """Return `mode` with the configuration's options, or what training does where it lacks them."""
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    own = {key: getattr(options, key) for key in OF_OPTIMIZATION}
    if own["precision"] == "fp16" and not hardware.accelerator:
        own["precision"] = "bf16"
    if own["precision"] == "bf16" and not hardware.bf16:
        own["precision"] = "fp32"
    if not hardware.compiles:
        own["compile"] = "off"
    patch_bp, optimizer = cfg["model"]["patch_bp"], cfg["pretraining"]["optimizer"]
    return replace(mode, patch_bp=patch_bp, optimizer=optimizer, **own)


def asks_for_compilation(cfg: Mapping[str, Any]) -> bool:
    """Return whether the configuration wants torch.compile."""
    return step_options(Optimization.model_validate(cfg["optimization"])).compile != "off"


def _changes(
    cfg: Mapping[str, Any], naive: Mode, hardware: Hardware
) -> dict[str, dict[str, Any] | None]:
    """Return the optimizations in the order in which they add up; None: it cannot be had here."""
    wanted = configured(cfg, naive, hardware)
    own = {key: getattr(wanted, key) for key in DEFAULTS}
    timed = {k: DEFAULTS[k] if own[k] == getattr(naive, k) else own[k] for k in DEFAULTS}
    words = timed["attention"].replace("_", " ")
    changes: dict[str, dict[str, Any] | None] = {
        "padded to the richest sample": {"asvs_per_sample": 0},
        "padding not encoded": {"encoded_padding": False},
        "nothing computed again": {"recompute": False},
        "distinct ASVs once": {"copies": False},
        "ASVs in one block": {"chunks": False},
        "samples in groups": {"asvs_per_sample": None},
        f"attention: {words}": {"attention": timed["attention"]},
    }
    if timed["precision"] == "bf16" and not hardware.bf16:
        changes["bf16: no faster here"] = None
    else:
        changes[timed["precision"]] = {"precision": timed["precision"]}
    changes["fused AdamW"] = {"fused_optimizer": True}
    if not hardware.accelerator:
        changes["loader: a CPU assembles in the process"] = None
    elif hardware.workers:
        changes[f"loader: {hardware.workers} processes"] = {"workers": hardware.workers}
    if not hardware.compiles and (hardware.accelerator or asks_for_compilation(cfg)):
        changes["compile: no working compiler"] = None
    elif hardware.accelerator or wanted.compile != "off":
        changes[f"compile: {timed['compile']}"] = {"compile": timed["compile"]}
    if wanted.checkpointing:
        changes["layers computed twice"] = {"checkpointing": True}
    return changes
