"""Inputs and settings of pretraining to dataset, validation and model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.config.metrics import FAITH_PD
from aam.config.sections.training import Pretraining
from aam.data.holdout import held_out
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train.batch_norm import some_of
from aam.train.data.dataset import BatchDataset
from aam.train.data.distances import Maps, Views, load_matrices, mapped_mb, pair_variances
from aam.train.data.masking import Masker
from aam.train.data.sampler import Blocks
from aam.train.monitoring.memory import MB, budget_mb, held_mb
from aam.unifrac.in_batch import BatchDistances
from aam.util.seeds import seed_of

FOLDER = "distances"
"""Folder in the work folder which mapped distances lie in, alone."""
DISTANCES_FRACTION = 0.5
"""Fraction of the memory left that distances may take; the rest is for the steps."""


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
        return mapped_mb(self.dataset.distances)


def prepare(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    work: Path | None = None,
    max_memory_gb: float | None = None,
    processes: int = 1,
) -> Prepared:
    """Open the inputs of the stage and build dataset, validation and model.

    The samples `without` are neither trained on nor validated, and have no part in a scale.
    Distances that memory has no room for go to the folder `work`, if there is one. This process may
    take `max_memory_gb` (of 2^30 bytes; None: what is free) of the machine's memory, or its part of
    it where several `processes` do the same.

    Raises
    ------
    InputError
        When neither memory nor the disk of `work` has room for the distances, or there are too few
        samples.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    weights = settings.distances or {}
    is_in = np.array([name not in without for name in store.sample_ids])
    is_held_out, names = np.zeros_like(is_in), [n for n in store.sample_ids if n not in without]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
    training, validation = np.flatnonzero(~is_held_out & is_in), np.flatnonzero(is_held_out)
    blocks, maps = None, None
    if settings.sampler == "blocks":
        blocks = Blocks.of(training, len(is_in), settings.seed)
    if work is not None:
        maps = Maps(work / FOLDER, _room(max_memory_gb, processes), blocks)
    exact: BatchDistances | None = None
    distances: dict[str, Views] = {}
    values: dict[str, NDArray[np.float32]] = {}
    if settings.targets == "batch":
        exact = BatchDistances.of(
            list(weights), inputs["tree"], tokens.feature_ids, cfg.get("alpha", 1)
        )
        exact, variances = _scaled(exact, store.counts_of(some_of(training), len(tokens.lengths)))
    else:
        distances, values = load_matrices(
            inputs["distances"], list(weights), store.views, store.sample_ids, is_in, maps
        )
        # In the order of the file: a block's rows lie together there.
        variances = pair_variances(distances, training if blocks is None else blocks.training_line)
    model = PretrainingModel.of(cfg, tokens.tokens.shape[1], variances)
    patch_bp = model.encoder.shape.patch_bp
    masker = Masker(settings.mask, settings.seed, settings.masking, patch_bp)
    dataset = BatchDataset(
        store,
        tokens,
        training,
        settings.batch_size,
        settings.epochs,
        settings.seed,
        masker=masker,
        distances=distances,
        values=values,
        exact=exact,
        blocks=blocks,
    )
    model.start(dataset[0], settings.dropout)
    scored = HeldOut(
        store,
        tokens,
        validation,
        training,
        cast("Mapping[str, NDArray[np.float32]]", distances),
        values,
        masker=replace(masker, seed=seed_of("validation", settings.seed)),
        exact=exact,
    )
    return Prepared(store, tokens, is_held_out, dataset, scored, model)


def _scaled(exact: BatchDistances, counts: csr_array) -> tuple[BatchDistances, dict[str, float]]:
    """Return what standardizes Faith's PD by some samples, and each distance's variance there."""
    found, above = exact(counts), np.triu_indices(counts.shape[0], 1)
    if FAITH_PD in found:
        values_N1 = found.pop(FAITH_PD)
        exact = replace(exact, faith_pd_scale=(float(values_N1.mean()), float(values_N1.std())))
    return exact, {name: max(float(one[above].var()), 1e-6) for name, one in found.items()}


def _room(max_memory_gb: float | None, processes: int) -> float:
    """Return the bytes of memory that distances may take in each of some processes."""
    host = torch.device("cpu")
    # On an accelerator the limit is that of its own memory.
    limit_gb = None if torch.cuda.is_available() else max_memory_gb
    left_mb = budget_mb(limit_gb, host) - held_mb(host)
    return max(0.0, DISTANCES_FRACTION * left_mb * MB / processes)
