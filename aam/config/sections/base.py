"""The base class of all sections."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen section of the configuration that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def plain(self) -> dict[str, Any]:
        """Return the section as plain built-in types, every key present, in a fixed order."""
        return self.model_dump(mode="json")


FilePath = Annotated[str, Field(pattern=r"^[^{}]+$")]
"""A path of the user; Snakemake would replace what stands in braces."""
Override = dict[str, Any]
"""Keys of another section that replace the global ones for one dataset, model or task."""
