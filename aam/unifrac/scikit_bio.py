"""UniFrac by scikit-bio, in one thread, with the whole table dense in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from aam.data.table import FeatureTable
from aam.data.trees.branches import branch_counts
from aam.unifrac import formulas
from aam.unifrac.store import Rows
from aam.util.scikit_bio import TreeNode, alpha_diversity, beta_diversity

_METRICS = {
    "unweighted": ("unweighted_unifrac", {}),
    "weighted_normalized": ("weighted_unifrac", {"normalized": True}),
    "weighted_unnormalized": ("weighted_unifrac", {"normalized": False}),
}


class ScikitBio:
    """The engine that is always there."""

    name = "scikit-bio"

    @contextmanager
    def distances(
        self, table: FeatureTable, tree: TreeNode, metric: str, alpha: float
    ) -> Iterator[Rows]:
        """Yield distances, float64 [N, N]; scikit-bio has no generalized UniFrac, so it is ours."""
        if metric == "generalized":
            counts, lengths = branch_counts(table, tree)
            totals = np.asarray(table.counts.sum(axis=1)).ravel()
            yield formulas.generalized(formulas.shares(counts, totals), lengths, alpha)
            return
        name, options = _METRICS[metric]
        matrix = beta_diversity(
            name,
            table.counts.toarray(),
            table.sample_ids,
            validate=False,
            taxa=table.feature_ids,
            tree=tree,
            **options,
        )
        yield matrix.data

    def faith_pd(self, table: FeatureTable, tree: TreeNode) -> NDArray[np.float64]:
        """Return Faith's phylogenetic diversity, [N]."""
        values = alpha_diversity(
            "faith_pd",
            table.counts.toarray(),
            table.sample_ids,
            validate=False,
            taxa=table.feature_ids,
            tree=tree,
        )
        return values.to_numpy(dtype=np.float64)
