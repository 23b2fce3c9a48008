"""The modes of training that are timed: added up, each alone, and at larger batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aam.config.sections.execution import Optimization
from aam.train.options import step_options

ORDER, ALONE, BATCH = "order", "alone", "batch"
"""Groups: each mode adds to the one before it; each adds to the naive one; larger batches."""
NAIVE = "naive"
OF_OPTIMIZATION = ("precision", "attention", "fused_optimizer", "compile", "checkpointing")
"""Options of a mode that the section `optimization` has."""
DEFAULTS = {"precision": "bf16", "attention": "auto", "compile": "default"}
"""What is timed where the configuration has the naive value."""


@dataclass(frozen=True)
class Mode:
    """How a training step is done; the defaults are the naive one, but for its padding.

    `copies`, which are computed twice, and `asvs_per_sample` are those of
    `aam.bench.batches.NaiveDataset`; the rest is as in the configuration.
    """

    copies: bool = True
    asvs_per_sample: int | None = None
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
    naive = Mode(asvs_per_sample=cfg["naive_asvs"])
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
            # Copies are computed twice anyway.
            if change is not None and "checkpointing" not in change
        ]
        found.append(Variant(ALONE, "all together", alone, mode))
    wanted = configured(cfg, mode, hardware)
    if wanted != mode:
        found.append(Variant(BATCH, "as configured", first, wanted))
    names: dict[Mode, str] = {}
    for name, one in (
        ("fp32, one token per nucleotide", replace(mode, precision="fp32", patch_bp=1)),
        (f"{mode.precision}, one token per nucleotide", replace(mode, patch_bp=1)),
        ("all together", mode),
        ("as configured", wanted),
    ):
        names.setdefault(one, name)
    return found + [
        Variant(BATCH, name, size, one) for size in larger for one, name in names.items()
    ]


def usual(cfg: Mapping[str, Any], hardware: Hardware) -> Mode:
    """Return the mode in which `aam.stages.pretrain` trains with a configuration."""
    workers = hardware.workers if hardware.accelerator else 0
    return configured(cfg, Mode(copies=False, workers=workers), hardware)


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
        "distinct ASVs once": {"copies": False},
        "no padding of samples": {"asvs_per_sample": None},
        f"attention: {words}": {"attention": timed["attention"]},
    }
    if timed["precision"] == "bf16" and not hardware.bf16:
        changes["bf16: no faster here"] = None
    else:
        changes[timed["precision"]] = {"precision": timed["precision"]}
    changes["fused AdamW"] = {"fused_optimizer": True}
    if wanted.optimizer != naive.optimizer:
        changes[wanted.optimizer] = {"optimizer": wanted.optimizer}
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
    if wanted.patch_bp > 1:
        changes[f"patch stem of {wanted.patch_bp} bp"] = {"patch_bp": wanted.patch_bp}
    return changes
