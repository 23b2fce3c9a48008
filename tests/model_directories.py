"""Model directories as fine-tuning writes them, of models that were never trained."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import nn

from aam.data.predictions import CROSS_VALIDATION, write_predictions
from aam.data.table import FeatureTable
from aam.inference.bundle import SHARES
from aam.inference.reference import write_reference
from aam.model.asv_encoders import Architecture
from aam.model.encoder import build_encoder
from aam.model.heads import distance_head
from aam.model.known_asvs import KnownAsvs
from aam.model.predictor import Predictor
from aam.model.store import KNOWN_ASVS, REFERENCE, SEEN_ASVS, save_model
from aam.util.atomic import write_json
from aam.util.digests import write_manifest


def write_models(
    folder: Path,
    predictors: Mapping[str, Predictor],
    asvs: Iterable[str],
    reference_ND: NDArray,
    predictions: pd.DataFrame | None = None,
    reads: FeatureTable | None = None,
) -> Path:
    """Write models of two views, by the names of their folders; return the directory.

    `reads` are those of the training samples, whose features are `asvs` in this order; without any
    the training samples are other ones than a test has.
    """
    about = {"rarefaction": {"depth": 60, "seed": 0, "views": 2}, "settings": {}}
    for name, predictor in predictors.items():
        number = re.search(r"\d+", name)
        fold = 0 if number is None else int(number[0])
        predictor.save(folder / name, {**about, "fold": fold})
    shares = [{"folder": name, "weight": 0.5, "temperature": 1.0} for name in predictors]
    write_json(folder / SHARES, {"models": shares})
    sequences = list(asvs)
    (folder / SEEN_ASVS).write_text("".join(f"{asv}\n" for asv in sequences))
    known = reads or other_reads(len(reference_ND), sequences)
    write_reference(folder / REFERENCE, reference_ND, known, sequences, next(iter(predictors)))
    if predictions is not None:
        write_predictions(folder / CROSS_VALIDATION, predictions)
    write_manifest(folder)
    return folder


def write_pretrained(folder: Path, shape: Architecture, known: KnownAsvs | None = None) -> None:
    """Write the directory of a pretrained model, with the ASVs that it learned from, if any."""
    heads = nn.ModuleDict({"unweighted": distance_head(shape, "unweighted")})
    encoder = build_encoder(shape, seed=0, backend="auto")
    config = {"format": 2, "kind": "pretrained", "architecture": asdict(shape)}
    save_model(
        folder,
        nn.ModuleDict({"encoder": encoder, "distances": heads}),
        {**config, "distances": ["unweighted"]},
        {} if known is None else {KNOWN_ASVS: known.write},
    )


def other_reads(samples: int, feature_ids: list[str]) -> FeatureTable:
    """Return reads of samples that no other table has."""
    counts = csr_array(np.full((samples, len(feature_ids)), 10**6, np.int64))
    return FeatureTable([f"other {number}" for number in range(samples)], feature_ids, counts)
