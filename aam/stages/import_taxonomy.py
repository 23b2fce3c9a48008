"""Import the taxonomy of the features, or name them by the genes near their sequences."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from aam.data.importing.counts import read_left_out, read_other_names
from aam.data.importing.taxonomy import taxonomy_of
from aam.data.nouns import PLURALS
from aam.data.table import FeatureTable, read_biom, read_lineages
from aam.util.atomic import write_tsv
from aam.util.errors import problem
from aam.util.notes import collect_notes, write_notes

logger = logging.getLogger(__name__)
GENUS = "g__"
"""Beginning of the name of a genus in a lineage."""


def import_taxonomy(
    *,
    table: Path,
    taxonomy: Path | None = None,
    genes: Path | None = None,
    reference: str | None = None,
    is_asked: bool = False,
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
        The user's taxonomy: TSV or `.qza`. None: the lineages of the table, or what the genes near
        the sequences are called.
    genes
        TSV file with these (`aam.stages.find_genes`).
    reference
        Name of the reference that these genes are of.
    is_asked
        Whether the user asks for it: lineages of the table then have no part in it.
    dropped
        TSV file of what the table left out, which has further names of its features.
    taxonomy_out
        TSV file to write, in the order of the table; a taxon is empty where it is unknown. Names by
        genes have the column `confidence`, too.
    notes_out
        TSV file to write: what was decided for the user.

    Raises
    ------
    InputError
        The file cannot be read, or has none of the features; a reference is asked to name features
        without sequences, or has no names.
    """
    counted = read_biom(table)
    features = counted.feature_ids
    with collect_notes() as notes:
        if taxonomy is not None:
            other_names = {} if dropped is None else read_other_names(read_left_out(dropped))
            taxon_of = taxonomy_of(taxonomy, features, other_names)
            taxa = pd.DataFrame({"taxon": [taxon_of[name] for name in features]})
        elif not is_asked and (taxon_of := read_lineages(table)):
            taxa = pd.DataFrame({"taxon": [taxon_of.get(name, "") for name in features]})
        else:
            assert genes is not None, "names of genes are an input of this stage"
            assert reference is not None, "genes are of a reference"
            taxa = _name_by_genes(counted, genes, reference, is_asked=is_asked)
    taxa.insert(0, "feature-id", features)
    write_tsv(taxonomy_out, taxa)
    write_notes(notes_out, notes)


def _name_by_genes(
    table: FeatureTable, genes: Path, reference: str, *, is_asked: bool
) -> pd.DataFrame:
    """Return `taxon` and `confidence` of each feature.

    Raises
    ------
    InputError
        A reference is asked to name features without sequences, or has no names.
    """
    named = pd.read_csv(genes, sep="\t", dtype={"taxon": str}, keep_default_na=False)
    has_names = (named["taxon"] != "").any()
    if is_asked and not has_names:
        cause = "has no lineages for them" if table.facts.has_sequences else "knows by sequences"
        raise problem(
            "configuration key datasets.<name>.taxonomy",
            f"{reference}, to name {PLURALS[table.facts.noun]} that it {cause}",
            "features with sequences near the named genes of the reference",
            "give a taxonomy as a file, or set `taxonomy: false`",
        )
    if not has_names:
        return pd.DataFrame({"taxon": [""] * len(table.feature_ids)})
    reads = np.asarray(table.counts.sum(axis=0)).ravel()
    has_genus = named["taxon"].str.contains(GENUS, regex=False).to_numpy()
    logger.warning(
        "%s: the ASVs have the names of the genes of %s nearest to them, down to the genus where "
        "these agree, which holds for %.0f %% of the reads",
        "As asked" if is_asked else "No taxonomy is given",
        reference,
        100 * reads[has_genus].sum() / max(reads.sum(), 1),
    )
    return named[["taxon", "confidence"]].copy()
