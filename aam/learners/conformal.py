"""Prediction intervals, sets of classes, and probabilities, calibrated on the other folds.

What is predicted in fold k is calibrated on the cross-validated predictions of all other folds, as
in cross-conformal prediction (Vovk, V. 2015, doi:10.1007/s10472-013-9368-4); held-out test samples
and other tables on those of all folds. The models behind the predictions for other folds were
trained on this fold, so calibrated scores and coverage can be slightly too good.

Shape suffixes: N samples, C classes.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aam.data.predictions import (
    CROSS_VALIDATION,
    GROUP,
    PROBABILITY,
    QUANTILE,
    TARGET,
    by_target,
    class_codes,
    class_names,
    class_probabilities,
    join_classes,
    numbers,
    read_predictions,
)
from aam.data.target import QUANTILES, Bounds, Target
from aam.learners.recalibration import Recalibration, class_frequencies
from aam.util.errors import problem

logger = logging.getLogger(__name__)

LEVEL = 0.9
"""Fraction of the samples that an interval is to cover."""
QUANTILE_COLUMNS = tuple(f"{QUANTILE}{level:g}" for level in QUANTILES)
"""Columns of all predicted quantiles."""
LOWER_QUANTILE = f"{QUANTILE}{(1 - LEVEL) / 2:g}"
UPPER_QUANTILE = f"{QUANTILE}{(1 + LEVEL) / 2:g}"
"""Columns of the predicted quantiles that bound an interval."""

Method = Literal["residual", "quantile", "set"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """What turns predictions into intervals, learned from cross-validated predictions.

    Attributes
    ----------
    method
        - ``residual``: intervals reach equally far to both sides of each prediction.
        - ``quantile``: intervals lie between predicted quantiles that are moved (Romano et al.
          2019, arXiv:1905.03222).
        - ``set``: sets hold the classes of enough calibrated probability (Sadinle et al. 2019,
          doi:10.1080/01621459.2017.1395341), and always the likeliest.
    thresholds
        By target ("" where there is one): the half-width, what the quantiles are moved by, or the
        largest 1 - probability; inf where there are too few samples for the level.
    recalibration
        What calibrates probabilities; None where numbers are predicted.
    """

    method: Method
    thresholds: Mapping[str, float]
    recalibration: Recalibration | None = None

    @property
    def has_learned_nothing(self) -> bool:
        """Whether calibrated probabilities of classes are the same for every sample."""
        return self.recalibration is not None and self.recalibration.slope == 0

    @classmethod
    def fit(cls, predictions: pd.DataFrame) -> "Calibration":
        """Learn intervals, or sets and probabilities, from cross-validated predictions.

        Parameters
        ----------
        predictions
            What `read_predictions` returned; rows of fold 0 and above are used.

        Returns
        -------
        Calibration
            Its method follows from the columns of the predictions.
        """
        scored = predictions[predictions["fold"] >= 0]
        method = _choose_method(predictions)
        recalibration = None
        if method == "set":
            recalibration = fit_recalibration(scored, class_names(predictions))
            scored = _recalibrate(scored, recalibration)
        thresholds = {
            target: finite_sample_quantile(_nonconformity(part, method), LEVEL)
            for target, part in by_target(scored).items()
        }
        return cls(method, thresholds, recalibration)

    def apply(
        self, frame: pd.DataFrame, target: str = "", bounds: Bounds = (None, None)
    ) -> pd.DataFrame:
        """Return predictions with intervals, or with sets of classes and calibrated probabilities.

        Parameters
        ----------
        frame
            Columns `predicted`, [`target`], [`probability:<class>`], [`quantile:<q>`].
        target
            Target of all rows if `frame` has no column `target`.
        bounds
            What intervals are cut at.

        Returns
        -------
        pandas.DataFrame
            Numbers have `lower` and `upper`, missing where the calibration had too few samples.
            Classes have calibrated probabilities; `likeliest`, the class of the highest of them;
            `prediction_set`, classes as `aam.data.predictions.join_classes` joins them.
            `predicted` stays what it was.
        """
        targets = frame[TARGET] if TARGET in frame else [target] * len(frame)
        threshold_N = np.array([self.thresholds.get(name, math.inf) for name in targets])
        if self.recalibration is not None:
            frame = _recalibrate(frame, self.recalibration)
        if self.method == "set":
            return _add_sets(frame, threshold_N)
        return _add_intervals(frame, self.method, threshold_N, bounds)


def _choose_method(predictions: pd.DataFrame) -> Method:
    """Return what suits predictions with these columns; see `Calibration.method`."""
    if class_names(predictions):
        return "set"
    if {LOWER_QUANTILE, UPPER_QUANTILE} <= set(predictions.columns):
        return "quantile"
    return "residual"


def cross_intervals(predictions: pd.DataFrame, bounds: Bounds = (None, None)) -> pd.DataFrame:
    """Return predictions with intervals, each fold calibrated on the other folds 0 and above.

    Parameters
    ----------
    predictions
        Cross-validated predictions of a method, of one target or several.
    bounds
        Least and largest number that is predicted; intervals are cut there.

    Returns
    -------
    pandas.DataFrame
        The same rows with the columns that `Calibration.apply` adds.
    """
    parts = []
    thresholds: list[float] = []
    for number in np.unique(predictions["fold"]):
        is_in_fold = predictions["fold"] == number
        calibration = Calibration.fit(predictions[~is_in_fold])
        thresholds.extend(calibration.thresholds.values())
        parts.append(calibration.apply(predictions[is_in_fold], bounds=bounds))
    _warn_of_few(thresholds)
    return pd.concat(parts).loc[predictions.index]


def finite_sample_quantile(scores: ArrayLike, level: float) -> float:
    """Return the ceil((n + 1) * level)-th smallest of n scores.

    With this quantile as the threshold, split conformal prediction covers at least a fraction
    `level` of exchangeable samples (Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a
    Random World).

    Parameters
    ----------
    scores
        Nonconformity of each sample, [n].
    level
        Fraction to cover.

    Returns
    -------
    float
        inf where there are too few scores for the level.
    """
    values = np.asarray(scores, dtype=np.float64)
    # A product such as 10 * 0.7 may lie a rounding above the whole number it is.
    rank = math.ceil((len(values) + 1) * level - 1e-9)
    if rank > len(values):
        return math.inf
    return float(np.partition(values, rank - 1)[rank - 1])


def fit_recalibration(predictions: pd.DataFrame, classes: list[str]) -> Recalibration:
    """Learn what calibrates the probabilities of a table.

    Parameters
    ----------
    predictions
        Predictions of one target, all rows of which are used. A column `group` says which samples
        belong together; without it every sample counts alone.
    classes
        Names of the classes.

    Returns
    -------
    Recalibration
        Fitted to all rows.
    """
    group = predictions[GROUP] if GROUP in predictions else predictions["sample-id"]
    return Recalibration.fit(
        observed=predictions["observed"],
        probabilities=class_probabilities(predictions, classes),
        classes=classes,
        group=group,
    )


def calibrated_probabilities(
    predictions: pd.DataFrame, classes: list[str]
) -> tuple[Floats, Floats]:
    """Return what probabilities and a constant become when both are learned on other folds.

    Parameters
    ----------
    predictions
        A table of one target, as `read_predictions` returns it, with or without `group`.
    classes
        Names of the classes, in the order of the columns that are returned.

    Returns
    -------
    tuple
        Calibrated probabilities [N, C], and frequencies of the classes [N, C]. Both rest on the
        rows of the other folds 0 and above. A single fold keeps its probabilities, and its
        constant is the same for all classes.
    """
    raw_NC = class_probabilities(predictions, classes)
    calibrated_NC = np.empty_like(raw_NC)
    constant_NC = np.empty_like(raw_NC)
    fold = predictions["fold"].to_numpy()
    for number in np.unique(fold):
        is_in_fold = fold == number
        others = predictions[~is_in_fold & (fold >= 0)]
        recalibration = fit_recalibration(others, classes)
        calibrated_NC[is_in_fold] = recalibration.apply(raw_NC[is_in_fold])
        constant_NC[is_in_fold] = class_frequencies(others["observed"], classes)
    return calibrated_NC, constant_NC


def _recalibrate(frame: pd.DataFrame, recalibration: Recalibration) -> pd.DataFrame:
    """Return a table with calibrated probabilities instead of those that the method predicts."""
    classes = class_names(frame)
    share_NC = recalibration.apply(class_probabilities(frame, classes))
    columns = [PROBABILITY + name for name in classes]
    return frame.assign(**dict(zip(columns, share_NC.T, strict=True)))


def _nonconformity(frame: pd.DataFrame, method: Method) -> Floats:
    """Return how badly each observation fits its prediction, [N]: the less, the better.

    A number that lies within its predicted quantiles has a negative score.
    """
    if method == "set":
        classes = class_names(frame)
        code_N = class_codes(frame["observed"], classes)
        share_NC = class_probabilities(frame, classes)
        return 1 - share_NC[np.arange(len(frame)), code_N]
    lower_N, upper_N = _uncalibrated_ends(frame, method)
    observed_N = numbers(frame["observed"])
    return np.maximum(lower_N - observed_N, observed_N - upper_N)


def _uncalibrated_ends(frame: pd.DataFrame, method: Method) -> tuple[Floats, Floats]:
    """Return the ends of intervals, [N] each, before the threshold moves them."""
    if method == "quantile":
        return numbers(frame[LOWER_QUANTILE]), numbers(frame[UPPER_QUANTILE])
    predicted_N = numbers(frame["predicted"])
    return predicted_N, predicted_N


def _add_sets(frame: pd.DataFrame, threshold_N: Floats) -> pd.DataFrame:
    """Return classes with `likeliest` and `prediction_set`, by calibrated probabilities."""
    classes = np.array(class_names(frame))
    share_NC = class_probabilities(frame, classes.tolist())
    likeliest_N = share_NC.argmax(axis=1)
    is_in_set_NC = 1 - share_NC <= threshold_N[:, None]
    # A set is never empty.
    is_in_set_NC[np.arange(len(frame)), likeliest_N] = True
    return frame.assign(
        likeliest=classes[likeliest_N],
        prediction_set=[join_classes(classes[is_in_set_C]) for is_in_set_C in is_in_set_NC],
    )


def _add_intervals(
    frame: pd.DataFrame, method: Method, threshold_N: Floats, bounds: Bounds
) -> pd.DataFrame:
    """Return numbers with `lower` and `upper`, NaN where the threshold is infinite."""
    lower_N, upper_N = _uncalibrated_ends(frame, method)
    reach_N = np.where(np.isfinite(threshold_N), threshold_N, np.nan)
    lower_N = lower_N - reach_N
    upper_N = upper_N + reach_N
    # Quantiles that are moved past each other leave one point.
    is_crossed_N = lower_N > upper_N
    middle_N = (lower_N + upper_N) / 2
    return frame.assign(
        lower=np.clip(np.where(is_crossed_N, middle_N, lower_N), *bounds),
        upper=np.clip(np.where(is_crossed_N, middle_N, upper_N), *bounds),
    )


def _warn_of_few(thresholds: Iterable[float]) -> None:
    """Warn where a threshold is infinite, so that intervals have no ends."""
    if any(math.isinf(threshold) for threshold in thresholds):
        logger.warning("too few samples in the other folds for intervals of %.0f %%", 100 * LEVEL)


def load_calibration(
    directory: Path, target: Target, *, quantiles: bool = True
) -> Calibration | None:
    """Learn intervals from the predictions of a model directory.

    Parameters
    ----------
    directory
        Directory of fine-tuned models, or of a super learner.
    target
        What its models predict.
    quantiles
        Whether predicted quantiles are expected where the loss has them; a mixture has none.

    Returns
    -------
    Calibration or None
        None where the directory has no cross-validated predictions, with a warning.

    Raises
    ------
    InputError
        The predictions are those of another task, or no such table.
    """
    path = directory / CROSS_VALIDATION
    if not path.exists():
        logger.warning("%s is missing: intervals are left out", path)
        return None
    expected = "the predictions of these models"
    hint = "copy the model directory again: folders of several may be mixed"
    try:
        table = read_predictions(path)
    except (KeyError, ValueError) as error:
        raise problem(path, f"no such table ({error})", expected, hint) from error
    if not _are_predictions_of(target, table, quantiles=quantiles):
        raise problem(path, "those of another task", expected, hint)
    calibration = Calibration.fit(table)
    _warn_of_few(calibration.thresholds.values())
    return calibration


def _are_predictions_of(target: Target, table: pd.DataFrame, *, quantiles: bool) -> bool:
    """Return whether a table has the columns and targets that predictions of a target have."""
    columns = {"fold", "observed", "predicted", *(PROBABILITY + name for name in target.classes)}
    if quantiles and target.loss == "quantile":
        columns |= set(QUANTILE_COLUMNS)
    targets = set(target.columns) if len(target.columns) > 1 else {""}
    return columns <= set(table) and set(by_target(table)) == targets
