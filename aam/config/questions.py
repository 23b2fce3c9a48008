"""Further questions about a task: the same target, with the samples divided another way.

A key of a task asks a further question. Each becomes a task of its own, whose name is that of the
user's task with the question behind an `@`, so that it has the files and the rules of every other
task. Loading a configuration adds these tasks; none can be written by hand, as names have no `@`.
The page puts the answer into the section of the user's task.
"""

from collections.abc import Mapping

from aam.config.sections.task import Folds, Task

MARK = "@"
"""What stands between the name of a task and that of a question."""
STUDIES = "studies"
"""Whether the target can be predicted in a study never seen: folds are of whole studies."""

FORECAST = "forecast"
"""Whether later samples can be predicted from earlier ones, which alone are learned from."""


def with_questions(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return all tasks, each followed by those of its further questions.

    Parameters
    ----------
    tasks
        The tasks that the user has, by name.
    """
    asked: dict[str, Task] = {}
    for name, task in tasks.items():
        asked[name] = task
        if task.studies is not None:
            asked[f"{name}{MARK}{STUDIES}"] = _ask_for_studies(task, task.studies)
        if task.forecast is not None:
            asked[f"{name}{MARK}{FORECAST}"] = _ask_for_forecast(task)
    return asked


def _ask_for_forecast(task: Task) -> Task:
    """Return a task whose test set are the samples after a time, and that asks nothing else.

    The samples up to that time are divided as those of the task. A test set that values of a column
    name stays out of it; a fraction leaves none out.
    """
    test = task.folds.test if isinstance(task.folds.test, dict) else 0.0
    changes = {
        "folds": task.folds.model_copy(update={"test": test}),
        "report_by": [],
        "importance": False,
        "studies": None,
    }
    return task.model_copy(update=changes)


def _ask_for_studies(task: Task, column: str) -> Task:
    """Return a task that leaves out whole studies, and asks for nothing else.

    A test set that values of a column name stays out of it. A fraction would be drawn of whole
    studies here, and leaves none out.
    """
    test = task.folds.test if isinstance(task.folds.test, dict) else 0.0
    changes = {
        "folds": Folds(column=column, test=test, seed=task.folds.seed),
        "covariates": [],
        "report_by": [],
        "importance": False,
        "studies": None,
        "time": None,
        "forecast": None,
    }
    return task.model_copy(update=changes)


def asked_task(name: str) -> str:
    """Return the user's task that a task asks a further question about, or the task itself."""
    return name.partition(MARK)[0]


def question_of(name: str) -> str | None:
    """Return which further question a task asks; None: the one that the user wrote it for."""
    return name.partition(MARK)[2] or None
