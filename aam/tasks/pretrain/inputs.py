"""The files that a pretraining reads."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class PretrainInputs(BaseModel):
    """Files that one encoder, or one per fold of a task, is pretrained from.

    Other files among those of a rule are left out.
    """

    model_config = ConfigDict(frozen=True)

    tokens: Path
    """Arrow file of the tokens of all ASVs."""
    samples: Path
    """Arrow file of the samples."""
    distances: Sequence[Path] | None = None
    """Parquet files of the distances to learn: metric by metric, in the order of the settings, and
    within a metric view by view. None: they are computed in the batch."""
    tree: Path | None = None
    """Newick file with a tip for every ASV, for distances that are computed in the batch: all of
    them, or those of subsampled rows."""
    metadata: Path | None = None
    """Parquet file of the imported metadata, which names the study of each sample."""
    sequences: Path | None = None
    """FASTA file with the whole sequences, for a start from another model."""
    start: Sequence[Path] | None = None
    """Files of the model that training starts from: `config.json` and `model.safetensors` of its
    folder, or the folder and the file that stands for it."""
