"""A study of two clades, one of which makes the label."""

import numpy as np
from numpy.typing import NDArray

FEATURES = [f"s{number}" for number in range(12)]
SAMPLES = 90
FOLDS = 3
TREE = "((s0:1,s1:1,(s2:1,s3:1):1):1,((s4:1,s5:1):1,s6:1,s7:1,s8:1,s9:1,s10:1,s11:1):1);"
SIGNAL, NOISE = [2, 3], [4, 5]
"""Numbers of the features of both clades."""


def plant(kind: str, noise: float) -> tuple[NDArray[np.int64], NDArray, list[str]]:
    """Return reads, labels that follow the reads of `SIGNAL`, and the classes, the higher first.

    Parameters
    ----------
    kind
        regression or classification.
    noise
        Standard deviation of what the label has beside the log-reads of the clade.
    """
    rng = np.random.default_rng(3)
    weight = np.exp(rng.normal(size=(SAMPLES, len(FEATURES))))
    share = weight / weight.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(500, row) for row in share])
    label = np.log1p(counts[:, SIGNAL].sum(axis=1)) + noise * rng.normal(size=SAMPLES)
    if kind == "regression":
        return counts, label, []
    classes = ["01", "02"]
    return counts, np.where(label > np.median(label), *classes), classes
