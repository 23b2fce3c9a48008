"""Intervals of other tables, learned from what a directory keeps of its cross-validation."""

import logging
from pathlib import Path

from aam.data.target import QUANTILES, Target
from aam.evaluate.conformal import Calibration
from aam.evaluate.predictions import (
    CROSS_VALIDATION,
    PROBABILITY,
    QUANTILE,
    by_target,
    read_predictions,
)
from aam.inference.bundle import MIXED
from aam.util.errors import problem

logger = logging.getLogger(__name__)
QUANTILE_COLUMNS = tuple(f"{QUANTILE}{level:g}" for level in QUANTILES)


def load_calibration(
    directory: Path, target: Target, *, quantiles: bool = True
) -> Calibration | None:
    """Learn intervals from the cross-validated predictions of a fine-tuned model directory.

    Without their file there is a warning, and None. A mixture has no `quantiles`.

    Raises
    ------
    InputError
        When the predictions are damaged, or not of `target`.
    """
    path = directory / CROSS_VALIDATION
    if not path.exists():
        logger.warning("%s is missing: intervals are left out", path)
        return None
    wanted = "the predictions of these models"
    try:
        table = read_predictions(path)
    except (KeyError, ValueError) as error:
        hint = "copy the model directory again"
        raise problem(path, f"no such table ({error})", wanted, hint) from error
    expected = {"fold", "observed", "predicted", *(PROBABILITY + name for name in target.classes)}
    expected |= set(QUANTILE_COLUMNS if quantiles and target.loss == "quantile" else ())
    targets = set(target.columns) if len(target.columns) > 1 else {""}
    if not expected <= set(table) or set(by_target(table)) != targets:
        raise problem(path, "those of another task", wanted, MIXED)
    return Calibration.fit(table)
