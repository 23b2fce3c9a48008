"""Import the taxonomy of the features."""

import logging

import pandas as pd

from aam.data.importing.taxonomy import load_taxonomy
from aam.data.table import read_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv
from aam.util.errors import first_names, problem

log = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Check the taxonomy, and write the taxon of each feature of the table, empty where unknown."""
    features, known = read_biom(inputs["table"]).feature_ids, load_taxonomy(inputs["taxonomy"])
    shared = sum(name in known for name in features)
    if not shared:
        raise problem(
            inputs["taxonomy"],
            f"no feature of the table; its IDs are {first_names(known, limit=3)}, those of the "
            f"table {first_names(features, limit=3)}",
            "the taxonomy of the features in the table",
            "give the taxonomy that was made from this table's sequences",
        )
    log.info("taxa of %d of %d features", shared, len(features))
    taxa = [known.get(name, "") for name in features]
    write_tsv(outputs["taxonomy"], pd.DataFrame({"feature-id": features, "taxon": taxa}))
