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
    """Return which samples have a part in a pretraining, and which of these are held out.

    Those `without` have none, nor those of other studies than the model is pretrained on.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    is_in = np.array([name not in without for name in sample_ids])
    is_in &= _is_in_studies(cfg, inputs, sample_ids)
    is_held_out = np.zeros_like(is_in)
    names = [*compress(sample_ids, is_in)]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
    return is_in, is_held_out


def held_out(sample_ids: Sequence[str], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which samples are held out, bool [N]: those of the smallest digests of (seed, ID).

    Fewer than four samples are an InputError.
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
    column, wanted = cfg["studies"]["column"], cfg["studies"]["pretrained_on"]
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
