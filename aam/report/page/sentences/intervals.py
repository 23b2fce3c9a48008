"""Sentences on how sure single predictions are: intervals, sets, and probabilities."""

from collections.abc import Sequence

from aam.report.labels import format_percent, format_score


def describe_intervals(
    owner: str, level: float, coverage: float, by_fold: Sequence[float], width: str
) -> str:
    """Say how often prediction intervals contain what was observed.

    Parameters
    ----------
    owner
        What sentences call the method whose predictions they are of.
    level, coverage
        The share of samples for which they should hold, and for which they do.
    by_fold
        That share in each fold.
    width
        Their mean width, with its unit.
    """
    return (
        f"{format_percent(level)} prediction intervals of {owner} contain the observed value in "
        f"{format_percent(coverage, 1)} of samples ({format_percent(min(by_fold), 1)} to "
        f"{format_percent(max(by_fold), 1)} in a fold); their mean width is {width}."
    )


def describe_sets(
    owner: str, level: float, coverage: float, by_fold: Sequence[float], size: float
) -> str:
    """Say how often prediction sets contain the true class.

    Parameters
    ----------
    owner
        What sentences call the method whose predictions they are of.
    level, coverage
        The share of samples for which they should hold, and for which they do.
    by_fold
        That share in each fold.
    size
        Their mean number of classes.
    """
    return (
        f"{format_percent(level)} prediction sets of {owner} contain the true class in "
        f"{format_percent(coverage, 1)} of samples ({format_percent(min(by_fold), 1)} to "
        f"{format_percent(max(by_fold), 1)} in a fold); they have {format_score(size)} classes on "
        "average."
    )


def describe_coverage_of_test(coverage: float) -> str:
    """Say how often intervals or sets hold the truth of samples that no fold has."""
    return f"In held-out test samples they do so in {format_percent(coverage, 1)}."


def explain_missing_intervals(level: float) -> str:
    """Say that there are no prediction intervals."""
    return f"There are too few samples for {format_percent(level)} prediction intervals."


def describe_calibration(
    owner: str, brier: Sequence[float], constant: float, errors: Sequence[float]
) -> str:
    """Say what calibration does to the probabilities of classes.

    Parameters
    ----------
    owner
        What sentences call the method whose probabilities they are.
    brier
        Brier score before and after calibration.
    constant
        Brier score of the class frequencies alone.
    errors
        Calibration error before and after calibration.
    """
    return (
        f"Calibration changes the Brier score of {owner} from {format_score(brier[0])} to "
        f"{format_score(brier[1])} (class frequencies alone: {format_score(constant)}) and the "
        f"calibration error from {format_score(errors[0])} to {format_score(errors[1])}; both are "
        "better the lower they are."
    )


def explain_predicted_and_likeliest() -> str:
    """Say how the two columns of predicted classes differ."""
    return (
        "In the table, predicted is chosen with all classes counting alike; likeliest has the "
        "highest calibrated probability. They can differ where classes differ in frequency, or "
        "where calibration rests on few samples."
    )
