import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from aam.evaluate.baselines.problem import Problem


def predictions_of(observed, predicted, fold, shares=None, classes=()) -> pd.DataFrame:
    """Return a table of predictions; `shares` are probabilities of the classes, one per column."""
    columns = {"fold": fold, "observed": observed, "predicted": predicted}
    columns |= {f"probability:{name}": shares[:, i] for i, name in enumerate(classes)}
    return pd.DataFrame({"sample-id": [f"s{i}" for i in range(len(observed))], **columns})


def problem_of(target, counts, distances, fold, classes=(), group=None, **more) -> Problem:
    """Return what baselines are asked, of features on a tree that is a star."""
    features, samples = counts.shape[1], len(target)
    return Problem(
        **{"kind": "classification" if classes else "regression", "seed": 0, **more},
        target=target,
        classes=list(classes),
        fold=fold,
        group=np.full(samples, "") if group is None else group,
        counts=csr_array(counts),
        distances=distances.astype(np.float32),
        above=csr_array(np.eye(features)),
        lengths=np.ones(features),
    )
