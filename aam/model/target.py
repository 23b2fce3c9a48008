"""Targets between the words of the metadata and the numbers of a model.

Letters: N samples, C outputs: 1 for a number, else one per class.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Target:
    """How a column was turned into numbers, and how to turn outputs back.

    Attributes
    ----------
    kind
        ``regression`` or ``classification``.
    column
        The metadata column.
    classes
        Classes in the order of the outputs; empty for a number.
    mean, deviation
        Of the training samples' numbers; 0 and 1 for classes.
    """

    kind: str
    column: str
    classes: tuple[str, ...]
    mean: float
    deviation: float

    @classmethod
    def fit(
        cls, kind: str, column: str, observed: Sequence[str], is_training: NDArray[np.bool_]
    ) -> "Target":
        """Learn the scale from the training samples; the classes are those of all samples."""
        if kind == "classification":
            return cls(kind, column, tuple(sorted(set(observed))), 0.0, 1.0)
        numbers = np.array(observed, np.float64)[is_training]
        return cls(kind, column, (), float(numbers.mean()), max(float(numbers.std()), 1e-9))

    @property
    def outputs(self) -> int:
        """Number C of outputs."""
        return len(self.classes) or 1

    def encode(self, observed: Sequence[str]) -> NDArray[np.float32]:
        """Return standardized numbers [N, 1] or class shares [N, C]."""
        if self.classes:
            place = {name: number for number, name in enumerate(self.classes)}
            return np.eye(len(self.classes), dtype=np.float32)[[place[name] for name in observed]]
        numbers = (np.array(observed, np.float64) - self.mean) / self.deviation
        return numbers.astype(np.float32)[:, None]

    def decode(self, output_NC: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return numbers [N, 1] in the column's unit, or class probabilities [N, C]."""
        output = output_NC.astype(np.float64)
        if not self.classes:
            return output * self.deviation + self.mean
        weights = np.exp(output - output.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def plain(self) -> dict[str, Any]:
        """Return plain types for `config.json`."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Target":
        """Rebuild what `plain` returned."""
        return cls(**{**plain, "classes": tuple(plain["classes"])})
