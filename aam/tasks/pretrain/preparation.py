"""What pretraining builds from its inputs and settings: true distances, batches, validation, model.

Shape suffixes: V views, N samples, F features, E branches.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aam.batches.dataset import BatchDataset, Subsampling, number_of_batches
from aam.batches.distance_matrices import load_matrices, pair_variances
from aam.batches.masking import Masker
from aam.batches.words import check_kind, learn_words
from aam.config.metrics import FAITH_PD, METRICS
from aam.config.sections.training import Pretraining
from aam.config.settings.training import PretrainSettings
from aam.data.rarefaction import expected_prevalence, features_left
from aam.data.stores import SampleStore, TokenStore
from aam.data.trees import check_lengths
from aam.distances.in_batch import BatchDistances
from aam.model.heads import select_evenly
from aam.tasks.pretrain.inputs import PretrainInputs, divide_samples
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.starts import StartingModel, take_start
from aam.tasks.pretrain.validation import HeldOut
from aam.train.memory.meter import MB, held_mb, host_budget_mb
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)

DISTANCES_FRACTION = 0.5
"""Fraction of the memory left that distances may take; the rest is for the steps."""


@dataclass(frozen=True, eq=False)
class TrueDistances:
    """What the predictions of a model are compared with; see `BatchDataset`."""

    variances: Mapping[str, float]
    """Variance of each distance over pairs of training samples."""
    distances: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Per metric the stored matrices [V, N, N] of all views; none where `exact` is given."""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Faith's PD of all samples by its name, standardized, [N, 1]; none where `exact` is given."""
    exact: BatchDistances | None = None
    """What computes distances and Faith's PD batch by batch; None: they are stored."""
    faith_pd_scale: tuple[float, float] = (0.0, 1.0)
    """Mean and standard deviation that Faith's PD is standardized by."""


def stored_targets(
    metrics: Sequence[str],
    paths: Sequence[Path],
    store: SampleStore,
    is_in: NDArray[np.bool_],
    training: NDArray[np.int64],
    room_bytes: float,
) -> TrueDistances:
    """Read the distances of all samples.

    Parameters
    ----------
    metrics
        Names of the metrics.
    paths
        Files of the distances, metric by metric, within a metric view by view.
    store
        The samples.
    is_in
        Samples [N] that have a part in the pretraining: they scale Faith's PD.
    training
        Positions of the training samples: the variances are theirs.
    room_bytes
        Memory that the distances may take.

    Returns
    -------
    TrueDistances
        With the distances in memory.

    Raises
    ------
    InputError
        There is no room for them, or a distance is not finite.
    """
    distances, values, faith_pd_scale = load_matrices(
        paths, metrics, store.views, store.sample_ids, is_in, room_bytes
    )
    variances = pair_variances(distances, training)
    return TrueDistances(variances, distances, values, faith_pd_scale=faith_pd_scale)


def batch_targets(
    settings: PretrainSettings,
    tree: Path,
    store: SampleStore,
    tokens: TokenStore,
    training: NDArray[np.int64],
) -> TrueDistances:
    """Read the tree that distances are computed from, batch by batch.

    Parameters
    ----------
    settings
        The metrics and their parameters.
    tree
        File of the tree.
    store, tokens
        The samples and their ASVs.
    training
        Positions of the training samples: some of them give the variances, and the scale of Faith's
        PD.

    Returns
    -------
    TrueDistances
        With `exact`, and no stored distances.

    Raises
    ------
    InputError
        The tree cannot be read, or a metric would be 0 / 0 on it: several samples have branches of
        length 0 alone.
    """
    metrics = settings.metrics
    exact = distances_on_tree(settings, tree, tokens.feature_ids)
    if any(METRICS[metric].is_ratio for metric in metrics):
        counts_NF = store.view_matrix(0, len(tokens.lengths))
        height_F = exact.above_FE @ exact.length_E
        check_lengths(store.sample_ids, counts_NF, height_F, tree)
    some_N = select_evenly(training)
    computed = exact(store.counts_of(some_N, len(tokens.lengths)))
    if FAITH_PD in computed:
        value_N1 = computed.pop(FAITH_PD)
        scale = (float(value_N1.mean()), float(value_N1.std()) or 1.0)
        exact = replace(exact, faith_pd_scale=scale)
    # The computed matrices have rows for the selected samples only, all of which count here.
    one_view = {name: matrix_NN[None] for name, matrix_NN in computed.items()}
    variances = pair_variances(one_view, np.arange(len(some_N)))
    return TrueDistances(variances, exact=exact, faith_pd_scale=exact.faith_pd_scale)


def distances_on_tree(
    settings: PretrainSettings, tree: Path, feature_ids: Sequence[str]
) -> BatchDistances:
    """Return what computes the distances that are learned from the reads of a batch.

    Parameters
    ----------
    settings
        The metrics and their parameters.
    tree
        Newick file with a tip for every ASV.
    feature_ids
        The ASVs, in the order of the token store.

    Returns
    -------
    BatchDistances
        Faith's PD is not standardized yet.

    Raises
    ------
    InputError
        The tree cannot be read.
    """
    alpha = 1.0 if settings.alpha is None else settings.alpha
    return BatchDistances.from_tree(settings.metrics, tree, feature_ids, alpha)


def room(max_memory_gb: float | None, processes: int) -> float:
    """Return the memory that distances may take in each of some processes.

    Parameters
    ----------
    max_memory_gb
        Memory that may be taken of the machine, in GB of 2**30 bytes; None: what is free.
    processes
        Number of processes.

    Returns
    -------
    float
        Bytes.
    """
    # On an accelerator the limit is that of its own memory.
    limit_gb = None if torch.cuda.is_available() else max_memory_gb
    left_mb = host_budget_mb(limit_gb) - held_mb(torch.device("cpu"))
    return max(0.0, DISTANCES_FRACTION * left_mb * MB / processes)


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
    encoder = model.encoder
    check_kind(encoder, tokens)
    # The model reads the sequences cut to its own length.
    cut_tokens = tokens.cut(length_bp)
    masker = Masker(
        fraction=training.mask,
        seed=training.seed,
        # Of a word that is masked in part, the rest would tell what it is.
        masking="patch" if tokens.are_lineages else training.masking,
        patch_bp=encoder.shape.patch_bp,
    )
    dataset = _make_dataset(training, store, cut_tokens, training_samples, masker, true_distances)
    scaled_metrics = take_start(model, start, dataset)
    if dataset.epochs > 0:
        learn_words(encoder, store, cut_tokens, training_samples)
    model.calibrate_heads(dataset[0], training.dropout, learned=scaled_metrics)
    part = _subsampled_part(training, dataset)
    if part > 0:
        assert inputs.tree is not None, "distances of subsampled rows are computed on a tree"
        dataset = _subsample(dataset, part, settings, inputs.tree, true_distances.faith_pd_scale)
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
    assert settings.batch_size != "auto", "see `settle_batch_size`"
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


def _subsampled_part(settings: Pretraining, dataset: BatchDataset) -> float:
    """Return the fraction of the steps in which rows have fewer reads."""
    if not settings.may_subsample:
        return 0.0
    counts = dataset.store.counts_of(dataset.samples, len(dataset.tokens.lengths))
    depth = round(float(np.median(counts.sum(axis=1))))
    fewer = settings.subsampled_reads(depth, done=0.5)
    size = min(dataset.batch_size, len(dataset.samples))
    fewer_F, whole_F = (expected_prevalence(counts, reads) for reads in (fewer, depth))
    left = features_left(fewer_F, whole_F, size)
    part = settings.subsampled_part(left)
    if part == 0:
        logger.info(
            "rows have all of their reads in every step, because %d of %d would leave %.0f %% of "
            "the features of a batch",
            fewer,
            depth,
            100 * left,
        )
    return part


def _subsample(
    dataset: BatchDataset,
    part: float,
    settings: PretrainSettings,
    tree: Path,
    faith_pd_scale: tuple[float, float],
) -> BatchDataset:
    """Return the same batches, with fewer reads in the first steps."""
    training = settings.pretraining
    exact = distances_on_tree(settings, tree, dataset.tokens.feature_ids)
    subsampling = Subsampling(
        steps=round(part * len(dataset)),
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
