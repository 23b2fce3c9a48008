"""The metrics that pretraining can learn: distances between samples, and values of one sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

Parameters = Mapping[str, float]


@dataclass(frozen=True)
class MetricFacts:
    """What is true of a metric, whatever computes it."""

    label: str
    """What people read."""
    phylogenetic: bool = True
    """Needs the tree; else it is computed here, from counts."""
    has_engines: bool = True
    """If it needs the tree: all engines of `unifrac.engine` compute it, not scikit-bio alone or
    this package in its place."""
    per_sample: bool = False
    """A value of each sample, not a distance of each pair."""
    is_ratio: bool = False
    """Divides by the length of the branches that two samples have."""
    bounded: bool = True
    """At most 1."""
    parameters: tuple[str, ...] = ()
    """Keys of the section `unifrac` that it depends on."""

    def parameters_in(self, settings: Mapping[str, Any]) -> Parameters:
        """Return the parameters of the metric.

        Parameters
        ----------
        settings
            A slice of the configuration with the keys that `parameters` names.
        """
        return {name: settings[name] for name in self.parameters}


FAITH_PD = "faith_pd"
"""A value of every sample: its phylogenetic diversity."""
METRICS = {
    "unweighted": MetricFacts("unweighted UniFrac", is_ratio=True),
    "weighted_normalized": MetricFacts("weighted normalized UniFrac", is_ratio=True),
    "weighted_unnormalized": MetricFacts("weighted unnormalized UniFrac", bounded=False),
    "generalized": MetricFacts("generalized UniFrac", is_ratio=True, parameters=("alpha",)),
    "bray_curtis": MetricFacts("Bray-Curtis", phylogenetic=False),
    "robust_aitchison": MetricFacts("robust Aitchison", phylogenetic=False, bounded=False),
    FAITH_PD: MetricFacts("Faith's PD", per_sample=True, bounded=False),
}
"""Every metric by its name in the configuration and in the names of files."""
WITHOUT_TREE = tuple(name for name, facts in METRICS.items() if not facts.phylogenetic)
"""Metrics that need no tree."""

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(METRICS)]
