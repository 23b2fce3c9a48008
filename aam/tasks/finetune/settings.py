"""Settings of the fine-tuning of one task."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from aam.config.sections.execution import Optimization
from aam.config.sections.finetuning import Finetuning


@dataclass(frozen=True)
class TargetColumns:
    """What is predicted, as the section `tasks.<name>` says.

    Attributes
    ----------
    kind
        ``regression``, ``classification`` or ``ordinal``.
    columns
        Metadata columns that are predicted.
    classes
        Values of an ordinal column, the lowest first; None: those that occur.
    transform
        How numbers are transformed.
    transform_by
        Column whose categories have scales of their own; None: there is one scale.
    bounds
        Least and largest possible value; None: there is no bound.
    condition
        Metadata columns that are covariates.
    """

    kind: str
    columns: Sequence[str]
    classes: Sequence[str] | None = None
    transform: str = "zscore"
    transform_by: str | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    condition: Sequence[str] = ()

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "TargetColumns":
        """Return what a task predicts, by the slice `aam.config.slices.finetune`."""
        return cls(**{field.name: settings[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class FinetuneSettings:
    """What is predicted, how models are trained, and what they must know of the study."""

    names: Mapping[str, str]
    """What `dataset`, `model` and `task` are called."""
    target: TargetColumns
    finetuning: Finetuning
    optimization: Optimization
    rarefaction: Mapping[str, Any]
    """The section `rarefaction`, by which other tables are treated alike."""
    is_mixed: bool = False
    """A super learner will mix the predictions, and asks for nested ones."""
    architecture: Mapping[str, Any] | None = None
    """What encoders are built from where they start from scratch."""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "FinetuneSettings":
        """Return the settings of a slice of the configuration.

        Parameters
        ----------
        settings
            What `aam.config.slices.finetune` returns; further keys are not read.

        Returns
        -------
        FinetuneSettings
            Checked against their sections.
        """
        return cls(
            names=settings["names"],
            target=TargetColumns.read(settings),
            finetuning=Finetuning.model_validate(settings["finetuning"]),
            optimization=Optimization.model_validate(settings["optimization"]),
            rarefaction=settings["rarefaction"],
            is_mixed=settings["is_mixed"],
            architecture=settings.get("model"),
        )

    def plain(self) -> dict[str, Any]:
        """Return the slice as plain types, which a model keeps.

        Returns
        -------
        dict
            What `read` takes, equal to the slice: JSON can hold it.
        """
        target = asdict(self.target)
        kept = ("kind", "classes", "transform", "transform_by", "bounds", "condition")
        finetuning = self.finetuning.plain()
        if not self.finetuning.has_budget:
            del finetuning["budget_minutes"]
        scratch = {} if self.architecture is None else {"model": dict(self.architecture)}
        return {
            "names": dict(self.names),
            "columns": target["columns"],
            **{key: target[key] for key in kept},
            "is_mixed": self.is_mixed,
            "finetuning": finetuning,
            "optimization": self.optimization.plain(),
            "rarefaction": dict(self.rarefaction),
            **scratch,
        }
