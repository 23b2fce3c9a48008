"""The base classes of all sections, and of what stages get of them."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)


class Section(BaseModel):
    """A frozen section of the configuration that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `yes` and `no` for numbers, which would be 1 and 0."""
        assert info.field_name is not None, "a validator of fields"
        if not isinstance(value, bool):
            return value
        takes = _types_in(cls.model_fields[info.field_name].annotation)
        if takes & {int, float} and not takes & {bool, Any}:
            words = "yes, on and true" if value else "no, off and false"
            raise ValueError(f"got {value}, as YAML reads {words}; expected a number")
        return value

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


def _types_in(annotation: Any) -> set[Any]:
    """Return the types that a value may have; a literal has those of its values."""
    origin = get_origin(annotation)
    if origin is Literal:
        return {type(value) for value in get_args(annotation)}
    if origin is Annotated:
        return _types_in(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return set[Any]().union(*map(_types_in, get_args(annotation)))
    return {annotation if origin is None else origin}


FilePath = Annotated[str, Field(pattern=r"^[^{}]+$")]
"""A path of the user; Snakemake would replace what stands in braces."""
Override = dict[str, Any]
"""Keys of another section that replace the global ones for one dataset, model or task."""
