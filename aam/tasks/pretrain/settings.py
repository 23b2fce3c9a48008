"""Settings of the pretraining of one encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.distances.in_batch import BatchDistances
from aam.model.asv_encoders import Architecture
from aam.train.options import StepOptions, step_options


@dataclass(frozen=True)
class PretrainSettings:
    """What an encoder is built from, and how it is trained."""

    architecture: Mapping[str, Any]
    """The keys `aam.config.sections.model.ARCHITECTURE`."""
    pretraining: Pretraining
    """With the weight of each metric in `distances`."""
    optimization: Optimization
    alpha: float | None = None
    """Exponent of generalized UniFrac, where that is computed in the batch."""
    start: str | None = None
    """What the configuration calls the model that training starts from."""
    studies: Mapping[str, Any] | None = None
    """The metadata `column` of the studies, and those that the encoder is `pretrained_on`; None:
    all samples."""

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that are learned, in the order of their files."""
        return list(self.pretraining.distances or {})

    @property
    def step_options(self) -> StepOptions:
        """Options of a training step: what the level of `optimization` stands for."""
        return step_options(self.optimization)

    def from_scratch(self) -> "PretrainSettings":
        """Return the settings of the same training with random weights and all samples.

        Returns
        -------
        PretrainSettings
            Inputs for it need neither the weights of a start nor the metadata that name studies.
        """
        return replace(self, start=None, studies=None)

    def batch_distances(self, tree: Path, feature_ids: Sequence[str]) -> BatchDistances:
        """Return what computes the distances that are learned from the reads of a batch.

        Parameters
        ----------
        tree
            Newick file with a tip for every ASV.
        feature_ids
            The ASVs, in the order of the token store.

        Returns
        -------
        BatchDistances
            Faith's PD is not standardized yet.

        Raises
        ------
        InputError
            The tree cannot be read.
        """
        alpha = 1.0 if self.alpha is None else self.alpha
        return BatchDistances.from_tree(self.metrics, tree, feature_ids, alpha)

    def shape(self, max_length_bp: int) -> Architecture:
        """Return the architecture of an encoder.

        Parameters
        ----------
        max_length_bp
            Nucleotides of a sequence that it reads.

        Returns
        -------
        Architecture
            What `aam.model.encoder.build_encoder` takes.
        """
        return Architecture(**self.architecture, max_length_bp=max_length_bp)

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "PretrainSettings":
        """Return the settings of a slice of the configuration.

        Parameters
        ----------
        settings
            What `aam.config.slices.pretrain` returns; further keys are not read.

        Returns
        -------
        PretrainSettings
            Checked against their sections.
        """
        return cls(
            architecture=settings["model"],
            pretraining=Pretraining.model_validate(settings["pretraining"]),
            optimization=Optimization.model_validate(settings["optimization"]),
            alpha=settings.get("alpha"),
            start=settings.get("start"),
            studies=settings.get("studies"),
        )

    def plain(self) -> dict[str, Any]:
        """Return the slice as plain types, which a model keeps.

        Returns
        -------
        dict
            What `read` takes, equal to the slice: JSON can hold it.
        """
        # Keys without a value are left out, and the order is that of the slice.
        settings: dict[str, Any] = {}
        if self.alpha is not None:
            settings["alpha"] = self.alpha
        settings["model"] = dict(self.architecture)
        if self.start is not None:
            settings["start"] = self.start
        if self.studies is not None:
            settings["studies"] = self.studies
        settings["pretraining"] = self.pretraining.plain()
        settings["optimization"] = self.optimization.plain()
        return settings
