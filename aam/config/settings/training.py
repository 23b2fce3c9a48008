"""What the pretraining of an encoder gets of the configuration, and the table of its speed."""

from typing import Any

from aam.config.sections.base import StageSettings
from aam.config.sections.execution import Benchmark, Optimization
from aam.config.sections.model import EncoderShape
from aam.config.sections.training import Pretraining


class StudiesSettings(StageSettings):
    """The studies that an encoder learns from."""

    column: str
    """Metadata column with the study of each sample."""
    pretrained_on: list[str]
    """Values of the column: samples of other studies have no part in the pretraining."""


class PretrainSettings(StageSettings):
    """What an encoder is built from, and how it is trained."""

    alpha: float | None = None
    """Exponent of generalized UniFrac, where that is computed in the batch."""
    model: EncoderShape
    """What the encoder is built from."""
    start: str | None = None
    """What the configuration calls the model that training starts from."""
    studies: StudiesSettings | None = None
    """None: all samples have a part."""
    pretraining: Pretraining
    """With the weight of each metric in `distances`."""
    optimization: Optimization

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that are learned, in the order of their files."""
        return list(self.pretraining.distances or {})

    def with_pretraining(self, **changes: Any) -> "PretrainSettings":
        """Return the settings with keys of the section `pretraining` changed."""
        training = self.pretraining.model_copy(update=changes)
        return self.model_copy(update={"pretraining": training})

    def from_scratch(self) -> "PretrainSettings":
        """Return the settings of the same training with random weights and all samples.

        Inputs for it need neither the weights of a start nor the metadata that name studies.
        """
        return self.model_copy(update={"start": None, "studies": None})


class SpeedSettings(Benchmark):
    """How the speed table is measured, and what it times."""

    training: PretrainSettings
    """The model that is timed, and its training."""
