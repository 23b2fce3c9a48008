"""The one exception that a user is meant to read."""

from collections.abc import Iterable


class InputError(ValueError):
    """A problem that the user can fix: shown as one message, without a traceback."""


def problem(where: object, got: str, expected: str, hint: str) -> InputError:
    """Build the error for one problem of the user's files or configuration.

    Parameters
    ----------
    where
        The file or key, as the user wrote it.
    got
        What was found there.
    expected
        What would have been right.
    hint
        What to do, as an imperative.

    Returns
    -------
    InputError
        The error, for the caller to raise. Its message is
        ``<where>: got <got>; expected <expected>. Hint: <hint>``.
    """
    return InputError(f"{where}: got {got}; expected {expected}. Hint: {hint}")


def problems(errors: Iterable[InputError]) -> InputError:
    """Join several problems into one error.

    Parameters
    ----------
    errors
        Errors that `problem` built.

    Returns
    -------
    InputError
        One error whose message has a line for each.
    """
    return InputError("\n".join(str(error) for error in errors))


def first_names(names: Iterable[object], limit: int = 5) -> str:
    """Return the count and the first few of some names, for messages: ``3 (a, b, …)``.

    Parameters
    ----------
    names
        What to list; each is shortened to 40 characters.
    limit
        How many are shown.
    """
    all_names = [str(name) for name in names]
    shown = ", ".join(name if len(name) <= 40 else name[:37] + "…" for name in all_names[:limit])
    return f"{len(all_names)} ({shown}{', …' if len(all_names) > limit else ''})"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type where there is none.

    Parameters
    ----------
    error
        Any exception.
    """
    return str(error).strip().partition("\n")[0] or type(error).__name__
