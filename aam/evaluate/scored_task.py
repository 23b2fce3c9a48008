"""What the scores of any method on a task depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from aam.data.target import Bounds


@dataclass(frozen=True)
class ScoredTask:
    """What a task predicts, and by what its scores are reported."""

    names: Mapping[str, str]
    """What `dataset` and `task` are called and, where one is scored, the `model`."""
    kind: str
    """``regression``, ``classification`` or ``ordinal``."""
    column: str | Sequence[str]
    """Metadata column, or columns, that is predicted."""
    classes: Sequence[str] | None
    """Classes in their order, where they have one."""
    bounds: Bounds
    """Least and largest number that can be predicted; None: no bound."""
    report_by: Sequence[str]
    """Metadata columns by whose values scores are reported, too."""
    structure: Mapping[str, Any]
    """Which `column` keeps samples together, None where none does, and whether that was `stated`
    by the user."""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "ScoredTask":
        """Return the settings of the slices `score` and `first` of `aam.config.slices`."""
        given = {field.name: settings[field.name] for field in fields(cls)}
        return cls(**given | {"bounds": tuple(given["bounds"])})
