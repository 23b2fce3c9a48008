"""How later samples are predicted from earlier ones, next to what a person's past says.

All samples after a time are predicted by models that learned from the samples up to it, and from
nothing later. Some are of people who were seen before, others of new ones: both have a score. The
rivals look at no features. They are a person's last known value, its mean, and its trend, which is
the line through its earlier values; for everybody a line of time through all earlier samples, the
covariates of the task, and guessing: the median of the earlier samples, or one over the number of
classes. Of classes, the past has the last and the most frequent one.

Errors are means over people, who count alike; classes have a balanced accuracy. People are the
units of tests and intervals (`aam.evaluate.comparison`). p-values are corrected (Holm) for the
rivals, so that a rival that looks best by chance is none.

Shape suffixes: N samples, E earlier samples, L later ones.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.data.predictions import numbers
from aam.evaluate.comparison import compare_with_guessing, measure_difference
from aam.evaluate.people import compare_errors
from aam.evaluate.scores import correct_p_values, is_better
from aam.evaluate.task_report import Forecast, Forecasted, ForecastRival, Guessing

Floats = NDArray[np.float64]
GUESSING = "guessing"


def compare_forecast(
    kind: str,
    column: str,
    time_column: str,
    *,
    after: str,
    predictions: pd.DataFrame,
    person: pd.Series,
    time: pd.Series,
    covariates: pd.DataFrame | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    classes: Sequence[str] = (),
) -> Forecast:
    """Score the predictions of later samples beside those of rivals.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    column, time_column
        Metadata columns of people and of times.
    after
        The last time that is learned from, in words.
    predictions
        Those of one target by the leading method, a row per sample; samples of fold -1 are later.
    person, time
        Person and time of each sample, by sample ID.
    covariates
        What covariates predict, alone, of the same samples; None: there are none.
    bounds
        Least and largest number that can be predicted; None: no bound.
    classes
        Classes of an ordinal target, the lowest first.
    """
    table = predictions.assign(
        person=person.loc[predictions["sample-id"]].to_numpy(np.str_),
        time=time.loc[predictions["sample-id"]].to_numpy(np.float64),
    )
    if kind == "regression":
        table["observed"] = numbers(table["observed"])
    is_later = table["fold"] == TEST
    earlier, later = table[~is_later], table[is_later].reset_index(drop=True)
    known = later[later["person"].isin(earlier["person"])].reset_index(drop=True)
    new = later[~later["person"].isin(earlier["person"])].reset_index(drop=True)
    parts = {}
    for name, part in (("known", known), ("new", new)):
        said = _say_past(kind, earlier, part) if name == "known" else {}
        said |= _say_for_all(kind, earlier, part)
        if kind == "regression":
            said = {rival: np.clip(value, *bounds) for rival, value in said.items()}
        if covariates is not None:
            by_id = covariates.set_index("sample-id")["predicted"]
            said["covariates"] = by_id.loc[part["sample-id"]].to_numpy()
        parts[name] = _score(kind, part, said, classes)
    return Forecast(column=column, time=time_column, after=after, **parts)


def _say_past(
    kind: str, earlier: pd.DataFrame, part: pd.DataFrame
) -> dict[str, NDArray[np.generic]]:
    """Return what the past of each person says of its later samples, by rival."""
    said: dict[str, list[object]] = {}
    histories = {name: rows.sort_values("time") for name, rows in earlier.groupby("person")}
    for _, row in part.iterrows():
        history = histories[row["person"]]
        newest = history[history["time"] == history["time"].max()]
        if kind == "regression":
            one = {
                "last value": newest["observed"].mean(),
                "mean": history["observed"].mean(),
                "trend": _extrapolate(history, float(row["time"]), newest["observed"].mean()),
            }
        else:
            one = {
                "last value": newest["observed"].mode().iloc[0],
                "most frequent class": history["observed"].mode().iloc[0],
            }
        for rival, value in one.items():
            said.setdefault(rival, []).append(value)
    return {rival: np.array(values) for rival, values in said.items()}


def _extrapolate(history: pd.DataFrame, time: float, otherwise: float) -> float:
    """Return what the line through the values of a history is at a time; of one time, its value."""
    at_E = history["time"].to_numpy(np.float64)
    if np.ptp(at_E) == 0:
        return otherwise
    value_E = history["observed"].to_numpy(np.float64)
    centred_E = at_E - at_E.mean()
    slope = float(centred_E @ value_E) / float(centred_E @ centred_E)
    return float(value_E.mean() + slope * (time - at_E.mean()))


def _say_for_all(
    kind: str, earlier: pd.DataFrame, part: pd.DataFrame
) -> dict[str, NDArray[np.generic]]:
    """Return what is said of all samples alike: the median, and a line of time."""
    if kind != "regression":
        return {}
    median = float(earlier["observed"].median())
    line = [_extrapolate(earlier, float(time), median) for time in part["time"]]
    return {"time alone": np.array(line), GUESSING: np.full(len(part), median)}


def _score(
    kind: str,
    part: pd.DataFrame,
    said: Mapping[str, NDArray[np.generic]],
    classes: Sequence[str],
) -> Forecasted | None:
    """Return the score of some later samples, next to those of rivals; None: nothing to tell."""
    if not len(part) or (kind != "regression" and part["observed"].nunique() < 2):
        return None
    person_N = np.unique(part["person"], return_inverse=True)[1]
    if kind == "regression":
        score, interval, rivals = _score_numbers(part, said, person_N)
    else:
        score, interval, rivals = _score_classes(kind, part, said, classes)
    corrected = correct_p_values([rival.p for rival in rivals])
    rivals = [
        rival.model_copy(update={"holm_p": p}) for rival, p in zip(rivals, corrected, strict=True)
    ]
    # The best rival comes first: errors are better if they are smaller.
    sign = 1.0 if is_better(kind, -1.0) else -1.0
    return Forecasted(
        n=len(part),
        people=int(person_N.max()) + 1,
        score=score,
        interval=interval,
        rivals=tuple(sorted(rivals, key=lambda rival: sign * rival.score)),
    )


_Scored = tuple[float, tuple[float, float] | None, list[ForecastRival]]
"""The score of the predictions, its interval, and the rivals."""


def _score_numbers(
    part: pd.DataFrame, said: Mapping[str, NDArray[np.generic]], person_N: NDArray[np.int64]
) -> _Scored:
    """Compare mean errors, in which people count alike; guessing is among what is said."""
    observed_N = part["observed"].to_numpy(np.float64)
    error_N = np.abs(observed_N - numbers(part["predicted"]))
    compared = {}
    for name, value_N in said.items():
        rival_error_N = np.abs(observed_N - value_N.astype(np.float64))
        compared[name] = compare_errors(error_N, rival_error_N, person_N)
    return (
        compared[GUESSING].score,
        compared[GUESSING].guessing.interval,
        [_rival(name, found.guessing) for name, found in compared.items()],
    )


def _score_classes(
    kind: str,
    part: pd.DataFrame,
    said: Mapping[str, NDArray[np.generic]],
    classes: Sequence[str],
) -> _Scored:
    """Compare balanced accuracies, or errors of ranks, with the people as units."""
    rows = part.assign(fold=0)
    groups = pd.Series(rows["person"].to_numpy(), rows["sample-id"])
    guessing = compare_with_guessing(kind, rows, groups.to_numpy(), classes)
    score = guessing.score + guessing.difference
    rivals = []
    for name, value_N in said.items():
        other = rows.assign(predicted=value_N.astype(np.str_))
        found = measure_difference(kind, rows, other, groups)
        rivals.append(
            ForecastRival(
                name=name,
                score=score - found.difference,
                difference=found.difference,
                p=found.p,
            )
        )
    return score, guessing.interval, [*rivals, _rival(GUESSING, guessing)]


def _rival(name: str, against: Guessing) -> ForecastRival:
    """Return a rival from a comparison with it."""
    return ForecastRival(name=name, score=against.score, difference=against.difference, p=against.p)
