"""The one exception that a user is meant to read."""

from collections.abc import Iterable

LONGEST_NAME = 40
"""Characters of a name that a message shows."""
LONGEST_TEXT = 80
"""Characters of a longer text that a message shows among others."""


class InputError(ValueError):
    """A problem that the user can fix: shown as one message, without a traceback.

    Attributes
    ----------
    actual, expected, hint
        The parts of `problem`, for callers that word the message otherwise; empty where several
        problems are joined.
    """

    actual = ""
    expected = ""
    hint = ""


def problem(where: object, actual: str, expected: str, hint: str) -> InputError:
    """Build the error for one problem of the user's files or configuration.

    Parameters
    ----------
    where
        The file or key, as the user wrote it.
    actual
        What is there.
    expected
        What would have been right.
    hint
        What to do, as an imperative.

    Returns
    -------
    InputError
        The error, for the caller to raise. Its message is
        ``<where>: got <actual>; expected <expected>. Hint: <hint>``.
    """
    error = InputError(f"{where}: got {actual}; expected {expected}. Hint: {hint}")
    error.actual, error.expected, error.hint = actual, expected, hint
    return error


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


def first_few(texts: Iterable[str], limit: int = 5) -> str:
    """Return the first of some texts, and how many more there are: ``a, b and 3 more``.

    Parameters
    ----------
    texts
        What to list; each is shortened to `LONGEST_TEXT` characters.
    limit
        How many are shown.
    """
    all_texts = list(texts)
    shown = ", ".join(_shortened(text, LONGEST_TEXT) for text in all_texts[:limit])
    more = len(all_texts) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def first_names(names: Iterable[object], limit: int = 5) -> str:
    """Return the first of some names in quotes, and how many more there are.

    Parameters
    ----------
    names
        What to list; each is shortened to `LONGEST_NAME` characters.
    limit
        How many are shown.
    """
    return first_few(map(_quoted, names), limit)


def count_names(noun: str, names: Iterable[object], limit: int = 5) -> str:
    """Return how many things there are and their names: ``group 'a'``, ``2 groups ('a', 'b')``.

    Parameters
    ----------
    noun
        What they are, in the singular; its plural ends in s.
    names
        Their names; each is shortened to `LONGEST_NAME` characters.
    limit
        How many are shown.
    """
    all_names = list(names)
    if not all_names:
        return f"no {noun}"
    if len(all_names) == 1:
        return f"{noun} {_quoted(all_names[0])}"
    shown = ", ".join(map(_quoted, all_names[:limit]))
    more = ", …" if len(all_names) > limit else ""
    return f"{len(all_names)} {noun}s ({shown}{more})"


def _quoted(name: object) -> str:
    return repr(_shortened(str(name), LONGEST_NAME))


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "…"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type where there is none.

    Parameters
    ----------
    error
        Any exception.
    """
    return str(error).strip().partition("\n")[0] or type(error).__name__
