"""What training maps into memory: the sample store and the token cache, as Arrow files.

Each file is one record batch, uncompressed: arrays are views of the mapped file, so that processes
share its pages and a store may be larger than memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse
from numpy.typing import NDArray

from aam.util.atomic import atomic_path

AUGMENTED = -1
"""View of an augmented row."""
LINEAGES = "lineages"
"""Metadata of a file of tokens that are words of lineages."""


def write_batch(path: Path, columns: Mapping[str, pa.Array], provenance: Mapping[str, str]) -> None:
    """Write columns as an uncompressed Arrow IPC file of one record batch, atomically.

    Parameters
    ----------
    path
        File to write.
    columns
        Arrays of the same length without nulls, by name.
    provenance
        What made the file, for the metadata of the schema.
    """
    # Readers take the buffers as plain arrays, in which a null would be any number.
    assert all(column.null_count == 0 for column in columns.values())
    schema = pa.schema(
        [pa.field(name, column.type, nullable=False) for name, column in columns.items()],
        metadata=dict(sorted(provenance.items())),
    )
    batch = pa.record_batch(list(columns.values()), schema=schema)
    with (
        atomic_path(path) as partial,
        pa.OSFile(str(partial), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batch)


def map_batch(path: Path) -> pa.RecordBatch:
    """Map the one record batch of an Arrow IPC file into memory.

    Parameters
    ----------
    path
        A file of `write_batch`. The arrays of the batch keep it mapped.
    """
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    assert reader.num_record_batches == 1, f"{path} has {reader.num_record_batches} record batches"
    return reader.get_batch(0)


@dataclass(frozen=True, eq=False)
class SampleStore:
    """R rows in compressed form: V views of N samples, then augmented rows.

    Row v * N + i is sample i in view v. The arrays of an opened store are mapped into memory.
    """

    sample_ids: list[str]
    """IDs of the N samples, in the order of view 0."""
    views: int
    """Number V of views that are not augmented."""
    row_view: NDArray[np.int32]
    """View of every row, -1 where it is augmented, [R]."""
    offsets: NDArray[np.int64]
    """Where the ASVs of every row begin, [R + 1]."""
    asvs: NDArray[np.int32]
    """Rows of the token store, ascending within a row, [nnz]."""
    counts: NDArray[np.int32]
    """Reads of these ASVs, [nnz]."""
    parent_offsets: NDArray[np.int64]
    """Where the parents of every row begin, [R + 1]."""
    parents: NDArray[np.int32]
    """Samples that a row is made of, positions in `sample_ids`; its own alone in a view."""
    weights: NDArray[np.float32]
    """Fraction of every parent; those of a row sum to 1."""

    def __post_init__(self) -> None:
        rows = len(self.row_view)
        base = np.repeat(np.arange(self.views, dtype=np.int32), len(self.sample_ids))
        assert self.views >= 1
        assert np.array_equal(self.row_view[: base.size], base)
        assert (self.row_view[base.size :] == AUGMENTED).all()
        assert len(self.offsets) == len(self.parent_offsets) == rows + 1
        assert self.offsets[-1] == len(self.asvs) == len(self.counts)
        assert self.parent_offsets[-1] == len(self.parents) == len(self.weights)

    @classmethod
    def open(cls, path: Path) -> "SampleStore":
        """Map a store into memory.

        Parameters
        ----------
        path
            A file of `write_samples`.
        """
        batch = map_batch(path)
        row_view = batch.column("view").to_numpy()
        # The file has no field for N: view 0 holds each sample once.
        samples = int((row_view == 0).sum())
        asvs = batch.column("asvs")
        parents = batch.column("parents")
        return cls(
            sample_ids=batch.column("sample_id").slice(0, samples).to_pylist(),
            views=int(row_view.max()) + 1,
            row_view=row_view,
            # `counts` has the same offsets as `asvs`, and `weights` as `parents`: they are read
            # once.
            offsets=asvs.offsets.to_numpy().astype(np.int64),
            asvs=asvs.values.to_numpy(),
            counts=batch.column("counts").values.to_numpy(),
            parent_offsets=parents.offsets.to_numpy().astype(np.int64),
            parents=parents.values.to_numpy(),
            weights=batch.column("weights").values.to_numpy(),
        )

    def view_matrix(self, view: int, features: int) -> scipy.sparse.csr_array:
        """Return the counts of one view.

        Parameters
        ----------
        view
            Number of the view, from 0.
        features
            Number U of the ASVs in the token store.

        Returns
        -------
        scipy.sparse.csr_array
            Reads, int64 [N, U].
        """
        assert 0 <= view < self.views, f"view {view} of {self.views}"
        samples = len(self.sample_ids)
        return self.counts_of(np.arange(view * samples, (view + 1) * samples), features)

    def counts_of(self, rows_B: NDArray[np.int64], features: int) -> scipy.sparse.csr_array:
        """Return the counts of some rows.

        Parameters
        ----------
        rows_B
            Numbers of the rows, in any order.
        features
            Number U of the ASVs in the token store.

        Returns
        -------
        scipy.sparse.csr_array
            Reads, int64 [B, U].
        """
        entries, number_B = places_of(self.offsets, rows_B)
        counts = self.counts[entries].astype(np.int64)
        offsets = np.cumsum([0, *number_B])
        return scipy.sparse.csr_array(
            (counts, self.asvs[entries], offsets), shape=(len(rows_B), features)
        )


def write_samples(path: Path, store: SampleStore, provenance: Mapping[str, str]) -> None:
    """Write a sample store as an Arrow file, atomically.

    Parameters
    ----------
    path
        File to write.
    store
        The rows. Their column `sample_id` joins the IDs of the parents, for people who read it.
    provenance
        What made the file, as `aam.util.digests.provenance` returns it.
    """
    starts = store.parent_offsets.tolist()
    parents = store.parents.tolist()
    names = []
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        names.append("+".join(store.sample_ids[parent] for parent in parents[start:end]))
    columns = {
        "sample_id": pa.array(names, type=pa.string()),
        "view": pa.array(store.row_view, type=pa.int32()),
        "asvs": _lists(store.offsets, store.asvs, pa.int32()),
        "counts": _lists(store.offsets, store.counts, pa.int32()),
        "parents": _lists(store.parent_offsets, store.parents, pa.int32()),
        "weights": _lists(store.parent_offsets, store.weights, pa.float32()),
    }
    write_batch(path, columns, provenance)


def _lists(offsets: NDArray[np.int64], values: NDArray, kind: pa.DataType) -> pa.ListArray:
    # `ListArray` has offsets of 32 bits; the store would need `LargeListArray` beyond 2^31 entries.
    assert offsets[-1] <= np.iinfo(np.int32).max, "too many values for one Arrow list array"
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), pa.array(values, type=kind))


def places_of(
    offsets: NDArray[np.int64], rows_B: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the entries of some rows lie in the arrays of a compressed matrix.

    Parameters
    ----------
    offsets
        Where the entries of every row begin, [R + 1].
    rows_B
        Numbers of the rows.

    Returns
    -------
    places : numpy.ndarray
        Positions of the entries, row after row.
    number_B : numpy.ndarray
        How many each row has.
    """
    starts_B = offsets[rows_B]
    number_B = offsets[rows_B + 1] - starts_B
    ends_B = np.cumsum(number_B)
    # Entry n of the result belongs to its row's entry n - (entries of the rows before). Added to
    # where the row begins, that is its position.
    shift_B = starts_B - (ends_B - number_B)
    places = np.arange(number_B.sum()) + np.repeat(shift_B, number_B)
    return places, number_B


@dataclass(frozen=True, eq=False)
class TokenStore:
    """The U ASVs of a table, in its order, mapped into memory."""

    feature_ids: list[str]
    """Feature ID of every ASV."""
    lengths: NDArray[np.int32]
    """Nucleotides of every ASV, after cutting, [U]."""
    tokens: NDArray[np.uint8]
    """Tokens, padded with 0 behind the length, [U, L]; L is `tokens.max_length_bp`."""
    are_lineages: bool = False
    """Whether they are the words of lineages (`aam.data.lineages`), in place of nucleotides."""

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
            are_lineages=LINEAGES.encode() in (batch.schema.metadata or {}),
        )

    def cut(self, length_bp: int) -> "TokenStore":
        """Return the same ASVs, cut at their ends.

        Parameters
        ----------
        length_bp
            Most nucleotides that are kept of each.
        """
        lengths = np.minimum(self.lengths, np.int32(length_bp))
        return replace(self, lengths=lengths, tokens=self.tokens[:, :length_bp])

    def rows(self, asvs_R: NDArray[np.int64]) -> "TokenStore":
        """Return some of the ASVs.

        Parameters
        ----------
        asvs_R
            Their rows in this store, in the order of the store that is returned.
        """
        names = [self.feature_ids[row] for row in asvs_R]
        return TokenStore(
            names, self.lengths[asvs_R], self.tokens[asvs_R], are_lineages=self.are_lineages
        )


def write_tokens(path: Path, store: TokenStore, provenance: Mapping[str, str]) -> None:
    """Write a token store as an Arrow file, atomically.

    Parameters
    ----------
    path
        File to write.
    store
        The ASVs.
    provenance
        What made the file, as `aam.util.digests.provenance` returns it.
    """
    assert len(store.feature_ids) == len(store.tokens) == len(store.lengths)
    flat = pa.array(np.ascontiguousarray(store.tokens).reshape(-1), type=pa.uint8())
    columns = {
        "feature_id": pa.array(store.feature_ids, type=pa.string()),
        "length": pa.array(store.lengths, type=pa.int32()),
        "tokens": pa.FixedSizeListArray.from_arrays(flat, store.tokens.shape[1]),
    }
    said = {**provenance, LINEAGES: "true"} if store.are_lineages else provenance
    write_batch(path, columns, said)
