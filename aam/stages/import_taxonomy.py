"""Import the taxonomy of the features."""

import logging
from pathlib import Path

import pandas as pd

from aam.data.importing.counts import read_left_out, read_other_names
from aam.data.importing.taxonomy import taxonomy_of
from aam.data.table import read_biom
from aam.util.atomic import write_tsv

logger = logging.getLogger(__name__)


def import_taxonomy(
    *, table: Path, taxonomy: Path, dropped: Path | None = None, taxonomy_out: Path
) -> None:
    """Check the taxonomy, and write the taxon of each feature of the table.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    taxonomy
        The user's taxonomy: TSV or `.qza`.
    dropped
        TSV file of what the table left out, which has further names of its features.
    taxonomy_out
        TSV file to write, in the order of the table; a taxon is empty where it is unknown.

    Raises
    ------
    InputError
        The file cannot be read, or has none of the features.
    """
    features = read_biom(table).feature_ids
    other_names = {} if dropped is None else read_other_names(read_left_out(dropped))
    taxon_of = taxonomy_of(taxonomy, features, other_names)
    known = sum(map(bool, taxon_of.values()))
    logger.info("taxa of %d of %d features", known, len(features))
    taxa = [taxon_of[name] for name in features]
    write_tsv(taxonomy_out, pd.DataFrame({"feature-id": features, "taxon": taxa}))
