"""A cross-validated score against guessing, and a method against another: one t-test over units.

Units are the groups of the samples, or the samples where they have none. The standard error of a
score is that of what the units add to it, times the root of two: held-out predictions depend on
each other. A sample of one fold teaches the models that predict the others, and these teach the one
that predicts it. Where labels tell nothing, a score is a sum over pairs of units, in which every
pair counts twice: so its variance is twice that of independent predictions. Where labels tell much
it is less. `python -m benchmarks.coverage` shows how often the test finds something in noise and in
signals, and what the interval of a score covers.

Scores are tested on a scale on which the standard error hardly depends on the score: the arcsine of
the root of a balanced accuracy (Anscombe 1948), and the logarithm of an error in units of that of
guessing. Degrees of freedom follow the effective number of units (Kish 1965), which is smaller than
their number where units differ in size or a class is rare.

Anscombe, F. J. (1948), The transformation of Poisson, binomial and negative-binomial data,
Biometrika 35:246. Bengio, Y. & Grandvalet, Y. (2004), No unbiased estimator of the variance of
K-fold cross-validation, JMLR 5:1089. Kish, L. (1965), Survey Sampling, section 11.7.
Shape suffixes: N samples, U units, F folds, C classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.data.folds import units_of
from aam.data.predictions import class_codes, numbers
from aam.evaluate.scores import LEAST_UNITS, LEAST_UNITS_OF_CLASS
from aam.evaluate.task_report import Comparison, Difference, Guessing, RankErrors

LEVEL = 0.95
"""Level of an interval."""
LEAST_EFFECTIVE = 2.0
"""Effective number of units below which nothing is tested: one unit decides the score."""
DEPENDENCE = 2.0
"""Variance of a cross-validated score, in units of that of independent predictions: see above."""
TINY = 1e-12
"""Standard error below which there is none but for rounding."""
LARGEST_STEP = 200.0
"""Step of a logarithm beyond which an interval has no end that a reader could use."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def compare_with_guessing(
    kind: str, predictions: pd.DataFrame, groups: ArrayLike, classes: Sequence[str] = ()
) -> Guessing:
    """Compare the headline score of predictions with what guessing reaches.

    Guessing is right for one in K samples of each of K classes: its balanced accuracy is 1/K. The
    majority of the training folds would score below that, as a class is the rarer in training the
    more of it was left out. A number is guessed by the median of the other folds. The interval of
    an error is that of its ratio to the error of guessing, since harder samples raise both.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, a row per sample of fold 0 and above.
    groups
        Group of each row, [N]; a row with "" is a unit by itself.
    classes
        Classes of an ordinal target, the lowest first.

    Returns
    -------
    Guessing
        Its interval leaves out the score of guessing just where its p-value is below 0.05. There is
        neither with fewer than `LEAST_UNITS` units, or `LEAST_UNITS_OF_CLASS` of a class, where
        units are so unequal that they count as fewer than `LEAST_EFFECTIVE`, and where no error is
        left. A balanced accuracy without a spread, such as 1, has the p-value and the ends that one
        other unit would give, where it costs most.
    """
    unit_N = unit_codes(groups)
    units = effective_units(kind, predictions, unit_N)
    if kind == "regression":
        return _compare_errors(predictions, unit_N, units)
    guessing = _compare_recalls(predictions, unit_N, units)
    if kind == "ordinal":
        ranks = _rank_errors(predictions, classes)
        return guessing.model_copy(update={"ranks": ranks})
    return guessing


def compare_tested_with_guessing(
    kind: str, predictions: pd.DataFrame, groups: ArrayLike, classes: Sequence[str] = ()
) -> Guessing:
    """Compare the score of samples that no fold has with guessing, as `compare_with_guessing`.

    A number is guessed by the median of the samples of all folds. The variance is that of a
    cross-validation, which is more than that of samples that are held out once.

    Parameters
    ----------
    kind, groups, classes
        See `compare_with_guessing`.
    predictions
        Predictions of one target by one method, a row per sample of any fold.
    """
    is_test_N = predictions["fold"].to_numpy() < 0
    tested = predictions[is_test_N]
    tested_groups = np.asarray(groups, dtype=np.str_)[is_test_N]
    if kind != "regression":
        return compare_with_guessing(kind, tested, tested_groups, classes)
    observed_N = numbers(tested["observed"])
    median = float(np.median(numbers(predictions["observed"][~is_test_N])))
    unit_N = unit_codes(tested_groups)
    return compare_mean_errors(
        np.abs(observed_N - numbers(tested["predicted"])),
        np.abs(observed_N - median),
        np.full(len(observed_N), 1.0 / len(observed_N)),
        unit_N,
        effective_units(kind, tested, unit_N),
    )


def compare(kind: str, first: pd.DataFrame, second: pd.DataFrame, groups: pd.Series) -> Comparison:
    """Compare two tables of predictions of the same samples and folds, in any order.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    first, second
        Predictions of one target by two methods, rows of fold 0 and above.
    groups
        Group of each sample, by sample ID; "" where a sample is a unit by itself.

    Returns
    -------
    Comparison
        Without the correction for several tests. There is no p-value where
        `compare_with_guessing` has none.
    """
    paired = _pair(kind, first, second, groups)
    added_F = _sums_of_folds(paired.added_N, paired.fold)
    is_won = added_F < 0 if kind == "regression" else added_F > 0
    return Comparison(
        folds=len(is_won),
        difference=paired.difference,
        folds_won=float(is_won.mean()),
        p=paired.p,
    )


def measure_difference(
    kind: str, first: pd.DataFrame, second: pd.DataFrame, groups: pd.Series
) -> Difference:
    """Return the difference of two methods with the interval of the test of `compare`.

    Parameters
    ----------
    kind, first, second, groups
        See `compare`.

    Returns
    -------
    Difference
        Its interval leaves out 0 just where its p-value is below 0.05. There is neither where
        `compare_with_guessing` has none.
    """
    paired = _pair(kind, first, second, groups)
    interval = None
    if paired.step is not None:
        interval = paired.difference - paired.step, paired.difference + paired.step
    return Difference(difference=paired.difference, interval=interval, p=paired.p)


@dataclass(frozen=True, eq=False)
class _Paired:
    """Two methods on the same samples."""

    added_N: Floats
    """What each sample adds to the difference of the headline scores."""
    fold: pd.Series
    p: float | None
    step: float | None
    """Half of the width of the interval of the difference."""

    @property
    def difference(self) -> float:
        return float(self.added_N.sum())


def _pair(kind: str, first: pd.DataFrame, second: pd.DataFrame, groups: pd.Series) -> _Paired:
    """Compare two tables of predictions: see `compare`."""
    first = first.set_index("sample-id")
    second = second.set_index("sample-id").reindex(first.index)
    assert (first["fold"] == second["fold"]).all(), "predictions of other samples or folds"
    unit_N = unit_codes(groups.loc[first.index])
    units = effective_units(kind, first, unit_N)
    if kind == "regression":
        weight_N = _weights_of_equal_folds(first["fold"])
        observed_N = numbers(first["observed"])
        first_error_N = np.abs(observed_N - numbers(first["predicted"]))
        second_error_N = np.abs(observed_N - numbers(second["predicted"]))
        added_N = weight_N * (first_error_N - second_error_N)
        mean = float(weight_N @ (first_error_N + second_error_N)) / 2
        test = _test_errors(added_N, weight_N, unit_N, units, scale=mean)
    else:
        truth_N = first["observed"].to_numpy(np.str_)
        _, class_N, size_C = np.unique(truth_N, return_inverse=True, return_counts=True)
        is_first_right_N = truth_N == first["predicted"].to_numpy(np.str_)
        is_second_right_N = truth_N == second["predicted"].to_numpy(np.str_)
        gain_N = is_first_right_N.astype(np.float64) - is_second_right_N
        added_N = gain_N / (len(size_C) * size_C[class_N])
        test = _test_gains(gain_N, class_N, unit_N, units)
    p, step = (None, None) if test is None else test
    return _Paired(added_N, first["fold"], p, step)


def _sums_of_folds(added_N: Floats, fold: pd.Series) -> Floats:
    """Return what each fold adds to a difference, folds ascending."""
    return np.asarray(np.bincount(np.unique(fold, return_inverse=True)[1], weights=added_N))


def _weights_of_equal_folds(fold: pd.Series) -> Floats:
    """Return weights that sum to 1, [N], with which every fold counts alike."""
    _, code_N, size_F = np.unique(fold, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (len(size_F) * size_F[code_N]))


def _test_errors(
    added_N: Floats, weight_N: Floats, unit_N: Codes, units: float | None, *, scale: float
) -> tuple[float, float] | None:
    """Return p-value and step of a difference of mean errors; `scale` is their size."""
    if units is None or scale == 0:
        return None
    difference = float(added_N.sum())
    error = _standard_error((added_N - weight_N * difference) / scale, unit_N, units)
    return _p_value(difference / scale, error, units), _t_quantile(units) * error * scale


def _test_gains(
    gain_N: Floats, class_N: Codes, unit_N: Codes, units: float | None
) -> tuple[float, float] | None:
    """Return p-value and step of a difference of balanced accuracies; a gain is 1, 0 or -1."""
    if units is None:
        return None

    def test(gain_N: Floats) -> tuple[float, float]:
        size_C = np.bincount(class_N)
        gain_C = np.bincount(class_N, weights=gain_N) / size_C
        added_N = (gain_N - gain_C[class_N]) / (len(size_C) * size_C[class_N])
        error = _standard_error(added_N, unit_N, units)
        return _p_value(float(gain_C.mean()), error, units), error

    p, error = test(gain_N)
    if error <= TINY and p < 1:
        # As with a perfect score: a single unit that differs would give the difference a spread.
        sign = np.sign((gain_N / np.bincount(class_N)[class_N]).sum())
        units_of_classes = _largest_units(class_N, unit_N)
        p, error = max(test(gain_N - sign * is_unit_N) for is_unit_N in units_of_classes)
    return p, _t_quantile(units) * error


def unit_codes(groups: ArrayLike) -> Codes:
    """Return the number of each sample's unit, int64 [N]: its group, or the sample itself.

    Parameters
    ----------
    groups
        Group of each sample, [N]; "" for a sample without a group.
    """
    names = np.asarray(groups, dtype=np.str_)
    rows = pd.RangeIndex(len(names)).astype(str)
    unit_N = units_of(pd.Series(names, rows)).to_numpy(np.str_)
    return np.unique(unit_N, return_inverse=True)[1]


def effective_units(kind: str, predictions: pd.DataFrame, unit_N: Codes) -> float | None:
    """Return how many equal units the units of the samples are worth.

    That is (sum of u)^2 / sum of u^2 over the units, where u is the summed weight of a unit's
    samples (Kish's effective sample size). A number counts with its weight in the score, in which
    folds count alike. A sample of a class counts by the squared inverse of how frequent its class
    is, which is its share in the variance of a mean of recalls.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target, of which `observed` and `fold` are used.
    unit_N
        Unit of each row, as `unit_codes` returns it.

    Returns
    -------
    float or None
        None where the units, or those of a class, are too few for a test, or are worth fewer than
        `LEAST_EFFECTIVE`.
    """
    if kind == "regression":
        share_N = _weights_of_equal_folds(predictions["fold"])
    else:
        observed_N = predictions["observed"].to_numpy(np.str_)
        _, class_N, size_C = np.unique(observed_N, return_inverse=True, return_counts=True)
        if _units_by_class(class_N, unit_N).min() < LEAST_UNITS_OF_CLASS:
            return None
        share_N = 1.0 / size_C[class_N] ** 2
    share_U = np.bincount(unit_N, weights=share_N)
    effective = float(share_U.sum() ** 2 / (share_U**2).sum())
    if len(share_U) < LEAST_UNITS or effective < LEAST_EFFECTIVE:
        return None
    return effective


def _units_by_class(class_N: Codes, unit_N: Codes) -> Codes:
    """Return in how many units each class occurs, [C]."""
    pairs = np.unique(np.stack([class_N, unit_N]), axis=1)
    return np.bincount(pairs[0])


def _compare_errors(predictions: pd.DataFrame, unit_N: Codes, units: float | None) -> Guessing:
    """Compare a mean absolute error, the mean of the folds, with that of the median."""
    observed_N = numbers(predictions["observed"])
    fold_N = predictions["fold"].to_numpy()
    error_N = np.abs(observed_N - numbers(predictions["predicted"]))
    guess_error_N = np.abs(observed_N - median_of_other_folds(observed_N, fold_N))
    weight_N = _weights_of_equal_folds(predictions["fold"])
    return compare_mean_errors(error_N, guess_error_N, weight_N, unit_N, units)


def compare_mean_errors(
    error_N: Floats, guess_error_N: Floats, weight_N: Floats, unit_N: Codes, units: float | None
) -> Guessing:
    """Compare a weighted mean of absolute errors with that of guesses.

    Parameters
    ----------
    error_N, guess_error_N
        Errors of the predictions and of the guesses, [N].
    weight_N
        Weights that sum to 1, [N].
    unit_N
        Unit of each sample, [N].
    units
        How many equal units these are worth (`effective_units`); None: too few for a test.
    """
    score = float(weight_N @ error_N)
    guess = float(weight_N @ guess_error_N)
    guessing = Guessing(score=guess, difference=score - guess)
    if units is None or guess == 0:
        return guessing
    if score == 0:
        # An error without any spread has no logarithm: the difference is tested as it is.
        error = _standard_error(weight_N * (guess_error_N - guess), unit_N, units)
        return guessing.model_copy(update={"p": _p_value(guess, error, units)})
    # What a sample adds to the logarithm of the ratio of both errors.
    added_N = weight_N * (error_N / score - guess_error_N / guess)
    error = _standard_error(added_N, unit_N, units)
    step = _t_quantile(units) * error
    interval = None
    if TINY < step < LARGEST_STEP:
        interval = score * math.exp(-step), score * math.exp(step)
    p = _p_value(math.log(score / guess), error, units)
    return guessing.model_copy(update={"p": p, "interval": interval})


def median_of_other_folds(observed_N: Floats, fold_N: Codes) -> Floats:
    """Return for each sample the median of the samples of all other folds, [N].

    Parameters
    ----------
    observed_N, fold_N
        Numbers and folds, [N].
    """
    guess_N = np.empty_like(observed_N)
    for number in np.unique(fold_N):
        is_in_fold = fold_N == number
        guess_N[is_in_fold] = np.median(observed_N[~is_in_fold])
    return guess_N


def _compare_recalls(predictions: pd.DataFrame, unit_N: Codes, units: float | None) -> Guessing:
    """Compare a balanced accuracy with one over the number of classes."""
    truth_N = predictions["observed"].to_numpy(np.str_)
    is_right_N = truth_N == predictions["predicted"].to_numpy(np.str_)
    _, class_N, size_C = np.unique(truth_N, return_inverse=True, return_counts=True)
    recall_C = np.bincount(class_N, weights=is_right_N) / size_C
    score = float(recall_C.mean())
    guess = 1.0 / len(size_C)
    guessing = Guessing(score=guess, difference=score - guess)
    if units is None:
        return guessing
    test = _test_recalls(is_right_N, class_N, unit_N, units)
    if not test.has_spread and abs(score - guess) > TINY:
        # A single unit that differs would give such predictions a spread; the largest of a class
        # costs most.
        is_ahead_N = is_right_N == (score > guess)
        tests = [
            _test_recalls(is_right_N ^ (is_unit_N & is_ahead_N), class_N, unit_N, units)
            for is_unit_N in _largest_units(class_N, unit_N)
        ]
        test = max(tests, key=lambda test: test.p)
    low, high = min(test.low, score), max(test.high, score)
    # Predictions of one class alone score what guessing does, whatever the samples.
    interval = (low, high) if high - low > TINY else None
    return guessing.model_copy(update={"p": test.p, "interval": interval})


class ShareTest(NamedTuple):
    """p-value of a share that is right against guessing, and the ends of its interval."""

    p: float
    low: float
    high: float
    has_spread: bool
    """Whether units add different parts to the share; otherwise nothing tells how far chance
    reaches."""


def _test_recalls(
    is_right_N: NDArray[np.bool_], class_N: Codes, unit_N: Codes, units: float
) -> ShareTest:
    """Test a balanced accuracy."""
    size_C = np.bincount(class_N)
    recall_C = np.bincount(class_N, weights=is_right_N) / size_C
    score = float(recall_C.mean())
    added_N = (is_right_N - recall_C[class_N]) / (len(size_C) * size_C[class_N])
    return share_test(score, 1.0 / len(size_C), added_N, unit_N, units)


def share_test(
    score: float, guess: float, added_N: Floats, unit_N: Codes, units: float
) -> ShareTest:
    """Test a share that is right, on the scale of the arcsine of its root.

    Parameters
    ----------
    score, guess
        The share and that of guessing.
    added_N
        What each sample adds to the score less its mean, [N].
    unit_N
        Unit of each sample, [N].
    units
        How many equal units these are worth.
    """
    error = _standard_error(added_N, unit_N, units)
    has_spread = error > TINY
    if has_spread:
        # By the derivative of the scale.
        error *= 0.5 / math.sqrt(score * (1.0 - score))
    # Weights may sum to a little more than 1.
    angle = math.asin(math.sqrt(min(score, 1.0)))
    step = _t_quantile(units) * error
    return ShareTest(
        p=_p_value(angle - math.asin(math.sqrt(guess)), error, units),
        low=math.sin(max(angle - step, 0.0)) ** 2,
        high=math.sin(min(angle + step, math.pi / 2)) ** 2,
        has_spread=has_spread,
    )


def _largest_units(class_N: Codes, unit_N: Codes) -> Iterator[NDArray[np.bool_]]:
    """Yield for each class which of its samples are of the unit that has the most of them."""
    for code in np.unique(class_N):
        is_class_N = class_N == code
        yield is_class_N & (unit_N == np.bincount(unit_N[is_class_N]).argmax())


def _standard_error(added_N: Floats, unit_N: Codes, units: float) -> float:
    """Return the standard error of a score from what each sample adds to it."""
    added_U = np.bincount(unit_N, weights=added_N)
    return math.sqrt(DEPENDENCE * float((added_U**2).sum()) * units / (units - 1))


def _p_value(difference: float, error: float, units: float) -> float:
    """Return the two-sided p-value; predictions that are those of guessing have no spread."""
    if error <= TINY:
        return 1.0 if abs(difference) <= TINY else 0.0
    return float(2 * stats.t.sf(abs(difference) / error, df=units - 1))


def _t_quantile(units: float) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, df=units - 1))


def _rank_errors(predictions: pd.DataFrame, classes: Sequence[str]) -> RankErrors:
    """Return by how many steps predictions are off, and the constant that is off by the fewest.

    The mean of the classes counts, as in a balanced accuracy: the macro-averaged absolute error of
    Baccianella, S., Esuli, A. & Sebastiani, F. (2009), Evaluation measures for ordinal regression,
    doi:10.1109/ISDA.2009.230.
    """
    truth_N = class_codes(predictions["observed"], classes)
    guess_N = class_codes(predictions["predicted"], classes)
    size_C = np.bincount(truth_N, minlength=len(classes))
    present_C = np.flatnonzero(size_C)
    steps_C = np.bincount(truth_N, weights=np.abs(truth_N - guess_N), minlength=len(classes))
    constants = [np.abs(present_C - code).mean() for code in range(len(classes))]
    return RankErrors(
        score=float((steps_C[present_C] / size_C[present_C]).mean()), constant=float(min(constants))
    )
