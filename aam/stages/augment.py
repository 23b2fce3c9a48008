"""The sample store: views and augmented rows."""

import logging

from aam.augment.views import Augmentation, build_store
from aam.data.samples import write_samples
from aam.data.table import read_biom
from aam.data.tokens import TokenStore
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write all rows that training reads: V views of N samples, then augmented rows."""
    store = build_store(
        TokenStore.open(inputs["tokens"]).feature_ids,
        [read_biom(path) for path in inputs["views"]],
        Augmentation(**cfg),
    )
    samples, rows = len(store.sample_ids), len(store.row_view)
    logger.info(
        "%d samples in %d views, and %d augmented rows",
        samples, store.views, rows - store.views * samples,
    )  # fmt: skip
    write_samples(outputs["samples"], store, provenance(cfg, inputs))
