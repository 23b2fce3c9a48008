"""The files that a fine-tuning reads."""

from dataclasses import dataclass
from pathlib import Path

from aam.tasks.input_files import InputFiles


@dataclass(frozen=True)
class FinetuneInputs(InputFiles):
    """Files that the models of one task are trained from."""

    tokens: Path
    """Arrow file of the tokens of all ASVs."""
    samples: Path
    """Arrow file of the samples."""
    folds: Path
    """TSV file of the folds of the task."""
    table: Path
    """BIOM file of the reads before rarefaction, by which training samples are recognized later."""
    model: Path | None = None
    """Folder of a pretrained model, or of one per fold where the evaluation is inductive. None:
    encoders start from scratch."""
    asvs: Path | None = None
    """File of ASV embeddings, for an encoder that pretraining left as it is."""
