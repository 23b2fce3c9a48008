"""The base class of all sections."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen section of the configuration that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def plain(self) -> dict[str, Any]:
        """Return the section as plain built-in types, every key present, in a fixed order."""
        return self.model_dump(mode="json")


Override = dict[str, Any]
"""Keys of another section that replace the global ones for one dataset, model or task."""
