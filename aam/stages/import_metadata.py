"""Import the sample metadata."""

import pandas as pd

from aam.data.importing.metadata import metadata_of
from aam.data.metadata import write_metadata
from aam.data.table import read_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.provenance import provenance


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Check the metadata, if there are some, and write one row per sample of the table."""
    found = pd.DataFrame(index=read_biom(inputs["table"]).sample_ids)
    if "metadata" in inputs:
        found = metadata_of(inputs["metadata"], [*found.index])
    write_metadata(outputs["metadata"], found, provenance(cfg, inputs))
