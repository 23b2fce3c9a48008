"""Sentences on the ASVs that matter most to AAM's predictions."""

from aam.report.labels import format_percent


def title_most_important(model: str, what: str) -> str:
    """Return the title of the ASVs that a model's predictions of something rest on."""
    return f"The ASVs that matter most to the {model} model for {what}"


def describe_owner_of_importances(model: str, weight: float | None) -> str:
    """Say whose importances are shown.

    Parameters
    ----------
    model
        What sentences call the model.
    weight
        Its weight in the super learner, where there is one.
    """
    if weight is None:
        return f"Importances of ASVs are those of {model}."
    return (
        f"Importances of ASVs are those of {model} alone; {model} has {format_percent(weight)} of "
        "the super learner's weight."
    )


def explain_importances_of_networks() -> str:
    """Say why an answer without networks has no importances."""
    return "Which ASVs matter most is computed for networks only, and none was trained."


def explain_hidden_importances() -> str:
    """Say why the page shows no importances under a red light."""
    return (
        "The ASVs that matter most are not shown, because the red light says not to use these "
        "predictions."
    )


def explain_importances_not_asked_for() -> str:
    """Say that no importances were computed."""
    return (
        "Which ASVs the predictions rest on was not computed, because the configuration says "
        "importance: false."
    )


def title_names_of_top_asvs() -> str:
    """Return the title of the commands that name the most important ASVs."""
    return "Names for the most important ASVs"


def explain_commands_for_names() -> str:
    """Say how the most important ASVs of a study without a taxonomy get names."""
    return (
        "This study has no taxonomy. In QIIME 2 these commands name the most important ASVs; "
        "classifier.qza is one that was trained for the region of your primers. For names on this "
        "page, set the key taxonomy of the dataset to the result and run again."
    )
