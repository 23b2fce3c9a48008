"""The pretraining task: distances between samples and masked nucleotides.

Shape suffixes: B samples of a batch, N held-out samples, U ASVs, D width.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from aam.config.metrics import METRICS
from aam.model.batch import Batch
from aam.model.build import initialize
from aam.model.encoder import Encoder
from aam.model.heads import DistanceHead, NucleotideHead, ValueHead, pairwise_error
from aam.train.data.distances import FAITH_PD
from aam.train.distributed.shards import BatchShard, encode_sharded, summed


class PretrainingModel(nn.Module):
    """An encoder with one head per distance, one for nucleotides, one for Faith's PD.

    Parameters
    ----------
    encoder
        The encoder to train.
    weights
        Weight of each metric's loss.
    variances
        Variance of each distance over pairs of training samples: the unit of its loss.
    nucleotide_weight
        Weight of the masked nucleotides' loss.
    seed
        Seed of the heads' weights.
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
        self.weights, self.variances = dict(weights), dict(variances)
        self.nucleotide_weight = nucleotide_weight
        width = encoder.shape.width
        self.encoder = encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.distances = nn.ModuleDict(
                {
                    metric: DistanceHead(width, bounded=METRICS[metric].bounded)
                    for metric in weights
                    if metric != FAITH_PD
                }
            )
            self.faith_pd = ValueHead(width, 1) if FAITH_PD in weights else None
            self.nucleotides = NucleotideHead(width, encoder.shape.patch_bp)
            for head in (self.distances, self.faith_pd, self.nucleotides):
                if head is not None:
                    initialize(head)

    def projected(self, metric: str, sample_ND: Tensor) -> Tensor:
        """Return the embeddings [N, D] as the head of a metric sees them."""
        return self.head(metric).projected(sample_ND)

    def between(self, metric: str, a_ND: Tensor, b_MD: Tensor) -> Tensor:
        """Return the distances [N, M] of two sets of projected embeddings."""
        return self.head(metric).between(a_ND, b_MD)

    def head(self, metric: str) -> DistanceHead:
        """Return the head of a metric."""
        head = self.distances[metric]
        assert isinstance(head, DistanceHead)
        return head

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the named losses of a batch; `loss` is their weighted sum.

        Of a `Share` all processes return the losses of the whole batch.
        """
        masked = [block.masked for block in batch.asvs if block.masked is not None]
        if isinstance(batch, BatchShard):
            encoded = encode_sharded(self.encoder, batch)
        else:
            encoded = self.encoder(batch)
        losses = {
            f"{metric}_loss": pairwise_error(
                head(encoded.sample_BD), batch.distances[metric], self.variances[metric]
            )
            for metric, head in self.distances.items()
        }
        if self.faith_pd is not None:
            predicted_B = self.faith_pd(encoded.sample_BD).squeeze(-1)
            error_B = predicted_B - batch.values[FAITH_PD].squeeze(-1)
            losses[f"{FAITH_PD}_loss"] = error_B.square().mean()
        weighted = [
            self.weights[name.removesuffix("_loss")] * loss for name, loss in losses.items()
        ]
        if masked:
            logits_M4 = torch.cat(
                [self.nucleotides(h, m) for h, m in zip(encoded.nucleotides, masked, strict=True)]
            )
            base_M = torch.cat([m.base_M for m in masked])
            losses["nucleotide_loss"] = _mean_error(logits_M4, base_M, batch)
            weighted.append(self.nucleotide_weight * losses["nucleotide_loss"])
        losses["loss"] = torch.stack(weighted).sum()
        return losses


def _mean_error(logits_M4: Tensor, base_M: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of the masked nucleotides, their mean over all processes."""
    if not isinstance(batch, BatchShard):
        return nn.functional.cross_entropy(logits_M4, base_M)
    error = nn.functional.cross_entropy(logits_M4, base_M, reduction="sum")
    return summed(error) / batch.masked_nucleotides
