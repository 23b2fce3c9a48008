"""What is scored in the course of a training run, and when it has stopped getting better."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aam.config.sections.training import EarlyStoppingSettings as Settings


@dataclass
class EarlyStopping:
    """Follows a score of which higher is better.

    Patience starts again at a value more than `min_delta` above the one at which it last started:
    many small steps add up to an improvement. The best value is the highest.

    Attributes
    ----------
    settings
        Patience and `min_delta`; None: no value is the best, and nothing stops.
    best
        Highest value so far.
    reference
        Value at which patience last started.
    waited
        Validations since then.
    """

    settings: Settings | None
    best: float | None = None
    reference: float | None = None
    waited: int = 0

    def update(self, value: float) -> bool:
        """Take the next score; NaN counts as the worst.

        Parameters
        ----------
        value
            Score of a validation.

        Returns
        -------
        bool
            Whether the score is the best so far.
        """
        if self.settings is None:
            return False
        value = -math.inf if math.isnan(value) else float(value)
        if self.reference is None or value > self.reference + self.settings.min_delta:
            self.reference = value
            self.waited = 0
        else:
            self.waited += 1
        if self.best is not None and value <= self.best:
            return False
        self.best = value
        return True

    @property
    def should_stop(self) -> bool:
        """Whether `patience` validations in a row brought no improvement."""
        return self.settings is not None and self.waited >= self.settings.patience

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs, as plain types."""
        return {"best": self.best, "reference": self.reference, "waited": self.waited}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned, in a run with the same settings."""
        vars(self).update(state)


@dataclass(frozen=True)
class Validation:
    """What is scored in the course of a run."""

    score: Callable[[], dict[str, float]]
    """Returns named values of the model as it is."""
    times: int
    """How often the model is scored, the last time after the last step."""
    watched: str
    """Name of the value that early stopping follows, the higher the better."""
    stopping: EarlyStopping
    """Follows that value."""

    def steps(self, total: int) -> set[int]:
        """Return the steps after which the model is scored.

        Parameters
        ----------
        total
            Number of steps of the run.

        Returns
        -------
        set of int
            Steps counted from 1, evenly spread; the last is `total`.
        """
        return {max(1, round(total * part / self.times)) for part in range(1, self.times + 1)}
