"""Files that a stage of training reads, by the names that its rule gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class InputFiles:
    """Paths, or lists of paths, by the names of the fields; None: there is no such file."""

    @classmethod
    def read(cls, files: Mapping[str, Any]) -> Self:
        """Return the files of a mapping by name, which may have others, too.

        Parameters
        ----------
        files
            Paths, or lists of paths; they may be text.

        Returns
        -------
        InputFiles
            Fields that the mapping lacks are None.
        """
        given = {
            field.name: _as_paths(files[field.name])
            for field in fields(cls)
            if files.get(field.name) is not None
        }
        return cls(**given)

    def named(self) -> dict[str, Any]:
        """Return the files that there are, by name.

        Returns
        -------
        dict
            Paths, or lists of paths, in the order of the fields: what provenance is made of.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def _as_paths(value: Any) -> Any:
    return [Path(item) for item in value] if isinstance(value, list) else Path(value)
