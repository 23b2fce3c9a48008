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
    is_constant: bool = False
    """Predicts the same for every sample, and so is what guessing means."""
    needs_distances: bool = False
    """Looks at distances between samples."""


BASELINES = {
    "median": BaselineFacts("training median", targets="numbers", is_constant=True),
    "majority": BaselineFacts("majority class", targets="classes", is_constant=True),
    "random_forest": BaselineFacts("random forest"),
    "random_forest_median": BaselineFacts("forest, leaf median", targets="numbers"),
    "extra_trees": BaselineFacts("extra trees"),
    "gradient_boosting": BaselineFacts("gradient boosting"),
    "elastic_net": BaselineFacts("elastic net on CLR"),
    "svm_clr": BaselineFacts("SVM on CLR"),
    "svm_clades": BaselineFacts("SVM on clades"),
    "svm_unifrac": BaselineFacts("SVM on UniFrac", needs_distances=True),
    "knn_unifrac": BaselineFacts("kNN on UniFrac", needs_distances=True),
}
"""Every baseline by its name in the configuration and in tables, in the order of the tables."""
CONSTANTS = tuple(name for name, facts in BASELINES.items() if facts.is_constant)
"""Baselines that look at no feature: they are neither mixed nor tested against."""
NEED_DISTANCES = frozenset(name for name, facts in BASELINES.items() if facts.needs_distances)
"""Baselines that look at distances between samples."""

if TYPE_CHECKING:
    BaselineName = str
else:
    BaselineName = Literal[tuple(name for name in BASELINES if name not in CONSTANTS)]
