"""Tables of the user as stores of samples and tokens."""

from collections.abc import Mapping

from aam.augment.views import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize


def rarefied(
    table: FeatureTable,
    sequences: Mapping[str, str],
    depth: int | None,
    views: int,
    seed: int,
    max_length_bp: int,
) -> tuple[TokenStore, SampleStore]:
    """Draw the views of a table; without a depth it is taken as it is.

    ASVs that no view has are left out.
    """
    draws = [table] if depth is None else [rarefy(table, depth, seed, v) for v in range(views)]
    drawn = {name for draw in draws for name in draw.feature_ids}
    names = [name for name in table.feature_ids if name in drawn]
    letters_US, length_U = tokenize([sequences[name] for name in names], max_length_bp)
    nothing = Augmentation(asv_dropout=0, cutmix=0, seed=0)
    return TokenStore(names, length_U, letters_US), build_store(names, draws, nothing)
