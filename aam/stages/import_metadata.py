"""Import the sample metadata."""

import logging

import pandas as pd

from aam.data.importing.metadata import load_metadata
from aam.data.metadata import write_metadata
from aam.data.table import read_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.errors import first_names, problem
from aam.util.provenance import provenance

log = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Check the metadata, if there are some, and write one row per sample of the table."""
    sample_ids = read_biom(inputs["table"]).sample_ids
    given = pd.DataFrame(index=sample_ids)
    if "metadata" in inputs:
        given = load_metadata(inputs["metadata"])
        shared = given.index.isin(sample_ids)
        if not shared.any():
            raise problem(
                inputs["metadata"],
                f"no sample of the table; its IDs are {first_names(given.index, limit=3)}, "
                f"those of the table {first_names(sample_ids, limit=3)}",
                "metadata of the samples in the table",
                "give the metadata of this table, and look for lost zeros or changed prefixes",
            )
        log.info(
            "metadata for %d of %d samples, %d columns; %d rows of other samples ignored",
            shared.sum(), len(sample_ids), given.shape[1], (~shared).sum(),
        )  # fmt: skip
    write_metadata(outputs["metadata"], given.reindex(sample_ids), provenance(cfg, inputs))
