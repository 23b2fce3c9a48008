"""What pretraining builds from its inputs and settings: batches, validation and model.

Shape suffixes: N samples.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.batches.dataset import BatchDataset, Subsampling, number_of_batches
from aam.batches.masking import Masker
from aam.config.sections.training import Pretraining
from aam.config.settings.training import PretrainSettings
from aam.data.stores import SampleStore, TokenStore
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.starts import StartingModel, take_start
from aam.tasks.pretrain.studies import divide_samples
from aam.tasks.pretrain.true_distances import (
    TrueDistances,
    batch_targets,
    distances_on_tree,
    room,
    stored_targets,
)
from aam.tasks.pretrain.validation import HeldOut
from aam.util.seeds import seed_of


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that training needs, read from the inputs."""

    store: SampleStore
    tokens: TokenStore
    """The whole sequences. Those of `dataset` and `validation` are cut to what the model reads."""
    is_held_out: NDArray[np.bool_]
    """Which samples of the store the model is validated on, [N]."""
    dataset: BatchDataset
    """Batches of the training samples."""
    validation: HeldOut
    model: PretrainingModel
    """The model, with its first weights until it is trained in place."""
    start: StartingModel | None = None
    """What the model started from; None: from the weights of its seed."""


def prepare(
    settings: PretrainSettings,
    inputs: PretrainInputs,
    without: Collection[str] = (),
    *,
    max_memory_gb: float | None = None,
    processes: int = 1,
) -> Prepared:
    """Open the inputs of the stage and build dataset, validation and model.

    Parameters
    ----------
    settings
        Architecture, training and optimization.
    inputs
        Files that are read.
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
    training = settings.pretraining
    store = SampleStore.open(inputs.samples)
    tokens = TokenStore.open(inputs.tokens)
    is_in, is_held_out = divide_samples(settings, inputs.metadata, store.sample_ids, without)
    training_samples = np.flatnonzero(~is_held_out & is_in)
    held_out_samples = np.flatnonzero(is_held_out)
    true_distances = _read_true_distances(
        settings,
        inputs,
        store,
        tokens,
        is_in,
        training_samples,
        max_memory_gb=max_memory_gb,
        processes=processes,
    )
    start = StartingModel.from_inputs(inputs)
    length_bp = tokens.tokens.shape[1] if start is None else start.length_bp
    model = PretrainingModel.from_settings(settings, length_bp, true_distances.variances)
    # The model reads the sequences cut to its own length.
    cut_tokens = tokens.cut(length_bp)
    masker = Masker(
        fraction=training.mask,
        seed=training.seed,
        masking=training.masking,
        patch_bp=model.encoder.shape.patch_bp,
    )
    dataset = _make_dataset(training, store, cut_tokens, training_samples, masker, true_distances)
    scaled_metrics = take_start(model, start, dataset)
    model.start(dataset[0], training.dropout, learned=scaled_metrics)
    if training.subsampled > 0:
        assert inputs.tree is not None, "distances of subsampled rows are computed on a tree"
        dataset = _subsample(dataset, settings, inputs.tree, true_distances.faith_pd_scale)
    validation = _make_validation(
        training, store, cut_tokens, held_out_samples, training_samples, masker, true_distances
    )
    return Prepared(
        store=store,
        tokens=tokens,
        is_held_out=is_held_out,
        dataset=dataset,
        validation=validation,
        model=model,
        start=start,
    )


def _read_true_distances(
    settings: PretrainSettings,
    inputs: PretrainInputs,
    store: SampleStore,
    tokens: TokenStore,
    is_in: NDArray[np.bool_],
    training_samples: NDArray[np.int64],
    *,
    max_memory_gb: float | None,
    processes: int,
) -> TrueDistances:
    """Return what the model learns: computed in the batch, or stored, as the settings say.

    Parameters
    ----------
    settings, inputs, max_memory_gb, processes
        As for `prepare`.
    store, tokens
        The samples and their ASVs.
    is_in
        Samples that have a part in the pretraining, [N].
    training_samples
        Positions of the training samples in the store.

    Raises
    ------
    InputError
        The memory has no room for stored distances, or an input is damaged.
    """
    if settings.pretraining.targets == "batch":
        assert inputs.tree is not None, "distances are computed on a tree"
        return batch_targets(settings, inputs.tree, store, tokens, training_samples)
    assert inputs.distances is not None, "stored distances are read from files"
    return stored_targets(
        settings.metrics,
        inputs.distances,
        store,
        is_in,
        training_samples,
        room_bytes=room(max_memory_gb, processes),
    )


def _make_dataset(
    settings: Pretraining,
    store: SampleStore,
    tokens: TokenStore,
    samples: NDArray[np.int64],
    masker: Masker,
    true_distances: TrueDistances,
) -> BatchDataset:
    """Return the batches of the training samples, with nucleotides masked where that is learned."""
    epochs = settings.passes(number_of_batches(len(samples), settings.batch_size))
    return BatchDataset(
        store=store,
        tokens=tokens,
        samples=samples,
        batch_size=settings.batch_size,
        epochs=epochs,
        seed=settings.seed,
        masker=masker if settings.nucleotide_weight > 0 else None,
        distances=true_distances.distances,
        values=true_distances.values,
        exact=true_distances.exact,
    )


def _subsample(
    dataset: BatchDataset,
    settings: PretrainSettings,
    tree: Path,
    faith_pd_scale: tuple[float, float],
) -> BatchDataset:
    """Return the same batches, with fewer reads in the first steps."""
    training = settings.pretraining
    exact = distances_on_tree(settings, tree, dataset.tokens.feature_ids)
    subsampling = Subsampling(
        steps=round(training.subsampled * len(dataset)),
        seed=training.seed,
        exact=replace(exact, faith_pd_scale=faith_pd_scale),
    )
    return replace(dataset, subsampling=subsampling)


def _make_validation(
    settings: Pretraining,
    store: SampleStore,
    tokens: TokenStore,
    held_out_samples: NDArray[np.int64],
    training_samples: NDArray[np.int64],
    masker: Masker,
    true_distances: TrueDistances,
) -> HeldOut:
    """Return what the model is validated on, with nucleotides masked by a seed of its own."""
    return HeldOut(
        store=store,
        tokens=tokens,
        samples=held_out_samples,
        training_samples=training_samples,
        distances=true_distances.distances,
        values=true_distances.values,
        masker=replace(masker, seed=seed_of("validation", settings.seed)),
        exact=true_distances.exact,
        plotted_pairs=settings.plotted_pairs,
    )
