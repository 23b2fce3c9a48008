"""ASV embeddings in a file that other tables are looked up in, by sequence.

A safetensors file: `embedding` [U, D] in fp32 in the order of a token store, `key` [U, 16]
ascending, and `row` [U], the row of each key's embedding.

Shape suffixes: U ASVs of a file or a token store, D width.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from aam.config.digest import code_digest
from aam.data.stores import TokenStore
from aam.distributed.inference_device import InferenceDevice
from aam.inference.embed import embed_asvs
from aam.model.encoder import Encoder
from aam.model.store import read_tensors, write_tensors

logger = logging.getLogger(__name__)
VERSION = 1
KEY_BYTES = 16
_KEY = np.dtype(f"S{KEY_BYTES}")


@dataclass(frozen=True, eq=False)
class AsvEmbeddings:
    """The embeddings of a file, mapped into memory: only what is asked for is read."""

    digest: str
    """The `encoder_digest` of the encoder that made them."""
    key_U: NDArray[np.bytes_]
    row_U: NDArray[np.int64]
    asv_UD: torch.Tensor
    """Must not be written to."""

    @staticmethod
    def write(
        path: Path,
        tokens: TokenStore,
        asv_UD: torch.Tensor,
        digest: str,
        provenance: Mapping[str, str] | None = None,
    ) -> None:
        """Write the embeddings of all ASVs of a token store, atomically and byte-reproducibly.

        Parameters
        ----------
        path
            File to write.
        tokens
            The store.
        asv_UD
            Embeddings of its ASVs, in the same order.
        digest
            What `encoder_digest` returns for the encoder that made them.
        provenance
            Facts that are written with them.
        """
        keys = sequence_keys(tokens)
        assert len(asv_UD) == len(keys), "one embedding per ASV"
        order = np.argsort(keys, kind="stable")
        about = {**(provenance or {}), "digest": digest, "number": len(keys), "version": VERSION}
        parts = {
            "embedding": asv_UD.float(),
            "key": torch.from_numpy(keys[order].view(np.uint8).reshape(-1, KEY_BYTES)),
            "row": torch.from_numpy(order),
        }
        write_tensors(path, parts, about)

    @classmethod
    def open(cls, path: Path) -> "AsvEmbeddings":
        """Map a file of `write` into memory.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        AsvEmbeddings
            Its arrays must not be written to.

        Raises
        ------
        InputError
            The file is missing, damaged or of another version.
        """
        hint = "give the asvs.safetensors that pretraining wrote"
        about, tensors = read_tensors(path, version=VERSION, what="ASV embeddings", hint=hint)
        key_U = tensors["key"].numpy().reshape(-1).view(_KEY)
        return cls(about["digest"], key_U, tensors["row"].numpy(), tensors["embedding"])

    def find(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the rows of some sequences.

        Parameters
        ----------
        keys
            What `sequence_keys` returns for them.

        Returns
        -------
        numpy.ndarray
            Row of each, int64; -1 where the file does not have it.
        """
        nearest = np.minimum(np.searchsorted(self.key_U, keys), len(self.key_U) - 1)
        return np.where(self.key_U[nearest] == keys, self.row_U[nearest], -1)


def sequence_keys(tokens: TokenStore) -> NDArray[np.bytes_]:
    """Return a hash of 128 bits per sequence, whatever its feature ID and the padding.

    Parameters
    ----------
    tokens
        Store with the sequences.

    Returns
    -------
    numpy.ndarray
        Bytes [U] (BLAKE2b).
    """
    letters_US = np.ascontiguousarray(tokens.tokens)
    digests = [
        hashlib.blake2b(row_S[:length].data, digest_size=KEY_BYTES).digest()
        for row_S, length in zip(letters_US, tokens.lengths, strict=True)
    ]
    return np.frombuffer(b"".join(digests), _KEY)


def module_digest(module: nn.Module, *about: str) -> str:
    """Return the SHA-256 of the names, types, shapes and bytes of a module's state.

    Parameters
    ----------
    module
        The module.
    about
        Texts that enter the digest, too.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256("\n".join(about).encode())
    for name, value in module.state_dict().items():
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def encoder_digest(encoder: Encoder, precision: str) -> str:
    """Return a digest of all that ASV embeddings depend on: shape, code, weights and precision.

    Parameters
    ----------
    encoder
        The encoder.
    precision
        Precision that it computes in.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    shape = json.dumps(asdict(encoder.shape), sort_keys=True)
    return module_digest(encoder.asv, shape, precision, code_digest(Encoder.__module__))


def embed_asvs_cached(
    encoder: Encoder, tokens: TokenStore, devices: InferenceDevice, cache: Path | None
) -> torch.Tensor:
    """Return the embeddings of all ASVs of a token store.

    Parameters
    ----------
    encoder
        The encoder.
    tokens
        The store. Longer sequences than the encoder reads are cut.
    devices
        Where the missing ones are computed.
    cache
        File of ASV embeddings, which is read where this encoder made it; None: all are computed.

    Returns
    -------
    torch.Tensor
        [U, D] in fp32 on the host.

    Raises
    ------
    InputError
        `cache` is missing, damaged or of another version.
    """
    tokens = tokens.cut(encoder.shape.max_length_bp)
    row_U = np.full(len(tokens.lengths), -1)
    cached = _embeddings_by(encoder, devices, cache)
    if cached is not None:
        row_U = cached.find(sequence_keys(tokens))
        logger.info(
            "%s: %d of %d ASV embeddings read, %d to compute",
            cache,
            (row_U >= 0).sum(),
            len(row_U),
            (row_U < 0).sum(),
        )
    missing_U = np.flatnonzero(row_U < 0)
    out_UD = torch.empty(len(row_U), encoder.shape.width)
    if len(missing_U) > 0:
        out_UD[torch.from_numpy(missing_U)] = embed_asvs(encoder, tokens, missing_U, devices)
    if cached is not None:
        read = torch.from_numpy(np.flatnonzero(row_U >= 0))
        out_UD[read] = cached.asv_UD[torch.from_numpy(row_U)[read]]
    return out_UD


def _embeddings_by(
    encoder: Encoder, devices: InferenceDevice, cache: Path | None
) -> AsvEmbeddings | None:
    """Return the embeddings of a file, if this encoder made it."""
    if cache is None:
        return None
    embeddings = AsvEmbeddings.open(cache)
    if embeddings.digest == encoder_digest(encoder, devices.precision):
        return embeddings
    logger.warning("%s is of another encoder and not used", cache)
    return None
