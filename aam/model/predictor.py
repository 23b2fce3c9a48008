"""An encoder with a head for one target, and its model directory.

Shape suffixes: B samples, D width, E encoded values of the target, O raw outputs, F metadata
columns, X ASVs of all samples.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aam.data.target import QUANTILES, Target
from aam.model import losses
from aam.model.batch import CATEGORIES, EMBEDDING, TARGET, Batch
from aam.model.build import architecture, build_encoder, initialize, plain
from aam.model.encoder import Encoder
from aam.model.fusion import UNKNOWN, Fusion, Vocabulary, make_fusion
from aam.model.heads import CountHead, Thresholds, make_head
from aam.model.store import load_config, load_weights, save_model
from aam.nn.attention import AttentionBackend


class Predictor(nn.Module):
    """An encoder and a head for one target.

    Parameters
    ----------
    encoder
        From pretraining or from scratch.
    target
        What the outputs stand for.
    head
        ``linear``, ``mlp`` or ``residual``.
    fusion
        How categories meet the sample (`aam.model.fusion.make_fusion`); needed with `vocabulary`.
    vocabulary
        The categories that the model is told; None: it is told none.
    count_weight
        Weight of the loss of hidden reads; 0: it is not computed.
    seed
        Seed of all weights but the encoder's.
    """

    def __init__(
        self,
        encoder: Encoder,
        target: Target,
        *,
        head: str = "mlp",
        fusion: str | None = None,
        vocabulary: Vocabulary | None = None,
        count_weight: float = 0.0,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder, self.target, self.vocabulary = encoder, target, vocabulary
        self.count_weight = count_weight
        self.parts = {"head": head, "fusion": None if vocabulary is None else fusion}
        shape, is_ordinal = encoder.shape, target.loss == "ordinal"
        outputs = 1 if is_ordinal else target.outputs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = make_head(head, shape.width, outputs)
            initialize(self.head)
            self.fusion: Fusion | None = None
            if vocabulary is not None:
                self.fusion = make_fusion(
                    str(fusion),
                    vocabulary,
                    width=shape.width,
                    outputs=outputs,
                    heads=shape.heads,
                    backend=encoder.backend,
                )
            self.counts = CountHead(shape.width) if count_weight > 0 else None
            if self.counts is not None:
                initialize(self.counts)
        self.thresholds = Thresholds(target.shares) if is_ordinal else None

    @property
    def needs_asvs(self) -> bool:
        """Whether `predict` wants the states of the samples' ASVs."""
        return self.fusion is not None and self.fusion.needs_asvs

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch; embeddings that come with it are not computed again.

        `loss` is what is minimized; `count_loss` is a part of it, where some reads were hidden.
        """
        categories_BF = batch.values[CATEGORIES] if self.fusion is not None else None
        if EMBEDDING in batch.values:
            output_BO = self.predict(batch.values[EMBEDDING], categories_BF)
            return {"loss": target_error(output_BO, batch.values[TARGET], self.target)}
        hides = self.counts is not None and any(b.count_mask_BA is not None for b in batch.samples)
        encoded = self.encoder(batch, asvs=hides or self.needs_asvs)
        output_BO = self.predict(encoded.sample_BD, categories_BF, asvs=encoded.asvs, batch=batch)
        losses = {"loss": target_error(output_BO, batch.values[TARGET], self.target)}
        if hides:
            losses["count_loss"] = self._count_loss(encoded.asvs, batch)
            losses["loss"] = losses["loss"] + self.count_weight * losses["count_loss"]
        return losses

    def predict(
        self,
        sample_BD: Tensor,
        categories_BF: Tensor | None = None,
        *,
        asvs: list[Tensor] | None = None,
        batch: Batch | None = None,
    ) -> Tensor:
        """Return raw outputs [B, O] in fp32, for `Target.decode`.

        Parameters
        ----------
        sample_BD
            Embeddings of the encoder.
        categories_BF
            Categories by their numbers in the vocabulary, int64; None: all unknown.
        asvs, batch
            States of the ASVs per block, and the batch that they come from
            (`Encoder.encode_samples`), where `needs_asvs`.
        """
        standard_BD = self.head.standardize(sample_BD.float())
        if self.fusion is None:
            output_BO = self.head.from_standard(standard_BD)
        else:
            if categories_BF is None:
                shape = len(sample_BD), len(self.fusion.tables)
                categories_BF = torch.full(shape, UNKNOWN, device=sample_BD.device)
            category_BFE = self.fusion.embed(categories_BF)
            fused_BD = self.fusion.on_sample(standard_BD, category_BFE, asvs or [], batch)
            output_BO = self.fusion.on_output(self.head.from_standard(fused_BD), category_BFE)
        return output_BO if self.thresholds is None else self.thresholds(output_BO)

    def _count_loss(self, asvs: list[Tensor], batch: Batch) -> Tensor:
        """Return the loss over the hidden reads of all blocks, however they are cut."""
        assert self.counts is not None
        predicted, log_reads, hidden, present = [], [], [], []
        for state_BAD, block in zip(asvs, batch.samples, strict=True):
            if block.count_mask_BA is not None:
                predicted.append(self.counts(state_BAD).flatten())
                log_reads.append(torch.log1p(block.counts_BA).flatten())
                hidden.append(block.count_mask_BA.flatten())
                present.append(block.present_BA.flatten())
        parts = (torch.cat(part) for part in (predicted, log_reads, hidden, present))
        return losses.count_error(*parts)

    def save(self, directory: Path, about: Mapping[str, Any]) -> None:
        """Write a directory that rebuilds the model by itself, with facts `about` it."""
        config = {
            "format": 1,
            "kind": "predictor",
            "architecture": plain(self.encoder.shape),
            "target": self.target.plain(),
            **self.parts,
            "vocabulary": None if self.vocabulary is None else self.vocabulary.plain(),
            "count_weight": self.count_weight,
            **about,
        }
        save_model(directory, self, config)


def target_error(output_BO: Tensor, true_BE: Tensor, target: Target) -> Tensor:
    """Return the loss of raw outputs against encoded values, by the loss of the target."""
    weights, smoothing = target.class_weights, target.label_smoothing
    match target.loss:
        case "cross_entropy":
            return losses.class_error(output_BO, true_BE, weights, smoothing)
        case "ordinal":
            return losses.ordinal_error(output_BO, true_BE, weights, smoothing)
        case "quantile":
            output_BCQ = output_BO.unflatten(1, (-1, len(QUANTILES)))
            return losses.pinball_error(output_BCQ, true_BE, QUANTILES)
        case "asymmetric":
            return losses.asymmetric_error(output_BO, true_BE, target.asymmetry)
        case "mse":
            return losses.squared_error(output_BO, true_BE)
        case "mae":
            return losses.absolute_error(output_BO, true_BE)
        case "huber":
            return losses.huber_error(output_BO, true_BE)
    raise ValueError(f"loss of a target: got {target.loss}")


def load_predictor(
    directory: Path, backend: AttentionBackend = "auto"
) -> tuple[Predictor, dict[str, Any]]:
    """Rebuild a predictor from its directory alone.

    Returns
    -------
    Predictor, dict
        The model, and the content of its `config.json`.

    Raises
    ------
    InputError
        When the directory holds no model.
    """
    config = load_config(directory)
    shape = dict(config["architecture"])
    encoder = build_encoder(
        architecture(shape, shape.pop("max_length_bp")), seed=0, backend=backend
    )
    known = config["vocabulary"]
    predictor = Predictor(
        encoder,
        Target.from_plain(config["target"]),
        head=config["head"],
        fusion=config["fusion"],
        vocabulary=None if known is None else Vocabulary.from_plain(known),
        count_weight=config["count_weight"],
        seed=0,
    )
    load_weights(directory, predictor)
    return predictor.eval(), config
