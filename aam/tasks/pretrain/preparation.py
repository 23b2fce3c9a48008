"""Inputs and settings of pretraining to dataset, validation and model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.sections.training import Pretraining
from aam.data.holdout import held_out
from aam.data.samples import SampleStore
from aam.data.targets import metadata_column
from aam.data.tokens import TokenStore
from aam.inference.known_asvs import KnownAsvs
from aam.inference.pretrained import warn_of_unlike
from aam.model.store import KNOWN_ASVS
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.starts import start_directory, start_from, start_length
from aam.tasks.pretrain.tree_sketches import true_sketches
from aam.tasks.pretrain.true_distances import FOLDER, batch_targets, room, stored_targets
from aam.tasks.pretrain.validation import HeldOut
from aam.train.data.dataset import BatchDataset
from aam.train.data.distances import Maps, mapped_mb
from aam.train.data.masking import Masker
from aam.train.data.sampler import Blocks
from aam.util.errors import first_names, problem
from aam.util.seeds import seed_of


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that training needs, read from the inputs."""

    store: SampleStore
    tokens: TokenStore
    is_held_out: NDArray[np.bool_]
    dataset: BatchDataset
    validation: HeldOut
    model: PretrainingModel

    @property
    def mapped_mb(self) -> float:
        """Size of the distances that are mapped from files, in MB; 0 where memory holds them."""
        return mapped_mb(self.dataset.distances)


def prepare(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    work: Path | None = None,
    max_memory_gb: float | None = None,
    processes: int = 1,
) -> Prepared:
    """Open the inputs of the stage and build dataset, validation and model.

    The samples `without` are neither trained on nor validated, and have no part in a scale.
    Distances that memory has no room for go to the folder `work`, if there is one. This process may
    take `max_memory_gb` (of 2^30 bytes; None: what is free) of the machine's memory, or its part of
    it where several `processes` do the same.

    Raises
    ------
    InputError
        When neither memory nor the disk of `work` has room for the distances, or there are too few
        samples.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    is_in = np.array([name not in without for name in store.sample_ids])
    is_in &= _is_in_studies(cfg, inputs, store.sample_ids)
    is_held_out, names = np.zeros_like(is_in), [*compress(store.sample_ids, is_in)]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
    training, validation = np.flatnonzero(~is_held_out & is_in), np.flatnonzero(is_held_out)
    blocks = None
    if settings.sampler == "blocks":
        blocks = Blocks.of(training, len(is_in), settings.seed)
    maps = None if work is None else Maps(work / FOLDER, room(max_memory_gb, processes), blocks)
    # In the order of the file: a block's rows lie together there.
    line = training if blocks is None else blocks.training_line
    true = (
        batch_targets(cfg, inputs["tree"], store, tokens, training)
        if settings.targets == "batch"
        else stored_targets(cfg, inputs["distances"], store, is_in, line, maps)
    )
    start = start_directory(inputs)
    length_bp = tokens.tokens.shape[1] if start is None else start_length(start)
    model, read = PretrainingModel.of(cfg, length_bp, true.variances), tokens.cut(length_bp)
    patch_bp = model.encoder.shape.patch_bp
    masker = Masker(settings.mask, settings.seed, settings.masking, patch_bp)
    sketch_FK = None
    if model.encoder.asv.sketch is not None and start is None:
        assert true.exact is not None
        sketch_FK = true_sketches(model.encoder.asv.sketch, true.exact, store, tokens, training)
    dataset = BatchDataset(
        store,
        read,
        training,
        settings.batch_size,
        settings.epochs,
        settings.seed,
        masker=masker if settings.nucleotide_weight > 0 else None,
        distances=true.distances,
        values=true.values,
        exact=true.exact,
        sketch_FK=sketch_FK,
        blocks=blocks,
    )
    model.start(dataset[0], settings.dropout)
    if start is not None:
        start_from(start, model)
        if (start / KNOWN_ASVS).is_file():
            warn_of_unlike(KnownAsvs.open(start / KNOWN_ASVS), store, tokens)
    scored = HeldOut(
        store,
        read,
        validation,
        training,
        cast("Mapping[str, NDArray[np.float32]]", true.distances),
        true.values,
        masker=replace(masker, seed=seed_of("validation", settings.seed)),
        exact=true.exact,
    )
    return Prepared(store, tokens, is_held_out, dataset, scored, model)


def _is_in_studies(
    cfg: Mapping[str, Any], inputs: Mapping[str, Any], sample_ids: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which samples belong to the studies that a model is pretrained on."""
    if "studies" not in cfg:
        return np.ones(len(sample_ids), bool)
    column, wanted = cfg["studies"]["column"], cfg["studies"]["pretrained_on"]
    metadata = pd.read_parquet(inputs["metadata"]).set_index("sample_id").loc[list(sample_ids)]
    study = metadata_column(metadata, column)
    unknown = sorted({*wanted} - {*study.dropna()})
    if unknown:
        raise problem(
            "models.<model>.pretrained_on",
            f"studies without samples: {first_names(unknown)}",
            f"values of column {column}: {first_names(sorted(study.dropna().unique()))}",
            "correct the names",
        )
    return study.isin(wanted).to_numpy(bool)
