"""The files that a pretraining reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PretrainInputs:
    """Files that one encoder, or one per fold of a task, is pretrained from."""

    tokens: Path
    """Arrow file of the tokens of all ASVs."""
    samples: Path
    """Arrow file of the samples."""
    distances: Sequence[Path] | None = None
    """Parquet files of the distances to learn: metric by metric, in the order of the settings, and
    within a metric view by view. None: they are computed in the batch."""
    tree: Path | None = None
    """Newick file with a tip for every ASV, for distances that are computed in the batch."""
    metadata: Path | None = None
    """Parquet file of the imported metadata, which names the study of each sample."""
    sequences: Path | None = None
    """FASTA file with the whole sequences, for a start from another model."""
    start: Sequence[Path] | None = None
    """Files of the model that training starts from: `config.json` and `model.safetensors` of its
    folder, or the folder and the file that stands for it."""

    @classmethod
    def read(cls, files: Mapping[str, Any]) -> "PretrainInputs":
        """Return the files of a mapping by name, which may have others, too.

        Parameters
        ----------
        files
            Paths, or lists of paths, by the names of the fields; the paths may be text.
        """
        return cls(
            **{
                field.name: _as_paths(files[field.name])
                for field in fields(cls)
                if files.get(field.name) is not None
            }
        )

    def named(self) -> dict[str, Any]:
        """Return the files that there are, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def _as_paths(value: Any) -> Any:
    return [Path(item) for item in value] if isinstance(value, list) else Path(value)
