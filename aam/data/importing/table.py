"""Feature tables of the user: BIOM 2.1, BIOM 1.0, classic TSV, QIIME 2 artifacts."""

import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import biom
import h5py
import numpy as np
from biom.err import geterr, seterr
from biom.exception import BiomException
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.classic import parse_classic
from aam.data.importing.files import decoded, read_content
from aam.data.importing.qza import ArtifactKind
from aam.data.table import FeatureTable
from aam.util.errors import InputError, first_names, problem, problems

EXPECTED = "a feature table: BIOM 2.1, BIOM 1.0, TSV or a .qza of type FeatureTable[Frequency]"
LARGEST_COUNT = 2**53
"""BIOM holds counts as float64, which is exact up to here."""

_ARTIFACT = ArtifactKind(
    type="FeatureTable[Frequency]",
    member="feature-table.biom",
    hints={"FeatureTable[": "give the table of read counts, FeatureTable[Frequency], instead"},
)
_HDF5 = b"\x89HDF\r\n\x1a\n"
_BIOM_ERRORS = (
    AttributeError, BiomException, IndexError, KeyError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
_RAW = "give the raw read counts, not normalised or transformed ones"


@dataclass(frozen=True)
class Dropped:
    """One sample or feature that was left out."""

    what: str
    """`sample` or `feature`."""
    id: str
    """Its ID."""
    why: str
    """The reason."""


def load_table(path: Path) -> FeatureTable:
    """Read a feature table in any of the formats that users have, and check it.

    Parameters
    ----------
    path
        BIOM 2.1 (HDF5), BIOM 1.0 (JSON), classic TSV, or a `FeatureTable[Frequency]` artifact.
        The format is told by the content, not by the name.

    Returns
    -------
    FeatureTable
        Samples and features in the order of the file, IDs unchanged; metadata is dropped.

    Raises
    ------
    InputError
        If the file cannot be read, the table is empty, IDs are doubled or unusable, or counts
        are not whole numbers from 0 to `LARGEST_COUNT`. All of it is said at once.
    """
    content = read_content(path, EXPECTED, _ARTIFACT)
    if content.startswith(_HDF5):
        sample_ids, feature_ids, values = _parse_hdf5(path, content)
    elif content.lstrip().startswith(b"{"):
        sample_ids, feature_ids, values = _parse_json(path, content)
    else:
        sample_ids, feature_ids, values = parse_classic(path, decoded(path, content, EXPECTED))
    values.sum_duplicates()
    values.eliminate_zeros()
    found = [
        *_id_problems(path, "sample", sample_ids),
        *_id_problems(path, "feature", feature_ids),
        *_count_problems(path, sample_ids, feature_ids, values),
    ]
    if found:
        raise problems(found)
    return FeatureTable(sample_ids, feature_ids, values.astype(np.int64))


def without_empty(table: FeatureTable) -> tuple[FeatureTable, list[Dropped]]:
    """Return a table without the samples and features that have no reads, and what was dropped."""
    reads = np.diff(table.counts.indptr) > 0
    seen = np.bincount(table.counts.indices, minlength=len(table.feature_ids)) > 0
    dropped = [
        *(Dropped("sample", table.sample_ids[i], "no reads") for i in np.flatnonzero(~reads)),
        *(Dropped("feature", table.feature_ids[i], "no reads") for i in np.flatnonzero(~seen)),
    ]
    kept = FeatureTable(
        [table.sample_ids[i] for i in np.flatnonzero(reads)],
        [table.feature_ids[i] for i in np.flatnonzero(seen)],
        csr_array(table.counts[reads][:, seen]),
    )
    return kept, dropped


def _parse_hdf5(path: Path, content: bytes) -> tuple[list[str], list[str], csr_array]:
    """Parse BIOM 2.1 (http://biom-format.org), IDs and counts alone.

    Not by biom-format, which hands positions to compiled code unchecked: a damaged file would
    end the process. It also spends most of its time on lineages, which nothing here needs.
    """
    try:
        with h5py.File(io.BytesIO(content), "r") as handle:
            sample_ids, feature_ids = (
                _names(handle["sample/ids"]),
                _names(handle["observation/ids"]),
            )
            parts = [handle[f"sample/matrix/{name}"][:] for name in ("data", "indices", "indptr")]
        values = csr_array(
            tuple(parts), shape=(len(sample_ids), len(feature_ids)), dtype=np.float64
        )
        values.check_format(full_check=True)
        return sample_ids, feature_ids, values
    except _BIOM_ERRORS as error:
        got = f"an HDF5 file that is cut off, damaged or not BIOM 2.1 ({error})"
        hint = "copy or export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, got, EXPECTED, hint) from error


def _names(dataset: h5py.Dataset) -> list[str]:
    """Return the IDs of one axis; biom-format writes an empty axis as numbers."""
    names: list[str] = dataset.asstr()[:].tolist() if dataset.size else []
    return names


def _parse_json(path: Path, content: bytes) -> tuple[list[str], list[str], csr_array]:
    try:
        with _duplicates_let_through():
            table = biom.Table.from_json(json.loads(content))
        sample_ids, feature_ids = (table.ids(axis) for axis in ("sample", "observation"))
        values = csr_array(table.matrix_data.T.tocsr())
        return [*map(str, sample_ids)], [*map(str, feature_ids)], values
    except _BIOM_ERRORS as error:
        got = f"JSON that is cut off or not BIOM 1.0 ({type(error).__name__}: {error})"
        hint = "export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, got, EXPECTED, hint) from error


@contextmanager
def _duplicates_let_through() -> Iterator[None]:
    """Let biom-format read doubled IDs, because its own error does not name them."""
    before = geterr()
    seterr(obsdup="ignore", sampdup="ignore")
    try:
        yield
    finally:
        seterr(**before)


def _id_problems(path: Path, what: str, ids: list[str]) -> Iterator[InputError]:
    if not ids:
        hint = "check how the table was filtered or exported"
        yield problem(path, f"a table without {what}s", f"at least one {what}", hint)
    doubled = [name for name, count in Counter(ids).items() if count > 1]
    if doubled:
        hint = f"rename or merge the {what}s"
        got = f"{what} IDs that occur more than once: {first_names(doubled)}"
        yield problem(path, got, "every ID once", hint)
    unusable = [repr(name) for name in ids if not name.strip() or not name.isprintable()]
    if unusable:
        got = f"{what} IDs that are empty or hold tabs or line breaks: {first_names(unusable)}"
        yield problem(path, got, f"printable {what} IDs", f"rename the {what}s")


def _count_problems(
    path: Path, sample_ids: list[str], feature_ids: list[str], values: csr_array
) -> Iterator[InputError]:
    entries, data = values.tocoo(), values.data

    def shown(mask: NDArray[np.bool_]) -> str:
        places = np.flatnonzero(mask)
        names = [
            f"{data[i]:.15g} in sample {sample_ids[entries.row[i]]}, "
            f"feature {feature_ids[entries.col[i]][:40]}"
            for i in places[:3]
        ]
        return f"{len(places)} ({'; '.join(names)}{'; …' if len(places) > 3 else ''})"

    if sample_ids and feature_ids and not data.size:
        hint = "check how the table was filtered or exported"
        yield problem(path, "a table without a single read", "counts above 0", hint)
    finite = np.isfinite(data)
    with np.errstate(invalid="ignore"):
        fractional = finite & (data != np.floor(data))
    for mask, kind in (
        (~finite, "counts that are NaN or infinite"),
        (data < 0, "negative counts"),
        (fractional & (data >= 0), "fractional counts"),
    ):
        if mask.any():
            yield problem(path, f"{kind}: {shown(mask)}", "whole numbers of reads", _RAW)
    large = finite & (data > LARGEST_COUNT)
    if large.any():
        got = f"counts above 2**53: {shown(large)}"
        yield problem(path, got, "counts that float64 holds exactly", _RAW)
