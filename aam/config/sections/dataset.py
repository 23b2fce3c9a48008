"""Where a dataset comes from, and what is made of it before training: a section per stage."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from aam.config.metrics import MetricName
from aam.config.references import is_gene_reference, is_reference
from aam.config.sections.base import FilePath, Override, Section
from aam.config.settings.data import EngineName

WITH_THE_TABLE = ("sequences", "tree", "metadata", "taxonomy")
"""Files that go with a table."""


class Simulation(Section):
    """Settings of a simulated dataset."""

    samples: int = Field(160, ge=20, le=1_000_000)
    """Samples in the table, about five per host."""
    features: int = Field(800, ge=50, le=1_000_000)
    """ASVs at the tips of the simulated tree."""
    length_bp: int = Field(100, ge=40, le=10_000)
    """Length of every ASV in base pairs."""
    seed: int = 1
    """Seed of the simulation."""


class Dataset(Section):
    """One dataset: simulated, or files relative to `data_dir`."""

    simulate: Simulation | None = None
    """Simulate the data instead of reading files."""
    table: FilePath | None = None
    """Feature table: BIOM, text (TSV or CSV), a workbook (.xlsx) or .qza."""
    values: Literal["reads", "amounts"] | None = None
    """Whether the table holds reads, or amounts, whose samples are scaled to one; null: it is
    recognized."""
    sequences: FilePath | None = None
    """FASTA or .qza; only if feature IDs are not sequences."""
    tree: FilePath | Literal[False] | None = None
    """Newick, .qza, `v4`, the reference tree of the package, or what `aam reference list` names,
    such as `greengenes`. Null: `greengenes` if it is on this machine and fits, else `v4` where it
    fits, else MAFFT and FastTree make a tree; lineages do where there are no sequences. False:
    there is no tree, and Bray-Curtis stands where UniFrac does."""
    metadata: FilePath | None = None
    """Sample metadata in the QIIME 2 format."""
    taxonomy: FilePath | Literal[False] | None = None
    """Taxa of the features for figures and tables: .qza, TSV, or a reference of whole genes, such
    as `greengenes`, whose genes name the sequences. Null: `greengenes` if it is on this machine.
    False: there are no names."""
    study: str | None = None
    """Metadata column with the study of each sample, for `models.<m>.pretrained_on`."""
    rarefaction: Override = {}
    """Overrides `rarefaction` for this dataset."""
    tokens: Override = {}
    """Overrides `tokens` for this dataset."""
    unifrac: Override = {}
    """Overrides `unifrac` for this dataset."""
    augmentation: Override = {}
    """Overrides `augmentation` for this dataset."""
    pretraining: Override = {}
    """Overrides `pretraining` for this dataset."""

    @property
    def reference(self) -> str | None:
        """Name of the reference that stands for the tree; None: a file does, or none is named."""
        return self.tree if self.tree and is_reference(self.tree) else None

    @property
    def naming_reference(self) -> str | None:
        """Name of the reference that stands for the taxonomy; None: none is named."""
        return self.taxonomy if self.taxonomy and is_gene_reference(self.taxonomy) else None

    @property
    def has_tree(self) -> bool:
        """Whether features have places in a tree."""
        return self.tree is not False

    @property
    def is_counted(self) -> bool:
        """Whether the table holds reads, as far as the configuration says.

        Amounts that a run recognizes by the numbers of a table are not known here.
        """
        return self.values != "amounts"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.simulate is None) == (self.table is None):
            raise ValueError("give either `simulate` or `table`, not both and not neither")
        given = [name for name in WITH_THE_TABLE if getattr(self, name)]
        if self.simulate is not None and given:
            raise ValueError(
                f"got {', '.join(f'`{name}`' for name in given)} with `simulate`; expected "
                "no file: a simulated study brings its own"
            )
        return self


class Rarefaction(Section):
    """Random draws of the same number of reads from every sample, without replacement."""

    depth: int = Field(1000, ge=1, le=10_000_000)
    """Reads drawn from each sample; samples with fewer are dropped and listed."""
    views: int = Field(1, ge=1, le=1000)
    """Independent draws."""
    seed: int = 42
    """Seed of the draws."""
    long_branches: Literal["keep", "drop"] = "keep"
    """What happens to ASVs on extremely long branches, mostly artefacts."""


class Tokens(Section):
    """The token cache."""

    max_length_bp: int = Field(150, ge=8, le=10_000)
    """Longer sequences are cut to this length."""


class Unifrac(Section):
    """Distances between samples, with and without the tree, and Faith's phylogenetic diversity."""

    metrics: list[MetricName] = Field(["unweighted"], min_length=1)
    """Metrics to compute; `pretraining.distances` names those to learn."""
    engine: EngineName = "auto"
    """auto: the Python package `unifrac`, else the programs `ssu` and `faithpd`, else scikit-bio;
    beyond 10,922 samples blocks of this package, and the programs first for generalized UniFrac
    and Faith's PD. products: these blocks for all but these two, otherwise as auto."""
    partitions: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000)] = "auto"
    """Jobs of `ssu` or `products` that compute a matrix together; auto: one."""
    alpha: float = Field(0.5, ge=0, le=1)
    """Exponent of generalized UniFrac."""

    @field_validator("partitions", mode="before")
    @classmethod
    def _auto_or_a_count(cls, value: Any) -> Any:
        # Pydantic itself would print one message per member of the union.
        if value != "auto" and not (str(value).isdecimal() and int(value) >= 1):
            raise ValueError(f"got {value!r}; expected 'auto' or a whole number of at least 1")
        return value

    @model_validator(mode="after")
    def _divisible_among_jobs(self) -> Self:
        if self.engine not in ("auto", "ssu", "products") and self.partitions not in ("auto", 1):
            raise ValueError(
                f"got {self.partitions} `partitions` with the engine {self.engine}; "
                "expected 'auto': only ssu and products divide their work among jobs"
            )
        return self


class AugmentationSettings(Section):
    """Additional rows of the sample store, made once."""

    asv_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of the ASVs left out in an additional row per sample and view; 0: no such rows."""
    cutmix: float = Field(0.0, ge=0, le=1000)
    """Rows mixed from two samples, per sample and view."""
