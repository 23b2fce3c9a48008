"""A model against a baseline by paired tests on the same folds."""

from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.evaluate.metrics import fold_scores
from aam.evaluate.predictions import numbers

Comparison = dict[str, float | int | None]


def compare(
    kind: str, own: pd.DataFrame, other: pd.DataFrame, *, independent: bool = True
) -> Comparison:
    """Compare two tables of predictions of the same samples and folds, in any order.

    `difference` is own less other mean of `fold_scores`, `folds_won` the fraction of folds in which
    own is the better. The tests are two-sided, None where undefined; those over samples are made
    if the samples are `independent`, which those of one group are not.
    """
    own = own.set_index("sample-id")
    other = other.set_index("sample-id").reindex(own.index)
    assert (own["fold"] == other["fold"]).all(), "predictions of other samples or folds"
    fold, regression = own["fold"].to_numpy(), kind == "regression"
    values = numbers if regression else np.asarray
    pairs = [(values(table["observed"]), values(table["predicted"])) for table in (own, other)]
    first, second = (fold_scores(kind, truth, guess, fold) for truth, guess in pairs)
    difference = first - second
    sizes = np.unique(fold, return_counts=True)[1]
    result: Comparison = {
        "folds": len(difference),
        "difference": float(difference.mean()),
        "folds_won": float((difference < 0 if regression else difference > 0).mean()),
        "corrected_t_p": corrected_resampled_t(difference, sizes),
        "wilcoxon_folds_p": _signed_rank(difference),
    }
    if not independent:
        return result
    if regression:
        errors, others = (np.abs(truth - guess) for truth, guess in pairs)
        return {**result, "wilcoxon_samples_p": _signed_rank(errors - others)}
    right, others_right = (truth == guess for truth, guess in pairs)
    return {**result, "mcnemar_p": _mcnemar(right, others_right)}


def holm(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return comparisons with `holm_p`: `corrected_t_p`, corrected for their number.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Stat. 6:65.
    """
    values = {name: found["corrected_t_p"] for name, found in comparisons.items()}
    known = sorted((value, name) for name, value in values.items() if value is not None)
    steps = [min(1.0, (len(known) - place) * value) for place, (value, _) in enumerate(known)]
    raised = dict(zip((name for _, name in known), accumulate(steps, max), strict=True))
    return {name: {**found, "holm_p": raised.get(name)} for name, found in comparisons.items()}


def corrected_resampled_t(difference: ArrayLike, sizes: ArrayLike) -> float | None:
    """Return the p-value of the corrected resampled t-test of K folds' paired differences.

    The variance of the mean is that of the differences times 1 / K + n_test / n_train, because
    training sets overlap: Nadeau, C. & Bengio, Y. (2003), Inference for the generalization
    error, doi:10.1023/A:1024068626366. The ratio is the mean over the folds, whose `sizes` are
    those of the test sets. None for a single fold, or where all differences are the same.
    """
    values, tested = np.asarray(difference, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return None
    ratio = float(np.mean(tested / (tested.sum() - tested)))
    error = np.sqrt((1 / len(values) + ratio) * values.var(ddof=1))
    return float(2 * stats.t.sf(abs(values.mean()) / error, df=len(values) - 1))


def _signed_rank(difference: NDArray[np.float64]) -> float | None:
    """Return the p-value of Wilcoxon's test without the zeros, exact for few; None without any."""
    given = difference[difference != 0]
    return float(stats.wilcoxon(given).pvalue) if len(given) else None


def _mcnemar(own: NDArray[np.bool_], other: NDArray[np.bool_]) -> float | None:
    """Return the exact p-value from the samples that one of the two has right."""
    won, lost = int((own & ~other).sum()), int((other & ~own).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else None
