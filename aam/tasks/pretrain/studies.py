"""Which samples a pretraining learns from, and which it is validated on."""

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aam.config.sections.training import Pretraining
from aam.data.metadata import metadata_column, read_metadata
from aam.util.errors import first_names, problem
from aam.util.seeds import seed_of


def divided(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    sample_ids: Sequence[str],
    without: Collection[str],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Divide the samples into those of training and those of validation.

    Samples of other studies than the model is pretrained on have no part in it.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.pretrain`.
    inputs
        Files by name.
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
    settings = Pretraining.model_validate(cfg["pretraining"])
    is_in = np.array([name not in without for name in sample_ids])
    is_in &= _is_in_studies(cfg, inputs, sample_ids)
    is_held_out = np.zeros_like(is_in)
    names = [*compress(sample_ids, is_in)]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
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
    cfg: Mapping[str, Any], inputs: Mapping[str, Any], sample_ids: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which samples belong to the studies that a model is pretrained on."""
    if "studies" not in cfg:
        return np.ones(len(sample_ids), bool)
    column = cfg["studies"]["column"]
    wanted = cfg["studies"]["pretrained_on"]
    metadata = read_metadata(inputs["metadata"]).loc[list(sample_ids)]
    study = metadata_column(metadata, column)
    if unknown := sorted({*wanted} - {*study.dropna()}):
        raise problem(
            "models.<model>.pretrained_on",
            f"studies without samples: {first_names(unknown)}",
            f"values of column {column}: {first_names(sorted(study.dropna().unique()))}",
            "correct the names, or lower rarefaction.depth",
        )
    return study.isin(wanted).to_numpy(bool)
