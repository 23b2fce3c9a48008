"""What a pretraining reads: its files, and which samples it learns from and is validated on."""

from collections.abc import Collection, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from aam.config.settings.training import PretrainSettings
from aam.data.metadata import metadata_column, read_metadata
from aam.util.errors import first_names, problem
from aam.util.seeds import seed_of


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


def divide_samples(
    settings: PretrainSettings,
    metadata: Path | None,
    sample_ids: Sequence[str],
    without: Collection[str],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Divide the samples into those of training and those of validation.

    Samples of other studies than the model is pretrained on have no part in it.

    Parameters
    ----------
    settings
        Which studies have a part, and the fraction and seed of the validation.
    metadata
        Parquet file of the imported metadata; None: the settings name no studies.
    sample_ids
        IDs of the N samples of the store.
    without
        IDs of samples that have no part in it.

    Returns
    -------
    is_in, is_held_out : numpy.ndarray
        Which samples have a part, and which of these are held out, bool [N].

    Raises
    ------
    InputError
        There are too few samples, or a study that is named has none.
    """
    training = settings.pretraining
    is_in = np.array([name not in without for name in sample_ids])
    if settings.studies is not None:
        assert metadata is not None, "the metadata name the study of each sample"
        column = settings.studies.column
        is_in &= _is_in_studies(metadata, column, settings.studies.pretrained_on, sample_ids)
    is_held_out = np.zeros_like(is_in)
    names = [*compress(sample_ids, is_in)]
    is_held_out[is_in] = held_out(names, training.held_out, training.seed)
    return is_in, is_held_out


def held_out(sample_ids: Sequence[str], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which samples are held out: those of the smallest digests of seed and ID.

    Parameters
    ----------
    sample_ids
        IDs of N samples.
    fraction
        Fraction that is held out; two samples at least are, and two are not.
    seed
        Seed of the choice.

    Returns
    -------
    numpy.ndarray
        bool, [N].

    Raises
    ------
    InputError
        There are fewer than four samples.
    """
    samples = len(sample_ids)
    if samples < 4:
        raise problem(
            "the feature table",
            f"{samples} samples after rarefaction",
            "at least 4, two to train on and two to hold out",
            "lower rarefaction.depth or add samples",
        )
    size = min(max(round(fraction * samples), 2), samples - 2)
    order = sorted(sample_ids, key=lambda name: (seed_of("held_out", seed, name), name))
    chosen = set(order[:size])
    return np.array([name in chosen for name in sample_ids])


def _is_in_studies(
    metadata: Path, column: str, wanted: Sequence[str], sample_ids: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which samples belong to the studies that a model is pretrained on."""
    table = read_metadata(metadata).loc[list(sample_ids)]
    study = metadata_column(table, column)
    if unknown := sorted({*wanted} - {*study.dropna()}):
        raise problem(
            "models.<model>.pretrained_on",
            f"studies without samples: {first_names(unknown)}",
            f"values of column {column}: {first_names(sorted(study.dropna().unique()))}",
            "correct the names, or lower rarefaction.depth",
        )
    return study.isin(wanted).to_numpy(bool)
