"""What pretraining learns to predict: distances that were stored, or are computed in the batch.

Shape suffixes: V views, N samples, F features, E branches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aam.batches.distance_matrices import load_matrices, pair_variances
from aam.config.metrics import FAITH_PD, METRICS
from aam.config.settings.training import PretrainSettings
from aam.data.stores import SampleStore, TokenStore
from aam.data.trees import check_lengths
from aam.distances.in_batch import BatchDistances
from aam.model.heads import select_evenly
from aam.train.memory.meter import MB, held_mb, host_budget_mb

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
