"""Settings of a task that are kept with the mixture of its methods, for other tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class KeptTask:
    """What is predicted for another table, and how its reads are drawn."""

    kind: str
    """``regression``, ``classification`` or ``ordinal``."""
    classes: Sequence[str] | None
    """Classes in their order, where they have one."""
    bounds: Sequence[float | None]
    """Least and largest number that can be predicted; None: no bound."""
    seed: int
    """Seed of the baselines that draw."""
    rarefaction: Mapping[str, Any]
    """Depth, seed and views of the draws of another table, as the section `rarefaction` has
    them."""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "KeptTask":
        """Return the settings of those names in a slice of `aam.config.slices`."""
        return cls(**{field.name: settings[field.name] for field in fields(cls)})
