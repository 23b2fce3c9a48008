"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Shape suffixes: N samples of the store, L labelled samples, C columns or classes, Q quantiles, D
width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aam.inference.asv_cache import embed_asvs_cached, module_digest
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs
from aam.tasks.finetune.fold_model import FoldModel, Known
from aam.tasks.finetune.setup import TEST, FinetuneSetup
from aam.train.progress import Record


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The models of all folds of a task.

    Attributes
    ----------
    setup
        What they share.
    asvs
        File of ASV embeddings for an encoder that keeps them (`aam.inference.asv_cache`), or None.
    """

    setup: FinetuneSetup
    asvs: Path | None = None

    def folds(self) -> list[int]:
        """Return the numbers of the folds."""
        return sorted(set(self.setup.labelled.fold.tolist()) - {TEST})

    def models(self) -> list[tuple[int, int]]:
        """Return fold and number of every model."""
        numbers = range(self.setup.settings.models)
        return [(fold, number) for fold in self.folds() for number in numbers]

    def train(self, models: Sequence[tuple[int, int]], about: dict[str, Any]) -> None:
        """Train some of the models, for a `run` that finds them finished."""
        for member in self._members(models):
            member.trained(self._directory(member), about)

    def run(self, about: dict[str, Any]) -> "Finished":
        """Train all models; one that an earlier run finished is read, not trained."""
        parts: dict[int, list[Outputs]] = {}
        history: list[Record] = []
        directories: dict[str, Path] = {}
        digests: dict[str, str] = {}
        reference_ND = None
        for member in self._members(self.models()):
            directories[member.name] = self._directory(member)
            predictor, records = member.trained(directories[member.name], about)
            digests[member.name] = module_digest(predictor)
            numbers = {"fold": member.fold, "model": member.number}
            history += [{**numbers, **record} for record in records]
            for part in (member.fold, TEST):
                rows = np.flatnonzero(self.setup.labelled.fold == part)
                if len(rows):
                    parts.setdefault(part, []).append(member.outputs(predictor, rows))
            if reference_ND is None:
                reference_ND = member.embeddings(predictor)
        assert reference_ND is not None, "a task has folds"
        return Finished(self._joined(parts), history, directories, digests, reference_ND)

    def _members(self, models: Sequence[tuple[int, int]]) -> Iterator[FoldModel]:
        known, known_of = None, None
        for fold, number in models:
            # Of inductive folds each has an encoder of its own, else all have the same.
            of = fold if self.setup.settings.inductive else None
            if known is None or known_of != of:
                known, known_of = self._known(fold), of
            name = f"fold{fold}" if number == 0 else f"fold{fold}-{number}"
            yield FoldModel(self.setup, fold, number, name, known)

    def _directory(self, member: FoldModel) -> Path:
        return self.setup.work / "finished" / member.name

    def _known(self, fold: int) -> Known:
        """Embed once what the models of a fold do not change."""
        if self.setup.settings.encoder == "full":
            return Known()
        # Weights that are kept are pretrained ones, which the models of a fold have in common.
        encoder, devices = self.setup.make_encoder(fold, 0), self.setup.devices.exact()
        asv_UD = embed_asvs_cached(encoder, self.setup.tokens, devices, self.asvs)
        if self.setup.settings.encoder == "partial":
            return Known(asv_UD)
        rows = np.arange(len(self.setup.store.row_view))
        embedding_RD = embed_samples(
            encoder, self.setup.store, self.setup.tokens, rows, devices, asv_UD
        )
        return Known(asv_UD, embedding_RD)

    def _joined(self, parts: Mapping[int, list[Outputs]]) -> Outputs:
        """Return the outputs of all labelled samples, each the mean over its models."""
        first = next(iter(parts.values()))[0]
        number = len(self.setup.labelled.samples)
        point_LC = np.empty((number, first.point_NC.shape[1]))
        quantile_LCQ = None
        if first.quantile_NCQ is not None:
            quantile_LCQ = np.empty((number, *first.quantile_NCQ.shape[1:]))
        for part, outputs in parts.items():
            rows = self.setup.labelled.fold == part
            point_LC[rows] = np.mean([output.point_NC for output in outputs], axis=0)
            if quantile_LCQ is not None:
                quantiles = [out.quantile_NCQ for out in outputs if out.quantile_NCQ is not None]
                quantile_LCQ[rows] = np.mean(quantiles, axis=0)
        return Outputs(point_LC, quantile_LCQ)


@dataclass(frozen=True, eq=False)
class Finished:
    """What cross-validation leaves.

    Attributes
    ----------
    outputs
        Of each labelled sample, from the models that never saw its label, averaged over these and
        over the views.
    history
        The training curves.
    models
        Directory of each model by its name.
    digests
        What identifies the weights of each.
    reference_ND
        Embeddings of the training samples by the first model, of view 0.
    """

    outputs: Outputs
    history: list[Record]
    models: dict[str, Path]
    digests: dict[str, str]
    reference_ND: torch.Tensor
