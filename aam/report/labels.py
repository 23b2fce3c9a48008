"""What people read instead of the names in files."""

import math
from collections.abc import Iterable

from aam.config.baselines import BASELINES
from aam.config.names import name_models
from aam.evaluate.scores import SUPER_LEARNER

SCORES = {
    "mae_fold_mean": "MAE, mean of the folds",
    "mae_fold_sd": "its sd over folds",
    "mae_pooled": "MAE, pooled",
    "rmse_pooled": "RMSE, pooled",
    "r2_pooled": "R², pooled",
    "pearson": "Pearson r",
    "spearman": "Spearman ρ",
    "accuracy": "accuracy",
    "accuracy_fold_mean": "accuracy, mean of the folds",
    "accuracy_fold_sd": "its sd over folds",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "mcc": "MCC",
    "roc_auc": "ROC AUC",
    "brier": "Brier score before calibration",
    "ece": "calibration error before calibration",
    "mae_ranks": "MAE in ranks",
    "quadratic_kappa": "quadratic κ",
}
"""Labels of all scores, which `aam.evaluate.scores` lists by kind of task."""

TESTS = {
    "p": "t-test over units",
    "holm_p": "corrected for all baselines (Holm)",
}
"""What people read instead of the names of paired tests."""

DASH = "–"
"""A value that there is not."""

UNITS = frozenset({"years", "months", "weeks", "days", "hours", "minutes", "cm", "mm", "kg", "mg"})
"""Words that are a unit where the name of a column ends in one."""


def row_label(name: str, role: str) -> str:
    """Return what people read for a row of the table of scores.

    Parameters
    ----------
    name
        Name of a model or of a baseline.
    role
        `network`, `super learner` or `baseline`; the label of all but baselines is the name.
    """
    if role == "baseline" and name in BASELINES:
        return BASELINES[name].label
    return to_words(name) if role == "baseline" else name


def label_models(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return what people read instead of the names of models and their super learners.

    Parameters
    ----------
    names
        Names of models, in the order of a table.

    Returns
    -------
    dict
        By role and name of a row: "AAM" and "super learner" where there is one model; else
        "AAM (NAME)" and "super learner with AAM (NAME)".
    """
    models = name_models(names)
    labels = {}
    for name, label in models.items():
        labels["network", name] = label
        mixed = SUPER_LEARNER if len(models) == 1 else f"{SUPER_LEARNER} with {label}"
        labels["super learner", name] = mixed
    return labels


def taxon_name(taxon: str) -> str:
    """Return the last rank of a taxon that has a name: `g__Streptococcus`, with its species.

    Parameters
    ----------
    taxon
        Ranks, divided by semicolons.
    """
    ranks = [rank.strip() for rank in taxon.split(";")]
    named = [rank for rank in ranks if rank and not rank.endswith("__")]
    if not named:
        return taxon
    return " ".join(named[-2:]) if named[-1].startswith("s__") else named[-1]


def name_and_unit(column: str) -> tuple[str, str | None]:
    """Return a column's name in words, and the unit that its last word is, as in `age_days`.

    Parameters
    ----------
    column
        Name of a metadata column.

    Returns
    -------
    name : str
        The name in words, without the unit.
    unit : str or None
        One of `UNITS`; None where the name ends in none, or holds nothing else.
    """
    name, _, last = to_words(column).rpartition(" ")
    if name and last.lower() in UNITS:
        return name, last.lower()
    return to_words(column), None


def to_words(name: str) -> str:
    """Return a name from a file as words: `weighted_normalized` as `weighted normalized`.

    Parameters
    ----------
    name
        A name with underscores.
    """
    return name.replace("_", " ")


def shorten(name: str, limit: int = 20) -> str:
    """Cut a long name in its middle, where names of a kind differ least.

    Parameters
    ----------
    name
        The name.
    limit
        Most characters, at least 3.
    """
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def capitalize(text: str) -> str:
    """Return a text with a capital at its start; other letters stay as they are.

    Parameters
    ----------
    text
        The text.
    """
    return text[:1].upper() + text[1:]


def format_score(value: float | None) -> str:
    """Return a score with two decimals, fewer from 100 on and more below one, or a dash.

    Parameters
    ----------
    value
        The score; None or NaN: there is none.
    """
    if value is None or value != value:
        return DASH
    size = abs(value)
    if size >= 100:
        return f"{value:.1f}" if size < 1000 else f"{value:,.0f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.1 or size == 0 else f"{value:.3g}"


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Return a score with its interval, or alone where there is none.

    Parameters
    ----------
    value
        The score; None: a dash.
    low, high
        Ends of the interval; None or NaN: there is none.
    """
    if low is None or high is None or low != low or high != high:
        return format_score(value)
    return f"{format_score(value)} [{format_score(low)}, {format_score(high)}]"


def format_amount(value: float, unit: str | None) -> str:
    """Return a number with its unit.

    Parameters
    ----------
    value
        The number.
    unit
        What it is counted in; None: unknown.
    """
    return format_score(value) if unit is None else f"{format_score(value)} {unit}"


def choose_decimals(value: float, others: Iterable[float] = ()) -> int:
    """Return with how many decimals a score is read best next to others.

    Parameters
    ----------
    value
        The score that is shown first: it gets two digits that count.
    others
        Scores of the same unit that it is compared with. One that would be read as the same
        number although it differs gets all of them another decimal.
    """
    size = abs(value)
    decimals = 0 if size >= 10 or size == 0 else 1 - math.floor(math.log10(size))
    shown = f"{value:.{decimals}f}"
    if any(other != value and f"{other:.{decimals}f}" == shown for other in others):
        return decimals + 1
    return decimals


def format_percent(value: float, digits: int = 0) -> str:
    """Return a fraction as `16 %`.

    Parameters
    ----------
    value
        The fraction.
    digits
        Number of decimals.
    """
    return f"{value:.{digits}%}".replace("%", " %")


def format_p_value(value: float | None) -> str:
    """Return `p = 0.032`, `p < 0.0001`, `p > 0.99`, or a dash.

    Parameters
    ----------
    value
        The p-value; None: there is none.
    """
    if value is None:
        return DASH
    if value < 1e-4:
        return "p < 0.0001"
    if value > 0.99:
        return "p > 0.99"
    return f"p = {value:.2g}"


def format_quantity(value: float | None) -> str:
    """Return a measured quantity with three significant digits, or a dash.

    Parameters
    ----------
    value
        The quantity; None or NaN: there is none.
    """
    if value is None or value != value:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
