"""Import the feature table and the sequences of its features."""

import logging

from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table, without_empty
from aam.data.sequences import write_fasta
from aam.data.study import on_sequences
from aam.data.table import write_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv
from aam.util.provenance import provenance

log = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Check the table and the sequences, leave out what has no reads, write both."""
    table, dropped = without_empty(load_table(inputs["table"]))
    sequences = feature_sequences(table, inputs["table"], inputs.get("sequences"))
    log.info(
        "%d samples, %d features, %d reads; %d samples and features without reads left out",
        len(table.sample_ids), len(table.feature_ids), int(table.counts.sum()), len(dropped),
    )  # fmt: skip
    about, *odd = on_sequences(table, sequences)
    log.info("%s", about)
    for sentence in odd:
        log.warning("%s: %s", inputs["table"], sentence)
    write_biom(outputs["table"], table, provenance(cfg, inputs))
    write_fasta(outputs["sequences"], sequences)
    write_tsv(outputs["dropped"], dropped)
