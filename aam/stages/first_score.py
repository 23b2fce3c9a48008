"""The first cross-validated score of a task, which the log tells while other methods are fitted.

The digest of code leaves this module out: what it logs is no result.
"""

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.baselines import CONSTANTS
from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.method_scores import headline_score
from aam.report.labels import choose_decimals, format_percent, row_label

logger = logging.getLogger(__name__)
BEGINNING = "so far: "
"""What the line begins with; a console shows what follows."""


class FirstScore:
    """Logs the score of the first method that learns, once.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    groups
        Group of each row of the task; a row with "" is a unit by itself.
    classes
        Classes of an ordinal target, the lowest first.
    methods
        How many methods that learn are fitted in all.
    """

    def __init__(
        self, kind: str, groups: NDArray[np.str_], classes: Sequence[str], methods: int
    ) -> None:
        self._kind = kind
        self._groups = groups
        self._classes = classes
        # Of one method the answer itself says the same, as soon.
        self._is_due = methods > 1
        self._others = methods - 1

    def __call__(self, name: str, predictions: pd.DataFrame) -> None:
        """Take the predictions of a method for all folds, and log its score if it is the first.

        Parameters
        ----------
        name
            Name of the baseline.
        predictions
            `row`, `fold`, `observed`, `predicted` and the probabilities of all samples.
        """
        if name in CONSTANTS or not self._is_due:
            return
        self._is_due = False
        scored = predictions[predictions["fold"] >= 0]
        scored = scored.assign(**{"sample-id": scored["row"].astype(str)})
        groups = self._groups[scored["row"].to_numpy()]
        guessing = compare_with_guessing(self._kind, scored, groups, self._classes)
        score = headline_score(self._kind, scored)
        shown = [score, *(guessing.interval or ()), guessing.score]
        if self._kind == "regression":
            decimals = choose_decimals(score, [guessing.score])
            value, *ends, guess = [f"{one:,.{decimals}f}" for one in shown]
            words = f"is off by {value} on average"
        else:
            value, *ends, guess = [format_percent(one, 1) for one in shown]
            words = f"is right in {value} of the samples of a class, averaged over the classes"
        interval = f" (95 % interval {ends[0]} to {ends[1]})" if ends else ""
        follow = f"{self._others} more methods" if self._others > 1 else "one more method"
        logger.info(
            "%s%s %s%s; guessing: %s. The answer comes from all methods: %s and the mixture "
            "follow.",
            BEGINNING,
            row_label(name, "baseline"),
            words,
            interval,
            guess,
            follow,
        )
