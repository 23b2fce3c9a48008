"""A model and a random forest together: what embeddings say and what abundances say."""

import numpy as np
import pandas as pd

from aam.evaluate.predictions import (
    PROBABILITY,
    QUANTILE,
    class_names,
    class_probabilities,
    numbers,
)

PARTNERS = ("random_forest_median", "random_forest")
"""Baselines that a model is averaged with; the first that the task has."""


def stacked(own: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of two tables of cross-validated predictions, both with the same weight.

    Nothing is fitted, so that no label of a held-out sample has a part in it. The result has the
    rows of `own` without predicted quantiles; numbers and probabilities are means.
    """
    others = other.set_index("sample-id").loc[own["sample-id"]]
    assert (others["fold"].to_numpy() == own["fold"].to_numpy()).all(), "other folds"
    result = own.drop(columns=[name for name in own if str(name).startswith(QUANTILE)])
    classes = class_names(own)
    if not classes:
        both = [numbers(part["predicted"]) for part in (own, others)]
        return result.assign(predicted=np.mean(both, axis=0))
    mean_NC = (class_probabilities(own, classes) + class_probabilities(others, classes)) / 2
    result[[PROBABILITY + name for name in classes]] = mean_NC
    return result.assign(predicted=np.array(classes)[mean_NC.argmax(axis=1)])
