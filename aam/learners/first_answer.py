"""The baselines of a task as its first answer: what is mixed."""

import pandas as pd

from aam.data.predictions import by_baseline
from aam.learners.super_learner import NO_NESTED, Learner, learners_by_target


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
        All baselines that learn; the constant where there are no others.
    """
    learners = learners_by_target(predictions, nested)
    if learners:
        return learners
    name, parts = next(iter(by_baseline(predictions).items()))
    return {target: {name: Learner(table, NO_NESTED)} for target, table in parts.items()}
