"""Tables of the user as stores of samples and tokens."""

import logging
from collections.abc import Mapping

from aam.augment.views import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize
from aam.util.errors import first_names

logger = logging.getLogger(__name__)


def rarefied(
    table: FeatureTable,
    sequences: Mapping[str, str],
    depth: int | None,
    views: int,
    seed: int,
    max_length_bp: int,
) -> tuple[TokenStore, SampleStore]:
    """Draw the views of a table, without a depth as it is; too shallow samples are left out."""
    draws = [table] if depth is None else [rarefy(table, depth, seed, v) for v in range(views)]
    left = {name for draw in draws for name in draw.sample_ids}
    if shallow := sorted({*table.sample_ids} - left):
        logger.warning(
            "of %d samples these have fewer than %d reads and are left out: %s",
            *(len(table.sample_ids), depth, first_names(shallow, limit=20)),
        )
    drawn = {name for draw in draws for name in draw.feature_ids}
    names = [name for name in table.feature_ids if name in drawn]
    letters_US, length_U = tokenize([sequences[name] for name in names], max_length_bp)
    nothing = Augmentation(asv_dropout=0, cutmix=0, seed=0)
    return TokenStore(names, length_U, letters_US), build_store(names, draws, nothing)
