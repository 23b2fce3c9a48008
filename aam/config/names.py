"""What people read instead of the names that a configuration gives to models."""

from collections.abc import Iterable

AAM = "AAM"
"""The model, where a configuration has one."""
FIRST = "first"
"""Name of the answer to a task by its baselines alone; those of networks have their model's."""


def name_models(models: Iterable[str]) -> dict[str, str]:
    """Return what people read instead of the names of models.

    Parameters
    ----------
    models
        Names of the configuration; one may occur several times.

    Returns
    -------
    dict
        "AAM" where there is one model, else "AAM (NAME)" for each, by the name.
    """
    distinct = list(dict.fromkeys(models))
    if len(distinct) == 1:
        return {distinct[0]: AAM}
    return {name: f"{AAM} ({name})" for name in distinct}
