"""Embeddings of many samples, without gradients: every ASV once, then samples of like richness.

Shape suffixes: R rows, W of a block, U ASVs, S positions, B samples, A ASVs of a sample, D width.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch.nn.functional import pad

from aam.batches.collate import asv_blocks, bucket
from aam.data.stores import SampleStore, TokenStore, places_of
from aam.distributed.inference_device import InferenceDevice
from aam.model.asv_encoders import Architecture
from aam.model.batch import Batch, SampleBlock
from aam.model.encoder import Encoder, build_encoder
from aam.model.layers.attention import AttentionBackend
from aam.model.store import AGAIN, load_config, rebuild
from aam.util.digests import fitting

TOKENS_ON_CPU = 1 << 13
"""Positions of a batch on a CPU, padding included."""
TOKENS_ON_ACCELERATOR = 1 << 17
"""Positions of a batch on an accelerator, padding included."""
SCORES_PER_TOKEN = 1 << 10
"""Pairs of positions that attention compares, per position of a full batch."""
BITS = 3
"""Binary digits of shapes (`bucket`): fewer than in training, a quarter of padding at most, because
a CPU makes and keeps bf16 kernels for every shape, and a table has many."""
ROWS_PER_BLOCK = 4096
"""Rows that are sorted by richness, and embedded, at a time; also whose ASVs are collected."""


def load_encoder(directory: Path, backend: AttentionBackend = "auto") -> Encoder:
    """Rebuild the encoder of a pretrained or fine-tuned model of this version of the package.

    Parameters
    ----------
    directory
        Folder of the model.
    backend
        Kernel of attention.

    Returns
    -------
    Encoder
        In evaluation mode.

    Raises
    ------
    InputError
        The directory is none of a model, or a part is damaged or of another version.
    """
    config = load_config(directory)
    with fitting(directory, "a model of this version", AGAIN):
        shape = TypeAdapter(Architecture).validate_python(config["architecture"])
        build = partial(build_encoder, shape, seed=0, backend=backend)
        return rebuild(directory, build, "encoder.")


def embed_samples(
    encoder: Encoder,
    store: SampleStore,
    tokens: TokenStore,
    rows_R: NDArray[np.int64],
    devices: InferenceDevice,
    asv_UD: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the embeddings of some rows of the store, in any order.

    Where W processes work together, each computes every W-th ASV and every W-th row, and all of
    them return all rows.

    Parameters
    ----------
    encoder
        The encoder.
    store
        Samples.
    tokens
        Their ASVs.
    rows_R
        Rows of the store.
    devices
        Where the embeddings are computed.
    asv_UD
        Embeddings of all ASVs of `tokens`; None: those of the rows are computed.

    Returns
    -------
    torch.Tensor
        [R, D] in fp32 on the host.
    """
    row_U = np.arange(len(tokens.lengths))
    if asv_UD is None:
        asvs_U = asvs_of(store, rows_R, len(row_U))
        row_U[asvs_U] = np.arange(len(asvs_U))
        shard_UD = embed_asvs(encoder, tokens, devices.shard(asvs_U), devices)
        asv_UD = devices.all_gather(shard_UD, len(asvs_U))
    asv_UD = asv_UD.to(devices.device)
    shard_R = devices.shard(rows_R)
    out_RD = torch.empty(len(shard_R), encoder.shape.width)
    with devices.inference(encoder):
        for first in range(0, len(shard_R), ROWS_PER_BLOCK):
            rows_W = shard_R[first : first + ROWS_PER_BLOCK]
            # The block stays on the device until it is complete: batches do not wait for copies.
            block_WD = torch.empty(len(rows_W), out_RD.shape[1], device=devices.device)
            for members, batch in sample_batches(store, rows_W, row_U, devices.device):
                to = torch.from_numpy(members).to(devices.device)
                block_WD[to] = encoder.encode_samples(asv_UD, batch)
            out_RD[first : first + len(rows_W)] = block_WD.cpu()
    return devices.all_gather(out_RD, len(rows_R))


def embed_asvs(
    encoder: Encoder, tokens: TokenStore, asvs_U: NDArray[np.int64], devices: InferenceDevice
) -> torch.Tensor:
    """Return the embeddings of some ASVs.

    Parameters
    ----------
    encoder
        The encoder.
    tokens
        Token store with the ASVs.
    asvs_U
        Rows of the ASVs in it.
    devices
        Where the embeddings are computed.

    Returns
    -------
    torch.Tensor
        [U, D] in fp32 on the host.
    """
    out_UD = torch.empty(len(asvs_U), encoder.shape.width, device=devices.device)
    with devices.inference(encoder):
        for members in asv_batches(tokens, asvs_U, encoder.shape.patch_bp, devices.device):
            blocks, number = asv_blocks(tokens, asvs_U[members])
            encoded = torch.cat([_encoded(encoder, block.tokens_US, devices) for block in blocks])
            in_blocks = np.empty_like(members)
            in_blocks[number] = members
            out_UD[torch.from_numpy(in_blocks).to(devices.device)] = encoded.float()
    return out_UD.cpu()


def _encoded(encoder: Encoder, tokens_US: torch.Tensor, devices: InferenceDevice) -> torch.Tensor:
    """Return embeddings [U, D] of sequences of one length, padded to a rounded number of them."""
    padded_US = pad(tokens_US, (0, 0, 0, bucket(len(tokens_US), BITS) - len(tokens_US)))
    return encoder.asv(padded_US.to(devices.device), None, encoder.backend)[0][: len(tokens_US)]


def asvs_of(store: SampleStore, rows_R: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the ASVs that some rows of the store have.

    Parameters
    ----------
    store
        Samples.
    rows_R
        Rows of the store.
    number
        Number of all ASVs.

    Returns
    -------
    numpy.ndarray
        Rows in the token store, ascending, int64.
    """
    has_U = np.zeros(number, bool)
    for first in range(0, len(rows_R), ROWS_PER_BLOCK):
        flat, _ = places_of(store.offsets, rows_R[first : first + ROWS_PER_BLOCK])
        has_U[store.asvs[flat]] = True
    return np.flatnonzero(has_U)


def asv_batches(
    tokens: TokenStore, asvs_U: NDArray[np.int64], patch_bp: int, device: torch.device
) -> Iterator[NDArray[np.int64]]:
    """Yield positions in `asvs_U`, longest first, that fit into a batch of the device.

    Parameters
    ----------
    tokens
        Token store with the ASVs.
    asvs_U
        Rows of the ASVs in it.
    patch_bp
        Nucleotides that enter the encoder as one position.
    device
        Where they are embedded.

    Yields
    ------
    numpy.ndarray
        Positions, int64.
    """
    length_U = tokens.lengths[asvs_U].astype(np.int64)
    return _batches(np.argsort(-length_U, kind="stable"), -(-length_U // patch_bp), device)


def sample_batches(
    store: SampleStore, rows_R: NDArray[np.int64], row_U: NDArray[np.int64], device: torch.device
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Yield positions in `rows_R`, richest first, and a batch of them, which has no sequences.

    Parameters
    ----------
    store
        Samples.
    rows_R
        Rows of the store.
    row_U
        Row of each ASV in the table of embeddings that the batches point to.
    device
        Where the batches lie.

    Yields
    ------
    members : numpy.ndarray
        Positions, int64.
    batch : Batch
        The samples at these positions, and rows of padding behind them.
    """
    richness_R = store.offsets[rows_R + 1] - store.offsets[rows_R]
    for members in _batches(np.argsort(-richness_R, kind="stable"), richness_R, device):
        block = _sample_block(store, rows_R[members], row_U)
        yield members, Batch([], [block], torch.arange(len(members)), {}, {}).to(device)


def _batches(
    order: NDArray[np.int64], size_N: NDArray[np.int64], device: torch.device
) -> Iterator[NDArray[np.int64]]:
    """Yield runs of `order`, which is of descending size; a batch is padded to its first member."""
    limit = TOKENS_ON_CPU if device.type == "cpu" else TOKENS_ON_ACCELERATOR
    first = 0
    while first < len(order):
        longest = bucket(int(size_N[order[first]]), BITS)
        fitting = min(limit, limit * SCORES_PER_TOKEN // longest) // longest
        # The number is rounded down in the same way as `bucket` rounds up.
        unit = 1 << max(0, fitting.bit_length() - BITS)
        number = max(1, fitting // unit * unit)
        yield order[first : first + number]
        first += number


def _sample_block(
    store: SampleStore, rows_B: NDArray[np.int64], row_U: NDArray[np.int64]
) -> SampleBlock:
    """Return samples that point to places in a table of ASVs, and rows of padding behind them."""
    flat, richness_B = places_of(store.offsets, rows_B)
    shape = bucket(len(rows_B), BITS), bucket(int(richness_B.max()), BITS)
    asv_BA = np.zeros(shape, np.int64)
    counts_BA = np.zeros(shape, np.float32)
    present_BA = np.zeros(shape, bool)
    present_BA[: len(rows_B)] = np.arange(shape[1]) < richness_B[:, None]
    asv_BA[present_BA] = row_U[store.asvs[flat]]
    counts_BA[present_BA] = store.counts[flat]
    # Padding has one ASV: attention to nothing at all would be NaN.
    present_BA[len(rows_B) :, 0] = True
    return SampleBlock(
        asv_BA=torch.from_numpy(asv_BA),
        present_BA=torch.from_numpy(present_BA),
        counts_BA=torch.from_numpy(counts_BA),
    )
