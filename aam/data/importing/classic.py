"""Classic tables: features in rows, samples in columns, separated by tabs."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.files import lines_of
from aam.util.errors import first_names, problem

LINEAGE_COLUMNS = frozenset({"taxonomy", "taxon", "consensus lineage", "consensuslineage"})
"""Names, in lower case, of a last column that holds no counts."""


def parse_classic(path: Path, text: str) -> tuple[list[str], list[str], csr_array]:
    """Parse a classic table.

    The header is the last line with a tab among the leading lines that start with `#`, else the
    first line; a last column named as in `LINEAGE_COLUMNS` is dropped.

    Parameters
    ----------
    path
        Where the text came from, for messages.
    text
        The content of the file.

    Returns
    -------
    sample_ids, feature_ids, counts
        IDs as strings, counts as float64, [N samples, F features], not yet checked.

    Raises
    ------
    InputError
        If the text is no table, or cells are missing or no numbers.
    """
    lines = [line for line in lines_of(text) if line.strip()]
    leading = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    header_at = next((i for i in reversed(range(leading)) if "\t" in lines[i]), leading)
    if header_at == len(lines) or "\t" not in lines[header_at]:
        raise problem(
            path,
            f"text without tab-separated columns ({lines[header_at % len(lines)][:40]!r})",
            "a feature table: BIOM 2.1, BIOM 1.0, TSV or .qza",
            "check the path; a TSV table starts with '#OTU ID', a tab and the sample IDs",
        )
    header = [name.strip() for name in lines[header_at].split("\t")]
    body = [line for line in lines[header_at + 1 :] if not line.startswith("#")]
    _check_widths(path, len(header), body)
    if not body:
        return header[1:], [], csr_array((len(header) - 1, 0), dtype=np.float64)
    cells = pd.read_csv(
        io.StringIO("\n".join(body)), sep="\t", header=None, names=range(len(header)),
        dtype={0: str}, na_filter=False, quoting=csv.QUOTE_NONE, low_memory=False,
    )  # fmt: skip
    if header[-1].lower() in LINEAGE_COLUMNS:
        cells, header = cells.iloc[:, :-1], header[:-1]
    feature_ids = [name.strip() for name in cells[0]]
    return header[1:], feature_ids, csr_array(_numbers(path, header, feature_ids, cells))


def _check_widths(path: Path, width: int, body: list[str]) -> None:
    widths = [line.count("\t") + 1 for line in body]
    wrong = [
        f"{line.split(maxsplit=1)[0][:20]} has {found}"
        for line, found in zip(body, widths, strict=True)
        if found != width
    ]
    if wrong:
        raise problem(
            path,
            f"rows with another number of columns than the header: {first_names(wrong)}",
            f"{width} columns in every row",
            "export the table again; a cell without reads holds a 0",
        )


def _numbers(
    path: Path, header: list[str], feature_ids: list[str], cells: pd.DataFrame
) -> NDArray[np.float64]:
    """Return the counts as float64, [N, F]; raises with all cells that are no numbers."""
    counts = np.zeros((len(header) - 1, len(feature_ids)))
    wrong: list[str] = []
    for column, sample in enumerate(header[1:], start=1):
        values = cells[column]
        if values.dtype.kind not in "iuf":
            numbers = pd.to_numeric(values.astype(str), errors="coerce")
            unread = numbers.isna() & ~values.astype(str).str.strip().str.lower().eq("nan")
            wrong += [
                f"{values[row]!r} in sample {sample}, feature {feature_ids[row][:20]}"
                for row in np.flatnonzero(unread)
            ]
            values = numbers
        counts[column - 1] = values
    if wrong:
        raise problem(
            path,
            f"cells that are no numbers: {len(wrong)} ({'; '.join(wrong[:3])})",
            "counts",
            "write 0 where there are no reads; a last column of lineages is named 'taxonomy'",
        )
    return counts
