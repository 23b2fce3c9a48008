"""How often the test of a score against guessing is wrong, what it finds, what intervals cover.

Run as `python -m benchmarks.coverage`, or with `--quick` for a tenth of the draws; the table goes
to standard output. Samples of some units are simulated, with labels that their features tell not at
all, weakly or strongly; a ridge learns them in five folds of whole units. Drawn again and again,
the held-out predictions tell

- how often `aam.evaluate.comparison` finds them better than guessing with p < 0.05, where labels
  are noise (2.5 % may be) and where they are not, beside the corrected t-test over folds
- how often its 95 % interval contains the mean score of all draws, beside the interval that takes
  held-out predictions for independent ones

Labels are those of units, as a disease is that of a person, or of samples, whose errors are alike
within a unit. Two methods that see different features are compared, too: equally good ones, and one
that sees more of the signal.

Shape suffixes: N samples, U units, F features.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from threadpoolctl import threadpool_limits

from aam.evaluate import comparison
from aam.evaluate.comparison import compare, compare_with_guessing
from aam.evaluate.scores import is_better
from benchmarks.speed.tables import markdown_table

TARGETS = {"numbers": None, "two classes": 0.5, "12 % of one class": 0.12}
"""Share of the rarer class, by kind of labels; None: numbers."""
UNITS = (8, 20, 60, 130)
SAMPLES = (1, 4)
"""Samples of a unit."""
SIGNALS = {"none": 0.0, "weak": 0.5, "strong": 0.95}
"""Correlation of what decides about a label with the features that matter."""
PAIRS = {"equal": math.pi / 4, "one better": math.pi / 12}
"""Two methods, and how the signal is divided between what each of them sees."""
FEATURES = 60
INFORMATIVE = 10
FOLDS = 5
PENALTIES = np.logspace(-1, 4, 6)
DRAWS = 200
"""Simulated data sets of each design."""
QUICK_DRAWS = 20
LEAST_OF_CLASS = 4
"""Units that a class has at least."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """What a simulated data set is like."""

    target: str
    units: int
    samples: int
    by_unit: bool
    """All samples of a unit have one label."""
    signal: str

    @property
    def kind(self) -> str:
        """Kind of the target."""
        return "regression" if TARGETS[self.target] is None else "classification"


def designs() -> Iterator[Design]:
    """Yield all designs; a unit of one sample has its label."""
    for target, units, samples, signal in itertools.product(TARGETS, UNITS, SAMPLES, SIGNALS):
        if math.ceil((TARGETS[target] or 0.5) * units) < LEAST_OF_CLASS:
            continue
        for by_unit in (True, False) if samples > 1 else (True,):
            yield Design(target, units, samples, by_unit, signal)


def simulate(design: Design, rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """Return held-out predictions of a simulated data set, and the unit of each sample."""
    unit_N = np.repeat(np.arange(design.units), design.samples)
    feature_NF = _draw_features(unit_N, rng)
    # The same features matter in all draws, so that a score has one mean.
    effect_F = np.random.default_rng(0).normal(size=FEATURES) * (np.arange(FEATURES) < INFORMATIVE)
    labels = _draw_labels(design, feature_NF @ effect_F, unit_N, rng)
    return _predict(design, feature_NF, labels), unit_N.astype(str)


def simulate_two(
    design: Design, rng: np.random.Generator, angle: float
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.str_]]:
    """Return the predictions of two methods, which see different halves of the features.

    Both halves are drawn alike, so that the methods are equally good where the angle is 45 degrees;
    with less, the first half tells more.
    """
    unit_N = np.repeat(np.arange(design.units), design.samples)
    first_NF = _draw_features(unit_N, rng)
    second_NF = _draw_features(unit_N, rng)
    effect_F = np.random.default_rng(0).normal(size=FEATURES) * (np.arange(FEATURES) < INFORMATIVE)
    first_N = math.cos(angle) * first_NF @ effect_F
    second_N = math.sin(angle) * second_NF @ effect_F
    labels = _draw_labels(design, first_N + second_N, unit_N, rng)
    first = _predict(design, first_NF, labels)
    second = _predict(design, second_NF, labels)
    return first, second, unit_N.astype(str)


def _draw_features(unit_N: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return features, [N, F], which samples of a unit share in part."""
    spread_F = np.arange(1, FEATURES + 1) ** -0.35
    of_unit_UF = rng.normal(size=(unit_N.max() + 1, FEATURES))
    return np.asarray(spread_F * (of_unit_UF[unit_N] + rng.normal(size=(len(unit_N), FEATURES))))


def _draw_labels(
    design: Design, told_N: Floats, unit_N: NDArray[np.int64], rng: np.random.Generator
) -> pd.DataFrame:
    """Return `observed` and `fold` of each sample; `told_N` is what features tell of labels."""
    untold_N = rng.normal(size=design.units)[unit_N]
    if design.by_unit:
        told_N = (np.bincount(unit_N, weights=told_N) / design.samples)[unit_N]
    else:
        untold_N = (untold_N + rng.normal(size=len(unit_N))) / math.sqrt(2)
    signal = SIGNALS[design.signal]
    value_N = signal * told_N / told_N.std() + math.sqrt(1 - signal**2) * untold_N
    share = TARGETS[design.target]
    order_U = rng.permutation(design.units)
    observed_N: NDArray[np.float64] | NDArray[np.str_] = value_N
    if share is not None:
        threshold = np.sort(value_N)[-max(round(share * len(value_N)), LEAST_OF_CLASS)]
        observed_N = np.where(value_N >= threshold, "yes", "no")
        # Folds hold about as many units of each class.
        order_U = np.argsort(np.argsort(np.bincount(unit_N, weights=value_N)))
    fold_N = ((order_U + rng.integers(FOLDS)) % FOLDS)[unit_N]
    return pd.DataFrame({"observed": observed_N, "fold": fold_N})


def _predict(design: Design, feature_NF: Floats, labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels with what a ridge predicts for each fold from the others."""
    observed_N = labels["observed"].to_numpy()
    predicted_N = observed_N.copy()
    for fold in range(FOLDS):
        is_in_fold_N = labels["fold"].to_numpy() == fold
        model = RidgeCV(PENALTIES)
        if design.kind != "regression":
            model = RidgeClassifierCV(PENALTIES, class_weight="balanced")
        model.fit(feature_NF[~is_in_fold_N], observed_N[~is_in_fold_N])
        predicted_N[is_in_fold_N] = model.predict(feature_NF[is_in_fold_N])
    ids = pd.RangeIndex(len(labels)).astype(str)
    labels = labels.assign(predicted=predicted_N)
    labels.insert(0, "sample-id", ids)
    return labels


def corrected_resampled_t(difference: ArrayLike, sizes: ArrayLike) -> float | None:
    """Return the p-value of the corrected resampled t-test of paired differences over folds.

    The variance of the mean is that of the differences times 1 / K + n_test / n_train, because
    training sets overlap: Nadeau, C. & Bengio, Y. (2003), Inference for the generalization
    error, doi:10.1023/A:1024068626366. The ratio is the mean over the folds.

    Parameters
    ----------
    difference
        Difference of two methods in each of K folds.
    sizes
        Samples of each fold, which are its test set.

    Returns
    -------
    float or None
        The two-sided p-value; None for a single fold, or where all differences are the same.
    """
    values = np.asarray(difference, dtype=np.float64)
    tested = np.asarray(sizes, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return None
    ratio = float(np.mean(tested / (tested.sum() - tested)))
    error = np.sqrt((1 / len(values) + ratio) * values.var(ddof=1))
    return float(2 * stats.t.sf(abs(values.mean()) / error, df=len(values) - 1))


def over_folds(kind: str, first: pd.DataFrame, second: pd.DataFrame | None = None) -> float | None:
    """Return the p-value of the corrected t-test over folds; against guessing without a second."""
    fold = first["fold"]
    sizes = fold.value_counts(sort=False)
    observed = first["observed"]
    if kind == "regression":
        if second is None:
            medians = {name: observed[fold != name].median() for name in sizes.index}
            second = first.assign(predicted=fold.map(medians))
        gain = (observed - first["predicted"]).abs() - (observed - second["predicted"]).abs()
        return corrected_resampled_t(gain.groupby(fold).mean(), sizes.sort_index())
    count = observed.value_counts()
    other = 1.0 / len(count) if second is None else (observed == second["predicted"]).astype(float)
    gain = ((observed == first["predicted"]) - other) / (len(count) * observed.map(count))
    return corrected_resampled_t(len(sizes) * gain.groupby(fold).sum(), sizes.sort_index())


def draw(design: Design, seed: int) -> dict[str, float | bool | None]:
    """Return what is concluded from one data set."""
    table, unit_N = simulate(design, np.random.default_rng(seed))
    against = compare_with_guessing(design.kind, table, unit_N)
    with patch.object(comparison, "DEPENDENCE", 1.0):
        independent = compare_with_guessing(design.kind, table, unit_N)
    better = is_better(design.kind, against.difference)
    p_over_folds = over_folds(design.kind, table)
    # An error is shown relative to that of guessing, which differs from draw to draw.
    scale = against.score if design.kind == "regression" else 1.0
    return {
        "score": (against.score + against.difference) / scale,
        "found": better and against.p is not None and against.p < 0.05,
        "found over folds": better and p_over_folds is not None and p_over_folds < 0.05,
        "low": against.interval and against.interval[0] / scale,
        "high": against.interval and against.interval[1] / scale,
        "low of independent": independent.interval and independent.interval[0] / scale,
        "high of independent": independent.interval and independent.interval[1] / scale,
    }


def draw_two(design: Design, angle: float, seed: int) -> dict[str, bool]:
    """Return which tests find two methods different in one data set."""
    first, second, unit_N = simulate_two(design, np.random.default_rng(seed), angle)
    p = compare(design.kind, first, second, pd.Series(unit_N, first["sample-id"])).p
    p_over_folds = over_folds(design.kind, first, second)
    return {
        "found": p is not None and p < 0.05,
        "found over folds": p_over_folds is not None and p_over_folds < 0.05,
    }


def measure_two(draws: int, processes: int = 1) -> pd.DataFrame:
    """Return how often tests find two methods different, a row per design and angle.

    Parameters
    ----------
    draws
        Data sets of each design.
    processes
        Processes at a time; the table is the same for any number.
    """
    rows = []
    for target, units in itertools.product(TARGETS, (20, 60, 130)):
        for methods, angle in PAIRS.items():
            design = Design(target, units, samples=2, by_unit=True, signal="strong")
            with threadpool_limits(1):
                made = Parallel(processes)(
                    delayed(draw_two)(design, angle, seed) for seed in range(draws)
                )
            rows.append(
                {"target": target, "units": units, "methods": methods, **pd.DataFrame(made).mean()}
            )
    return pd.DataFrame(rows)


def measure(
    draws: int, processes: int = 1, chosen: Callable[[Design], bool] = lambda _: True
) -> pd.DataFrame:
    """Return how often tests find something and intervals hold the mean score.

    Parameters
    ----------
    draws
        Data sets of each design.
    processes
        Processes at a time; the table is the same for any number.
    chosen
        Which designs take part.

    Returns
    -------
    pandas.DataFrame
        A row per design with its fields, the mean score (an error in units of that of guessing),
        the shares `found` and `found over folds` of draws that a test finds better than guessing,
        and those of intervals that contain the mean score: `covered` and `independent`.
    """
    rows = []
    for number, design in enumerate(filter(chosen, designs())):
        with threadpool_limits(1):
            seeds = 10_000 * number + np.arange(draws)
            made = Parallel(processes)(delayed(draw)(design, int(seed)) for seed in seeds)
        table = pd.DataFrame(made)
        mean = table["score"].mean()
        if design.kind == "regression":
            # The interval of a ratio is one of its logarithm.
            mean = np.exp(np.log(table["score"]).mean())
        has = table["low"].notna()
        parts = {}
        for name, suffix in (("covered", ""), ("independent", " of independent")):
            low, high = table[f"low{suffix}"][has], table[f"high{suffix}"][has]
            parts[name] = ((low <= mean) & (mean <= high)).mean()
        found = table[["found", "found over folds"]].mean()
        rows.append({**vars(design), "score": mean, **found, **parts})
    return pd.DataFrame(rows)


def markdown(measured: pd.DataFrame) -> str:
    """Return the means over designs, by kind of labels, units and signal, in percent."""
    head = ["labels", "units", "signal", "score", "units: better", "folds: better"]
    head += ["interval covers", "interval of independent predictions"]
    rows = []
    for (target, units, signal), part in measured.groupby(
        ["target", "units", "signal"], sort=False
    ):
        names = ["found", "found over folds", "covered", "independent"]
        shares = (part[names].mean() * 100).round(1)
        rows.append(
            [str(target), str(units), str(signal), f"{part['score'].mean():.3f}", *map(str, shares)]
        )
    noise = measured[measured["signal"] == "none"]
    most = [f"{100 * noise[name].max():.1f} %" for name in ("found", "found over folds")]
    return f"{markdown_table(head, rows)}\n\nMost in one design of noise: {' and '.join(most)}."


def markdown_two(measured: pd.DataFrame) -> str:
    """Return how often two methods are found different, in percent."""
    rows = [
        [str(row["target"]), str(row["units"]), str(row["methods"])]
        + [f"{100 * row[name]:.1f}" for name in ("found", "found over folds")]
        for _, row in measured.iterrows()
    ]
    return markdown_table(["labels", "units", "methods", "units: differ", "folds: differ"], rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    draws = QUICK_DRAWS if given.quick else DRAWS
    print(markdown(measure(draws, given.processes)), flush=True)
    print(markdown_two(measure_two(draws, given.processes)))


if __name__ == "__main__":
    main()
