"""The baselines of a task: what people call them, and what is true of each, whoever fits it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True)
class BaselineFacts:
    """What is true of a baseline."""

    label: str
    """What people read."""
    targets: Literal["numbers", "classes", "both"] = "both"
    """Targets that it can predict; ordered classes are classes."""
    default: Literal["numbers", "classes", "both"] | None = None
    """Targets that it predicts unless others are asked for."""
    is_constant: bool = False
    """Predicts the same for every sample, and so is what guessing means."""
    metric: str | None = None
    """Distances between samples that it looks at, a key of `aam.config.metrics.METRICS`."""
    tree: bool | None = None
    """Whether it needs a tree, or is for tables without one; None: it does not matter."""


BASELINES = {
    "median": BaselineFacts("training median", targets="numbers", is_constant=True),
    "majority": BaselineFacts("majority class", targets="classes", is_constant=True),
    "random_forest": BaselineFacts("random forest", default="classes"),
    "random_forest_median": BaselineFacts(
        "forest, leaf median", targets="numbers", default="numbers"
    ),
    "extra_trees": BaselineFacts("extra trees", default="both"),
    "kernel_clr": BaselineFacts("kernel on CLR", default="both"),
    "kernel_clades": BaselineFacts("kernel on clades", default="both", tree=True),
    "kernel_unifrac": BaselineFacts(
        "kernel on UniFrac", default="both", metric="unweighted", tree=True
    ),
    "kernel_bray_curtis": BaselineFacts(
        "kernel on Bray-Curtis", default="both", metric="bray_curtis", tree=False
    ),
    "gradient_boosting": BaselineFacts("gradient boosting"),
    "elastic_net": BaselineFacts("elastic net on CLR"),
    "knn_unifrac": BaselineFacts("kNN on UniFrac", metric="unweighted", tree=True),
    "knn_bray_curtis": BaselineFacts("kNN on Bray-Curtis", metric="bray_curtis", tree=False),
}
"""Every baseline by its name in the configuration and in tables, in the order of the tables."""
CONSTANTS = tuple(name for name, facts in BASELINES.items() if facts.is_constant)
"""Baselines that look at no feature: they are neither mixed nor tested against."""
NEED_DISTANCES = frozenset(name for name, facts in BASELINES.items() if facts.metric is not None)
"""Baselines that look at distances between samples."""
MOST_COMPARED = 10_000
"""Labelled samples beyond which methods that look at pairs of samples learn from some alone."""


def compared_metric(has_tree: bool) -> str:
    """Return the metric of the distances that baselines look at.

    Parameters
    ----------
    has_tree
        Whether the features of the table have places in a tree.
    """
    return "unweighted" if has_tree else "bray_curtis"


if TYPE_CHECKING:
    BaselineName = str
else:
    BaselineName = Literal[tuple(name for name in BASELINES if name not in CONSTANTS)]
