"""By how much predictions are worse with the reads of other samples in a clade.

Shape suffixes: N samples, K samples that stand in, C classes (1 where a number is predicted).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.predictions import PROBABILITY
from aam.evaluate.comparison import measure_difference
from aam.evaluate.method_scores import headline_score

Floats = NDArray[np.float64]


def measure_loss(
    kind: str,
    classes: Sequence[str],
    table: pd.DataFrame,
    value_NC: Floats,
    replaced_NKC: Floats,
    units: pd.Series,
) -> dict[str, float]:
    """Return by how much predictions are worse with replaced reads.

    Each sample is compared with itself once per stand-in. A mean of predictions would be better
    than each of them, and a clade that says nothing would seem to do harm.

    Parameters
    ----------
    kind
        Kind of the task.
    classes
        The C classes; empty where a number is predicted.
    table
        Columns `sample-id`, `fold` and `observed` of the samples.
    value_NC
        What is predicted for them as they are.
    replaced_NKC
        What is predicted with the reads of each of K stand-ins.
    units
        Which samples belong together, by sample ID.

    Returns
    -------
    dict
        `score` as they are; `loss`, by how much it is worse; `low` and `high`, the ends of the 95 %
        interval of the loss, NaN where units are too few for a test.
    """
    own = _with_values(table, value_NC, classes)
    pairs = []
    for number in range(replaced_NKC.shape[1]):
        named = {"sample-id": table["sample-id"] + f"#{number}"}
        without = _with_values(table, replaced_NKC[:, number], classes)
        pairs.append(
            (
                own.assign(**named),
                without.assign(**named),
                units.set_axis(units.index + f"#{number}"),
            )
        )
    difference = measure_difference(kind, *map(pd.concat, zip(*pairs, strict=True)))
    # A larger error is worse, and so is a smaller share of right classes.
    sign = -1.0 if kind == "regression" else 1.0
    low, high = sorted(sign * end for end in difference.interval or (np.nan, np.nan))
    score = headline_score(kind, own)
    return {"score": score, "loss": sign * difference.difference, "low": low, "high": high}


def _with_values(table: pd.DataFrame, value_NC: Floats, classes: Sequence[str]) -> pd.DataFrame:
    """Return a table with what is predicted, and the probabilities of classes."""
    if not classes:
        return table.assign(predicted=value_NC[:, 0])
    shares = {PROBABILITY + name: value_NC[:, at] for at, name in enumerate(classes)}
    return table.assign(predicted=np.asarray(classes)[value_NC.argmax(axis=1)], **shares)
