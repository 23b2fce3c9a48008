"""A batch in smaller blocks, so that the activations of one block are alive at a time.

Shape suffixes: U distinct ASVs, S positions, B samples, A ASVs in a sample, M masked nucleotides.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock
from aam.model.encoder import Encoder, Recompute
from aam.train.data.collate import bucket


@dataclass(frozen=True)
class Plan:
    """The pieces that batches are worked in; the batch itself stays what it is.

    Attributes
    ----------
    asvs_per_piece, samples_per_piece
        Largest number of ASVs and of samples in a block; None: as the batch has them.
    recompute
        What the backward pass computes again.
    estimated_mb, measured_mb
        Peak memory of the process, or on an accelerator of its tensors, in a step of the heaviest
        batch: by the formulas, and as it was; None where no step was measured.
    seconds_per_step
        Of the measured step.
    limit_gb
        The limit that the plan keeps to; None: what was free.
    """

    asvs_per_piece: int | None = None
    samples_per_piece: int | None = None
    recompute: Recompute = "nothing"
    estimated_mb: float | None = None
    measured_mb: float | None = None
    seconds_per_step: float | None = None
    limit_gb: float | None = None

    def split(self, batch: Batch) -> Batch:
        """Return the batch in pieces of this plan."""
        return in_pieces(batch, self.asvs_per_piece, self.samples_per_piece)

    def apply(self, model: nn.Module) -> None:
        """Let the encoder of a model compute again what this plan says."""
        encoder = model.encoder
        assert isinstance(encoder, Encoder)
        encoder.recompute(self.recompute)

    def plain(self) -> dict[str, Any]:
        """Return plain types for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Plan":
        """Rebuild what `plain` returned."""
        return cls(**plain)

    @property
    def cut(self) -> tuple[int | None, int | None, Recompute]:
        """What is done to a batch, without the figures."""
        return self.asvs_per_piece, self.samples_per_piece, self.recompute

    def __str__(self) -> str:
        if self.recompute != "pieces":
            again = ", its layers computed again" if self.recompute == "layers" else ""
            return f"one piece{again}"
        asvs, samples = self.asvs_per_piece, self.samples_per_piece
        numbers = [
            "all ASVs of a length" if asvs is None else f"at most {asvs} ASVs",
            "all samples of a block" if samples is None else f"at most {samples} samples",
        ]
        return f"pieces of {' and of '.join(numbers)}, each computed again"


def in_pieces(batch: Batch, asvs: int | None, samples: int | None) -> Batch:
    """Return the same batch with its larger blocks cut into pieces of nearly equal sizes.

    The ASVs and the samples keep their order and their numbers, so that every embedding, every
    pair and every loss is that of the uncut batch, but for dropout, whose masks are drawn piece by
    piece. The pieces share the memory of their block;
    only the numbers of masked ASVs are written anew. Where no block is larger the batch itself is
    returned.

    Parameters
    ----------
    batch
        Best on the host: the bounds of the pieces are read from its tensors.
    asvs, samples
        Largest number of ASVs and of samples in a block, at least 1; None: as it is.

    Raises
    ------
    ValueError
        When a number is below 1.
    """
    cut_asvs = [piece for block in batch.asvs for piece in _asv_pieces(block, asvs)]
    cut_samples = [piece for block in batch.samples for piece in _sample_pieces(block, samples)]
    if len(cut_asvs) == len(batch.asvs) and len(cut_samples) == len(batch.samples):
        return batch
    return replace(batch, asvs=cut_asvs, samples=cut_samples)


def cuts(number: int, limit: int | None) -> list[tuple[int, int]]:
    """Return first and behind-last row of each piece of a block of `number` rows.

    Examples
    --------
    >>> cuts(10, 4)
    [(0, 4), (4, 7), (7, 10)]
    """
    if limit is not None and limit < 1:
        raise ValueError(f"a piece of {limit} rows; expected at least 1")
    pieces = 1 if limit is None else max(1, -(-number // limit))
    size, larger = divmod(number, pieces)
    firsts = [piece * size + min(piece, larger) for piece in range(pieces + 1)]
    return list(pairwise(firsts))


def _asv_pieces(block: AsvBlock, limit: int | None) -> list[AsvBlock]:
    rows = cuts(len(block.tokens_US), limit)
    if len(rows) == 1:
        return [block]
    if block.masked is None:
        return [AsvBlock(block.tokens_US[first:last], None) for first, last in rows]
    asv_M = block.masked.asv_M
    # The masked nucleotides are sorted by ASV: those of a piece are a slice.
    bounds = torch.tensor([first for first, _ in rows] + [rows[-1][1]], device=asv_M.device)
    places = torch.searchsorted(asv_M.contiguous(), bounds).tolist()
    pieces = []
    for (first, last), (start, stop) in zip(rows, pairwise(places), strict=True):
        masked = Masked(
            asv_M=asv_M[start:stop] - first,
            position_M=block.masked.position_M[start:stop],
            base_M=block.masked.base_M[start:stop],
        )
        pieces.append(AsvBlock(block.tokens_US[first:last], masked))
    return pieces


def _sample_pieces(block: SampleBlock, limit: int | None) -> list[SampleBlock]:
    """Cut a block of samples; each piece is as wide as its own richest sample needs."""
    rows = cuts(len(block.asv_BA), limit)
    if len(rows) == 1:
        return [block]
    column_A = torch.arange(1, block.present_BA.shape[1] + 1, device=block.present_BA.device)
    richness_B = (block.present_BA * column_A).amax(dim=1).tolist()
    pieces = []
    for first, last in rows:
        part = (slice(first, last), slice(0, bucket(max(1, *richness_B[first:last]))))
        pieces.append(
            SampleBlock(
                block.asv_BA[part],
                block.present_BA[part],
                block.counts_BA[part],
                None if block.count_mask_BA is None else block.count_mask_BA[part],
            )
        )
    return pieces
