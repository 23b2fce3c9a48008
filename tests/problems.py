import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from aam.data.nested_folds import blocks_of_folds
from aam.learners.baselines.problem import Problem
from aam.learners.super_learner import WITHOUT, Learner


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


def nested_of(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return cross-validated predictions as if they were nested: those of all other blocks."""
    blocks = blocks_of_folds(predictions["fold"].to_numpy())
    block = predictions["fold"].map(blocks).fillna(-1)
    parts = []
    for number in sorted(set(blocks.values())):
        rows = predictions[(block != number) & (block >= 0)]
        parts.append(rows.drop(columns=["fold", "observed"]).assign(**{WITHOUT: number}))
    # Nothing is predicted where there are no blocks.
    parts.append(predictions.iloc[:0].drop(columns=["fold", "observed"]).assign(**{WITHOUT: 0}))
    return pd.concat(parts, ignore_index=True)


def learners_of(tables: dict[str, pd.DataFrame]) -> dict[str, Learner]:
    """Return learners whose nested predictions are their cross-validated ones."""
    return {name: Learner(table, nested_of(table)) for name, table in tables.items()}
