"""The sample store: views and augmented rows."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from aam.augment.views import Augmentation, build_store
from aam.data.samples import write_samples
from aam.data.table import read_biom
from aam.data.tokens import TokenStore
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.errors import problem
from aam.util.provenance import provenance

MAX_DEPTH = int(np.iinfo(np.int32).max)
"""The store holds counts as int32."""

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write all rows that training reads: V views of N samples, then augmented rows."""
    if cfg["depth"] > MAX_DEPTH:
        raise problem(
            "rarefaction.depth",
            str(cfg["depth"]),
            f"at most {MAX_DEPTH}",
            "lower rarefaction.depth: thousands of reads are enough to train on",
        )
    store = build_store(
        TokenStore.open(inputs["tokens"]).feature_ids,
        [read_biom(path) for path in inputs["views"]],
        Augmentation(**{key: value for key, value in cfg.items() if key != "depth"}),
    )
    samples, rows = len(store.sample_ids), len(store.row_view)
    logger.info(
        "%d samples in %d views, and %d augmented rows",
        samples, store.views, rows - store.views * samples,
    )  # fmt: skip
    write_samples(outputs["samples"], store, provenance(cfg, inputs))
