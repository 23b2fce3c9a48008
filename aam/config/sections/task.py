"""Targets from the sample metadata, their folds, and tables to predict for."""

import unicodedata
from datetime import date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from aam.config.baselines import BaselineName
from aam.config.sections.base import FilePath, Override, Section


def as_text(value: Any) -> Any:
    """Return what YAML read as numbers or dates as the text that metadata have.

    Letters with accents get the composed form, as the import of metadata gives it to them.

    Parameters
    ----------
    value
        A name or value of the metadata, or lists and mappings of them.

    Raises
    ------
    ValueError
        YAML read a word as a truth value or as nothing, or a date with a time, so that the text is
        lost.
    """
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, dict):
        return {as_text(key): as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_text(inner) for inner in value]
    quoted = "expected text: write it in quotes, as the metadata have it"
    if isinstance(value, bool):
        words = "yes, on and true" if value else "no, off and false"
        raise ValueError(f"got {value}, as YAML reads {words} without quotes; {quoted}")
    if value is None:
        raise ValueError(f"got nothing, as YAML reads null and ~ without quotes; {quoted}")
    if isinstance(value, datetime):
        raise ValueError(f"got {value}, which YAML read as a date with a time; {quoted}")
    if isinstance(value, int | float):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else value


class Folds(Section):
    """The folds of cross-validation."""

    column: str | None = None
    """Metadata column with the fold of each sample, such as the study."""
    k: int | None = Field(None, ge=2, le=100_000)
    """Number of folds to draw."""
    groups: str | Literal[False] | None = None
    """Metadata column whose samples stay together, such as the host; each group lies in one fold.
    `false`: no two samples share a person, an animal or a site. Null: with `column` the folds are
    the groups; with `k` groups are unknown, and the page warns."""
    stratified: bool = False
    """Give all folds the same class frequencies."""
    test: Annotated[float, Field(ge=0, lt=1)] | dict[str, str | list[str]] = 0.0
    """Fraction of the samples set aside as a test set, in whole groups (with `column`, whole
    folds); or a metadata column and its values that mark the test set, `{split: test}`."""
    seed: int = 0
    """Seed of the draw."""

    @field_validator("groups", mode="before")
    @classmethod
    def _column_or_false(cls, groups: Any) -> Any:
        # Pydantic would list a problem for each type of the union.
        if groups is None or groups is False:
            return groups
        if isinstance(groups, str) and groups:
            return as_text(groups)
        raise ValueError(
            f"got {groups!r}; expected the name of a metadata column, false (every sample is of "
            "its own) or null"
        )

    @field_validator("column", mode="before")
    @classmethod
    def _name(cls, column: Any) -> Any:
        return None if column is None else as_text(column)

    @field_validator("test", mode="before")
    @classmethod
    def _fraction_or_values(cls, test: Any) -> Any:
        # Pydantic would list a problem for each type of the union.
        if isinstance(test, dict):
            values = as_text(test)
            if len(values) == 1 and all(values.values()):
                return values
        elif isinstance(test, int | float) and not isinstance(test, bool) and 0 <= test < 1:
            return test
        raise ValueError(
            f"got {test!r}; expected a fraction below 1, or one metadata column with the value, or "
            "the values, of the samples to test: {split: test}"
        )

    @property
    def holds_out(self) -> bool:
        """Whether any samples are set aside as a test set."""
        return self.test != 0

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.column is None) == (self.k is None):
            raise ValueError("give either `column` or `k`, not both and not neither")
        if self.column is not None and self.stratified:
            raise ValueError("`stratified` goes with `k`, not with `column`")
        return self


class Task(Section):
    """What to predict: a column, or several numbers at once."""

    dataset: str
    """Name under `datasets`."""
    column: str | Annotated[list[str], Field(min_length=1)]
    """Metadata column to predict, or several columns of numbers."""
    where: dict[str, str | list[str]] = {}
    """Metadata columns and the values that a sample must have."""
    kind: Literal["regression", "classification", "ordinal"]
    """Number, class, or ordered class."""
    classes: list[str] | None = None
    """Classes of an ordinal target, the lowest first."""
    transform: Literal["none", "zscore", "log", "log_zscore", "quantile"] = "zscore"
    """Transform of a number for training; log is log(1 + x), quantile the normal deviate of its
    rank."""
    transform_by: str | None = None
    """Metadata column within whose categories the z-score is taken."""
    bounds: tuple[float | None, float | None] = (None, None)
    """Least and largest possible prediction; null: no bound."""
    condition: list[str] = []
    """Metadata columns of categories that networks also get."""
    covariates: list[str] = []
    """Metadata columns, numbers or categories, beside which the page says what the features add."""
    folds: Folds
    """Cross-validation."""
    studies: str | None = None
    """Metadata column of studies, cohorts, centers or runs, each of which is also left out once, a
    tenth of them at a time where there are more than ten: the page then says how the prediction
    does in one that was never seen. People of `folds.groups` in several count in the one that has
    most of their samples."""
    time: str | None = None
    """Metadata column that says when samples were taken, as numbers, numbered visits such as `V2`,
    or dates, beside `folds.groups` that says of whom: the page then tells what is predicted between
    people from what is within them, as they change."""
    forecast: str | None = None
    """The time, as `time` has it, after which samples are predicted from those up to it alone: a
    number, a visit or a date; `auto`: the time that three in ten samples are after."""
    baselines: list[BaselineName] | Literal["all"] | None = None
    """Methods to compare and mix with the model, next to the median or the majority; null: five
    that are fast, `all`: all that suit the target."""
    report_by: list[str] = []
    """Metadata columns for whose values scores are reported separately."""
    importance: bool = True
    """Name the clades that say something of the label, and the ASVs that networks rest on."""
    finetuning: Override = {}
    """Overrides `finetuning` for this task."""

    @property
    def columns(self) -> list[str]:
        """The columns to predict."""
        return [self.column] if isinstance(self.column, str) else list(self.column)

    @field_validator(
        "column",
        "where",
        "classes",
        "transform_by",
        "condition",
        "covariates",
        "report_by",
        "studies",
        "time",
        "forecast",
        mode="before",
    )
    @classmethod
    def _names_and_values(cls, given: Any, info: ValidationInfo) -> Any:
        has_default = info.field_name in ("classes", "transform_by", "studies", "time", "forecast")
        return given if given is None and has_default else as_text(given)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.folds.stratified and self.kind == "regression":
            raise ValueError(
                "got folds.stratified with kind regression; expected it with classes "
                "alone: remove folds.stratified, or set the kind to classification or ordinal"
            )
        if self.kind != "regression":
            given = [
                key
                for key in ("transform", "transform_by", "bounds")
                if getattr(self, key) != type(self).model_fields[key].default
            ]
            if "random_forest_median" in (self.baselines or []):
                given.append("baselines: [random_forest_median]")
            if given or len(self.columns) > 1:
                what = ", ".join(f"`{key}`" for key in given) or "several columns"
                raise ValueError(f"got {what} with kind {self.kind}; expected them with regression")
        if (self.classes is not None) != (self.kind == "ordinal"):
            raise ValueError("give `classes`, the lowest first, with kind ordinal and only there")
        if self.transform_by is not None and self.transform != "zscore":
            raise ValueError("`transform_by` goes with transform zscore")
        low, high = self.bounds
        if low is not None and high is not None and low >= high:
            raise ValueError(f"got bounds {low}, {high}; expected the least first")
        for key in ("columns", "classes", "condition", "covariates", "baselines"):
            given = getattr(self, key) or []
            names = [given] if isinstance(given, str) else given
            if len(set(names)) < len(names):
                raise ValueError(f"got a name twice in {names}")
        pairs = (
            ("condition", (*self.condition,)),
            ("covariates", (*self.covariates,)),
            ("transform_by", (self.transform_by,)),
        )
        for key, inputs in pairs:
            shown = [column for column in self.columns if column in inputs]
            if shown:
                raise ValueError(
                    f"got the target '{shown[0]}' in `{key}`; expected other columns: the model "
                    "would see what it is to predict"
                )
        self._require_features_alone()
        self._require_other_folds()
        self._require_people()
        return self

    def _require_people(self) -> None:
        """Check that `time` knows of whom samples are, and that `forecast` knows their times."""
        if self.time is not None and not self.folds.groups:
            raise ValueError(
                f"got `time: {self.time}` without folds.groups; expected the column that says of "
                "whom each sample is, folds: {k: 5, groups: <column>}: change is that of one person"
            )
        if self.forecast is not None and self.time is None:
            raise ValueError(
                f"got `forecast: {self.forecast}` without `time`; expected the column that says "
                "when samples were taken, time: <column>"
            )

    def _require_features_alone(self) -> None:
        """Check that with `covariates` some method answers from the features alone."""
        if not self.covariates:
            return
        for key in ("condition", "transform_by"):
            if getattr(self, key):
                raise ValueError(
                    f"got `covariates` with `{key}`; expected one of them: networks that get "
                    f"`{key}` do not answer from the features alone"
                )
        if self.baselines == []:
            raise ValueError(
                "got `covariates` with `baselines: []`; expected a baseline, or null: what "
                "features add is compared on the folds of the baselines"
            )

    def _require_other_folds(self) -> None:
        """Check that `studies` asks for something that the folds of the task do not answer."""
        if self.studies is None:
            return
        if self.studies in self.columns:
            raise ValueError(
                f"got the target '{self.studies}' in `studies`; expected the column of another "
                "property, which says of which study a sample is"
            )
        if self.studies == self.folds.column:
            raise ValueError(
                f"got '{self.studies}' in `studies` and in `folds.column`; expected one of them: "
                "with `studies` draw the folds with folds.k, which compares both answers"
            )


class Prediction(Section):
    """A table that trained models are applied to, or where there are none the baselines."""

    table: FilePath | None = None
    """Feature table, relative to `data_dir`; null: new samples of the simulated dataset."""
    sequences: FilePath | None = None
    """FASTA or .qza; only if feature IDs are not sequences."""
    metadata: FilePath | None = None
    """QIIME 2 metadata with the categories of `condition` and `transform_by`; null: all unknown."""
    tasks: list[str] = Field(min_length=1)
    """Tasks whose models, or without `models` whose baselines, predict the table."""

    @model_validator(mode="after")
    def _belongs_to_a_table(self) -> Self:
        for key in ("sequences", "metadata"):
            if self.table is None and getattr(self, key) is not None:
                raise ValueError(f"`{key}` goes with `table`: simulated newcomers need none")
        return self
