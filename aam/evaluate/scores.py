"""Which scores a task has, which of them leads, and what tells two of them apart.

The module is apart from scikit-learn, which computes the scores (`aam.evaluate.score_functions`).
"""

from collections.abc import Sequence

REGRESSION = (
    "mae_fold_mean",
    "mae_fold_sd",
    "mae_pooled",
    "rmse_pooled",
    "r2_pooled",
    "pearson",
    "spearman",
)
"""Scores of a regression; errors are in the unit of the target."""

CLASSIFICATION = (
    "accuracy",
    "accuracy_fold_mean",
    "accuracy_fold_sd",
    "balanced_accuracy",
    "macro_f1",
    "mcc",
    "roc_auc",
    "brier",
    "ece",
)
"""Scores of a classification."""

ORDINAL = (*CLASSIFICATION, "mae_ranks", "quadratic_kappa")
"""Scores of classes that have an order; `mae_ranks` is in steps of that order."""

MAIN = {"regression": REGRESSION, "classification": CLASSIFICATION, "ordinal": ORDINAL}
"""Scores by kind of task."""

HEADLINE = {
    "regression": "mae_fold_mean",
    "classification": "balanced_accuracy",
    "ordinal": "balanced_accuracy",
}
"""The one score that a kind of task is ranked by: errors ascending, the others descending."""

LEAST_UNITS = 5
"""Groups, or samples without groups, below which a score has neither a test nor an interval."""
LEAST_UNITS_OF_CLASS = 3
"""Groups that have a class, or samples, below which a score has neither."""
SUPER_LEARNER = "super learner"
"""The mixture of all methods of a task."""


def is_better(kind: str, difference: float) -> bool:
    """Return whether a difference of headline scores speaks for the first of the two methods.

    Parameters
    ----------
    kind
        Kind of the target: an error is better where it is lower, an accuracy where it is higher.
    difference
        Score of the first method less that of the second; with 0 neither is better.
    """
    return difference < 0 if kind == "regression" else difference > 0


def correct_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number, by the method of Holm.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Stat. 6:65.

    Parameters
    ----------
    p_values
        Of several tests; None where one is undefined.

    Returns
    -------
    list
        In the same order, None where there is none.
    """
    places = [place for place, p in enumerate(p_values) if p is not None]
    corrected = list(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(places, key=lambda place: (p_values[place], place))):
        p = p_values[place]
        assert p is not None
        # A p-value is never less than that of a test before it.
        largest = max(largest, min(1.0, (len(places) - rank) * p))
        corrected[place] = largest
    return corrected
