"""Taxonomy of the user: what a classifier called each feature."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from aam.data.importing.delimited import (
    SEPARATORS,
    complete_header,
    ends_in_empty_cells,
    find_separator,
    split_line,
    trim,
)
from aam.data.importing.files import (
    ArtifactKind,
    find_duplicates,
    lines_of,
    read_text,
    refuse,
    report_names,
)
from aam.data.importing.ids import describe_matches
from aam.data.importing.layout import names_rows, simple_name
from aam.util.errors import InputError, count_names, first_names, problem

logger = logging.getLogger(__name__)
EXPECTED = (
    "a taxonomy: .qza of type FeatureData[Taxonomy], or text with the columns Feature ID, Taxon"
)
TAXON_HEADERS = ("taxon", "taxonomy", "lineage", "consensuslineage", "classification")
"""Simple names of the column of lineages."""
RANKS = {
    "domain": "d__",
    "superkingdom": "d__",
    "kingdom": "k__",
    "phylum": "p__",
    "class": "c__",
    "order": "o__",
    "family": "f__",
    "genus": "g__",
    "species": "s__",
}
"""Simple names of columns of single ranks, and how lineages abbreviate them."""
LEAST_RANKS = 2
"""Columns of ranks that a file has at least, to be told from one whose samples are called so."""

_ARTIFACT = ArtifactKind(type="FeatureData[Taxonomy]", member="taxonomy.tsv", hints={})
_LINEAGE = re.compile(r"[A-Za-z]{1,2}(_\d)?__|[^;]+;|(unassigned|unclassified)$", re.IGNORECASE)
_BOOTSTRAP = re.compile(r"\(\d+(\.\d+)?\)(?=\s*(;|\||$))")
"""What mothur writes behind each taxon: the share of its bootstraps."""
_PREFIXED = re.compile(r"[A-Za-z]{1,2}(_\d)?__")
_NUMBER = re.compile(r"\d*[.,]?\d+")
_UNKNOWN_RANK = frozenset({"", "na", "n/a", "nan", "null", "none"})


@dataclass
class _TaxonSheet:
    """Feature IDs and taxa of a file, not yet checked."""

    ids: list[str] = field(default_factory=list)
    taxa: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    """IDs of the rows that end before the taxon."""


def taxonomy_of(
    path: Path, feature_ids: Sequence[str], other_names: Mapping[str, Sequence[str]] = {}
) -> dict[str, str]:
    """Read a taxonomy and return the taxon of each feature of a table.

    Parameters
    ----------
    path
        The user's file.
    feature_ids
        IDs of the table's features.
    other_names
        Further IDs of some features in the user's files, which serve where the first is missing.

    Returns
    -------
    dict
        Taxon by feature ID, in the order of `feature_ids`, empty where it is unknown. A warning
        names features that the file lacks.

    Raises
    ------
    InputError
        The file is no taxonomy, or has a taxon of none of the features.
    """
    taxon_of = load_taxonomy(path)
    taxa = {}
    for name in feature_ids:
        names = [name, *other_names.get(name, ())]
        taxa[name] = next((taxon_of[one] for one in names if one in taxon_of), "")
    missing = [name for name, taxon in taxa.items() if not taxon]
    if len(missing) == len(taxa):
        raise problem(
            path,
            f"no feature of the table; its IDs are {first_names(taxon_of, limit=3)}, those of the "
            f"table {first_names(feature_ids, limit=3)}{describe_matches(missing, taxon_of)}",
            "the taxonomy of the features in the table",
            "give the taxonomy that was made from this table's sequences",
        )
    if missing:
        logger.warning(
            "%s: no taxon for %s of %d, which stay without a name; the IDs of the file are %s%s; "
            "give the taxonomy of this table if they have one",
            path,
            count_names("feature", missing, limit=3),
            len(taxa),
            first_names(taxon_of, limit=3),
            describe_matches(missing, taxon_of),
        )
    return taxa


def load_taxonomy(path: Path) -> dict[str, str]:
    """Read the taxon of each feature, with its ranks as they are written.

    Parameters
    ----------
    path
        A .qza of type FeatureData[Taxonomy], or text in columns: feature IDs first, then one column
        of taxa, or one for each rank. A file without a header is one of IDs and lineages.

    Returns
    -------
    dict
        Taxon by feature ID. Features whose taxon is empty are left out.

    Raises
    ------
    InputError
        The file is no taxonomy; all its problems are named at once.
    """
    given = lines_of(read_text(path, EXPECTED, _ARTIFACT, key="taxonomy", takes_workbooks=True))
    lines = [line for line in given if line.strip(" \t,;") and not line.startswith(("#q2:", "# "))]
    separator = find_separator(lines) or "\t"
    try:
        header, *rows = [split_line(line, separator) for line in lines or [""]]
    except ValueError as error:
        hint = 'write each cell on one line, and a quote in a cell twice: "like ""this"""'
        raise problem(path, str(error), EXPECTED, hint) from error
    sheet = _sheet(path, trim(header), rows, separator)
    refuse(_problems(path, sheet))
    return {name: taxon for name, taxon in zip(sheet.ids, sheet.taxa, strict=True) if taxon}


def _sheet(path: Path, header: list[str], rows: list[list[str]], separator: str) -> _TaxonSheet:
    """Find the columns of the IDs and of the taxa; raises where there are none."""
    if _is_of_rdp(header, rows):
        return _sheet_of_rdp(path, [header, *rows])
    if header and simple_name(header[0]) in RANKS and ends_in_empty_cells(header, rows):
        # The lowest rank is known of no feature.
        header = ["", *header]
    header, rows, notes = complete_header(header, rows, names_rows)
    if separator != "\t":
        notes = [f"{SEPARATORS[separator]} separate its cells", *notes]
    names = [simple_name(name) for name in header]
    column = next((i for i, name in enumerate(names[1:], 1) if name in TAXON_HEADERS), None)
    ranks = {i: RANKS[name] for i, name in enumerate(names[1:], 1) if name in RANKS}
    # Without known names the first line may be data: two columns with lineages are then a file
    # without a header.
    if column is None and len(ranks) < LEAST_RANKS:
        two = [header, *rows]
        is_even = len(set(map(len, two))) == 1 and len(header) > 1
        if not is_even or not all(_LINEAGE.match(row[1]) for row in two):
            raise problem(
                path,
                f"a header that begins with {' '.join(header)[:40]!r}",
                EXPECTED,
                "call its first two columns 'Feature ID' and 'Taxon', or those of ranks Kingdom, "
                "Phylum and so on",
            )
        notes.append("it has no header, but IDs and lineages")
        rows = two
        column = 1
    sheet = _TaxonSheet()
    for row in rows:
        sheet.ids.append(row[0])
        if column is not None:
            taxon = row[column] if len(row) > column else ""
            if len(row) <= column:
                sheet.short.append(sheet.ids[-1])
        else:
            taxon = join_ranks([(row[i] if len(row) > i else "", ranks[i]) for i in ranks])
        sheet.taxa.append(without_bootstraps(taxon))
    if column is None:
        notes.append("its columns of ranks are joined to lineages")
    if notes:
        _tell(path, notes)
    return sheet


def _tell(path: Path, notes: Sequence[str]) -> None:
    """Say how a file was read."""
    logger.warning(
        "%s was read as follows: %s. If that is wrong, write it with tabs between the cells "
        "and a first line of 'Feature ID' and 'Taxon'",
        path,
        ", and ".join(notes),
    )


def _is_of_rdp(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether all lines are of the RDP Classifier: taxon, rank and confidence in turns."""
    ranks = [column for column, cell in enumerate(header) if cell.lower() in RANKS]
    if len(ranks) < LEAST_RANKS or any(after - rank != 3 for rank, after in pairwise(ranks)):
        return False
    return all(_NUMBER.fullmatch(header[rank + 1]) for rank in ranks if rank + 1 < len(header))


def _sheet_of_rdp(path: Path, lines: Sequence[Sequence[str]]) -> _TaxonSheet:
    """Read lines of the RDP Classifier, each of which names its own ranks."""
    sheet = _TaxonSheet()
    for line in lines:
        sheet.ids.append(line[0])
        ranks = {i: RANKS[cell.lower()] for i, cell in enumerate(line) if cell.lower() in RANKS}
        sheet.taxa.append(join_ranks([(line[i - 1], prefix) for i, prefix in ranks.items()]))
    _tell(path, ["it is of the RDP Classifier, whose ranks are joined whatever their confidence"])
    return sheet


def without_bootstraps(taxon: str) -> str:
    """Return a lineage without mothur's bootstrap values: `Bacteria;` of `Bacteria(100);`.

    Parameters
    ----------
    taxon
        A lineage.
    """
    return _BOOTSTRAP.sub("", taxon)


def join_ranks(cells: Sequence[tuple[str, str]]) -> str:
    """Join the ranks of a feature to a lineage, down to the last that is known.

    Parameters
    ----------
    cells
        The taxon of each rank, and the prefix of the rank, such as `g__`, which it gets where it
        has none.
    """
    known = [i for i, (cell, _) in enumerate(cells) if cell.lower() not in _UNKNOWN_RANK]
    if not known:
        return ""
    parts = []
    for cell, prefix in cells[: known[-1] + 1]:
        name = "" if cell.lower() in _UNKNOWN_RANK else cell
        parts.append(name if _PREFIXED.match(name) else prefix + name)
    return "; ".join(parts)


def _problems(path: Path, sheet: _TaxonSheet) -> Iterator[InputError]:
    nameless = sheet.ids.count("")
    if nameless:
        actual = f"rows without a feature ID: {nameless}"
        yield problem(path, actual, "an ID in every row", "fill in or delete these rows")
    actual = "rows without a taxon:"
    hint = "write Unassigned where a feature has no taxon"
    yield from report_names(path, sheet.short, actual, "a taxon behind every feature ID", hint)
    actual = "feature IDs that occur more than once:"
    hint = "remove the duplicate rows"
    yield from report_names(path, find_duplicates(sheet.ids), actual, "every ID once", hint)
