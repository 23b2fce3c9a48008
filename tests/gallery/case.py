"""What a case of the gallery is: a twist of a healthy study, and what has to come out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gallery.study import Study


@dataclass(frozen=True)
class Outcome:
    """How a step may end, and the facts that its output holds then.

    A fact is a regular expression, whatever its case, in the output without line breaks. Facts are
    names, values, counts and files: the words around them are nobody's business here.
    """

    passes: tuple[str, ...] | None = ()
    """Facts where it passes; None: it may not pass."""
    refused: tuple[str, ...] | None = None
    """Facts where it is refused; None: it may not be refused."""
    never: tuple[str, ...] = ()
    """What the output never holds."""


PASSES = Outcome()


def refused(*facts: str, never: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of what has to be refused."""
    return Outcome(passes=None, refused=facts, never=never)


def either(
    *, passes: tuple[str, ...] = (), refused: tuple[str, ...], never: tuple[str, ...] = ()
) -> Outcome:
    """Return the outcome of what may pass or be refused, if the facts are named."""
    return Outcome(passes=passes, refused=refused, never=never)


@dataclass(frozen=True)
class Ran:
    """What a case has left, for what only it asserts."""

    folder: Path
    study: Study
    said: Mapping[str, str]
    """Output of each step by its name."""
    page: str
    """The page of the first answers as text, without its tables of samples; '' where none is."""

    @property
    def results(self) -> Path:
        """The folder of the results."""
        return self.folder / "results" / "mine"


Twist = Callable[[Study, Path], None]


@dataclass(frozen=True)
class Step:
    """A further command of a case, behind the first answer."""

    command: tuple[str, ...]
    """Arguments of `aam`; FILES stands for the configurations of the case."""
    outcome: Outcome
    twist: Twist | None = None
    """Changes the files before it."""


@dataclass(frozen=True)
class Case:
    """A study as people have it, and what `init`, `check`, `run FILE first` and predicting say."""

    name: str
    report: str
    """The public report that it was rebuilt from, or the issue."""
    twist: Twist
    """Changes the study, or writes files of its own, before the others are written."""
    columns: str | None = "group"
    """What `aam init --columns` gets."""
    reading: Outcome = PASSES
    """How `init` and `check` end together: the first of them that refuses, or what both say."""
    may_be_late: bool = False
    """Whether `check` may refuse what `init` took: files that `init` hands on, or `settings`."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kind of task by column in the configuration that `init` writes."""
    decided: tuple[str, ...] = ()
    """Facts that nobody may miss: what `init` or `check` says, and the page where there is one."""
    runs: bool = False
    """Whether a first answer is made where `check` passes: it costs seconds."""
    first: Outcome = PASSES
    """How `run FILE first` ends; the page counts as its output."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the configuration that `init` wrote."""
    baselines: tuple[str, ...] = ("kernel_clr",)
    prediction: Outcome | None = None
    """How predicting ends, of the table that `settings` names `new`, for the task `group`."""
    steps: tuple[Step, ...] = ()
    then: Callable[[Ran], None] | None = None
    """What else has to be true."""
