"""Classic tables: features in rows, samples in columns, separated by tabs."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.files import lines_of, refuse, report_names
from aam.util.errors import problem

LINEAGE_COLUMNS = frozenset({"taxonomy", "taxon", "consensus lineage", "consensuslineage"})
"""Names, in lower case, of a last column that holds no counts."""


def parse_classic(path: Path, text: str) -> tuple[list[str], list[str], csr_array]:
    """Return the IDs and counts of a classic table, not yet checked.

    The header is the last line with a tab among the leading lines that start with `#`, else the
    first line; a last column named as in `LINEAGE_COLUMNS` is dropped. Where lines with the same
    number of tabs follow each other there, the first of them is the header, and the others are
    refused: they are rows whose feature ID begins with `#`.

    Parameters
    ----------
    path
        The user's file, for messages.
    text
        Its content.

    Returns
    -------
    sample_ids, feature_ids : list of str
        In the order of the file.
    counts : scipy.sparse.csr_array
        float64 [N, F].

    Raises
    ------
    InputError
        The text is no table of numbers.
    """
    lines = [line for line in lines_of(text) if line.strip()]
    leading = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    tabbed = [i for i in range(leading) if "\t" in lines[i]]
    while len(tabbed) > 1 and lines[tabbed[-2]].count("\t") == lines[tabbed[-1]].count("\t"):
        tabbed.pop()
    header_at = tabbed[-1] if tabbed else leading
    if header_at == len(lines) or "\t" not in lines[header_at]:
        raise problem(
            path,
            f"text without tab-separated columns ({lines[header_at % len(lines)][:40]!r})",
            "a feature table: BIOM 2.1, BIOM 1.0, TSV or .qza",
            "check the path; a TSV table starts with '#OTU ID', a tab and the sample IDs",
        )
    header = [name.strip() for name in lines[header_at].split("\t")]
    hashed = [line for line in lines[header_at + 1 :] if line.startswith("#") and "\t" in line]
    actual = "rows whose feature ID begins with '#', which makes them comments:"
    names = [line.partition("\t")[0] for line in hashed]
    refuse(report_names(path, names, actual, "other feature IDs", "rename these features"))
    body = [line for line in lines[header_at + 1 :] if not line.startswith("#")]
    wrong = []
    for line in body:
        width = line.count("\t") + 1
        if width != len(header):
            name = line.split(maxsplit=1)[0][:20]
            wrong.append(f"'{name}' has {width}")
    actual = "rows with another number of columns than the header:"
    hint = "export the table again; a cell without reads holds a 0"
    expected = f"{len(header)} columns in every row"
    refuse(report_names(path, wrong, actual, expected, hint, quoted=False))
    if not body:
        return header[1:], [], csr_array((len(header) - 1, 0), dtype=np.float64)
    cells = pd.read_csv(
        io.StringIO("\n".join(body)),
        sep="\t",
        header=None,
        names=range(len(header)),
        dtype={0: str},
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        low_memory=False,
    )
    if header[-1].lower() in LINEAGE_COLUMNS:
        cells = cells.iloc[:, :-1]
        header = header[:-1]
    cells = cells.set_axis(header, axis=1).set_index(cells[0].str.strip())
    return header[1:], list(cells.index), csr_array(_numbers(path, cells.iloc[:, 1:]))


def _numbers(path: Path, cells: pd.DataFrame) -> NDArray[np.float64]:
    """Return the counts, [N, F]; raises with all cells that are no numbers."""
    columns = []
    wrong = []
    for column, sample in enumerate(cells.columns):
        values = cells.iloc[:, column]
        if values.dtype.kind not in "iuf":
            text = values.astype(str)
            values = pd.to_numeric(text, errors="coerce")
            unread = text[values.isna() & ~text.str.strip().str.lower().eq("nan")]
            wrong += [
                f"{cell!r} in sample {sample}, feature {str(feature)[:20]}"
                for feature, cell in unread.items()
            ]
        columns.append(values)
    if wrong:
        actual = f"cells that are no numbers: {len(wrong)} ({'; '.join(wrong[:3])})"
        hint = "write 0 where there are no reads; a last column of lineages is named 'taxonomy'"
        raise problem(path, actual, "counts", hint)
    return np.array(columns, dtype=np.float64).reshape(len(columns), len(cells))
