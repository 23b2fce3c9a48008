"""Whose code a stage rests on: what is not to cost a training when it changes."""

import pytest

from aam.config.digest import imported_modules

DRAWING = {"aam.data.splits", "aam.data.targets", "aam.stages.folds"}
"""How folds are drawn; their files stand for it."""
SCORING = {"aam.evaluate.metrics", "aam.evaluate.conformal", "aam.stages.score"}
TASKS = {"aam.config.sections.finetuning", "aam.config.sections.task", "aam.config.losses"}


@pytest.mark.parametrize(
    ("stage", "others"),
    [
        ("pretrain", DRAWING | SCORING | TASKS | {"aam.data.folds"}),
        ("pretrain_inductive", DRAWING | SCORING | TASKS),
        ("finetune", DRAWING | SCORING),
    ],
)
def test_a_training_does_not_rest_on(stage: str, others: set[str]) -> None:
    for module in others:
        assert imported_modules(module)
    assert not imported_modules(f"aam.stages.{stage}") & others
