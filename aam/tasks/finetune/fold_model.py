"""One model of a cross-validation: trained without the labels of a fold.

Shape suffixes: N samples of the store, L labelled samples, E encoded values of a target, R rows of
the store, U ASVs, F metadata columns, D width.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.data.target import Target
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, decoded, raw_outputs
from aam.model.batch import TARGET
from aam.model.build import set_dropout
from aam.model.encoder import Encoder
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.model.store import is_whole, load_config, load_weights
from aam.runtime.run_options import RunOptions
from aam.tasks.finetune.setup import FinetuneSetup
from aam.train.batch_norm import recalibrate_batch_norm, some_of
from aam.train.checkpoint import Checkpoints
from aam.train.data.asv_dropout import asv_dropout
from aam.train.data.dataset import AsvDataset, BatchDataset, EmbeddingDataset
from aam.train.distributed.devices import Devices
from aam.train.loop import fit
from aam.train.progress import Record
from aam.util.atomic import read_json, write_json
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Known:
    """Embeddings that training leaves as they are.

    Attributes
    ----------
    asv_UD
        Of all ASVs of the token store, where the ASV level is not trained.
    embedding_RD
        Of all rows of the sample store, where nothing of the encoder is.
    """

    asv_UD: Tensor | None = None
    embedding_RD: Tensor | None = None


@dataclass(frozen=True, eq=False)
class FoldModel:
    """One of the models of a fold.

    Attributes
    ----------
    setup
        What it shares with the others.
    fold, number
        The fold that it is trained without, and its number among the models of that fold.
    name
        Of its folder.
    known
        Embeddings that are at hand.
    """

    setup: FinetuneSetup
    fold: int
    number: int
    name: str
    known: Known

    def trained(self, directory: Path, about: dict[str, Any]) -> tuple[Predictor, list[Record]]:
        """Return the trained model and its curves; one that was finished before is read."""
        setup, settings = self.setup, self.setup.settings
        fingerprint = f"{setup.fingerprint}-{self.name}"
        predictor = self._new()
        # Beside the model: it holds times, which would make every model's files differ.
        history = directory.with_name(f"{self.name}.json")
        if is_whole(directory) and history.is_file():
            known = read_json(history)
            if load_config(directory)["fingerprint"] == known.get("fingerprint") == fingerprint:
                logger.info("%s was finished before", self.name)
                load_weights(directory, predictor)
                return predictor, known["records"]
        dataset = self._dataset(predictor)
        set_dropout(predictor, settings.dropout)
        self._choose_trained(predictor.encoder)
        checkpoints = Checkpoints(setup.work / self.name, fingerprint)
        progress = fit(
            predictor,
            dataset,
            settings,
            devices=setup.devices,
            options=setup.options,
            checkpoints=checkpoints,
            runtime=self._runtime(),
            name=f"fine-tuning, {self.name}",
        )
        recalibrate_batch_norm(
            predictor.head, self._embedded(predictor, some_of(dataset.samples), setup.devices)
        )
        write_json(history, {"fingerprint": fingerprint, "records": progress.history})
        facts = {
            **about,
            "fold": self.fold,
            "fingerprint": fingerprint,
            "optimization": progress.report["optimization"],
        }
        predictor.save(directory, facts)
        checkpoints.clear()
        return predictor, progress.history

    def outputs(self, predictor: Predictor, labelled: NDArray[np.int64]) -> Outputs:
        """Return what the model says of some labelled samples, the mean of the store's views."""
        setup = self.setup
        store, samples = setup.store, setup.labelled.samples[labelled]
        rows_R = (np.arange(store.views)[:, None] * len(store.sample_ids) + samples).reshape(-1)
        category_NF = self._categories(predictor)
        output_RO = raw_outputs(
            predictor,
            store,
            setup.tokens,
            rows_R,
            setup.devices.exact(),
            embedding_RD=self._rows_known(rows_R),
            asv_UD=self.known.asv_UD,
            category_RF=None
            if category_NF is None
            else np.tile(category_NF[samples], (store.views, 1)),
        )
        by = self._scaled_by()
        by_R = None if by is None else [by[row] for row in labelled] * store.views
        return decoded(predictor.target, output_RO, store.views, by_R)

    def embeddings(self, predictor: Predictor) -> Tensor:
        """Return the embeddings of the samples that the model was trained on, of view 0."""
        rows_R = np.sort(self.setup.labelled.samples[self._is_training])
        return self._embedded(predictor, rows_R, self.setup.devices.exact())

    @property
    def _is_training(self) -> NDArray[np.bool_]:
        settings = self.setup.settings
        return self.setup.labelled.training(self.fold, settings.labels, settings.seed)

    def _seed(self, what: str) -> int:
        settings = self.setup.settings
        further = (self.number,) if self.number else ()
        return seed_of(what, settings.seed, self.fold, *further)

    def _new(self) -> Predictor:
        task, settings, labelled = (
            self.setup.task,
            self.setup.settings,
            self.setup.labelled,
        )
        target = Target.fit(
            task.kind,
            task.columns,
            labelled.observed_LC,
            self._is_training,
            loss=settings.loss,
            transform=task.transform,
            by=self._scaled_by(),
            bounds=task.bounds,
            classes=task.classes,
            class_weights=settings.class_weights,
            asymmetry=settings.asymmetry,
        )
        vocabulary = None
        if task.condition:
            vocabulary = Vocabulary.fit(task.condition, self._told(), self._is_training)
        return Predictor(
            self.setup.make_encoder(self.fold, self.number),
            target,
            fusion=settings.fusion,
            vocabulary=vocabulary,
            count_weight=settings.count_weight,
            seed=self._seed("head"),
        )

    def _choose_trained(self, encoder: Encoder) -> None:
        settings = self.setup.settings
        encoder.requires_grad_(settings.encoder == "full")
        if settings.encoder == "partial":
            for block in list(encoder.sample.blocks)[-settings.trained_layers :]:
                block.requires_grad_(True)
            encoder.sample.pooling.requires_grad_(True)

    def _dataset(self, predictor: Predictor) -> BatchDataset:
        setup, settings, labelled = (
            self.setup,
            self.setup.settings,
            self.setup.labelled,
        )
        encoded_LE = predictor.target.encode(labelled.observed_LC, self._scaled_by())
        value_NE = np.zeros((len(setup.store.sample_ids), encoded_LE.shape[1]), np.float32)
        value_NE[labelled.samples] = encoded_LE
        seed = self._seed("fold")
        common: dict[str, Any] = {
            "store": setup.store,
            "tokens": setup.tokens,
            "samples": np.sort(labelled.samples[self._is_training]),
            "batch_size": settings.batch_size,
            "epochs": settings.epochs,
            "seed": seed,
            "values": {TARGET: value_NE},
            "category_NF": self._categories(predictor),
        }
        if self.known.embedding_RD is not None and not predictor.needs_asvs:
            return EmbeddingDataset(**common, embedding_RD=self.known.embedding_RD)
        common["asv_dropout"] = asv_dropout(settings.asv_dropout, settings.count_weight > 0, seed)
        if self.known.asv_UD is not None:
            return AsvDataset(**common, asv_UD=self.known.asv_UD)
        return BatchDataset(**common)

    def _embedded(
        self, predictor: Predictor, rows_R: NDArray[np.int64], devices: Devices
    ) -> Tensor:
        at_hand = self._rows_known(rows_R)
        if at_hand is not None:
            return at_hand
        setup, asv_UD = self.setup, self.known.asv_UD
        return embed_samples(predictor.encoder, setup.store, setup.tokens, rows_R, devices, asv_UD)

    def _rows_known(self, rows_R: NDArray[np.int64]) -> Tensor | None:
        embedding_RD = self.known.embedding_RD
        return None if embedding_RD is None else embedding_RD[torch.from_numpy(rows_R)]

    def _told(self) -> NDArray[np.object_]:
        """Return the categories of the labelled samples that the model is told, [L, F]."""
        categories = self.setup.labelled.categories
        return np.stack([categories[column] for column in self.setup.task.condition], axis=1)

    def _categories(self, predictor: Predictor) -> NDArray[np.int64] | None:
        """Return the numbers of the categories of all samples of the store, [N, F]."""
        if predictor.vocabulary is None:
            return None
        told_LF = predictor.vocabulary.encode(self._told())
        samples = len(self.setup.store.sample_ids)
        category_NF = np.zeros((samples, told_LF.shape[1]), np.int64)
        category_NF[self.setup.labelled.samples] = told_LF
        return category_NF

    def _scaled_by(self) -> list[str] | None:
        column = self.setup.task.transform_by
        return None if column is None else [*self.setup.labelled.categories[column]]

    def _runtime(self) -> RunOptions:
        runtime = self.setup.runtime
        folder = None if runtime.log_dir is None else runtime.log_dir / self.name
        return replace(runtime, log_dir=folder)
