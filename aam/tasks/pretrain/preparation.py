"""Inputs and settings of pretraining to dataset, validation and model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aam.batches.dataset import BatchDataset, number_of_batches
from aam.batches.masking import Masker
from aam.config.sections.training import Pretraining
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.starts import StartingModel, begin
from aam.tasks.pretrain.studies import divided
from aam.tasks.pretrain.true_distances import batch_targets, room, stored_targets
from aam.tasks.pretrain.validation import HeldOut
from aam.util.seeds import seed_of


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that training needs, read from the inputs."""

    store: SampleStore
    tokens: TokenStore
    is_held_out: NDArray[np.bool_]
    dataset: BatchDataset
    validation: HeldOut
    model: PretrainingModel
    start: StartingModel | None = None


def prepare(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    max_memory_gb: float | None = None,
    processes: int = 1,
) -> Prepared:
    """Open the inputs of the stage and build dataset, validation and model.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.pretrain`.
    inputs
        Files by name.
    without
        IDs of samples that are neither trained on nor validated, and have no part in a scale.
    max_memory_gb
        Memory that this process may take of the machine, in GB of 2**30 bytes; None: what is free.
    processes
        Number of processes that do the same, and share that memory.

    Returns
    -------
    Prepared
        Ready for training.

    Raises
    ------
    InputError
        The memory has no room for stored distances, there are too few samples, or an input is
        damaged.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    store = SampleStore.open(inputs["samples"])
    tokens = TokenStore.open(inputs["tokens"])
    is_in, is_held_out = divided(cfg, inputs, store.sample_ids, without)
    training = np.flatnonzero(~is_held_out & is_in)
    validation = np.flatnonzero(is_held_out)
    if settings.targets == "batch":
        true = batch_targets(cfg, inputs["tree"], store, tokens, training)
    else:
        room_bytes = room(max_memory_gb, processes)
        true = stored_targets(cfg, inputs["distances"], store, is_in, training, room_bytes)
    start = StartingModel.from_inputs(inputs)
    length_bp = tokens.tokens.shape[1] if start is None else start.length_bp
    model = PretrainingModel.from_config(cfg, length_bp, true.variances)
    read = tokens.cut(length_bp)
    patch_bp = model.encoder.shape.patch_bp
    masker = Masker(settings.mask, settings.seed, settings.masking, patch_bp)
    dataset = BatchDataset(
        store,
        read,
        training,
        settings.batch_size,
        settings.passes(number_of_batches(len(training), settings.batch_size)),
        settings.seed,
        masker=masker if settings.nucleotide_weight > 0 else None,
        distances=true.distances,
        values=true.values,
        exact=true.exact,
    )
    learned = begin(model, start, dataset)
    model.start(dataset[0], settings.dropout, learned)
    fixed = replace(masker, seed=seed_of("validation", settings.seed))
    scored = HeldOut(
        store=store,
        tokens=read,
        samples=validation,
        training_samples=training,
        distances=true.distances,
        values=true.values,
        masker=fixed,
        exact=true.exact,
        plotted_pairs=settings.plotted_pairs,
    )
    return Prepared(store, tokens, is_held_out, dataset, scored, model, start)
