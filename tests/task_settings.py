"""Settings of the task of a study, as the stages of its folds and of its scores get them."""

from typing import Any

from aam.config.settings.tasks import FoldsSettings, ScoreSettings


def folds_settings(folds: dict[str, Any], **changes: Any) -> FoldsSettings:
    """Return a task that predicts the classes of the column `ill`, with these folds."""
    settings = {"columns": ["ill"], "where": {}, "kind": "classification", "classes": None}
    settings |= {"categories": [], "folds": folds, "logarithm": False}
    return FoldsSettings.model_validate(settings | changes)


def score_settings(**changes: Any) -> ScoreSettings:
    """Return a task that predicts the number `age` of hosts by baselines alone."""
    settings = {"dataset": "d", "task": "t", "answer": "first", "kind": "regression"}
    settings |= {"columns": ["age"], "classes": None, "bounds": (None, None), "report_by": []}
    settings |= {"structure": {"column": "host", "stated": True}}
    return ScoreSettings.model_validate(settings | changes)
