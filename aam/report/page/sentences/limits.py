"""Sentences of the lights that limit the trust in a result."""

from collections.abc import Mapping, Sequence

from aam.data.predictions import FEW_NEAR, NEAR_READS
from aam.report.labels import format_percent, format_score, shorten, to_words
from aam.util.errors import first_names


def warn_of_confounders(columns: Sequence[str], what: str, *, exactly: bool) -> str:
    """Say that other columns of the metadata predict the same without any reads.

    Parameters
    ----------
    columns
        Names of the columns.
    what
        What is predicted, in words.
    exactly
        Whether they predict it for every sample, or nearly so.
    """
    how = "exactly" if exactly else "nearly exactly"
    if len(columns) == 1:
        return (
            f"The column {columns[0]} predicts {what} {how}, without any reads: models may have "
            "learned that column instead, and no score can show the difference."
        )
    return (
        f"The columns {', '.join(columns)} each predict {what} {how}, without any reads: models "
        "may have learned one of those instead, and no score can show the difference."
    )


def warn_of_better_baseline(label: str) -> str:
    """Say that a simpler method is significantly better; `label` is what the page calls it."""
    return f"Worse than the best baseline, {label}: use that one."


def warn_of_far_values(
    values: Sequence[float], samples: Sequence[str], count: int, *, low: float, high: float
) -> str:
    """Say that a few numbers lie far from all others, and decide the scores.

    Parameters
    ----------
    values
        The different numbers that lie far from the others.
    samples, count
        Some of the samples that have them, and how many there are.
    low, high
        Between what all other numbers lie.
    """
    shown = " and ".join(f"{value:.10g}" for value in values)
    lies = "lies" if count == 1 else "lie"
    cells = "the cell" if count == 1 else "the cells"
    return (
        f"{shown} in {_list_samples(samples, count)} {lies} far from all other values, which are "
        f"between {low:.5g} and {high:.5g}: errors, R² and intervals rest on it. If it is a slip "
        f"or stands for a missing value, correct or empty {cells}, and run again."
    )


def warn_of_wide_range(samples: Sequence[str], *, low: float, high: float) -> str:
    """Say that numbers lie over so many powers of ten that the largest decide the scores.

    Parameters
    ----------
    samples
        Samples of the largest numbers.
    low, high
        The smallest and the largest number.
    """
    return (
        f"Values lie between {low:.5g} and {high:.5g}: the largest, such as those of "
        f"{_list_samples(samples, len(samples))}, decide errors, R² and intervals alone. If small "
        "values count as much, predict a column of their logarithms; networks can also learn them "
        "with transform: log_zscore."
    )


def _list_samples(samples: Sequence[str], count: int) -> str:
    """Return the names of some samples, and how many more there are."""
    names = ", ".join(shorten(name, 40) for name in samples)
    more = f" and {count - len(samples)} more" if count > len(samples) else ""
    return f"sample{'s' if count > 1 else ''} {names}{more}"


def warn_of_missing_groups() -> str:
    """Say that nothing is known of samples that belong together."""
    return (
        "No column of groups is set (folds.groups): where one person or site gave several samples, "
        "the scores are too good. If every sample is from another one, set folds.groups: false."
    )


def warn_of_few_groups(groups: int, column: str) -> str:
    """Say that the scores rest on few groups, which are values of a column."""
    return (
        f"Only {groups} groups (values of {to_words(column)}): with other groups the score could "
        "be clearly different."
    )


def warn_of_few_samples(n: int) -> str:
    """Say that the scores rest on few samples."""
    return f"Only {n} samples: with other samples the score could be clearly different."


def warn_of_low_coverage(kind: str, owner: str, level: float, coverage: float) -> str:
    """Say that intervals or sets are too narrow.

    Parameters
    ----------
    kind
        Kind of the task.
    owner
        The method whose predictions they are of.
    level, coverage
        The share of samples for which they should hold, and for which they do.
    """
    is_number = kind == "regression"
    what = "intervals" if is_number else "sets"
    truth = "observed value" if is_number else "true class"
    size = "narrow" if is_number else "small"
    return (
        f"{format_percent(level)} prediction {what} of {owner} contain the {truth} in only "
        f"{format_percent(coverage, 1)} of samples: they are too {size}."
    )


def warn_of_useless_probabilities(owner: str, losses: Mapping[str, tuple[float, float]]) -> str:
    """Say that probabilities tell less than how frequent classes are.

    Parameters
    ----------
    owner
        The method whose probabilities they are.
    losses
        By the name of a loss its value for calibrated probabilities, and for the class frequencies.
    """
    shown = ", ".join(
        f"{name} {format_score(value)} against {format_score(constant)}"
        for name, (value, constant) in losses.items()
    )
    return (
        f"Calibrated probabilities of {owner} are worse than the frequencies of the classes, given "
        f"to every sample alike: {shown}."
    )


def warn_of_weak_encoder(model: str, r: float) -> str:
    """Say that the encoder of a model learned little; `r` is a correlation of distances."""
    return (
        f"The encoder of {model} predicts the distances of held-out samples with a correlation of "
        f"only {format_score(r)}."
    )


def warn_of_dropped_samples(dropped: int, share: float) -> str:
    """Say how many samples rarefaction lost, and which share of all that is."""
    return (
        f"{dropped} samples, {format_percent(share)}, have too few reads for the rarefaction depth."
    )


def warn_of_unseen_reads(table: str, share: float, near: float | None = None) -> str:
    """Say which share of the reads in another table is of ASVs that are new to the models.

    Parameters
    ----------
    table
        What the page calls the table.
    share
        Share of the reads of such ASVs.
    near
        Share of the reads of ASVs that training saw, or near one of these; None: it is not known.
    """
    although = ""
    if near is not None:
        although = f", although {format_percent(near)} are of ASVs that it saw or near one"
    return (
        f"{format_percent(share)} of the reads in {table} are of ASVs that training never saw"
        f"{although}: predictions may be worse than the scores on this page."
    )


def warn_of_far_samples(table: str, few: Sequence[str], n: int) -> str:
    """Say which of the `n` samples in another table have few reads like those of training.

    Parameters
    ----------
    table
        What the page calls the table.
    few
        IDs of the samples.
    n
        Number of samples in the table.
    """
    return (
        f"Do not use what is predicted for {len(few)} of the {n} samples in {table} "
        f"({first_names(few)}): less than {format_percent(FEW_NEAR)} of their reads are of ASVs "
        f"of training or near one (column {NEAR_READS}), so that the predictions rest on little. "
        "They are of another strand, region or kind of samples: the log of the prediction says "
        "which of these is likely."
    )


def warn_of_known_samples(table: str, seen: int, n: int) -> str:
    """Say how many of the `n` samples in another table are no new ones."""
    return (
        f"{seen} of the {n} samples in {table} were in training, by their ID or their reads: what "
        "is predicted for them says nothing about new samples. They are marked in the table."
    )
