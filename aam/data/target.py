"""Targets between the words of the metadata and the numbers of a model.

Shape suffixes: N samples, L labelled, C columns, K classes, Q quantiles, E = C or K, O outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri, softmax

from aam.config.losses import LOSSES
from aam.data.predictions import class_order

KNOTS = 1000
"""Most values that a quantile transform keeps."""
LEAST_SPREAD = 1e-9
"""Spread, as a fraction of the largest number, that rounding alone makes of equal numbers."""
LARGEST_LOG = 700.0
"""Beyond it the exponential is no finite number."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels that the quantile loss predicts; the point prediction is the median."""
MEDIAN = QUANTILES.index(0.5)
Rows = Sequence[Sequence[str]] | NDArray[np.object_]
"""Values as the metadata have them, [N, C]."""
Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class Scale:
    """An invertible change of a number, fitted on training samples."""

    transform: str
    """``none``; ``zscore``: (x - center) / spread; ``log``, ``log_zscore``: the same of log(1 + x);
    ``quantile``: the normal deviate of the rank."""
    center: float = 0.0
    spread: float = 1.0
    """0 of equal numbers: differences to the center are trained on, the center comes back."""
    knots: tuple[float, ...] = ()
    """Some training numbers, ascending, for ``quantile`` alone; it is linear between them."""
    scores: tuple[float, ...] = ()
    """The normal deviate of each knot."""

    @classmethod
    def fit(cls, transform: str, number_L: NDArray[np.float64]) -> "Scale":
        """Learn a scale from numbers.

        Parameters
        ----------
        transform
            One of the values of `Scale.transform`.
        number_L
            Numbers of the training samples; for ``log`` and ``log_zscore`` all are above -1.
        """
        if transform == "quantile":
            # Normal scores are standard normal by construction: center and spread stay 0 and 1.
            return cls(transform, 0.0, 1.0, *_normal_scores(number_L))
        value_L = np.log1p(number_L) if transform.startswith("log") else number_L
        if transform not in ("zscore", "log_zscore"):
            return cls(transform)
        center = value_L.mean()
        spread = value_L.std()
        # Divided by such a spread, rounding errors would become targets of size 1.
        is_rounding = spread <= LEAST_SPREAD * np.abs(value_L).max()
        return cls(transform, float(center), 0.0 if is_rounding else float(spread))

    @property
    def is_constant(self) -> bool:
        """Whether a z-score or a quantile transform was fitted to equal numbers."""
        return len(self.knots) == 1 or self.spread == 0

    def forward(self, number: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a model is trained on.

        Parameters
        ----------
        number
            Numbers in the column's unit, of any shape.

        Returns
        -------
        numpy.ndarray
            Transformed numbers in the same shape, without a unit.
        """
        if self.knots:
            return np.interp(number, self.knots, self.scores)
        value = np.log1p(number) if self.transform.startswith("log") else number
        return (value - self.center) / (self.spread or 1.0)

    def back(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers in the column's unit.

        Parameters
        ----------
        value
            Transformed numbers, as `forward` returns them, of any shape.

        Returns
        -------
        numpy.ndarray
            Numbers in the same shape; with ``quantile`` they lie inside of the training range.
        """
        if self.knots:
            # Rounding can carry an interpolated number just past its two knots.
            return np.interp(value, self.scores, self.knots).clip(self.knots[0], self.knots[-1])
        value = value * self.spread + self.center
        if self.transform.startswith("log"):
            return np.expm1(np.minimum(value, LARGEST_LOG))
        return value


def _normal_scores(number_L: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return some of the numbers, ascending, and the normal deviate of the rank of each."""
    ordered_L = np.sort(number_L)
    chosen = np.linspace(0, len(ordered_L) - 1, min(len(ordered_L), KNOTS)).round()
    knots = np.unique(ordered_L[chosen.astype(np.int64)])
    # Equal numbers share the middle of their ranks.
    below = np.searchsorted(ordered_L, knots, "left")
    upto = np.searchsorted(ordered_L, knots, "right")
    scores = ndtri((below + upto) / (2 * len(ordered_L)))
    return tuple(knots.tolist()), tuple(scores.tolist())


CategoryScales = tuple[tuple[str, tuple[Scale, ...]], ...]


@dataclass(frozen=True)
class Target:
    """How columns were turned into numbers, and how to turn outputs back."""

    kind: str
    """``regression``, ``classification`` or ``ordinal``."""
    columns: tuple[str, ...]
    """The metadata columns; one but for numbers."""
    classes: tuple[str, ...]
    """In the order of the outputs, of an ordinal target the lowest first; empty for numbers."""
    loss: str
    """One of `LOSSES`."""
    scales: tuple[Scale, ...] = ()
    """Scale of each column over all training samples; empty for classes."""
    categories: CategoryScales = ()
    """Per category of the column that the scales depend on: its name, and a scale per column."""
    bounds: Bounds = (None, None)
    """Least and largest number that is predicted, None where there is no bound."""
    shares: tuple[float, ...] = ()
    """Fraction of each class among the training samples; empty for numbers."""
    class_weights: tuple[float, ...] = ()
    """Weight of each class in the loss; empty: all alike."""

    @classmethod
    def fit(
        cls,
        kind: str,
        columns: Sequence[str],
        observed_LC: Rows,
        is_training: NDArray[np.bool_],
        *,
        loss: str | None = None,
        transform: str = "zscore",
        by: Sequence[str] | None = None,
        bounds: Bounds = (None, None),
        classes: Sequence[str] | None = None,
        class_weights: bool = False,
    ) -> "Target":
        """Learn scales and class weights from the training samples.

        Parameters
        ----------
        kind
            ``regression``, ``classification`` or ``ordinal``.
        columns
            The metadata columns to predict.
        observed_LC
            Values of the labelled samples, as the metadata have them.
        is_training
            Which labelled samples are learned from, [L].
        loss
            One of `LOSSES` for the kind; None: the first of them.
        transform
            How numbers are trained, a value of `Scale.transform`.
        by
            Category of each sample, [L], each with a scale of its own. Empty ones, and those whose
            training numbers are all the same, take the scale over all. None: one scale for all.
        bounds
            Least and largest number that is predicted.
        classes
            Classes in the order of the outputs; None: those of all labelled samples, in the
            order of `aam.data.predictions.class_order`.
        class_weights
            Whether classes are weighted in the loss, by n / (K n_k) over the training samples. A
            class without any has weight 0 and does not count in K.
        """
        common: dict[str, Any] = {
            "kind": kind,
            "columns": tuple(columns),
            "loss": loss or LOSSES[kind][0],
        }
        if kind == "regression":
            number_LC = _numbers(columns, observed_LC, transform)
            scales, categories = _fitted(transform, number_LC, is_training, by)
            return cls(**common, classes=(), scales=scales, categories=categories, bounds=bounds)
        words = [row[0] for row in observed_LC]
        names = tuple(class_order(words) if classes is None else classes)
        number_L = np.array([names.index(word) for word in words])[is_training]
        count_K = np.bincount(number_L, minlength=len(names))
        # The maximum only avoids a division by 0: weights of absent classes are set to 0 below.
        weights = len(number_L) / (np.count_nonzero(count_K) * np.maximum(count_K, 1))
        return cls(
            **common,
            classes=names,
            shares=tuple((count_K / len(number_L)).tolist()),
            class_weights=tuple((weights * (count_K > 0)).tolist()) if class_weights else (),
        )

    @property
    def outputs(self) -> int:
        """Number O of raw outputs of a model."""
        if self.loss == "ordinal":
            return len(self.classes) - 1
        return self.encoded * (len(QUANTILES) if self.loss == "quantile" else 1)

    @property
    def encoded(self) -> int:
        """Number E of encoded values."""
        return len(self.classes) or len(self.columns)

    def encode(self, observed_NC: Rows, by: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Return the values that a model is trained on.

        Parameters
        ----------
        observed_NC
            Values as the metadata have them.
        by
            Category of each sample, [N]; None: unknown.

        Returns
        -------
        numpy.ndarray
            Transformed numbers, float32 [N, C], or class probabilities of 0 and 1, float32 [N, K].
        """
        if self.classes:
            eye_KK = np.eye(len(self.classes), dtype=np.float32)
            return eye_KK[[self.classes.index(row[0]) for row in observed_NC]]
        number_NC = _numbers(self.columns, observed_NC, self.scales[0].transform)
        return self._by_category(number_NC, by, Scale.forward).astype(np.float32)

    def decode(
        self, output_NO: NDArray[np.floating], by: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """Return predictions in the units of the metadata, or class probabilities.

        Parameters
        ----------
        output_NO
            Raw outputs of a model.
        by
            Category of each sample, [N]; None: unknown.

        Returns
        -------
        numpy.ndarray
            Numbers in the columns' units, float64 [N, C], or class probabilities, float64 [N, K].
        """
        if self.loss == "quantile":
            return self.decode_quantiles(output_NO, by)[..., MEDIAN]
        output = output_NO.astype(np.float64)
        if self.loss == "ordinal":
            # Thresholds are ordered, so that this minimum changes rounding errors alone.
            above_NT = np.minimum.accumulate(expit(output), axis=1)
            return -np.diff(above_NT, axis=1, prepend=1.0, append=0.0)
        if self.classes:
            return softmax(output, axis=1)
        return self._bounded(self._by_category(output, by, Scale.back))

    def decode_quantiles(
        self, output_NO: NDArray[np.floating], by: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """Return predicted quantiles in the columns' units.

        Parameters
        ----------
        output_NO
            Raw outputs of a model that was trained with the quantile loss.
        by
            Category of each sample, [N]; None: unknown.

        Returns
        -------
        numpy.ndarray
            The quantiles of `QUANTILES`, ascending, float64 [N, C, Q].
        """
        assert self.loss == "quantile", self.loss
        output = output_NO.astype(np.float64).reshape(-1, len(self.columns), len(QUANTILES))
        # The loss sorts the quantiles, too, so that a model may learn them in any order.
        return self._bounded(self._by_category(np.sort(output, axis=-1), by, Scale.back))

    def _bounded(self, number: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self.bounds
        return np.clip(number, -np.inf if low is None else low, np.inf if high is None else high)

    def _by_category(
        self,
        value_NC: NDArray[np.float64],
        by: Sequence[str] | None,
        change: Callable[[Scale, NDArray[np.float64]], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Return values [N, C, ...] changed by the scale of their column and category."""
        category_N = np.full(len(value_NC), "") if by is None else np.array(by, np.str_)
        scales_of = dict(self.categories)
        out_NC = np.empty_like(value_NC)
        for name in np.unique(category_N):
            rows = category_N == name
            for column, scale in enumerate(scales_of.get(str(name), self.scales)):
                out_NC[rows, column] = change(scale, value_NC[rows, column])
        return out_NC


def _numbers(columns: Sequence[str], observed_NC: Rows, transform: str) -> NDArray[np.float64]:
    number_NC = np.array(observed_NC, np.float64).reshape(len(observed_NC), len(columns))
    # The folds of a task hold no others: see `aam.data.target_columns.require_logarithms`.
    assert not transform.startswith("log") or (number_NC > -1).all(), f"{transform} of {columns}"
    return number_NC


def _fitted(
    transform: str,
    number_LC: NDArray[np.float64],
    is_training: NDArray[np.bool_],
    by: Sequence[str] | None,
) -> tuple[tuple[Scale, ...], CategoryScales]:
    """Return the scales over all training samples, and those of each category."""
    overall = tuple(Scale.fit(transform, number_L) for number_L in number_LC[is_training].T)
    if by is None:
        return overall, ()
    category_L = np.array(by, np.str_)
    categories = []
    for name in np.unique(category_L[is_training & (category_L != "")]):
        rows = is_training & (category_L == name)
        fitted = [Scale.fit(transform, number_L) for number_L in number_LC[rows].T]
        pairs = zip(fitted, overall, strict=True)
        scales = tuple(common if scale.is_constant else scale for scale, common in pairs)
        categories.append((str(name), scales))
    return overall, tuple(categories)
