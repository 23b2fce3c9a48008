"""Inputs and settings of pretraining to dataset, validation and model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.holdout import held_out
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.build import architecture, build_encoder, set_dropout
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train.data.dataset import BatchDataset
from aam.train.data.distances import Maps, load_matrices, pair_variances
from aam.train.data.mapped_distances import MappedMatrix
from aam.train.data.masking import Masker
from aam.train.data.sampler import Blocks
from aam.train.micro_batches import split
from aam.train.monitoring.memory import MB, budget_mb, held_mb
from aam.train.options import step_options
from aam.util.seeds import seed_of

ASVS_AT_ONCE = 512
"""ASVs that are encoded together before the memory of a step is looked at."""
FOLDER = "distances"
"""Folder in that for scratch files which mapped distances lie in, alone."""
DISTANCES_SHARE = 0.5
"""Share of the memory left that distances may take; the rest is for the steps."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that training needs, read from the inputs."""

    store: SampleStore
    tokens: TokenStore
    is_held_out: NDArray[np.bool_]
    dataset: BatchDataset
    validation: HeldOut
    model: PretrainingModel

    @property
    def mapped_mb(self) -> float:
        """Size of the distances that are mapped from files, in MB; 0 where memory holds them."""
        return sum(
            matrix.bytes / MB
            for matrices in self.dataset.distances.values()
            for matrix in matrices
            if isinstance(matrix, MappedMatrix)
        )


def prepare(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    work: Path | None = None,
    max_memory_gb: float | None = None,
    processes: int = 1,
) -> Prepared:
    """Open the inputs and build dataset, validation and model.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.pretrain`.
    inputs
        `tokens`, `samples` and `distances`.
    without
        IDs of samples that are neither trained on nor validated, and have no part in a scale.
    work
        Folder for distances that memory has no room for; None: they are read into it all the same.
    max_memory_gb
        Memory that this process may take, in GB of 2^30 bytes; None: what is free.
    processes
        Number of processes that do the same on this machine and share its free memory.

    Raises
    ------
    InputError
        When neither memory nor the disk of `work` has room for the distances, or there are too few
        samples.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    weights = settings.distances or {}
    is_in, is_held_out = _divided(store, settings, without)
    training, validation = np.flatnonzero(~is_held_out & is_in), np.flatnonzero(is_held_out)
    is_uniform = settings.sampler == "uniform"
    blocks = None if is_uniform else Blocks.of(training, len(is_in), settings.seed)
    room = _room(max_memory_gb, processes)
    maps = None if work is None else Maps(work / FOLDER, room, blocks)
    distances, values = load_matrices(
        inputs["distances"], list(weights), store.views, store.sample_ids, is_in, maps
    )
    shape = architecture(cfg["model"], tokens.tokens.shape[1])
    masker = Masker(settings.mask, settings.seed, settings.masking, shape.patch_bp)
    dataset = BatchDataset(
        store=store,
        tokens=tokens,
        samples=training,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        seed=settings.seed,
        masker=masker,
        distances=distances,
        values=values,
        blocks=blocks,
    )
    encoder = build_encoder(shape, seed=settings.seed, backend=options.attention)
    model = PretrainingModel(
        encoder,
        weights=weights,
        # In the order of the file: a block's rows lie together there.
        variances=pair_variances(distances, training if blocks is None else blocks.training_line),
        nucleotide_weight=settings.nucleotide_weight,
        seed=seed_of("heads", settings.seed),
    )
    calibrate(model, dataset)
    set_dropout(model, settings.dropout)
    fixed_mask = replace(masker, seed=seed_of("validation", settings.seed))
    matrices = cast("Mapping[str, NDArray[np.float32]]", distances)
    at_most = settings.plotted_pairs
    scored = HeldOut(
        store, tokens, validation, training, matrices, values, fixed_mask, plotted_pairs=at_most
    )
    return Prepared(store, tokens, is_held_out, dataset, scored, model)


def _divided(
    store: SampleStore, settings: Pretraining, without: Collection[str]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which samples are used at all, and which of them are held out, [N]."""
    is_in = np.array([name not in without for name in store.sample_ids])
    is_held_out = np.zeros_like(is_in)
    names = [name for name in store.sample_ids if name not in without]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
    return is_in, is_held_out


def _room(max_memory_gb: float | None, processes: int) -> float:
    """Return the bytes of memory that distances may take in each of some processes."""
    host = torch.device("cpu")
    # On an accelerator the limit is that of its own memory.
    limit_gb = None if torch.cuda.is_available() else max_memory_gb
    left_mb = budget_mb(limit_gb, host) - held_mb(host)
    return max(0.0, DISTANCES_SHARE * left_mb * MB / processes)


@torch.no_grad()
def calibrate(model: PretrainingModel, dataset: BatchDataset) -> None:
    """Start every distance head at the mean distance of the first batch.

    Without it the first hundred steps go into finding the scale.
    """
    batch = dataset[0]
    # Without gradients a piece is let go of at once: a large first batch takes no more memory.
    sample_BD = model.encoder(split(batch, ASVS_AT_ONCE, None)).sample_BD
    pairs = batch.size * (batch.size - 1)
    for metric, true_BB in batch.distances.items():
        model.head(metric).calibrate(sample_BD, float(true_BB.sum()) / pairs)
