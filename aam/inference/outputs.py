"""What a predictor says of rows of a store, and what that means in the units of the target.

Shape suffixes: R rows of the store, N samples, V views, F metadata columns, D width, O raw
outputs, C numbers or classes, Q quantiles, M models, U ASVs, P ASVs that a kernel head knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from numpy.typing import NDArray

from aam.data.stores import SampleStore, TokenStore
from aam.data.target import QUANTILES, Target
from aam.distributed.inference_device import InferenceDevice
from aam.inference.embed import embed_samples
from aam.learners.temperature import apply_temperature
from aam.model.kernel_head import ABSENT, KernelHead, log_reads
from aam.model.predictor import Predictor
from aam.util.errors import problem


@dataclass(frozen=True, eq=False)
class Outputs:
    """Predictions of some samples, the mean of their views."""

    point_NC: NDArray[np.float64]
    """Numbers in the units of the columns, or probabilities of the classes."""
    quantile_NCQ: NDArray[np.float64] | None = None
    """Quantiles of the numbers, where the loss is of quantiles."""


@dataclass(frozen=True)
class Share:
    """What a model counts for among several."""

    weight: float = 1.0
    """Relative to the others."""
    temperature: float = 1.0
    """What its probabilities are scaled by before."""
    group: str = ""
    """Models of one group have the same share, and are averaged before they are scaled."""


def raw_outputs(
    predictor: Predictor,
    store: SampleStore,
    tokens: TokenStore,
    rows_R: NDArray[np.int64],
    devices: InferenceDevice,
    *,
    embedding_RD: torch.Tensor | None = None,
    asv_UD: torch.Tensor | None = None,
    category_RF: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return the raw outputs of some rows of the store, in any order.

    Parameters
    ----------
    predictor
        The model.
    store
        Samples.
    tokens
        Their ASVs.
    rows_R
        Rows of the store.
    devices
        Where the outputs are computed.
    embedding_RD
        Embeddings of these rows; None: they are computed where they are needed.
    asv_UD
        Embeddings of all ASVs of `tokens`; None: they are computed where they are needed.
    category_RF
        Numbers in the predictor's vocabulary; None: all categories are unknown.

    Returns
    -------
    numpy.ndarray
        [R, O], fp32.
    """
    device = devices.device
    category = None if category_RF is None else torch.from_numpy(category_RF).to(device)
    if embedding_RD is None:
        embedding_RD = embed_samples(predictor.encoder, store, tokens, rows_R, devices, asv_UD)
    log_RP = None
    if isinstance(predictor.head, KernelHead):
        log_RP = known_reads(predictor.head, store, tokens, rows_R).to(device)
    with devices.inference(predictor):
        output_RO = predictor.predict(embedding_RD.to(device), category, log_BP=log_RP)
        return output_RO.float().cpu().numpy()


def known_reads(
    head: KernelHead, store: SampleStore, tokens: TokenStore, rows_R: NDArray[np.int64]
) -> torch.Tensor:
    """Return the reads that a kernel head looks at.

    Parameters
    ----------
    head
        The machine.
    store, tokens
        Samples and their ASVs.
    rows_R
        Rows of the store, none of them an augmented one.

    Returns
    -------
    torch.Tensor
        `log_reads` [R, P] of mean reads over all views.
    """
    column_U = head.columns(tokens.tokens)
    samples, sample_R = np.unique(rows_R % len(store.sample_ids), return_inverse=True)
    shared_U = np.flatnonzero(column_U != ABSENT)
    reads_NP = torch.zeros(len(samples), len(head.asv_PS))
    reads = torch.from_numpy(mean_reads(store, samples, len(column_U))[:, shared_U].toarray())
    # Sequences that are alike as far as the model reads them share a column.
    reads_NP.index_add_(1, torch.from_numpy(column_U[shared_U]), reads.float())
    return log_reads(reads_NP)[torch.from_numpy(sample_R)]


def mean_reads(store: SampleStore, samples: NDArray[np.int64], asvs: int) -> scipy.sparse.csc_array:
    """Return the reads of some samples, the mean of all views.

    Parameters
    ----------
    store
        Samples.
    samples
        Positions of some of them.
    asvs
        Number of all ASVs.

    Returns
    -------
    scipy.sparse.csc_array
        [N, U].
    """
    first_V = len(store.sample_ids) * np.arange(store.views)
    total = sum(store.counts_of(first + samples, asvs) for first in first_V)
    return scipy.sparse.csc_array(total / store.views)


def decode_outputs(
    target: Target, output_RO: NDArray[np.floating], views: int, by_R: list[str] | None = None
) -> Outputs:
    """Return what raw outputs mean in the units of the target.

    Parameters
    ----------
    target
        What is predicted.
    output_RO
        Raw outputs of V views of N samples, view after view.
    views
        Number of views V.
    by_R
        Category that chooses the scale of each row; None: there is one scale.

    Returns
    -------
    Outputs
        The mean of the views.
    """

    def mean(value: NDArray[np.float64]) -> NDArray[np.float64]:
        return value.reshape(views, -1, *value.shape[1:]).mean(axis=0)

    is_quantile = target.loss == "quantile"
    return Outputs(
        point_NC=mean(target.decode(output_RO, by_R)),
        quantile_NCQ=mean(target.decode_quantiles(output_RO, by_R)) if is_quantile else None,
    )


def mean_outputs(outputs: Sequence[Outputs], shares: Sequence[Share]) -> Outputs:
    """Return the weighted mean of what several models say of the same samples.

    Parameters
    ----------
    outputs
        Outputs of each model.
    shares
        What each counts for.

    Returns
    -------
    Outputs
        Quantiles where the models have them.

    Raises
    ------
    InputError
        A prediction is not finite.
    """
    # Models of one group come under one key, every other model under a key of its own.
    points: dict[tuple[Share, int], list[NDArray[np.float64]]] = {}
    for number, (out, share) in enumerate(zip(outputs, shares, strict=True)):
        key = (share, -1 if share.group else number)
        points.setdefault(key, []).append(out.point_NC)
    scaled = []
    weights = []
    for (share, _), group_points in points.items():
        scaled.append(_scaled(np.mean(group_points, axis=0), share))
        weights.append(share.weight * len(group_points))
    point_NC = np.average(scaled, axis=0, weights=weights)
    quantiles = [out.quantile_NCQ for out in outputs if out.quantile_NCQ is not None]
    model_weights = [share.weight for share in shares]
    if not np.isfinite(point_NC).all():
        raise problem(
            "predictions",
            "numbers that are not finite",
            "finite ones",
            "train the models again, at a lower rate",
        )
    return Outputs(
        point_NC=point_NC,
        quantile_NCQ=np.average(quantiles, axis=0, weights=model_weights) if quantiles else None,
    )


def _scaled(point_NC: NDArray[np.float64], share: Share) -> NDArray[np.float64]:
    return point_NC if share.temperature == 1 else apply_temperature(point_NC, share.temperature)


def mean_columns(
    target: Target, outputs: Sequence[Outputs], shares: Sequence[Share]
) -> pd.DataFrame:
    """Return the columns of the weighted mean over some models, and of their spread.

    Parameters
    ----------
    target
        What is predicted.
    outputs
        Outputs of each model for the same samples.
    shares
        What each counts for.

    Returns
    -------
    pandas.DataFrame
        `predicted` and `sd`; for classes their probabilities, for quantiles the quantiles. Where
        there are several targets, the columns of each end with a colon and its name.
    """
    mean = mean_outputs(outputs, shares)
    weights = [share.weight for share in shares]
    mean_NC = mean.point_NC
    quantile_NCQ = mean.quantile_NCQ
    scaled = [_scaled(out.point_NC, share) for out, share in zip(outputs, shares, strict=True)]
    away_MNC = np.stack(scaled) - mean_NC
    sd_NC = np.sqrt(np.average(away_MNC**2, axis=0, weights=weights))
    if target.classes:
        best_N = mean_NC.argmax(axis=1)
        names = np.array(target.classes)
        sd_N = sd_NC[np.arange(len(best_N)), best_N]
        probabilities = {f"probability:{name}": mean_NC[:, i] for i, name in enumerate(names)}
        return pd.DataFrame({"predicted": names[best_N], "sd": sd_N, **probabilities})
    columns: dict[str, NDArray[np.float64]] = {}
    for number, column in enumerate(target.columns):
        suffix = f":{column}" if len(target.columns) > 1 else ""
        columns[f"predicted{suffix}"] = mean_NC[:, number]
        columns[f"sd{suffix}"] = sd_NC[:, number]
        if quantile_NCQ is not None:
            for level, value_N in zip(QUANTILES, quantile_NCQ[:, number].T, strict=True):
                columns[f"quantile:{level:g}{suffix}"] = value_N
    return pd.DataFrame(columns)
