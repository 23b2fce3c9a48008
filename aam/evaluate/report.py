"""The scores of one task."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from aam.data.targets import metadata_column
from aam.evaluate import metrics
from aam.evaluate.conformal import scaled_probabilities, temperature
from aam.evaluate.predictions import PROBABILITY, class_names
from aam.evaluate.scores import MAIN


def task_metrics(
    kind: str,
    predictions: pd.DataFrame,
    metadata: pd.DataFrame | None = None,
    report_by: Sequence[str] = (),
    classes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Score predictions of one target, whatever their fold.

    Parameters
    ----------
    kind
        regression, classification or ordinal.
    predictions
        Columns `sample-id`, `fold`, `observed`, `predicted`, and `probability:<class>` of every
        class; one row per sample.
    metadata
        Sample metadata, index sample IDs; needed where `report_by` names columns.
    report_by
        Metadata columns whose values get a score of their own.
    classes
        Classes in their order, the lowest first; None: in that of the columns.

    Returns
    -------
    dict
        `n`, the names of `scores.MAIN[kind]`, and `folds` (n and score of each fold). A
        regression has `mae_by` (column, value: `n`, `mae`); the other kinds `accuracy_by`,
        `per_class` and `confusion`. Plain types without NaN: None where a score is undefined.

    Raises
    ------
    InputError
        If a column of `report_by` is not in the metadata.
    """
    assert kind in MAIN
    assert predictions["sample-id"].is_unique
    observed, predicted, fold = (predictions[name] for name in ("observed", "predicted", "fold"))
    labels = _labels(predictions["sample-id"], metadata, report_by)
    if kind == "regression":
        observed, predicted = pd.to_numeric(observed), pd.to_numeric(predicted)
        return {
            "n": len(predictions),
            **metrics.regression_metrics(observed, predicted, fold),
            "folds": metrics.subset_mae(observed, predicted, fold),
            "mae_by": {
                name: metrics.subset_mae(observed, predicted, values)
                for name, values in labels.items()
            },
        }
    classes = class_names(predictions) if classes is None else list(classes)
    scored = metrics.ordinal_metrics if kind == "ordinal" else metrics.classification_metrics
    probabilities = predictions[[PROBABILITY + name for name in classes]].to_numpy(dtype=float)
    return {
        "n": len(predictions),
        **scored(observed, predicted, probabilities, classes, fold),
        "folds": metrics.subset_accuracy(observed, predicted, fold),
        "accuracy_by": {
            name: metrics.subset_accuracy(observed, predicted, values)
            for name, values in labels.items()
        },
        "per_class": metrics.per_class_table(observed, predicted, probabilities, classes),
        "confusion": metrics.confusion(observed, predicted, classes),
    }


def target_report(
    kind: str,
    predictions: pd.DataFrame,
    metadata: pd.DataFrame | None = None,
    report_by: Sequence[str] = (),
    classes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Score the rows of fold 0 and above, and apart from them the held-out test samples.

    Parameters
    ----------
    kind, predictions, metadata, report_by, classes
        As for `task_metrics`; the rows of fold -1 are the test samples.

    Returns
    -------
    dict
        What `task_metrics` returns for the cross-validated samples, and in `test`, where there
        are any, for the test samples. Of classes both have also `calibrated_brier` and
        `calibrated_ece`, of probabilities scaled by the temperature of the other folds, and the
        first `temperature`, that of all folds.
    """
    is_test = predictions["fold"].to_numpy() < 0
    parts = {"": predictions[~is_test], "test": predictions[is_test]}
    scores = {
        name: task_metrics(kind, part, metadata, report_by, classes)
        for name, part in parts.items()
        if len(part)
    }
    if kind != "regression":
        names = class_names(predictions) if classes is None else list(classes)
        scaled_NC = scaled_probabilities(predictions, names)
        for name, rows in (("", ~is_test), ("test", is_test)):
            if rows.any():
                values = metrics.probability_metrics(
                    predictions["observed"][rows], scaled_NC[rows], names
                )
                scores[name] |= {f"calibrated_{key}": value for key, value in values.items()}
        shares_NC = parts[""][[PROBABILITY + name for name in names]].to_numpy(dtype=float)
        scores[""]["temperature"] = temperature(parts[""]["observed"], shares_NC, names)
    report = scores.pop("")
    return {**report, **scores}


def _labels(
    sample_ids: pd.Series, metadata: pd.DataFrame | None, report_by: Sequence[str]
) -> dict[str, Any]:
    if not report_by:
        return {}
    assert metadata is not None, "report_by needs the metadata"
    return {
        name: metadata_column(metadata, name).reindex(sample_ids).to_numpy(dtype=object)
        for name in report_by
    }
