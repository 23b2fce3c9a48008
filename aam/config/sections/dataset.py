"""Where a dataset comes from."""

from typing import Self

from pydantic import Field, model_validator

from aam.config.references import REFERENCES
from aam.config.sections.base import FilePath, Override, Section

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
    """Feature table of raw counts: BIOM 2.1, BIOM 1.0, TSV or .qza."""
    sequences: FilePath | None = None
    """FASTA or .qza; only if feature IDs are not sequences."""
    tree: FilePath | None = None
    """Newick, .qza, or `v4`, the reference tree of the package. Null: `v4` where it fits, otherwise
    MAFFT and FastTree make a tree."""
    metadata: FilePath | None = None
    """Sample metadata in the QIIME 2 format."""
    taxonomy: FilePath | None = None
    """Taxa of the features for figures and tables: .qza or TSV."""
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
        return self.tree if self.tree in REFERENCES else None

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
