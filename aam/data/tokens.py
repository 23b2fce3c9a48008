"""The token cache: every ASV of a table once, as rows of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aam.data.ipc import map_batch, write_batch


@dataclass(frozen=True, eq=False)
class TokenStore:
    """The U ASVs of a table, in its order, mapped into memory."""

    feature_ids: list[str]
    """Feature ID of every ASV."""
    lengths: NDArray[np.int32]
    """Nucleotides of every ASV, after cutting, [U]."""
    tokens: NDArray[np.uint8]
    """Tokens, padded with 0 behind the length, [U, L]; L is `tokens.max_length_bp`."""

    @classmethod
    def open(cls, path: Path) -> "TokenStore":
        """Map a store into memory; its arrays are read-only.

        Parameters
        ----------
        path
            A file of `write_tokens`.
        """
        batch = map_batch(path)
        rows = batch.column("tokens")
        return cls(
            feature_ids=batch.column("feature_id").to_pylist(),
            lengths=batch.column("length").to_numpy(),
            tokens=rows.values.to_numpy().reshape(-1, rows.type.list_size),
        )

    def cut(self, length_bp: int) -> "TokenStore":
        """Return the same ASVs, cut at their ends.

        Parameters
        ----------
        length_bp
            Most nucleotides that are kept of each.
        """
        lengths = np.minimum(self.lengths, np.int32(length_bp))
        return TokenStore(self.feature_ids, lengths, self.tokens[:, :length_bp])

    def rows(self, asvs_R: NDArray[np.int64]) -> "TokenStore":
        """Return some of the ASVs.

        Parameters
        ----------
        asvs_R
            Their rows in this store, in the order of the store that is returned.
        """
        names = [self.feature_ids[row] for row in asvs_R]
        return TokenStore(names, self.lengths[asvs_R], self.tokens[asvs_R])


def write_tokens(path: Path, store: TokenStore, provenance: Mapping[str, str]) -> None:
    """Write a token store as an Arrow file, atomically.

    Parameters
    ----------
    path
        File to write.
    store
        The ASVs.
    provenance
        What made the file, as `aam.util.provenance.provenance` returns it.
    """
    assert len(store.feature_ids) == len(store.tokens) == len(store.lengths)
    flat = pa.array(np.ascontiguousarray(store.tokens).reshape(-1), type=pa.uint8())
    columns = {
        "feature_id": pa.array(store.feature_ids, type=pa.string()),
        "length": pa.array(store.lengths, type=pa.int32()),
        "tokens": pa.FixedSizeListArray.from_arrays(flat, store.tokens.shape[1]),
    }
    write_batch(path, columns, provenance)
