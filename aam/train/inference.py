"""Embeddings and outputs of many samples, in batches, without gradients.

Letters: R rows of the store, U ASVs, D width.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.batch import Batch
from aam.model.encoder import Encoder
from aam.train.collate import assemble, asv_blocks
from aam.train.devices import Devices

ROWS_PER_BATCH = 128
ASVS_PER_BATCH = 1024


def embed_asvs(
    encoder: Encoder, tokens: TokenStore, asvs_U: NDArray[np.int64], devices: Devices
) -> torch.Tensor:
    """Return the embeddings [U, D] of some rows of the token store, each encoded once."""
    out_UD = torch.empty(len(asvs_U), encoder.shape.width)
    with devices.inference(encoder):
        for first in range(0, len(asvs_U), ASVS_PER_BATCH):
            chunk = slice(first, first + ASVS_PER_BATCH)
            blocks, number = asv_blocks(tokens, asvs_U[chunk])
            encoded = torch.cat([encoder.encode_asvs(b.to(devices.device)) for b in blocks])
            out_UD[chunk] = encoded.float().cpu()[torch.from_numpy(number)]
    return out_UD


def embed_samples(
    encoder: Encoder,
    store: SampleStore,
    tokens: TokenStore,
    rows_R: NDArray[np.int64],
    devices: Devices,
) -> torch.Tensor:
    """Return the embeddings [R, D] of some rows of the store; every ASV is encoded once."""
    asvs_U = np.unique(np.concatenate([_asvs_of(store, row) for row in rows_R]))
    place = np.full(len(tokens.lengths), -1, np.int64)
    place[asvs_U] = np.arange(len(asvs_U))
    asv_UD = embed_asvs(encoder, tokens, asvs_U, devices).to(devices.device)
    parts = []
    with devices.inference(encoder):
        for batch, numbers_U in batches(store, tokens, rows_R):
            chosen_UD = asv_UD[torch.from_numpy(place[numbers_U]).to(devices.device)]
            parts.append(encoder.encode_samples(chosen_UD, batch.to(devices.device)).cpu())
    return torch.cat(parts)


def batches(
    store: SampleStore, tokens: TokenStore, rows_R: NDArray[np.int64]
) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
    """Yield batches of the rows in their order, and the ASVs in the batch's numbering."""
    for first in range(0, len(rows_R), ROWS_PER_BATCH):
        rows = rows_R[first : first + ROWS_PER_BATCH]
        distinct_U = np.unique(np.concatenate([_asvs_of(store, row) for row in rows]))
        _, number_U = asv_blocks(tokens, distinct_U)
        ordered_U = np.empty_like(distinct_U)
        ordered_U[number_U] = distinct_U
        yield assemble(store, tokens, rows), ordered_U.astype(np.int64)


def _asvs_of(store: SampleStore, row: int) -> NDArray[np.int32]:
    return store.asvs[store.offsets[row] : store.offsets[row + 1]]
