"""The reference that every optimization is measured against, and tested against.

Every sample is padded to a fixed number of ASVs and every copy of an ASV is encoded, padding too.

Letters: B samples, A ASVs that a sample is padded to, S positions.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.batch import AsvBlock, Batch, Masked, SampleBlock
from aam.model.encoder import Encoded, Encoder
from aam.train.feed import Feed
from aam.train.masking import Masker
from aam.util.errors import problem

ASVS_PER_CHUNK = 256


@dataclass(frozen=True, eq=False)
class NaiveFeed(Feed):
    """A feed of padded batches.

    Attributes
    ----------
    asvs_per_sample
        Number A of ASVs that every sample is padded to.
    """

    asvs_per_sample: int = 1024

    def assemble(self, rows_B: NDArray[np.int64], epoch: int) -> Batch:
        """Return the padded batch of some rows."""
        return assemble_naive(
            self.store, self.tokens, rows_B, self.asvs_per_sample, masker=self.masker, epoch=epoch
        )


def assemble_naive(
    store: SampleStore,
    tokens: TokenStore,
    rows_B: NDArray[np.int64],
    asvs_per_sample: int,
    *,
    masker: Masker | None = None,
    epoch: int = 0,
) -> Batch:
    """Build a batch in which each sample has `asvs_per_sample` sequences of its own.

    Shorter sequences are padded to the longest, and the padding takes part as it is; only where
    all have one length are the embeddings those of the optimized batch.
    """
    length = int(tokens.lengths.max())
    shape = (len(rows_B), asvs_per_sample)
    asvs_BA, counts_BA = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
    for number, row in enumerate(rows_B):
        held = slice(store.offsets[row], store.offsets[row + 1])
        richness = held.stop - held.start
        if richness > asvs_per_sample:
            raise problem(
                "configuration key benchmark.naive_asvs",
                str(asvs_per_sample),
                f"at least {richness}, the ASVs of the richest sample in the batch",
                "raise it: the naive mode pads every sample to it",
            )
        asvs_BA[number, :richness] = store.asvs[held]
        counts_BA[number, :richness] = store.counts[held]
    present_BA = asvs_BA >= 0
    copies = np.maximum(asvs_BA, 0).reshape(-1)
    tokens_US = np.where(present_BA.reshape(-1, 1), tokens.tokens[copies, :length], np.uint8(0))
    masked = None
    if masker is not None:
        tokens_US, parts = masker.mask(tokens_US, copies, epoch)
        masked = Masked(*(torch.from_numpy(part) for part in parts))
    samples = SampleBlock(
        asv_BA=torch.arange(present_BA.size).reshape(shape),
        present_BA=torch.from_numpy(present_BA),
        counts_BA=torch.from_numpy(counts_BA),
    )
    blocks = [AsvBlock(torch.from_numpy(tokens_US), masked)]
    return Batch(blocks, [samples], torch.arange(len(rows_B)), distances={}, values={})


class NaiveEncoder(Encoder):
    """The same encoder over chunks of sequences, whose activations are computed twice.

    Without the second computation a batch of eight samples would need about 40 GB.
    """

    def forward(self, batch: Batch, *, with_nucleotides: bool = False) -> Encoded:
        """Encode every copy of every ASV."""
        parts, nucleotides = [], []
        for block in batch.asvs:
            for chunk_US in block.tokens_US.split(ASVS_PER_CHUNK):
                asv_UD, patches_UTD = checkpoint(
                    self.asv, chunk_US, self.backend, use_reentrant=False
                )
                parts.append(asv_UD)
                nucleotides.append(patches_UTD)
        sample_BD = self.encode_samples(torch.cat(parts), batch)
        return Encoded(sample_BD, [torch.cat(nucleotides)] if with_nucleotides else None)
