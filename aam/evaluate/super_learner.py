"""The mixture of several methods, with weights fitted to the predictions for other folds.

A super learner (van der Laan, Polley & Hubbard 2007, doi:10.2202/1544-6115.1309) weights methods by
their cross-validated predictions. No label of a fold is fitted to by the weights of that fold; the
methods behind the predictions for the other folds have seen them.

Shape suffixes: N samples, C classes (1 where a number is predicted).
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.evaluate.mixture import Mixture
from aam.evaluate.predictions import (
    PROBABILITY,
    QUANTILE,
    class_names,
    class_probabilities,
    numbers,
)

FORMAT = 1
"""Of the directories that are written and read."""
SETTINGS, FOLDS, TREE = "super_learner.json", "folds.tsv", "tree.nwk"
SEQUENCES, MODEL = "sequences.fasta", "model"
"""What lies in one, beside a table per view; `aam.inference.with_baselines` reads it."""


def super_learner(
    tables: Mapping[str, pd.DataFrame], groups: pd.Series
) -> tuple[pd.DataFrame, Mixture]:
    """Return the first table with the mixed `predicted` and probabilities, and the last mixture.

    `tables` are predictions of the same samples and folds by method; `groups` are as of `units_of`.
    Every fold is predicted by a mixture fitted to the other folds of 0 and above; the rows of fold
    -1 by the one fitted to all folds, which is returned.
    """
    first = next(iter(tables.values()))
    classes, fold = class_names(first), first["fold"].to_numpy()
    unit = groups.loc[first["sample-id"]].to_numpy()
    observed = first["observed"].to_numpy(np.str_) if classes else numbers(first["observed"])
    values = {}
    for name, table in tables.items():
        part = table.set_index("sample-id").loc[first["sample-id"]]
        assert (part["fold"].to_numpy() == fold).all(), "other folds"
        own = class_probabilities(part, classes) if classes else numbers(part["predicted"])
        values[name] = own.reshape(len(fold), -1)

    def fitted(rows: NDArray[np.bool_]) -> Mixture:
        known = {name: value_NC[rows] for name, value_NC in values.items()}
        return Mixture.fit(known, observed[rows], classes, unit[rows])

    mixed_NC = np.empty_like(next(iter(values.values())))
    for number in np.unique(fold):
        own = fold == number
        mixture = fitted(~own & (fold >= 0))
        mixed_NC[own] = mixture.apply({name: value_NC[own] for name, value_NC in values.items()})
    result = first.drop(columns=[name for name in first if str(name).startswith(QUANTILE)])
    if classes:
        result[[PROBABILITY + name for name in classes]] = mixed_NC
        result["predicted"] = np.array(classes)[mixed_NC.argmax(axis=1)]
    else:
        result["predicted"] = mixed_NC[:, 0]
    return result, fitted(fold >= 0)


def units_of(group: pd.Series) -> pd.Series:
    """Return the group of each sample, or its ID where it has none, by sample ID."""
    return group.where(group != "", group.index.to_series())
