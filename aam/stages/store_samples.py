"""The sample store: views and augmented rows."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from aam.data.augmentation import Augmentation, build_store
from aam.data.stores import TokenStore, write_samples
from aam.data.table import read_biom

logger = logging.getLogger(__name__)


def store_samples(
    *,
    tokens: Path,
    views: Sequence[Path],
    asv_dropout: float = 0.0,
    cutmix: float = 0.0,
    seed: int = 0,
    samples_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Write all rows that training reads: V views of N samples, then augmented rows.

    Parameters
    ----------
    tokens
        Arrow file with the tokens of all ASVs.
    views
        BIOM files of the rarefied tables, which have the same samples.
    asv_dropout
        Fraction of the ASVs left out, in one more row per sample and view; 0: no such rows.
    cutmix
        Rows mixed of two samples, per sample and view.
    seed
        Seed of the augmented rows.
    samples_out
        Arrow file to write: see `aam.data.stores.SampleStore`.
    provenance
        Metadata of the file that is written (`aam.util.digests`).
    """
    store = build_store(
        TokenStore.open(tokens).feature_ids,
        [read_biom(path) for path in views],
        Augmentation(asv_dropout=asv_dropout, cutmix=cutmix, seed=seed),
    )
    samples = len(store.sample_ids)
    rows = len(store.row_view)
    logger.info(
        "%d samples in %d views, and %d augmented rows",
        samples,
        store.views,
        rows - store.views * samples,
    )
    write_samples(samples_out, store, provenance)
