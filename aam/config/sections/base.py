"""The base classes of all sections, and of what stages get of them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class Section(BaseModel):
    """A frozen section of the configuration that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def plain(self) -> dict[str, Any]:
        """Return the section as plain built-in types, every key present, in a fixed order."""
        return self.model_dump(mode="json")


class StageSettings(Section):
    """What one stage gets of the configuration: whatever changes it makes the stage stale.

    Snakemake compares the text of `plain`. A field without a value that has a default is left out
    there, so that a new one of these leaves the results of old configurations fresh.
    """

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        given: dict[str, Any] = handler(self)
        return {
            key: value
            for key, value in given.items()
            if value is not None or fields[key].is_required()
        }


FilePath = Annotated[str, Field(pattern=r"^[^{}]+$")]
"""A path of the user; Snakemake would replace what stands in braces."""
Override = dict[str, Any]
"""Keys of another section that replace the global ones for one dataset, model or task."""
