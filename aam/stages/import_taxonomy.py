"""Import the taxonomy of the features."""

import logging
from pathlib import Path

import pandas as pd

from aam.data.importing.taxonomy import load_taxonomy
from aam.data.table import read_biom
from aam.util.atomic import write_tsv
from aam.util.errors import first_names, problem

logger = logging.getLogger(__name__)


def import_taxonomy(*, table: Path, taxonomy: Path, taxonomy_out: Path) -> None:
    """Check the taxonomy, and write the taxon of each feature of the table.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    taxonomy
        The user's taxonomy: TSV or `.qza`.
    taxonomy_out
        TSV file to write, in the order of the table; a taxon is empty where it is unknown.

    Raises
    ------
    InputError
        The file cannot be read, or has none of the features.
    """
    features = read_biom(table).feature_ids
    taxon_of = load_taxonomy(taxonomy)
    shared = sum(name in taxon_of for name in features)
    if not shared:
        raise problem(
            taxonomy,
            f"no feature of the table; its IDs are {first_names(taxon_of, limit=3)}, those of the "
            f"table {first_names(features, limit=3)}",
            "the taxonomy of the features in the table",
            "give the taxonomy that was made from this table's sequences",
        )
    logger.info("taxa of %d of %d features", shared, len(features))
    taxa = [taxon_of.get(name, "") for name in features]
    write_tsv(taxonomy_out, pd.DataFrame({"feature-id": features, "taxon": taxa}))
