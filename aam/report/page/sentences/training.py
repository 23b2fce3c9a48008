"""Sentences on how AAM was trained for a task, and what it may have seen."""

from aam.report.labels import format_score


def describe_share_of_labels(model: str, share: float) -> str:
    """Say that a model learned from fewer labels than the baselines."""
    return f"{model} was trained on {100 * share:g} % of the labels; the baselines on all."


def describe_transductive() -> str:
    """Say that the encoder may have seen the samples that are predicted."""
    return "Transductive: the encoder may have seen every sample, though no label."


def describe_inductive(start: str | None) -> str:
    """Say that nothing saw the samples that are predicted.

    Parameters
    ----------
    start
        What the encoder began with, if it is not known which samples that has seen; else None.
    """
    if start is None:
        return "Inductive: no model saw any of the samples that it predicts."
    return (
        "Inductive within this study: no model was trained here on any of the samples that it "
        f"predicts. Whether {start}, from which the encoder started, has seen them is not known."
    )


def describe_draws(models: int, label: str, mean: float, sd: float) -> str:
    """Say how much the initial weights of networks change the score.

    Parameters
    ----------
    models
        Number of networks.
    label
        Name of the score.
    mean, sd
        Mean and standard deviation of the score over these networks.
    """
    return (
        f"{models} networks that differ only in their initial weights have a {label} of "
        f"{format_score(mean)} ± {format_score(sd)} (mean and standard deviation)."
    )


def describe_single_draw() -> str:
    """Say that the influence of initial weights is not known."""
    return (
        "Networks were trained from one draw of initial weights: other draws may give other scores."
    )
