"""What clades bring to pipelines of scikit-learn: the same learner and folds, other features.

    python -m benchmarks.pipelines [../shared/data]

It prints a row per task, learner and kind of features: the mean of the score over three draws of
five folds, the standard deviation between draws, the seconds of a draw and the number of features
of all samples. Body sites of moving pictures: accuracy, folds by sample, for there are two people.
Infant guts: balanced accuracy of the delivery and mean absolute error of the day of life in days,
folds by child.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from aam.data.importing.metadata import load_metadata
from aam.data.importing.table import load_table
from aam.inference.features import SampleFeatures

DRAWS = 3
FOLDS = 5
TREES = 100
TASKS: dict[str, tuple[str, str, str | None, Any]] = {
    "body site": ("moving-pictures", "BodySite", None, accuracy_score),
    "delivery": ("ecam", "delivery", "host_subject_id", balanced_accuracy_score),
    "day of life": ("ecam", "day_of_life", "host_subject_id", mean_absolute_error),
}
"""Study, column, groups and score."""


def main(data: Path) -> None:
    """Print the table.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    rows = []
    for task, (study, column, units, score) in TASKS.items():
        reads, target, groups = read_task(data / study, column, units)
        for kind, features in all_features().items():
            width = features.fit_transform(reads).shape[1]
            for learner, model in learners(is_number=target.dtype == float).items():
                began = time.perf_counter()
                pipeline = make_pipeline(features, model)
                scores = [
                    score(target, cross_val_predict(pipeline, reads, target, cv=folds))
                    for folds in draw_folds(target, groups)
                ]
                seconds = (time.perf_counter() - began) / DRAWS
                result = np.mean(scores), np.std(scores, ddof=1), seconds, width
                rows.append((task, learner, kind, *result))
                print(rows[-1], file=sys.stderr, flush=True)
    columns = ["task", "learner", "features", "score", "sd", "seconds", "number"]
    print(pd.DataFrame(rows, columns=columns).to_markdown(index=False, floatfmt=".3f"))


def read_task(folder: Path, column: str, units: str | None) -> tuple[pd.DataFrame, Any, Any]:
    """Return reads, target and groups of the samples that have a value, and a child where asked.

    Parameters
    ----------
    folder
        That of the study.
    column
        What is predicted.
    units
        Column of the groups; None: each sample is its own.
    """
    table = load_table(folder / "table.biom")
    labels = load_metadata(folder / "metadata.tsv").reindex(table.sample_ids)
    kept = (labels[column] != "") & labels[column].notna()
    if "mom_child" in labels:
        kept &= labels["mom_child"] == "C"
    frame = pd.DataFrame(table.counts.toarray(), table.sample_ids, table.feature_ids)[kept]
    labels = labels[kept]
    try:
        target = labels[column].to_numpy(float)
    except ValueError:
        target = labels[column].to_numpy(str)
    return frame, target, (np.arange(len(labels)) if units is None else labels[units].to_numpy(str))


def all_features() -> dict[str, Any]:
    """Return the kinds of features by their names."""
    return {
        "log(1 + reads) of ASVs": FunctionTransformer(np.log1p),
        "ASVs, of 1000 reads": SampleFeatures(None),
        "clades of v4": SampleFeatures("v4"),
        "ratios in v4": SampleFeatures("v4", "ratios"),
    }


def learners(*, is_number: bool) -> dict[str, Any]:
    """Return a forest and a linear method with the settings that people use."""
    if is_number:
        linear: Any = RidgeCV(alphas=np.logspace(-1, 6, 15))
        forest: Any = RandomForestRegressor(TREES, max_features=0.33, random_state=0)
    else:
        linear = LogisticRegression(C=0.01, class_weight="balanced", max_iter=1000)
        forest = RandomForestClassifier(TREES, random_state=0)
    return {"forest": forest, "linear": make_pipeline(StandardScaler(), linear)}


def draw_folds(target: Any, groups: Any) -> list[list[tuple[Any, Any]]]:
    """Return the folds of every draw: whole groups, and classes spread evenly."""
    kind = GroupKFold if target.dtype == float else StratifiedGroupKFold
    return [
        [*kind(FOLDS, shuffle=True, random_state=draw).split(target, target, groups)]
        for draw in range(DRAWS)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
