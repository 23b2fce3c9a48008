"""Import the taxonomy of the features."""

from pathlib import Path

import pandas as pd

from aam.data.importing.counts import read_left_out, read_other_names
from aam.data.importing.taxonomy import taxonomy_of
from aam.data.table import read_biom
from aam.util.atomic import write_tsv
from aam.util.notes import collect_notes, write_notes


def import_taxonomy(
    *,
    table: Path,
    taxonomy: Path,
    dropped: Path | None = None,
    taxonomy_out: Path,
    notes_out: Path,
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
    notes_out
        TSV file to write: what was decided for the user.

    Raises
    ------
    InputError
        The file cannot be read, or has none of the features.
    """
    features = read_biom(table).feature_ids
    other_names = {} if dropped is None else read_other_names(read_left_out(dropped))
    with collect_notes() as notes:
        taxon_of = taxonomy_of(taxonomy, features, other_names)
    taxa = [taxon_of[name] for name in features]
    write_tsv(taxonomy_out, pd.DataFrame({"feature-id": features, "taxon": taxa}))
    write_notes(notes_out, notes)
