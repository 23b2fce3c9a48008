"""Invertible changes of a number, fitted on training samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

KNOTS = 1000
"""Most values that a quantile transform keeps."""
LEAST_SPREAD = 1e-9
"""Spread, as a fraction of the largest number, that rounding alone makes of equal numbers."""
LARGEST_LOG = 700.0
"""Beyond it the exponential is no finite number."""


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
            return cls(transform, 0.0, 1.0, *_normal_scores(number_L))
        value_L = np.log1p(number_L) if transform.startswith("log") else number_L
        if transform not in ("zscore", "log_zscore"):
            return cls(transform)
        center = value_L.mean()
        spread = value_L.std()
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
