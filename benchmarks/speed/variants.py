"""The modes of training that are timed: added up, each alone, and at larger batches."""

from dataclasses import dataclass, replace
from typing import Any

from aam.config.settings.training import PretrainSettings, SpeedSettings
from aam.distributed.devices import AUTO
from aam.train.options import step_options

ORDER = "order"
"""Group in which each mode adds a change to the one before it."""
ALONE = "alone"
"""Group in which each mode adds a change to the naive one."""
BATCH = "batch"
"""Group of larger batches."""
NAIVE = "naive"
BATCH_OPTIONS = ("copies", "chunks", "encoded_padding", "asvs_per_sample")
"""Options of a mode that `benchmarks.speed.batches.NaiveDataset` has."""
STEP_OPTIONS = (
    "attention",
    "precision",
    "fused_optimizer",
    "compile",
    "checkpointing",
    "deterministic",
)
"""Options of a mode that the section `optimization` has."""
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
    """How a training step is done; by default with all savings, in the plainest arithmetic."""

    copies: bool = False
    """Whether every sample has its ASVs for itself."""
    chunks: bool = False
    """Whether ASVs are cut into blocks of `benchmarks.speed.batches.ASVS_PER_CHUNK`."""
    encoded_padding: bool = False
    """Whether the places behind a sample's last ASV are encoded, too."""
    asvs_per_sample: int | None = None
    """ASVs that every sample is padded to; 0: those of the richest sample of the batch; None:
    samples are padded in groups."""
    recompute: bool = False
    """Whether the backward pass computes every block again."""
    patch_bp: int = 1
    """Nucleotides of a token, as in the section `models`."""
    precision: str = "fp32"
    """Arithmetic of the layers, as in the section `optimization`."""
    optimizer: str = "adamw"
    """Optimizer, as in the section `pretraining`."""
    attention: str = "math"
    """Attention kernel, as in the section `optimization`."""
    fused_optimizer: bool = False
    """Whether AdamW updates all weights by one kernel."""
    compile: str = "off"
    """Mode of the compiler, as in the section `optimization`."""
    checkpointing: bool = False
    """Whether the backward pass computes the activations of every layer again."""
    deterministic: bool = False
    """Whether algorithms must repeat bit by bit on an accelerator."""
    workers: int = 0
    """Processes that assemble batches; 0: the process that trains does."""
    pinned: bool = False
    """Whether batches lie in pinned memory, which an accelerator copies from while it computes."""


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
    """What a machine has, as far as the modes depend on it."""

    accelerator: bool = False
    """Whether there is an accelerator that models run on."""
    compiles: bool = False
    """Whether there is a compiler that works."""
    workers: int = 0
    """Processes that may assemble batches."""
    bf16: bool = True
    """Whether products in bf16 are fast."""
    devices: int = 0
    """Number of CUDA devices."""


def variants(settings: SpeedSettings, hardware: Hardware) -> list[Variant]:
    """Return what the speed table has to hold.

    Parameters
    ----------
    settings
        The model that is timed, and the batch sizes.
    hardware
        What the machine has.

    Returns
    -------
    list of Variant
        Those of `ORDER`, of `ALONE` and of `BATCH`.
    """
    wanted = usual(settings.training, hardware)
    plain = Mode(patch_bp=wanted.patch_bp, optimizer=wanted.optimizer)
    naive = replace(
        plain,
        copies=True,
        chunks=True,
        encoded_padding=True,
        recompute=True,
        asvs_per_sample=settings.naive_asvs,
    )
    changes = dict(SAVINGS)
    for key in (*STEP_OPTIONS, "workers", "pinned"):
        value = getattr(wanted, key)
        if value != getattr(plain, key):
            changes[format_option(key, value)] = {key: value}
    first, *larger = settings.batch_sizes
    mode = naive
    timed = [Variant(ORDER, NAIVE, first, naive)]
    for name, change in changes.items():
        mode = replace(mode, **change)
        timed.append(Variant(ORDER, f"+ {name}", first, mode))
    if settings.alone_batch_size is not None:
        alone = {NAIVE: naive}
        for name, change in changes.items():
            alone[name] = replace(naive, **change)
        alone["all together"] = mode
        size = settings.alone_batch_size
        timed += [Variant(ALONE, name, size, changed) for name, changed in alone.items()]
    names = {replace(mode, precision="fp32"): "all together but in fp32", mode: "all together"}
    for size in larger:
        timed += [Variant(BATCH, name, size, changed) for changed, name in names.items()]
    return timed


def format_option(key: str, value: Any) -> str:
    """Return an option in words.

    Parameters
    ----------
    key, value
        Name of the option, and its value.

    Returns
    -------
    str
        ``fused optimizer: on`` for instance.
    """
    if isinstance(value, bool):
        value = "on" if value else "off"
    return f"{key}: {value}".replace("_", " ")


def usual(settings: PretrainSettings, hardware: Hardware) -> Mode:
    """Return the mode in which `aam.stages.pretrain` trains with a configuration on a machine.

    Parameters
    ----------
    settings
        Architecture, training and optimization.
    hardware
        What the machine has. Of the precisions that `auto` chooses from it gets bf16, if it has it.

    Returns
    -------
    Mode
        With all savings, and the options as the machine carries them out.
    """
    options = step_options(settings.optimization)
    chosen = {key: getattr(options, key) for key in STEP_OPTIONS}
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
    return Mode(
        patch_bp=settings.model.patch_bp,
        optimizer=settings.pretraining.optimizer,
        **chosen,
    )
