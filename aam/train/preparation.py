"""Inputs and settings of pretraining to feed, validation and model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.holdout import held_out
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.build import architecture, build_encoder, set_dropout
from aam.train.feed import Feed
from aam.train.masking import Masker
from aam.train.matrices import load_matrices, pair_variances
from aam.train.options import step_options
from aam.train.pieces import in_pieces
from aam.train.pretraining import PretrainingModel
from aam.train.validation import HeldOut
from aam.util.seeds import seed_of

ASVS_AT_ONCE = 512
"""ASVs that are encoded together before the memory of a step is looked at."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything that training needs, read from the inputs."""

    store: SampleStore
    tokens: TokenStore
    is_held_out: NDArray[np.bool_]
    feed: Feed
    validation: HeldOut
    model: PretrainingModel


def prepare(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    without: Collection[str] = (),
) -> Prepared:
    """Open the inputs and build feed, validation and model.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.pretrain`.
    inputs
        `tokens`, `samples` and `distances`.
    without
        IDs of samples that are neither trained on nor validated, and have no part in a scale.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    weights = settings.distances or {}
    is_in = np.array([name not in without for name in store.sample_ids])
    distances, values = load_matrices(
        inputs["distances"], list(weights), store.views, store.sample_ids, is_in
    )
    is_held_out = np.zeros_like(is_in)
    names = [name for name in store.sample_ids if name not in without]
    is_held_out[is_in] = held_out(names, settings.held_out, settings.seed)
    training, validation = np.flatnonzero(~is_held_out & is_in), np.flatnonzero(is_held_out)
    feed = Feed(
        store=store,
        tokens=tokens,
        samples=training,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        seed=settings.seed,
        masker=Masker(settings.mask, settings.seed),
        distances=distances,
        values=values,
    )
    shape = architecture(cfg["model"], tokens.tokens.shape[1])
    encoder = build_encoder(shape, seed=settings.seed, backend=options.attention)
    model = PretrainingModel(
        encoder,
        weights=weights,
        variances=pair_variances(distances, training),
        nucleotide_weight=settings.nucleotide_weight,
        seed=seed_of("heads", settings.seed),
    )
    calibrate(model, feed)
    set_dropout(model, settings.dropout)
    fixed_mask = Masker(settings.mask, seed_of("validation", settings.seed))
    scored = HeldOut(
        store,
        tokens,
        validation,
        training,
        distances,
        values,
        fixed_mask,
        plotted_pairs=settings.plotted_pairs,
    )
    return Prepared(store, tokens, is_held_out, feed, scored, model)


@torch.no_grad()
def calibrate(model: PretrainingModel, feed: Feed) -> None:
    """Start every distance head at the mean distance of the first batch.

    Without it the first hundred steps go into finding the scale.
    """
    batch = feed[0]
    # Without gradients a piece is let go of at once: a large first batch takes no more memory.
    sample_BD = model.encoder(in_pieces(batch, ASVS_AT_ONCE, None)).sample_BD
    pairs = batch.size * (batch.size - 1)
    for metric, true_BB in batch.distances.items():
        model.head(metric).calibrate(sample_BD, float(true_BB.sum()) / pairs)
