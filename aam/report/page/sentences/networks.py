"""Sentences of a page without networks: why it has none, and what they add elsewhere."""

from collections.abc import Iterable, Sequence

from aam.report.labels import capitalize, format_amount, format_percent
from aam.util.log import format_duration


def announce_networks(models: Sequence[str], tasks: Sequence[str], seconds: float | None) -> str:
    """Say what a page of first answers lacks, and how long the rest takes.

    Parameters
    ----------
    models
        What the page calls the models that are still to be trained.
    tasks
        Names of all tasks.
    seconds
        How long their training takes, where it is known.
    """
    names = " and ".join(models)
    time = (
        "" if seconds is None else f" in about {format_duration(seconds)} on two cores like these"
    )
    follows = f"{names} follows: its encoder is"
    if len(models) > 1:
        follows = f"{names} follow: their encoders are"
    return (
        f"These answers are from methods without networks. {follows} pretrained without labels "
        f"and then fine-tuned to {', '.join(tasks)}{time}. The page report.html will have these "
        f"answers with {names} among the methods."
    )


def explain_no_networks() -> str:
    """Say why a page is without networks, and how they are asked for."""
    return (
        "AAM itself, a neural network, was not trained, because the configuration says models: {}. "
        "With models: {base: {}} it is pretrained and fine-tuned to each task, which takes minutes "
        "to hours; the results on this page stay as they are."
    )


def name_unanswered_tasks(tasks: Sequence[str]) -> str:
    """Say which tasks have no answer without networks."""
    if len(tasks) == 1:
        return f"Task {tasks[0]} has no baselines: only networks answer it."
    return f"Tasks {', '.join(tasks)} have no baselines: only networks answer them."


def describe_gain(
    what: str, labels: int, kind: str, unit: str | None, *, without: float, with_networks: float
) -> str:
    """Say what the super learner of a study reached without and with networks.

    Parameters
    ----------
    what
        What was predicted, in words.
    labels
        Number of labelled samples.
    kind
        Kind of the task.
    unit
        Unit of an error, or None.
    without, with_networks
        Headline score without and with networks.
    """
    study = f"{capitalize(what)} ({labels} labelled samples)"
    if kind == "regression":
        return (
            f"{study}: off by {format_amount(without, unit)} on average without networks, "
            f"{format_amount(with_networks, unit)} with them."
        )
    return (
        f"{study}: right in {format_percent(without, 1)} of the samples of a class, averaged over "
        f"the classes, without networks, {format_percent(with_networks, 1)} with them."
    )


def introduce_gains(gains: Iterable[str], draws: int) -> str:
    """Say what networks changed in studies of a size.

    Parameters
    ----------
    gains
        Sentences of `describe_gain`.
    draws
        Least number of divisions into folds that the scores of a study are the means of.
    """
    divisions = "one division" if draws == 1 else f"{draws} divisions or more"
    return (
        "What networks changed in the score of the super learner, the mixture of all methods, in "
        f"studies of about this size: {' '.join(gains)} Each pair of scores is from {divisions} "
        "into folds, so such differences can be chance."
    )


def explain_unmeasured_gain(sizes: Sequence[int]) -> str:
    """Say that nobody knows what networks add to tasks of so many labelled samples."""
    return (
        "What networks add was not measured in studies of about "
        f"{' or '.join(map(str, sizes))} labelled samples."
    )
