"""Feature tables of the user: BIOM 2.1, BIOM 1.0, classic TSV, QIIME 2 artifacts.

Their numbers are reads or amounts: `aam.data.importing.values`.
"""

import codecs
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import biom
import numpy as np
import pandas as pd
from biom.err import seterr
from biom.exception import BiomException
from scipy.sparse import csr_array

from aam.data.importing.classic import BRACKEN_CORNER, Sheet, parse_classic
from aam.data.importing.files import (
    ArtifactKind,
    decode_text,
    find_duplicates,
    read_typed_content,
    refuse,
    report_names,
)
from aam.data.importing.hdf5 import join_taxa, read_hdf5
from aam.data.importing.ids import shared_ending
from aam.data.importing.layout import Layout, drop_foreign, orient, read_layout, simple_name
from aam.data.importing.metadata import metadata_cells
from aam.data.importing.profiles import NOUNS, is_lineage, keep_once, without_features
from aam.data.importing.sequences import SequenceFile, is_hash, is_sequence
from aam.data.importing.values import (
    CHECK,
    Values,
    count_problems,
    recognize_values,
    tell_of_amounts,
)
from aam.data.nouns import RANKS
from aam.data.table import FeatureTable, TableFacts
from aam.util.errors import InputError, count_names, problem

logger = logging.getLogger(__name__)
EXPECTED = "a feature table: BIOM, text (TSV or CSV), .xlsx, or a .qza of type FeatureTable"
_ARTIFACT = ArtifactKind(
    type="FeatureTable[Frequency]",
    member="feature-table.biom",
    hints={"FeatureTable[": "give the table of read counts, FeatureTable[Frequency], instead"},
    further_types=(
        "FeatureTable[RelativeFrequency]",
        "FeatureTable[PresenceAbsence]",
        "FeatureTable[Composition]",
    ),
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
NO_READS = "no reads"
"""Why most of what is left out is."""
NO_AMOUNTS = "no amounts above 0"
"""The same of a table of amounts."""
_SPREADSHEET = re.compile(r"\d(\.\d+)?E[+-]?\d+")
"""IDs that a spreadsheet took for numbers."""


@dataclass(frozen=True)
class TableFile:
    """What the file of a feature table holds."""

    table: FeatureTable
    """Reads or amounts; of its facts only whether it is counted is known here."""
    sequences: Mapping[str, str]
    """Sequence by feature ID, of a column of sequences; empty if there is none."""
    left_out: list[tuple[str, str, str]]
    """`what`, `id` and `why` of what was called a sample or a feature, and is none."""
    lineages: Mapping[str, str] = field(default_factory=dict)
    """Lineage by feature ID as it is written, of a column of lineages or of those of ranks."""
    noun: str | None = None
    """What the format calls one feature; None: it does not say."""


def load_table(
    path: Path,
    *,
    sequences: SequenceFile | None = None,
) -> FeatureTable:
    """Read a feature table in any of the formats that users have, and check it.

    Samples and features keep their order and IDs; their metadata is dropped.

    Parameters
    ----------
    path, sequences
        As for `read_table_file`.

    Raises
    ------
    InputError
        The file is no table of whole counts; all its problems are named at once.
    """
    return read_table_file(path, sequences=sequences).table


def read_table_file(
    path: Path,
    *,
    sequences: SequenceFile | None = None,
    values: Values | None = None,
    metadata: Path | None = None,
    known_features: Collection[str] = (),
) -> TableFile:
    """Read a feature table, find out which axis holds its samples, and check its numbers.

    Warnings tell what was decided: an axis, and what is no sample or no feature.

    Parameters
    ----------
    path
        BIOM 2.1, BIOM 1.0, text in columns, an Excel workbook, or a .qza of a FeatureTable; the
        content says which. Each may be compressed by gzip.
    sequences
        The sequences of the features, where a file has them.
    values
        What its numbers are; None: what its format says, or else the numbers themselves.
    metadata
        The file of the metadata, whose sample IDs tell the axis of the samples where no sequences
        do, and what programs have appended to them.
    known_features
        As for `aam.data.importing.layout.orient`.

    Raises
    ------
    InputError
        The file is no table of reads or amounts, or could be read in two ways; all its problems are
        named at once.
    """
    written = _read_written(path)
    layout = written.layout
    known = _Known(sequences, written.sequences)
    cells = None
    if metadata is not None:
        cells = metadata_cells(metadata, layout.sample_ids, layout.feature_ids)
    samples = [] if cells is None else [*cells.index]
    oriented = orient(path, layout, known.count, samples or None, is_lineage, known_features)
    _tell_how_text_was_read(path, written, oriented)
    layout = _without_ending(path, oriented, samples)
    if cells is not None:
        layout = _without_metadata(path, layout, cells)
    layout = keep_once(path, layout, level_of=_levels_of(written.sheet))
    layout, odd = drop_foreign(path, layout, known.lengths)
    counts = csr_array(layout.counts)
    stated = values or layout.values
    is_counted = recognize_values(counts, stated) == "reads"
    refuse(
        [
            *odd,
            *_id_problems(path, "sample", layout.sample_ids),
            *_id_problems(path, "feature", layout.feature_ids),
            *count_problems(
                path,
                layout.sample_ids,
                layout.feature_ids,
                counts,
                is_counted=is_counted,
                are_stated=stated == "reads",
            ),
        ]
    )
    if not is_counted and values is None:
        tell_of_amounts(path, counts)
    counts.sort_indices()
    table = FeatureTable(
        layout.sample_ids,
        layout.feature_ids,
        counts.astype(np.int64 if is_counted else np.float64),
        TableFacts(is_counted=is_counted),
    )
    # Lineages of a text are those of its rows, which may turn out to be samples.
    lineages = {
        name: written.lineages[name] for name in layout.feature_ids if written.lineages.get(name)
    }
    return TableFile(table, written.sequences, layout.left_out, lineages, noun=layout.noun)


@dataclass(frozen=True, eq=False)
class _Written:
    """A table as its file has it, before it is known which axis holds the samples."""

    layout: Layout
    sheet: Sheet | None
    """The text, or the sheet of a workbook; None: another format."""
    sequences: Mapping[str, str]
    """By the ID of a row, of a column of sequences; empty if there is none."""
    lineages: Mapping[str, str]
    """By the ID of a row or feature, of a column of lineages; empty if there is none."""


def _read_written(path: Path) -> _Written:
    """Read a table in any format, with one entry for each sample and feature."""
    content, kind = read_typed_content(path, EXPECTED, _ARTIFACT, takes_workbooks=True)
    sheet = None
    lineages: Mapping[str, str] = {}
    sequences: Mapping[str, str] = {}
    if content.startswith(_HDF5):
        layout, lineages = _parse_hdf5(path, content)
    elif content.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        layout, lineages = _parse_json(path, content)
    else:
        sheet = parse_classic(path, decode_text(path, content, EXPECTED, key="table"))
        layout = _layout_of(sheet)
        if sheet.sequences is not None:
            sequences = dict(zip(sheet.row_ids, sheet.sequences, strict=True))
        if sheet.lineages is not None:
            lineages = dict(zip(sheet.row_ids, sheet.lineages, strict=True))
    if kind:
        layout = replace(layout, values="reads" if kind == _ARTIFACT.type else "amounts")
    layout = _strip_names(path, layout)
    # Adding up duplicate entries leaves fewer of them, which shows that there were any.
    given = layout.counts.nnz
    layout.counts.sum_duplicates()
    if layout.counts.nnz < given:
        actual = (
            f"{given - layout.counts.nnz} counts of a sample and a feature that have one already"
        )
        raise problem(path, actual, "one count for a sample and a feature", CHECK)
    layout.counts.eliminate_zeros()
    return _Written(layout, sheet, sequences, lineages)


def _tell_how_text_was_read(path: Path, written: _Written, oriented: Layout) -> None:
    """Say what was decided about a text: its separator, and that its rows are samples."""
    sheet = written.sheet
    if sheet is None:
        return
    notes = [*sheet.notes]
    is_exchanged = oriented.sample_ids is not written.layout.sample_ids
    # A table whose axes contradict its first column was warned of.
    if sheet.row_ids == oriented.sample_ids and not (is_exchanged and written.layout.states_axes):
        notes.append("its rows are samples")
    if notes:
        logger.warning(
            "%s was read as follows: %s. If that is wrong, write it with tabs between the cells "
            "and a first line of '#OTU ID' and the sample IDs",
            path,
            ", and ".join(notes),
        )


def _layout_of(sheet: Sheet) -> Layout:
    """Return the rows and columns of a text as its first column says, if it does."""
    counts = csr_array(sheet.values)
    layout = read_layout(sheet.corner, sheet.row_ids, sheet.column_ids, counts)
    if sheet.sequences is not None:
        # What has a sequence in each row has features there.
        layout = Layout(sheet.column_ids, sheet.row_ids, counts, states_axes=True)
    corner = simple_name(sheet.corner)
    values: Values | None = None
    if corner in NOUNS or corner == "cladename":
        values = "amounts"
    elif sheet.corner == BRACKEN_CORNER:
        values = "reads"
    return replace(layout, noun=NOUNS.get(corner), values=values)


def _without_metadata(path: Path, layout: Layout, cells: pd.DataFrame) -> Layout:
    """Return a table without columns of the metadata, which QIIME 2 writes behind the taxa.

    A feature is one of them where name and values are the same: an age would tell itself.
    """
    rows = [row for row, name in enumerate(layout.sample_ids) if name in cells.index]
    shared = cells.loc[[layout.sample_ids[row] for row in rows]]
    if not rows or len(shared) != len(rows):
        return layout
    column_of = {name: column for column, name in enumerate(layout.feature_ids)}
    repeated = []
    for name in set(column_of).intersection(cells.columns):
        values = pd.to_numeric(shared[[name]].iloc[:, 0], errors="coerce").to_numpy()
        counts = layout.counts[rows][:, [column_of[name]]].toarray().ravel()
        if np.array_equal(values[np.isfinite(values)], counts[np.isfinite(values)]):
            repeated += [name] if np.isfinite(values).any() else []
    if repeated:
        logger.warning(
            "%s: %s left out, because the metadata have the same values under the same name; "
            "rename it in one of the files to keep it",
            path,
            count_names("column", sorted(repeated)) + (" is" if len(repeated) == 1 else " are"),
        )
    return without_features(layout, sorted(repeated), "a column of the metadata")


def _levels_of(sheet: Sheet | None) -> dict[str, str]:
    """Return the rank of each row of Bracken's table, by its ID."""
    if sheet is None or sheet.levels is None:
        return {}
    levels = zip(sheet.row_ids, sheet.levels, strict=True)
    return {name: RANKS.get(level.lower(), level) for name, level in levels}


def _without_ending(path: Path, layout: Layout, known: Collection[str]) -> Layout:
    """Return a table without what a program appended to all IDs of its samples."""
    ending = shared_ending(layout.sample_ids, known)
    if not ending:
        return layout
    names = [name.removesuffix(ending) for name in layout.sample_ids]
    logger.warning(
        "%s: all sample IDs end in %r, without which the metadata have them: %r is read as %r; "
        "write the IDs alike in both files to have it otherwise",
        path,
        ending,
        layout.sample_ids[0],
        names[0],
    )
    return replace(layout, sample_ids=names)


@dataclass(frozen=True)
class _Known:
    """What is known of the sequences of features."""

    file: SequenceFile | None
    by_feature: Mapping[str, str]
    """Those of a column of the table."""

    def find(self, names: Sequence[str]) -> dict[str, str]:
        """Return the sequences of those names that have one, or are one."""
        own = {name: name for name in names if is_sequence(name)}
        column = {name: self.by_feature[name] for name in names if name in self.by_feature}
        return own | column | ({} if self.file is None else self.file.find(names))

    def count(self, names: Sequence[str]) -> int:
        """Return how many names have a sequence, or look like the hash of one."""
        found = self.find(names)
        hashes = self.file is None and not found
        return sum(name in found or (hashes and is_hash(name)) for name in names)

    def lengths(self, names: Sequence[str]) -> dict[str, int]:
        """Return the lengths of the sequences that are known."""
        return {name: len(text) for name, text in self.find(names).items()}


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
    why = NO_READS if table.facts.is_counted else NO_AMOUNTS
    left_out = [("sample", name, why) for name in table.sample_ids if name not in samples]
    left_out += [("feature", name, why) for name in table.feature_ids if name not in features]
    return kept, pd.DataFrame(left_out, columns=["what", "id", "why"])


def _parse_hdf5(path: Path, content: bytes) -> tuple[Layout, dict[str, str]]:
    try:
        parts = read_hdf5(content)
        arrays = (parts["data"], parts["indices"], parts["indptr"])
        shape = (len(parts["samples"]), len(parts["features"]))
        values = csr_array(arrays, shape=shape, dtype=np.float64)
        values.check_format(full_check=True)
        layout = Layout(parts["samples"], parts["features"], values, states_axes=True)
        return layout, dict(zip(parts["features"], parts["lineages"], strict=False))
    except _BIOM_ERRORS as error:
        actual = f"an HDF5 file that is cut off, damaged or not BIOM 2.1 ({error})"
        hint = "copy or export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, actual, EXPECTED, hint) from error


def _parse_json(path: Path, content: bytes) -> tuple[Layout, dict[str, str]]:
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
        counts = csr_array(table.matrix_data.T.tocsr())
        described = [table.metadata(name, "observation") or {} for name in table.ids("observation")]
        lineages = [join_taxa(about.get("taxonomy")) for about in described]
        layout = Layout(samples, features, counts, states_axes=True)
        return layout, dict(zip(features, lineages, strict=True))
    except _BIOM_ERRORS as error:
        actual = f"JSON that is cut off or not BIOM 1.0 ({type(error).__name__}: {error})"
        hint = "export it again; check it with `biom validate-table -i FILE`"
        raise problem(path, actual, EXPECTED, hint) from error
    finally:
        seterr(**before)


def _strip_names(path: Path, layout: Layout) -> Layout:
    """Leave out spaces around names, which no other file of a study keeps, with a warning."""
    names = [*layout.sample_ids, *layout.feature_ids]
    padded = [name for name in names if name != name.strip()]
    if not padded:
        return layout
    logger.warning(
        "%s: spaces around %s are left out; write other names to keep them apart",
        path,
        count_names("ID", padded),
    )
    return replace(
        layout,
        sample_ids=[name.strip() for name in layout.sample_ids],
        feature_ids=[name.strip() for name in layout.feature_ids],
    )


def _id_problems(path: Path, what: str, ids: list[str]) -> Iterator[InputError]:
    if not ids:
        yield problem(path, f"a table without {what}s", f"at least one {what}", CHECK)
    actual = f"{what} IDs that occur more than once:"
    duplicates = find_duplicates(ids)
    hint = f"rename or merge the {what}s"
    if any(map(_SPREADSHEET.fullmatch, duplicates)):
        hint = "a spreadsheet took these IDs for numbers: export the table again, do not open it"
    yield from report_names(path, duplicates, actual, "every ID once", hint)
    unusable = [name for name in ids if not name.strip("'\"()[],:; ") or not name.isprintable()]
    actual = f"{what} IDs that are empty, of punctuation alone, or hold tabs or line breaks:"
    yield from report_names(path, unusable, actual, f"printable {what} IDs", f"rename the {what}s")
