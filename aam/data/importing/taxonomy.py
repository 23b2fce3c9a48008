"""Taxonomy of the user: what a classifier called each feature."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from aam.data.importing.files import find_duplicates, lines_of, read_text, refuse, report_names
from aam.data.importing.qza import ArtifactKind
from aam.util.errors import InputError, first_names, problem

logger = logging.getLogger(__name__)

EXPECTED = (
    "a taxonomy: .qza of type FeatureData[Taxonomy], or text with the columns Feature ID, Taxon"
)
TAXON_HEADERS = ("taxon", "taxonomy")
"""Names of the second column, whatever their case; further columns are not read."""

_ARTIFACT = ArtifactKind(type="FeatureData[Taxonomy]", member="taxonomy.tsv", hints={})


def load_taxonomy(path: Path) -> dict[str, str]:
    """Read the taxon of each feature, with its ranks as they are written.

    Parameters
    ----------
    path
        A .qza of type FeatureData[Taxonomy], or tab-separated text: feature IDs first, then taxa.

    Returns
    -------
    dict
        Taxon by feature ID. Features whose taxon is empty are left out.

    Raises
    ------
    InputError
        The file is no taxonomy; all its problems are named at once.
    """
    given = lines_of(read_text(path, EXPECTED, _ARTIFACT, key="taxonomy"))
    lines = [line for line in given if line.strip() and not line.startswith(("#q2:", "# "))]
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines or [""]]
    header, *rows = cells
    refuse(_problems(path, header, rows))
    return {row[0]: row[1] for row in rows if row[1]}


def taxonomy_of(path: Path, feature_ids: Sequence[str]) -> dict[str, str]:
    """Read a taxonomy and return the taxon of each feature of a table.

    Parameters
    ----------
    path
        As for `load_taxonomy`.
    feature_ids
        The features of the table.

    Returns
    -------
    dict
        Taxon by feature ID, in the order of the table; empty where it is unknown.

    Raises
    ------
    InputError
        The file cannot be read, or has none of the features.
    """
    taxon_of = load_taxonomy(path)
    shared = sum(name in taxon_of for name in feature_ids)
    if not shared:
        raise problem(
            path,
            f"no feature of the table; its IDs are {first_names(taxon_of, limit=3)}, those of the "
            f"table {first_names(feature_ids, limit=3)}",
            "the taxonomy of the features in the table",
            "give the taxonomy that was made from this table's sequences",
        )
    logger.info("taxa of %d of %d features", shared, len(feature_ids))
    return {name: taxon_of.get(name, "") for name in feature_ids}


def _problems(path: Path, header: list[str], rows: list[list[str]]) -> Iterator[InputError]:
    if len(header) < 2 or header[1].lower() not in TAXON_HEADERS:
        actual = f"a header that begins with {' '.join(header)[:40]!r}"
        hint = "export it with `qiime tools export`, or name the columns"
        yield problem(path, actual, EXPECTED, hint)
        return
    names = [row[0] for row in rows]
    nameless = names.count("")
    if nameless:
        actual = f"rows without a feature ID: {nameless}"
        yield problem(path, actual, "an ID in every row", "fill in or delete these rows")
    short = [row[0] for row in rows if len(row) < 2]
    actual = "rows without a taxon:"
    hint = "write Unassigned where a feature has no taxon"
    yield from report_names(path, short, actual, "a taxon behind every feature ID", hint)
    actual = "feature IDs that occur more than once:"
    hint = "remove the duplicate rows"
    yield from report_names(path, find_duplicates(names), actual, "every ID once", hint)
