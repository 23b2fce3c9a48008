"""The modes of training that are timed: added up, each alone, and at larger batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aam.config.sections.execution import Optimization
from aam.train.options import step_options

ORDER, ONE_PROCESS, BATCH, OPTION = "order", "alone", "batch", "option"
"""Groups: each mode adds to the one before it; each adds to the naive one; larger batches; what
the configuration does not ask for."""
NAIVE = "naive"
DEFAULTS = {"precision": "bf16", "attention": "auto", "compile": "default"}
"""What is timed where the configuration has the naive value."""


@dataclass(frozen=True)
class Mode:
    """How a training step is done; the defaults are the naive one, but for its padding.

    Attributes
    ----------
    copies
        Whether every copy of an ASV is encoded, in chunks computed twice.
    asvs_per_sample
        ASVs that every sample is padded to; None: as the optimized batch pads it.
    patch_bp
        Nucleotides per token.
    precision, optimizer
        As in the section `pretraining`.
    attention, fused_optimizer, compile, checkpointing
        As in the section `optimization`.
    workers
        Processes that assemble batches; 0: the training does it between its steps.
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
    """One line of the speed table.

    Attributes
    ----------
    group
        ``order``, ``alone``, ``batch`` or ``option``.
    name
        Words for the table.
    batch_size
        Samples per step.
    mode
        What is run; None: nothing, for the reason that the name gives.
    """

    group: str
    name: str
    batch_size: int
    mode: Mode | None

    def __str__(self) -> str:
        return f"{self.group}: {self.name}, batch {self.batch_size}"


Change = tuple[str, dict[str, Any] | None]
"""Words, and what a mode gets; None: it cannot be had here."""


@dataclass(frozen=True)
class Means:
    """What the machine has.

    Attributes
    ----------
    accelerator
        Whether models run on one: then compilation is timed unasked, and loading in processes.
    compiles
        Whether torch.compile works.
    workers
        Processes that assemble batches for an accelerator.
    """

    accelerator: bool = False
    compiles: bool = False
    workers: int = 0


def variants(cfg: Mapping[str, Any], means: Means) -> list[Variant]:
    """Return what the speed table has to hold.

    The modes of the groups `order` and `alone` get every option, configured or not; where the last
    of them is not what the configuration says, that is timed too, as a `batch`.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.benchmark`.
    means
        What the machine has.
    """
    naive = Mode(asvs_per_sample=cfg["naive_asvs"])
    changes = _changes(cfg, naive, means)
    first, alone = cfg["batch_sizes"][0], cfg["alone_batch_size"]
    mode, ladder = naive, [Variant(ORDER, NAIVE, first, naive)]
    for name, change in changes:
        mode = replace(mode, **(change or {}))
        ladder.append(Variant(ORDER, f"+ {name}", first, None if change is None else mode))
    if alone is not None:
        ladder.append(Variant(ONE_PROCESS, NAIVE, alone, naive))
        ladder += [
            Variant(ONE_PROCESS, name, alone, replace(naive, **change))
            for name, change in changes
            # Copies are computed twice anyway.
            if change is not None and "checkpointing" not in change
        ]
        ladder.append(Variant(ONE_PROCESS, "all together", alone, mode))
    return ladder + _at_batches(cfg, mode, means)


def options(cfg: Mapping[str, Any], means: Means) -> list[Variant]:
    """Return modes that differ by one option from the configured one, at the largest batch.

    The naive one is there too; those that `variants` has are left out.

    Parameters
    ----------
    cfg, means
        As for `variants`.
    """
    ladder = variants(cfg, means)
    values: dict[str, tuple[Any, ...]] = {
        "precision": ("fp32", "tf32", "bf16", *(["fp16"] if means.accelerator else [])),
        "compile": ("off", "default", "reduce-overhead", "max-autotune"),
        "attention": ("auto", "flash", "memory_efficient", "math"),
        "fused_optimizer": (False, True),
        "optimizer": ("adamw", "muon"),
        "checkpointing": (False, True),
    }
    size = max(cfg["batch_sizes"])
    base = configured(cfg, optimized(means), means)
    seen = {rung.mode for rung in ladder if rung.batch_size == size}
    naive = ladder[0].mode
    more = [] if naive in seen else [Variant(OPTION, NAIVE, size, naive)]
    for patch_bp in sorted({base.patch_bp, 1}, reverse=True):
        for key, choices in values.items():
            for value in choices:
                mode = replace(base, patch_bp=patch_bp, **{key: value})
                if mode not in seen:
                    said = ("off", "on")[value] if isinstance(value, bool) else in_words(value)
                    words = f"{in_words(key)}: {said}"
                    more.append(Variant(OPTION, f"{words}, {patch_bp} bp per token", size, mode))
                seen.add(mode)
    return more


def optimized(means: Means) -> Mode:
    """Return the mode whose batches are those of a training."""
    return Mode(copies=False, workers=means.workers if means.accelerator else 0)


def configured(cfg: Mapping[str, Any], mode: Mode, means: Means) -> Mode:
    """Return `mode` with everything that the configuration says; batches stay as they are.

    Where the machine lacks something it is what training does instead.
    """
    section = step_options(Optimization.model_validate(cfg["optimization"]))
    return replace(
        mode,
        patch_bp=cfg["model"]["patch_bp"],
        precision=_possible(cfg["pretraining"]["precision"], means),
        optimizer=cfg["pretraining"]["optimizer"],
        attention=section.attention,
        fused_optimizer=section.fused_optimizer,
        compile=section.compile if means.compiles else "off",
        checkpointing=section.checkpointing,
    )


def _possible(precision: str, means: Means) -> str:
    return "bf16" if precision == "fp16" and not means.accelerator else precision


def _changes(cfg: Mapping[str, Any], naive: Mode, means: Means) -> list[Change]:
    """Return the optimizations in the order in which they add up."""
    wanted = configured(cfg, naive, means)
    timed = {
        key: value if getattr(wanted, key) == getattr(naive, key) else getattr(wanted, key)
        for key, value in DEFAULTS.items()
    }
    changes: list[Change] = [
        ("distinct ASVs once", {"copies": False}),
        ("no padding of samples", {"asvs_per_sample": None}),
        (f"attention: {in_words(timed['attention'])}", {"attention": timed["attention"]}),
        (timed["precision"], {"precision": timed["precision"]}),
        ("fused AdamW", {"fused_optimizer": True}),
    ]
    if wanted.optimizer != naive.optimizer:
        changes.append((wanted.optimizer, {"optimizer": wanted.optimizer}))
    if not means.accelerator:
        changes.append(("loader: a CPU assembles in the process", None))
    elif means.workers:
        changes.append((f"loader: {means.workers} processes", {"workers": means.workers}))
    if not means.compiles and (means.accelerator or asks_for_compilation(cfg)):
        changes.append(("compile: no working compiler", None))
    elif means.accelerator or wanted.compile != "off":
        changes.append((f"compile: {timed['compile']}", {"compile": timed["compile"]}))
    if wanted.checkpointing:
        changes.append(("layers computed twice", {"checkpointing": True}))
    if wanted.patch_bp > 1:
        changes.append((f"patch stem of {wanted.patch_bp} bp", {"patch_bp": wanted.patch_bp}))
    return changes


def asks_for_compilation(cfg: Mapping[str, Any]) -> bool:
    """Return whether the configuration wants torch.compile."""
    return step_options(Optimization.model_validate(cfg["optimization"])).compile != "off"


def _at_batches(cfg: Mapping[str, Any], mode: Mode, means: Means) -> list[Variant]:
    """Return the last modes at the larger batches, and the configured one wherever it differs."""
    wanted = configured(cfg, mode, means)
    first, *larger = cfg["batch_sizes"]
    modes = {
        "fp32, one token per nucleotide": replace(mode, precision="fp32", patch_bp=1),
        f"{mode.precision}, one token per nucleotide": replace(mode, patch_bp=1),
        "all together": mode,
        "as configured": wanted,
    }
    names: dict[Mode, str] = {}
    for name, one in modes.items():
        names.setdefault(one, name)
    found = [] if wanted == mode else [Variant(BATCH, "as configured", first, wanted)]
    for size in larger:
        found += [Variant(BATCH, name, size, one) for one, name in names.items()]
    return found


def in_words(name: str) -> str:
    """Return a value of the configuration as words."""
    return name.replace("_", " ")
