"""The baselines of a task as its first answer: which of them leads, and what is mixed."""

from collections.abc import Iterable

import pandas as pd

from aam.config.baselines import CONSTANTS
from aam.data.predictions import by_target
from aam.learners.super_learner import NO_NESTED, Learner, learners_by_target

PREFERRED = "svm_clr"
"""The baseline that stands in for the model where the task has it."""


def leading_baseline(names: Iterable[str]) -> str:
    """Return the baseline that stands in for a model.

    That is `PREFERRED` where it is among them, else the first that is no constant, else the first.

    Parameters
    ----------
    names
        Names of the baselines, in order.
    """
    distinct = list(dict.fromkeys(names))
    learning = [name for name in distinct if name not in CONSTANTS]
    return PREFERRED if PREFERRED in distinct else (learning or distinct)[0]


def first_answer_learners(
    predictions: pd.DataFrame, nested: pd.DataFrame
) -> dict[str, dict[str, Learner]]:
    """Return what a first answer mixes, by target ("" where there is one) and name.

    Parameters
    ----------
    predictions, nested
        Contents of `predictions.tsv` and `nested.parquet` of the stage `baselines`.

    Returns
    -------
    dict
        The leading baseline first, then the others that have nested predictions.
    """
    leading = leading_baseline(predictions["baseline"])
    is_leading = predictions["baseline"] == leading
    is_nested = nested["baseline"] == leading
    leading_tables = by_target(predictions[is_leading].drop(columns="baseline"))
    leading_nested = by_target(nested[is_nested].drop(columns="baseline"))
    others = learners_by_target(predictions[~is_leading], nested[~is_nested])
    return {
        target: {
            leading: Learner(table, leading_nested.get(target, NO_NESTED)),
            **others.get(target, {}),
        }
        for target, table in leading_tables.items()
    }
