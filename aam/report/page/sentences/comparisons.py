"""Sentences that compare methods on the same samples: the super learner, AAM and its recipes.

`kind` is the kind of a task, and a `difference` is the headline score of the method that is named
first minus that of the other one.
"""

from collections.abc import Mapping

from aam.evaluate.scores import is_better
from aam.report.labels import capitalize, format_p_value, format_percent, format_score, to_words
from aam.report.page.verdicts import CHANCE

LEAST_SHOWN = 0.01
"""Least weight of a method that is named."""


def describe_groups(column: str | None, groups: int | None, *, independent: bool) -> str:
    """Say which samples belong together for the tests and intervals of a task.

    Parameters
    ----------
    column
        The metadata column whose values are the groups, or None.
    groups
        Number of groups.
    independent
        Whether no two samples share a group.
    """
    if column is None:
        return "Tests and intervals take every sample as independent of all others."
    if independent:
        return (
            f"No two samples have the same {to_words(column)}, so tests and intervals take them as "
            "independent."
        )
    return (
        f"Samples of one {to_words(column)} stay together in the folds ({groups} groups). Tests do "
        "not treat them as independent."
    )


def judge_difference(kind: str, difference: float, p: float | None) -> str:
    """Say in which direction a difference points, or that it could be chance."""
    if p is None:
        return "no test is possible with these folds"
    if p >= CHANCE or difference == 0:
        return f"could be chance, {format_p_value(p)}"
    return f"{'better' if is_better(kind, difference) else 'worse'}, {format_p_value(p)}"


def describe_super_learner(
    label: str, value: float, weights: Mapping[str, float], always: str
) -> str:
    """Say what the super learner reaches, and the weights of its methods.

    Parameters
    ----------
    label
        Name of the score.
    value
        Its value.
    weights
        Weight for new samples by what the page calls the method. Those of less than one percent are
        left out. The predictions that are scored have other weights in each fold.
    always
        The method that is named whatever its weight is.
    """
    by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    shown = [
        f"{name} {format_percent(weight)}"
        for name, weight in by_weight
        if weight >= LEAST_SHOWN or name == always
    ]
    return (
        f"The super learner, a weighted mean of all methods: {label} {format_score(value)}. Its "
        f"weights for new samples: {', '.join(shown)}."
    )


def compare_without_model(
    kind: str, model: str, value: float, difference: float, p: float | None
) -> str:
    """Say what the super learner reaches without a model, and what the model adds.

    Parameters
    ----------
    kind
        Kind of the task.
    model
        What sentences call the model.
    value
        Headline score without it.
    difference, p
        Headline score with the model minus that without it, and its p-value.
    """
    return (
        f"Without {model} the super learner reaches {format_score(value)}. The score with {model} "
        f"minus that without: {difference:+.3g} ({judge_difference(kind, difference, p)})."
    )


def compare_unnested_weights(kind: str, owner: str, value: float, difference: float) -> str:
    """Say what a score would be whose weights had seen the fold.

    Parameters
    ----------
    kind
        Kind of the task.
    owner
        What is mixed with these weights.
    value
        Headline score with weights that rest on models that saw the fold.
    difference
        That score minus the one that is reported.
    """
    effect = "no better"
    if is_better(kind, difference):
        effect = f"better by {abs(difference):.3g}, which is not real"
    return (
        f"The weights of {owner} for a fold rest only on models that never saw the fold. With "
        f"models that saw it the score would be {format_score(value)}, {effect}."
    )


def compare_with_chosen_learner(
    kind: str, value: float, learners: Mapping[str, int], difference: float, p: float | None
) -> str:
    """Say what the single method reaches that inner cross-validation chooses.

    Parameters
    ----------
    kind
        Kind of the task.
    value
        Headline score of the chosen methods.
    learners
        How many folds chose each, by what the page calls it.
    difference, p
        Headline score of the super learner minus `value`, and its p-value.
    """
    by_number = sorted(learners.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(
        f"{name} in {folds} {'fold' if folds == 1 else 'folds'}" for name, folds in by_number
    )
    return (
        "The one method that cross-validation within the training folds would choose "
        f"({names}) reaches {format_score(value)}. Super learner minus this method: "
        f"{difference:+.3g} ({judge_difference(kind, difference, p)})."
    )


def describe_model_alone(model: str, label: str, value: float, spread: float | None) -> str:
    """Say what a model reaches without the baselines.

    Parameters
    ----------
    model
        What sentences call the model.
    label
        Name of the score.
    value
        Its value.
    spread
        Standard deviation over folds, or None.
    """
    alone = f"{capitalize(model)} alone: {label} {format_score(value)}"
    if spread is None:
        return f"{alone}."
    return f"{alone} ± {format_score(spread)} (standard deviation over the folds)."


def describe_recipes(model: str, recipes: Mapping[str, tuple[float, float]]) -> str:
    """Say which recipes a model mixes: `recipes` has the weight of each, and its score alone."""
    by_weight = sorted(recipes.items(), key=lambda item: (-item[1][0], item[0]))
    parts = ", ".join(
        f"{name} {format_percent(weight)} ({format_score(alone)} alone)"
        for name, (weight, alone) in by_weight
    )
    return f"{model} mixes these recipes: {parts}."


def describe_test_samples(
    label: str, owner: str, n: int, value: float, others: Mapping[str, float]
) -> str:
    """Say what methods reach on samples that no fold has.

    Parameters
    ----------
    label
        Name of the score.
    owner
        What sentences call the method.
    n
        Number of these samples.
    value
        Score of the method.
    others
        Scores of other methods, by what the page calls them.
    """
    shown = ", ".join(f"{name} {format_score(other)}" for name, other in others.items())
    brackets = f" ({shown})" if shown else ""
    return (
        f"{capitalize(owner)} on {n} held-out test samples: "
        f"{label} {format_score(value)}{brackets}."
    )
