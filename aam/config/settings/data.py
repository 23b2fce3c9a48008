"""What the stages before training get of the configuration.

Importing and rarefying import this module: it holds nothing that training needs, since their
results would be stale with it.
"""

from typing import Literal

from aam.config.sections.base import StageSettings


class SimulateSettings(StageSettings):
    """A simulated dataset."""

    samples: int
    """Samples of the study."""
    features: int
    """ASVs at the tips of the tree."""
    length_bp: int
    """Length of every ASV in base pairs."""
    seed: int
    """Seed of everything that is drawn."""
    hosts: int
    """Hosts that the samples are of."""
    newcomers: int
    """Samples of a second study, with ASVs that the first one lacks."""


class ImportTableSettings(StageSettings):
    """How a table is read."""

    values: Literal["reads", "amounts"] | None = None
    """What its numbers are; None: it is recognized."""


class ImportTreeSettings(StageSettings):
    """What stands for a tree where the user has none."""

    reference: str | None = None
    """Name of the reference; None: the user's file, or the first of `digests` that suits."""
    digests: dict[str, str] = {}
    """Digests of the references that can be taken, by their names, in the order of the trials."""


class FindGenesSettings(StageSettings):
    """Genes that sequences are looked for in."""

    reference: str
    """Name of the reference of whole genes."""
    digest: str
    """Digest of its file."""


class ImportTaxonomySettings(StageSettings):
    """What names the features."""

    reference: str | None = None
    """Name of the reference of whole genes that has names; None: there is none, or a file has."""
    is_asked: bool = False
    """Whether the user asks for it, so that lineages of the table have no part in it."""


class RarefySettings(StageSettings):
    """One draw of reads.

    The number of views is no part of it, so that more views leave the first ones fresh.
    """

    depth: int
    """Reads to draw from each sample."""
    seed: int
    """Seed of the draws."""
    view: int
    """Number of the draw, from 0."""


class TokenizeSettings(StageSettings):
    """The token cache."""

    max_length_bp: int
    """Longer sequences are cut to this length."""


EngineName = Literal["auto", "unifrac", "ssu", "products", "scikit-bio"]
"""The values of `unifrac.engine`."""


class UnifracSettings(StageSettings):
    """One metric of a table; the list of metrics is no part of it."""

    metric: str
    """A key of `aam.config.metrics.METRICS`."""
    engine: EngineName = "auto"
    """What computes it; auto also where there is no choice."""
    alpha: float | None = None
    """Exponent of generalized UniFrac, which alone has one."""
    checked_pairs: int
    """Pairs of samples that another engine computes again."""


class UnifracPartSettings(StageSettings):
    """The share of one of several jobs in a metric on the tree."""

    metric: str
    """A key of `aam.config.metrics.METRICS`."""
    engine: EngineName
    """What computes it."""
    alpha: float | None = None
    """Exponent of generalized UniFrac, which alone has one."""
    part: int
    """Number of the job, from 0."""
    parts: int
    """Number of jobs."""


class StoreSamplesSettings(StageSettings):
    """The augmented rows of the sample store."""

    asv_dropout: float
    """Fraction of the ASVs left out, in one more row per sample and view; 0: no such rows."""
    cutmix: float
    """Rows mixed of two samples, per sample and view."""
    seed: int
    """Seed of these rows."""
