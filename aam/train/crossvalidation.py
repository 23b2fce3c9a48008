"""Fine-tuning fold by fold: every labelled sample is predicted by a model that never saw its label.

Letters: N samples of the store, L labelled samples, R rows, C outputs, D width.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aam.config.sections.training import Finetuning
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.batch import TARGET
from aam.model.build import set_dropout
from aam.model.encoder import Encoder
from aam.model.predictor import Predictor
from aam.model.store import CONFIG, load_config, load_weights
from aam.model.target import Target
from aam.train.checkpoint import Checkpoints
from aam.train.devices import Devices
from aam.train.embeddings import embed_asvs_cached
from aam.train.feed import EmbeddingFeed, Feed
from aam.train.inference import embed_samples
from aam.train.loop import Pace, fit
from aam.train.options import StepOptions
from aam.train.progress import Record
from aam.train.statistics import settle, some_of
from aam.util.atomic import read_json, write_json
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled samples of a task.

    Attributes
    ----------
    samples
        Positions in the store, [L].
    observed
        Values as the metadata have them, L.
    fold
        Fold of each, [L].
    """

    samples: NDArray[np.int64]
    observed: Sequence[str]
    fold: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """One task on one store.

    Attributes
    ----------
    store, tokens, labelled
        The data.
    kind, column
        Of the target.
    settings
        How a fold is trained.
    make_encoder
        Returns a new encoder, pretrained or from scratch.
    devices, options, pace
        Means.
    work
        Folder of checkpoints and of finished folds.
    fingerprint
        Digest of settings, code and inputs.
    asvs
        File of ASV embeddings for a frozen encoder (`aam.train.embeddings`), or None.
    """

    store: SampleStore
    tokens: TokenStore
    labelled: Labelled
    kind: str
    column: str
    settings: Finetuning
    make_encoder: Callable[[], Encoder]
    devices: Devices
    options: StepOptions
    pace: Pace
    work: Path
    fingerprint: str
    asvs: Path | None = None

    def folds(self) -> list[int]:
        """Return the numbers of the folds."""
        return sorted(set(self.labelled.fold.tolist()))

    def run(
        self, about: dict[str, Any]
    ) -> tuple[NDArray[np.float64], list[Record], dict[int, Path]]:
        """Train all folds; a fold that an earlier run finished is read, not trained.

        Returns
        -------
        outputs, history, models
            Decoded outputs [L, C] of each labelled sample from its held-out fold, averaged over
            the views; the training curves; the model directory of each fold.
        """
        embedding_RD = self._frozen_embeddings()
        parts: dict[int, NDArray[np.float64]] = {}
        history: list[Record] = []
        models = {fold: self.work / "finished" / f"fold{fold}" for fold in self.folds()}
        for fold, directory in models.items():
            predictor, records = self._fold(fold, directory, about, embedding_RD)
            history += [{"fold": fold, **record} for record in records]
            rows = self.labelled.samples[self.labelled.fold == fold]
            parts[fold] = predict_samples(
                predictor, self.store, self.tokens, rows, self.devices, embedding_RD
            )
        outputs_LC = np.empty((len(self.labelled.samples), parts[self.folds()[0]].shape[1]))
        for fold, outputs in parts.items():
            outputs_LC[self.labelled.fold == fold] = outputs
        return outputs_LC, history, models

    def _frozen_embeddings(self) -> torch.Tensor | None:
        if self.settings.encoder != "frozen":
            return None
        encoder, rows = self.make_encoder(), np.arange(len(self.store.row_view))
        asv_UD = embed_asvs_cached(encoder, self.tokens, self.devices, self.asvs)
        return embed_samples(encoder, self.store, self.tokens, rows, self.devices, asv_UD)

    def _fold(
        self, fold: int, directory: Path, about: dict[str, Any], embedding_RD: torch.Tensor | None
    ) -> tuple[Predictor, list[Record]]:
        is_training = self.labelled.fold != fold
        target = Target.fit(self.kind, self.column, self.labelled.observed, is_training)
        encoder = self.make_encoder()
        predictor = Predictor(encoder, target, seed=seed_of("head", self.settings.seed, fold))
        # Beside the model: it holds times, which would make every model's files differ.
        history = directory.with_suffix(".json")
        if (directory / CONFIG).is_file():
            config = load_config(directory)
            if config["fingerprint"] == self.fingerprint:
                logger.info("fold %d was finished before", fold)
                load_weights(directory, predictor)
                return predictor, read_json(history)["records"]
        feed = self._feed(target, is_training, fold, embedding_RD)
        set_dropout(predictor, self.settings.dropout)
        encoder.requires_grad_(embedding_RD is None)
        checkpoints = Checkpoints(self.work / f"fold{fold}", f"{self.fingerprint}-fold{fold}")
        progress = fit(
            predictor,
            feed,
            self.settings,
            devices=self.devices,
            options=self.options,
            checkpoints=checkpoints,
            pace=self._pace(fold),
        )
        self._settle(predictor, feed, embedding_RD)
        write_json(history, {"records": progress.history})
        predictor.save(directory, {**about, "fold": fold, "fingerprint": self.fingerprint})
        checkpoints.clear()
        return predictor, progress.history

    def _pace(self, fold: int) -> Pace:
        notes = self.pace.notes
        folder = None if notes.folder is None else notes.folder / f"fold{fold}"
        name = f"{self.pace.name}, fold {fold}"
        return replace(self.pace, name=name, notes=replace(notes, folder=folder))

    def _settle(self, predictor: Predictor, feed: Feed, embedding_RD: torch.Tensor | None) -> None:
        rows = some_of(feed.samples)
        if embedding_RD is None:
            chosen_RD = embed_samples(
                predictor.encoder, self.store, self.tokens, rows, self.devices
            )
        else:
            chosen_RD = embedding_RD[torch.from_numpy(rows)]
        settle(predictor.head, chosen_RD)

    def _feed(
        self,
        target: Target,
        is_training: NDArray[np.bool_],
        fold: int,
        embedding_RD: torch.Tensor | None,
    ) -> Feed:
        values_NC = np.zeros((len(self.store.sample_ids), target.outputs), np.float32)
        values_NC[self.labelled.samples] = target.encode(self.labelled.observed)
        common: dict[str, Any] = {
            "store": self.store,
            "tokens": self.tokens,
            "samples": np.sort(self.labelled.samples[is_training]),
            "batch_size": self.settings.batch_size,
            "epochs": self.settings.epochs,
            "seed": seed_of("fold", self.settings.seed, fold),
            "values": {TARGET: values_NC},
        }
        if embedding_RD is None:
            return Feed(**common)
        return EmbeddingFeed(**common, embedding_RD=embedding_RD)


def predict_samples(
    predictor: Predictor,
    store: SampleStore,
    tokens: TokenStore,
    samples: NDArray[np.int64],
    devices: Devices,
    embedding_RD: torch.Tensor | None = None,
) -> NDArray[np.float64]:
    """Return the decoded outputs of some samples, averaged over the store's views.

    Parameters
    ----------
    predictor
        The model.
    store, tokens
        The data.
    samples
        Positions in the store.
    devices
        Where to compute.
    embedding_RD
        Embeddings of all rows, if they are at hand.

    Returns
    -------
    ndarray
        Numbers in the column's unit [len(samples), 1], or class probabilities.
    """
    views = np.arange(store.views)[:, None] * len(store.sample_ids)
    rows_R = (views + samples).reshape(-1)
    if embedding_RD is None:
        chosen_RD = embed_samples(predictor.encoder, store, tokens, rows_R, devices)
    else:
        chosen_RD = embedding_RD[torch.from_numpy(rows_R)]
    with devices.inference(predictor):
        output_RC = predictor.head(chosen_RD.to(devices.device)).float().cpu().numpy()
    decoded_RC = predictor.target.decode(output_RC)
    return decoded_RC.reshape(store.views, len(samples), -1).mean(axis=0)
