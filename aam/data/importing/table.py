"""Feature tables of the user: BIOM 2.1, BIOM 1.0, classic TSV, QIIME 2 artifacts."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import biom
import numpy as np
import pandas as pd
from biom.err import seterr
from biom.exception import BiomException
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.classic import parse_classic
from aam.data.importing.files import (
    decode_text,
    find_duplicates,
    read_content,
    refuse,
    report_names,
)
from aam.data.importing.hdf5 import read_hdf5
from aam.data.importing.qza import ArtifactKind
from aam.data.table import FeatureTable
from aam.util.errors import InputError, problem

EXPECTED = "a feature table: BIOM 2.1, BIOM 1.0, TSV or a .qza of type FeatureTable[Frequency]"
LARGEST_COUNT = 2**53
"""BIOM holds counts as float64, which is exact up to here."""
NO_READS = "no reads"
"""Why an empty sample or feature is left out."""

_ARTIFACT = ArtifactKind(
    type="FeatureTable[Frequency]",
    member="feature-table.biom",
    hints={"FeatureTable[": "give the table of read counts, FeatureTable[Frequency], instead"},
)
_HDF5 = b"\x89HDF\r\n\x1a\n"
_BIOM_ERRORS = (
    AttributeError,
    BiomException,
    IndexError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
_CHECK = "check how the table was filtered or exported"
_RAW = "give the raw read counts, not normalised or transformed ones"
Parsed = tuple[list[str], list[str], csr_array]
"""IDs of samples and of features, and counts [N, F] in float64, not yet checked."""


def load_table(path: Path) -> FeatureTable:
    """Read a feature table in any of the formats that users have, and check it.

    Samples and features keep their order and IDs; their metadata is dropped.

    Parameters
    ----------
    path
        BIOM 2.1, BIOM 1.0, TSV, or a .qza of type FeatureTable[Frequency]; the content says which.

    Raises
    ------
    InputError
        The file is no table of whole counts; all its problems are named at once.
    """
    content = read_content(path, EXPECTED, _ARTIFACT)
    if content.startswith(_HDF5):
        sample_ids, feature_ids, values = _parse_hdf5(path, content)
    elif content.lstrip().startswith(b"{"):
        sample_ids, feature_ids, values = _parse_json(path, content)
    else:
        sample_ids, feature_ids, values = parse_classic(
            path, decode_text(path, content, EXPECTED, key="table")
        )
    # Adding up duplicate entries leaves fewer of them, which shows that there were any.
    given = values.nnz
    values.sum_duplicates()
    if values.nnz < given:
        actual = f"{given - values.nnz} counts of a sample and a feature that have one already"
        raise problem(path, actual, "one count for a sample and a feature", _CHECK)
    values.eliminate_zeros()
    sample_problems = _id_problems(path, "sample", sample_ids)
    feature_problems = _id_problems(path, "feature", feature_ids)
    count_problems = _count_problems(path, sample_ids, feature_ids, values)
    refuse(chain(sample_problems, feature_problems, count_problems))
    return FeatureTable(sample_ids, feature_ids, values.astype(np.int64))


def without_empty(table: FeatureTable) -> tuple[FeatureTable, pd.DataFrame]:
    """Leave out samples and features without reads.

    Parameters
    ----------
    table
        A table as `load_table` returns it.

    Returns
    -------
    kept : FeatureTable
        Samples and features with reads.
    left_out : pandas.DataFrame
        `what` (sample or feature), `id` and `why`, a row for each that is left out.
    """
    kept = table.select_samples(np.flatnonzero(np.diff(table.counts.indptr)))
    samples = set(kept.sample_ids)
    features = set(kept.feature_ids)
    left_out = [("sample", name, NO_READS) for name in table.sample_ids if name not in samples]
    left_out += [("feature", name, NO_READS) for name in table.feature_ids if name not in features]
    return kept, pd.DataFrame(left_out, columns=["what", "id", "why"])


def _parse_hdf5(path: Path, content: bytes) -> Parsed:
    try:
        parts = read_hdf5(content)
        arrays = (parts["data"], parts["indices"], parts["indptr"])
        shape = (len(parts["samples"]), len(parts["features"]))
        values = csr_array(arrays, shape=shape, dtype=np.float64)
        values.check_format(full_check=True)
        return parts["samples"], parts["features"], values
    except _BIOM_ERRORS as error:
        actual = f"an HDF5 file that is cut off, damaged or not BIOM 2.1 ({error})"
        hint = "copy or export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, actual, EXPECTED, hint) from error


def _parse_json(path: Path, content: bytes) -> Parsed:
    # biom-format's own error about duplicate IDs does not name them; its `errstate` does not reset
    # what it changed where an error ends the block.
    before = seterr(obsdup="ignore", sampdup="ignore")
    try:
        given = json.loads(content)
        if given.get("matrix_type") == "sparse":
            places = [tuple(entry[:2]) for entry in given["data"]]
            if len(set(places)) < len(places):
                raise ValueError("a sample and a feature have two counts")
        if given["shape"] != [len(given["rows"]), len(given["columns"])]:
            raise ValueError("a shape that is not that of its rows and columns")
        table = biom.Table.from_json(given)
        samples = [str(name) for name in table.ids("sample")]
        features = [str(name) for name in table.ids("observation")]
        return samples, features, csr_array(table.matrix_data.T.tocsr())
    except _BIOM_ERRORS as error:
        actual = f"JSON that is cut off or not BIOM 1.0 ({type(error).__name__}: {error})"
        hint = "export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, actual, EXPECTED, hint) from error
    finally:
        seterr(**before)


def _id_problems(path: Path, what: str, ids: list[str]) -> Iterator[InputError]:
    if not ids:
        yield problem(path, f"a table without {what}s", f"at least one {what}", _CHECK)
    actual = f"{what} IDs that occur more than once:"
    hint = f"rename or merge the {what}s"
    yield from report_names(path, find_duplicates(ids), actual, "every ID once", hint)
    unusable = [name for name in ids if not name.strip("'\"()[],:; ") or not name.isprintable()]
    actual = f"{what} IDs that are empty, of punctuation alone, or hold tabs or line breaks:"
    yield from report_names(path, unusable, actual, f"printable {what} IDs", f"rename the {what}s")


def _count_problems(
    path: Path, sample_ids: list[str], feature_ids: list[str], values: csr_array
) -> Iterator[InputError]:
    entries = values.tocoo()
    data = values.data

    def shown(mask: NDArray[np.bool_]) -> str:
        places = np.flatnonzero(mask)
        names = [
            f"{data[i]:.15g} in sample {sample_ids[entries.row[i]]}, "
            f"feature {feature_ids[entries.col[i]][:40]}"
            for i in places[:3]
        ]
        return f"{len(places)} ({'; '.join(names)}{'; …' if len(places) > 3 else ''})"

    if sample_ids and feature_ids and not data.size:
        yield problem(path, "a table without a single read", "counts above 0", _CHECK)
    finite = np.isfinite(data)
    with np.errstate(invalid="ignore"):
        fractional = finite & (data >= 0) & (data != np.floor(data))
    whole = "whole numbers of reads"
    for mask, kind, expected in (
        (~finite, "counts that are NaN or infinite", whole),
        (data < 0, "negative counts", whole),
        (fractional, "fractional counts", whole),
        (finite & (data > LARGEST_COUNT), "counts above 2**53", "counts that are exact in float64"),
    ):
        if mask.any():
            yield problem(path, f"{kind}: {shown(mask)}", expected, _RAW)
