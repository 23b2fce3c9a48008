"""What a predictor says of rows of a store, and what that means in the units of the target.

Shape suffixes: R rows of the store, N samples, V views, W rows of a batch, F metadata columns, D
width, O raw outputs, C numbers or classes, Q quantiles, U ASVs.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.target import Target
from aam.data.tokens import TokenStore
from aam.inference.embed import embed_asvs, embed_samples, sample_batches, sample_block
from aam.model.batch import Batch
from aam.model.predictor import Predictor
from aam.train.distributed.devices import Devices


@dataclass(frozen=True, eq=False)
class Outputs:
    """Predictions of some samples, the mean of their views.

    Attributes
    ----------
    point_NC
        Numbers in the units of the columns, or probabilities of the classes.
    quantile_NCQ
        Quantiles of the numbers, where the loss is of quantiles.
    """

    point_NC: NDArray[np.float64]
    quantile_NCQ: NDArray[np.float64] | None = None


def raw_outputs(
    predictor: Predictor,
    store: SampleStore,
    tokens: TokenStore,
    rows_R: NDArray[np.int64],
    devices: Devices,
    *,
    embedding_RD: torch.Tensor | None = None,
    asv_UD: torch.Tensor | None = None,
    category_RF: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return the raw outputs [R, O] of some rows of the store.

    Parameters
    ----------
    predictor
        The model.
    store, tokens
        The data.
    rows_R
        Rows of the store, in any order.
    devices
        Where to compute.
    embedding_RD
        Embeddings of these rows, if they are at hand; a model whose `needs_asvs` is true makes its
        own.
    asv_UD
        Embeddings of all ASVs of `tokens`, if they are at hand.
    category_RF
        Category of each row by its number in the predictor's vocabulary; None: all unknown.
    """
    if predictor.needs_asvs:
        return _with_asvs(predictor, store, tokens, rows_R, devices, asv_UD, category_RF)
    if embedding_RD is None:
        embedding_RD = embed_samples(predictor.encoder, store, tokens, rows_R, devices, asv_UD)
    told = None if category_RF is None else torch.from_numpy(category_RF).to(devices.device)
    with devices.inference(predictor):
        return predictor.predict(embedding_RD.to(devices.device), told).float().cpu().numpy()


def decoded(
    target: Target, output_RO: NDArray[np.floating], views: int, by_R: list[str] | None = None
) -> Outputs:
    """Return what outputs mean, averaged over the views.

    Parameters
    ----------
    target
        Of the predictor.
    output_RO
        Raw outputs of V views of N samples, view by view.
    views
        Number V.
    by_R
        Category that chooses the scale of each row; None: unknown.
    """

    def mean(value: NDArray[np.float64]) -> NDArray[np.float64]:
        return value.reshape(views, -1, *value.shape[1:]).mean(axis=0)

    quantiles = target.decode_quantiles(output_RO, by_R) if target.loss == "quantile" else None
    return Outputs(
        point_NC=mean(target.decode(output_RO, by_R)),
        quantile_NCQ=None if quantiles is None else mean(quantiles),
    )


def _with_asvs(
    predictor: Predictor,
    store: SampleStore,
    tokens: TokenStore,
    rows_R: NDArray[np.int64],
    devices: Devices,
    asv_UD: torch.Tensor | None,
    category_RF: NDArray[np.int64] | None,
) -> NDArray[np.float32]:
    """Return raw outputs [R, O] of a model that looks at the states of the samples' ASVs."""
    place_U = np.arange(len(tokens.lengths))
    if asv_UD is None:
        asv_UD = embed_asvs(predictor.encoder, tokens, place_U, devices)
    asv_UD = asv_UD.to(devices.device)
    parts, order = [], []
    with devices.inference(predictor):
        for members in sample_batches(store, rows_R, devices.device):
            block = sample_block(store, rows_R[members], place_U)
            batch = Batch([], [block], torch.arange(len(members)), {}, {}).to(devices.device)
            sample_WD, states = predictor.encoder.encode_samples(asv_UD, batch, asvs=True)
            told = None if category_RF is None else torch.from_numpy(category_RF[members])
            told = None if told is None else told.to(devices.device)
            parts.append(predictor.predict(sample_WD, told, asvs=states, batch=batch).float().cpu())
            order.append(members)
    output_RO = torch.cat(parts).numpy()
    return output_RO[np.argsort(np.concatenate(order))]
