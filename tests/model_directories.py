"""Model directories as fine-tuning writes them, of models that were never trained."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
from numpy.typing import NDArray

from aam.evaluate.predictions import CROSS_VALIDATION, write_predictions
from aam.inference.bundle import SHARES
from aam.inference.reference import write_reference
from aam.model.predictor import Predictor
from aam.model.store import REFERENCE, SEEN_ASVS
from aam.util.atomic import write_json
from aam.util.manifest import write_manifest


def write_models(
    folder: Path,
    predictors: Mapping[str, Predictor],
    asvs: Iterable[str],
    reference_ND: NDArray,
    predictions: pd.DataFrame | None = None,
) -> Path:
    """Write models of two views, by the names of their folders; return the directory."""
    about = {"rarefaction": {"depth": 60, "seed": 0, "views": 2}, "settings": {}}
    for name, predictor in predictors.items():
        predictor.save(folder / name, about)
    shares = [{"folder": name, "weight": 0.5, "temperature": 1.0} for name in predictors]
    write_json(folder / SHARES, {"models": shares})
    (folder / SEEN_ASVS).write_text("".join(f"{asv}\n" for asv in asvs))
    write_reference(folder / REFERENCE, reference_ND)
    if predictions is not None:
        write_predictions(folder / CROSS_VALIDATION, predictions)
    write_manifest(folder)
    return folder
