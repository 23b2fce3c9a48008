"""The pretraining task: distances between samples and masked nucleotides.

Shape suffixes: B samples of a batch, U its distinct ASVs, M masked nucleotides, D width.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from aam.config.metrics import FAITH_PD
from aam.config.settings.training import PretrainSettings
from aam.distributed.batch_shards import BatchShard, encode_sharded, sum_over_processes
from aam.model.asv_encoders import Architecture
from aam.model.batch import Batch
from aam.model.encoder import Encoder, build_encoder, initialize, set_dropout
from aam.model.heads import (
    DistanceHead,
    NucleotideHead,
    ValueHead,
    distance_head,
    pairwise_error,
)
from aam.train.memory.micro_batches import MicroBatches
from aam.train.options import step_options
from aam.util.seeds import seed_of

ASVS_AT_ONCE = 512
"""ASVs that are encoded together before the memory of a step is looked at."""


class PretrainingModel(nn.Module):
    """An encoder with one head per distance, one for nucleotides, one for Faith's PD.

    Parameters
    ----------
    encoder
        The encoder.
    weights
        Weight of the loss of each distance, and of Faith's PD.
    variances
        Variance of each distance over pairs of training samples: the unit of its loss.
    nucleotide_weight
        Weight of the loss of masked nucleotides.
    seed
        Seed of the heads.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        weights: Mapping[str, float],
        variances: Mapping[str, float],
        nucleotide_weight: float,
        seed: int,
    ) -> None:
        super().__init__()
        self.weights = dict(weights)
        self.variances = dict(variances)
        self.encoder = encoder
        self.nucleotide_weight = nucleotide_weight
        shape = encoder.shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.distances = nn.ModuleDict(
                {metric: distance_head(shape, metric) for metric in weights if metric != FAITH_PD}
            )
            self.faith_pd = ValueHead(shape.width, 1) if FAITH_PD in weights else None
            self.nucleotides = NucleotideHead(shape.width, shape.patch_bp)
            for head in (self.distances, self.faith_pd, self.nucleotides):
                if head is not None:
                    initialize(head)

    @classmethod
    def from_settings(
        cls, settings: PretrainSettings, max_length_bp: int, variances: Mapping[str, float]
    ) -> "PretrainingModel":
        """Return a new model.

        Parameters
        ----------
        settings
            Architecture, losses and seed.
        max_length_bp
            Nucleotides of a sequence that are read.
        variances
            Variance of each distance over pairs of training samples.

        Returns
        -------
        PretrainingModel
            With new weights of the seed.
        """
        training = settings.pretraining
        encoder = build_encoder(
            Architecture(**settings.model.plain(), max_length_bp=max_length_bp),
            seed=training.seed,
            backend=step_options(settings.optimization).attention,
        )
        return cls(
            encoder,
            weights=training.distances or {},
            variances=variances,
            nucleotide_weight=training.nucleotide_weight,
            seed=seed_of("heads", training.seed),
        )

    @property
    def primary(self) -> str | None:
        """The first distance that is learned, or None."""
        return next(iter(self.distances), None)

    @property
    def watched(self) -> str:
        """The first distance that is learned, or else Faith's PD."""
        return self.primary or FAITH_PD

    @torch.no_grad()
    def calibrate_heads(self, batch: Batch, dropout: float, learned: Collection[str]) -> None:
        """Scale distance heads to the mean distance of a batch, then set the dropout.

        Without this a run would spend its first hundred steps on finding the scale.

        Parameters
        ----------
        batch
            A batch with its distances, on the host.
        dropout
            Fraction that is dropped.
        learned
            Distances whose heads are pretrained: their scale stays as it is.
        """
        # Without gradients the memory of a block is freed before the next one: a large batch takes
        # no more of it.
        sample_BD = self.encoder(MicroBatches(asvs=ASVS_AT_ONCE).split(batch)).sample_BD
        pairs = batch.size * (batch.size - 1)
        for metric, true_BB in batch.distances.items():
            if metric not in learned:
                self.head(metric).calibrate(sample_BD, float(true_BB.sum()) / pairs)
        set_dropout(self, dropout)

    def head(self, metric: str) -> DistanceHead:
        """Return the head of a metric."""
        head = self.distances[metric]
        assert isinstance(head, DistanceHead)
        return head

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the named losses of a batch.

        Parameters
        ----------
        batch
            A batch on the device of the model. Given a `BatchShard` all processes return the losses
            of the whole batch.

        Returns
        -------
        dict
            Losses; `loss` is their weighted sum.
        """
        masked_blocks = [block.masked for block in batch.asvs if block.masked is not None]
        if isinstance(batch, BatchShard):
            encoded = encode_sharded(self.encoder, batch)
        else:
            encoded = self.encoder(batch)
        losses = {}
        for metric, head in self.distances.items():
            predicted_BB = head(encoded.sample_BD)
            true_BB = batch.distances[metric]
            losses[f"{metric}_loss"] = pairwise_error(predicted_BB, true_BB, self.variances[metric])
        if self.faith_pd is not None:
            predicted_B = self.faith_pd(encoded.sample_BD).squeeze(-1)
            error_B = predicted_B - batch.values[FAITH_PD].squeeze(-1)
            losses[f"{FAITH_PD}_loss"] = error_B.square().mean()
        weighted = [
            self.weights[name.removesuffix("_loss")] * loss for name, loss in losses.items()
        ]
        if masked_blocks:
            logits = []
            for hidden_MD, masked in zip(encoded.nucleotides, masked_blocks, strict=True):
                logits.append(self.nucleotides(hidden_MD, masked))
            logits_M4 = torch.cat(logits)
            base_M = torch.cat([masked.base_M for masked in masked_blocks])
            losses["nucleotide_loss"] = _nucleotide_error(logits_M4, base_M, batch)
            weighted.append(self.nucleotide_weight * losses["nucleotide_loss"])
        losses["loss"] = torch.stack(weighted).sum()
        return losses


def _nucleotide_error(logits_M4: Tensor, base_M: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of the masked nucleotides, their mean over all processes.

    It is 0 where none is masked, as happens to tables of few words.
    """
    if not isinstance(batch, BatchShard):
        reduction = "mean" if len(base_M) else "sum"
        return nn.functional.cross_entropy(logits_M4, base_M, reduction=reduction)
    error = nn.functional.cross_entropy(logits_M4, base_M, reduction="sum")
    return sum_over_processes(error) / max(1, batch.masked_nucleotides)
