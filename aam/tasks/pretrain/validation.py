"""How well a pretrained model does on held-out samples, in memory that does not grow with them.

Shape suffixes: N samples, R rows, B of a block, U ASVs, S positions, M masked, D width, P pairs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from aam.batches.collate import asv_blocks
from aam.batches.masking import Masker
from aam.config.metrics import FAITH_PD
from aam.data.stores import SampleStore, TokenStore
from aam.distances.in_batch import BatchDistances
from aam.distributed.devices import Devices
from aam.inference.embed import asv_batches, asvs_of, embed_samples
from aam.model.batch import AsvBlock
from aam.model.heads import recalibrate_batch_norm, select_evenly
from aam.tasks.pretrain.model import PretrainingModel
from aam.util.seeds import generator

SAMPLES_PER_BLOCK = 1024
"""Held-out samples of which all pairs are scored."""
ROWS_AT_ONCE = 128
"""Samples of a block whose distances to the whole block are predicted at a time."""
ASVS_SCORED = 4096
"""Most ASVs whose masked nucleotides are scored."""
ASVS_COUNTED_AT_ONCE = 4096
"""ASVs whose bases are counted at a time."""


@dataclass
class PairMoments:
    """Sums over pairs, from which correlation and error follow; merging loses nothing.

    Distances are taken less 1/2, about their middle, so that squares do not cancel.
    """

    pairs: int = 0
    true: float = 0.0
    predicted: float = 0.0
    true_squared: float = 0.0
    predicted_squared: float = 0.0
    product: float = 0.0
    absolute_error: float = 0.0

    def add(self, true: NDArray[np.floating], predicted: NDArray[np.floating]) -> None:
        """Take in some pairs.

        Parameters
        ----------
        true, predicted
            Distances of the pairs, one-dimensional.
        """
        x = true.astype(np.float64) - 0.5
        y = predicted.astype(np.float64) - 0.5
        self.pairs += len(x)
        self.true += x.sum()
        self.predicted += y.sum()
        self.true_squared += (x * x).sum()
        self.predicted_squared += (y * y).sum()
        self.product += (x * y).sum()
        self.absolute_error += np.abs(x - y).sum()

    @property
    def pearson(self) -> float:
        """Pearson correlation; 0 where one side is constant."""
        true_spread = self.pairs * self.true_squared - self.true * self.true
        predicted_spread = self.pairs * self.predicted_squared - self.predicted * self.predicted
        spread = true_spread * predicted_spread
        covariance = self.pairs * self.product - self.true * self.predicted
        return float(covariance / np.sqrt(spread)) if spread > 0 else 0.0

    @property
    def mean_absolute_error(self) -> float:
        """Mean of the absolute errors."""
        return float(np.divide(self.absolute_error, self.pairs))


@dataclass
class NucleotideCounts:
    """Masked nucleotides, and how many of them were guessed."""

    masked: int = 0
    right: int = 0
    """Guessed by the model."""
    baseline_right: int = 0
    """Guessed by the most frequent base of each position."""
    new: int = 0
    """Masked in ASVs that no training sample has."""
    new_right: int = 0
    """Guessed by the model in these."""

    def add(
        self,
        is_right_M: NDArray[np.bool_],
        is_baseline_right_M: NDArray[np.bool_],
        is_new_M: NDArray[np.bool_],
    ) -> None:
        """Take in some masked nucleotides.

        Parameters
        ----------
        is_right_M
            Whether the model guessed each of them.
        is_baseline_right_M
            Whether the most frequent base of the position is right.
        is_new_M
            Whether no training sample has the ASV.
        """
        self.masked += len(is_right_M)
        self.right += int(is_right_M.sum())
        self.baseline_right += int(is_baseline_right_M.sum())
        self.new += int(is_new_M.sum())
        self.new_right += int(is_right_M[is_new_M].sum())

    def accuracies(self, devices: Devices) -> dict[str, float]:
        """Return the accuracies of all processes together, by name, where there is any."""
        counts = [self.masked, self.right, self.baseline_right, self.new, self.new_right]
        masked, right, baseline_right, new, new_right = devices.all_reduce_sum(np.array(counts))
        values = {}
        if masked:
            values["nucleotide_accuracy"] = float(right / masked)
            values["nucleotide_baseline_accuracy"] = float(baseline_right / masked)
        if new:
            values["nucleotide_accuracy_unseen_asvs"] = float(new_right / new)
        return values


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a pretrained model is validated on."""

    store: SampleStore
    tokens: TokenStore
    samples: NDArray[np.int64]
    """Positions of the held-out samples in the store."""
    training_samples: NDArray[np.int64]
    distances: Mapping[str, NDArray[np.float32]]
    """Per metric [V, N, N]; the held-out rows of view 0 alone are read."""
    values: Mapping[str, NDArray[np.float32]]
    """Per name the standardized values [N, 1] of all samples."""
    masker: Masker
    """Masks with a fixed seed, which also draws the blocks of samples."""
    plotted_pairs: int
    """Most pairs that `recorded_pairs` returns."""
    exact: BatchDistances | None = None
    """Computes the distances of a block once, in place of `distances`."""
    _distances_of_blocks: dict[int, dict[str, NDArray[np.float32]]] = field(default_factory=dict)
    """Distances that `exact` has computed, by the first sample of a block."""

    def blocks(self) -> list[NDArray[np.int64]]:
        """Return the held-out samples in blocks of nearly equal size, the same at every call.

        Pairs within a block are scored, others are not.

        Returns
        -------
        list of numpy.ndarray
            Positions in the store, ascending in each block.
        """
        number = -(-len(self.samples) // SAMPLES_PER_BLOCK)
        if number == 1:
            return [self.samples]
        drawn = generator("blocks", self.masker.seed).permutation(self.samples)
        return [np.sort(part) for part in np.array_split(drawn, number)]

    def score(self, model: PretrainingModel, devices: Devices) -> dict[str, float]:
        """Score a model on the held-out samples.

        The statistics of its heads are set from training samples first. Where several processes
        work together, all have to call this: each sample and each ASV is encoded by one of them.

        Parameters
        ----------
        model
            The model.
        devices
            Where it computes.

        Returns
        -------
        dict
            Pearson correlation and mean absolute error per distance, the correlation of Faith's PD,
            and the accuracy on masked nucleotides, where they are learned.
        """
        moments = {metric: PairMoments() for metric in model.distances}
        faith_pd = PairMoments()
        for block_B, sample_BD in self._embedded_blocks(model, devices):
            for metric, pair_moments in moments.items():
                for true, predicted in self._pairs(model, metric, block_B, sample_BD, devices):
                    pair_moments.add(true, predicted)
            if model.faith_pd is not None:
                predicted_B = self._predicted_faith_pd(model, sample_BD, devices)
                faith_pd.add(self._true(FAITH_PD, block_B)[:, 0], predicted_B)
        values = {}
        for metric, pair_moments in moments.items():
            values[f"{metric}_pearson"] = pair_moments.pearson
            values[f"{metric}_mae"] = pair_moments.mean_absolute_error
        if model.faith_pd is not None:
            values[f"{FAITH_PD}_pearson"] = faith_pd.pearson
        if model.nucleotide_weight > 0:
            values.update(self._score_nucleotides(model, devices))
        return values

    def recorded_pairs(
        self, model: PretrainingModel, devices: Devices, seed: int
    ) -> dict[str, NDArray[np.float32]]:
        """Return true and predicted distances of at most `plotted_pairs` pairs.

        They are drawn from all blocks in proportion to their pairs. Call this after `score`, which
        sets the statistics of the heads.

        Parameters
        ----------
        model
            The model.
        devices
            Where it computes.
        seed
            Seed of the draw.

        Returns
        -------
        dict
            Per metric an array [2, P], fp32.
        """
        blocks = self.blocks()
        rng = generator("pairs", seed)
        pairs = np.array([len(block_B) * (len(block_B) - 1) // 2 for block_B in blocks])
        # Rounding the running sum, and not each block's part, makes the quotas add up exactly.
        pairs_so_far = np.cumsum(pairs)
        all_pairs = max(pairs_so_far[-1], 1)
        drawn_so_far = np.minimum(pairs_so_far, pairs_so_far * self.plotted_pairs // all_pairs)
        quotas = np.diff(drawn_so_far, prepend=0)
        parts: dict[str, list[NDArray[np.float32]]] = {metric: [] for metric in model.distances}
        for block_B, number, quota in zip(blocks, pairs, quotas, strict=True):
            chosen_P = np.sort(rng.choice(number, quota, replace=False))
            sample_BD = self._embed(model, block_B, devices)
            for metric, part in parts.items():
                pairs_of_block = self._pairs(model, metric, block_B, sample_BD, devices)
                part += _chosen_pairs(pairs_of_block, chosen_P)
        return {metric: np.concatenate(part, axis=1) for metric, part in parts.items()}

    def _embedded_blocks(
        self, model: PretrainingModel, devices: Devices
    ) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
        """Set the statistics of the heads, then yield every block with its embeddings [B, D]."""
        rows = select_evenly(self.training_samples)
        blocks = self.blocks()
        # Both are embedded together, so that an ASV that both have is encoded once.
        both_RD = self._embed(model, np.concatenate([rows, blocks[0]]), devices)
        recalibrate_batch_norm(model, both_RD[: len(rows)])
        yield blocks[0], both_RD[len(rows) :]
        for block_B in blocks[1:]:
            yield block_B, self._embed(model, block_B, devices)

    def _embed(
        self, model: PretrainingModel, samples_R: NDArray[np.int64], devices: Devices
    ) -> torch.Tensor:
        # The rows of view 0 come first in the store: they are the positions of the samples.
        return embed_samples(model.encoder, self.store, self.tokens, samples_R, devices)

    def _pairs(
        self,
        model: PretrainingModel,
        metric: str,
        block_B: NDArray[np.int64],
        sample_BD: torch.Tensor,
        devices: Devices,
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Yield true and predicted distances of all pairs of a block, row after row, in parts.

        Parameters
        ----------
        model
            The model.
        metric
            Name of the distance.
        block_B
            Positions of the samples in the store.
        sample_BD
            Their embeddings, on the host.
        devices
            Where the distances are computed.
        """
        true_BB = self._true(metric, block_B)
        head = model.head(metric)
        with devices.inference(model):
            z_BD = head.project_samples(sample_BD.to(devices.device))
        for first in range(0, len(block_B), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            with torch.inference_mode():
                predicted = head.pairwise_distances(z_BD[rows], z_BD).cpu().numpy()
            # Above the diagonal every pair is met once. Row 0 of these is row `first` of the block.
            is_above = np.triu(np.ones(predicted.shape, bool), first + 1)
            yield true_BB[rows][is_above], predicted[is_above]

    def _true(self, metric: str, block_B: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the true distances [B, B] of a block, or its values [B, 1] of Faith's PD.

        Computed ones are kept, since a block is scored in every validation.
        """
        if self.exact is None and metric == FAITH_PD:
            return self.values[FAITH_PD][block_B]
        if self.exact is None:
            return np.asarray(self.distances[metric][0][np.ix_(block_B, block_B)])
        distances = self._distances_of_blocks.setdefault(int(block_B[0]), {})
        if not distances:
            counts_BF = self.store.counts_of(block_B, len(self.tokens.lengths))
            for name, exact_BB in self.exact(counts_BF).items():
                distances[name] = exact_BB.astype(np.float32)
        return distances[metric]

    def _predicted_faith_pd(
        self, model: PretrainingModel, sample_BD: torch.Tensor, devices: Devices
    ) -> NDArray[np.float32]:
        """Return the predictions [B] of Faith's PD, standardized."""
        assert model.faith_pd is not None
        with devices.inference(model):
            return model.faith_pd(sample_BD.to(devices.device)).squeeze(-1).cpu().numpy()

    def _score_nucleotides(self, model: PretrainingModel, devices: Devices) -> dict[str, float]:
        """Score masked nucleotides of held-out samples, next to the most frequent base's."""
        training_U = asvs_of(self.store, self.training_samples, len(self.tokens.lengths))
        common_S = most_frequent_bases(self.tokens, training_U)
        asvs_U = devices.shard(self._scored_asvs())
        is_new_U = ~np.isin(asvs_U, training_U)
        counts = NucleotideCounts()
        patch_bp = model.encoder.shape.patch_bp
        with devices.inference(model):
            for members in asv_batches(self.tokens, asvs_U, patch_bp, devices.device):
                blocks, number = asv_blocks(self.tokens, asvs_U[members], masker=self.masker)
                # The blocks sort the ASVs by length: `number` is where each one went.
                is_new = np.empty(len(members), bool)
                is_new[number] = is_new_U[members]
                rows_before = 0
                for block in blocks:
                    masked = block.masked
                    assert masked is not None
                    base_M = masked.base_M.numpy()
                    guess_M = self._guess(model, block, devices)
                    counts.add(
                        is_right_M=guess_M == base_M,
                        is_baseline_right_M=common_S[masked.position_M.numpy()] == base_M,
                        is_new_M=is_new[rows_before + masked.asv_M.numpy()],
                    )
                    rows_before += len(block.tokens_US)
        return counts.accuracies(devices)

    def _scored_asvs(self) -> NDArray[np.int64]:
        """Return the ASVs of the held-out samples, at most `ASVS_SCORED` of them, ascending."""
        asvs_U = asvs_of(self.store, self.samples, len(self.tokens.lengths))
        if len(asvs_U) <= ASVS_SCORED:
            return asvs_U
        drawn = generator("asvs", self.masker.seed).permutation(len(asvs_U))[:ASVS_SCORED]
        return asvs_U[np.sort(drawn)]

    @staticmethod
    def _guess(model: PretrainingModel, block: AsvBlock, devices: Devices) -> NDArray[np.int64]:
        """Return the likeliest base (0 to 3) of every masked nucleotide of a block, [M]."""
        encoder = model.encoder
        moved = block.to(devices.device)
        _, hidden_MD = encoder.asv(moved.tokens_US, moved.masked, encoder.backend)
        return model.nucleotides(hidden_MD, moved.masked).argmax(-1).cpu().numpy()


def _chosen_pairs(
    all_pairs: Iterable[tuple[NDArray[np.float32], NDArray[np.float32]]],
    chosen_P: NDArray[np.int64],
) -> Iterator[NDArray[np.float32]]:
    """Yield the chosen ones of the true and predicted distances that come in parts, [2, P]."""
    pairs_before = 0
    for true, predicted in all_pairs:
        is_here_P = (chosen_P >= pairs_before) & (chosen_P < pairs_before + len(true))
        positions = chosen_P[is_here_P] - pairs_before
        yield np.stack([true[positions], predicted[positions]])
        pairs_before += len(true)


def most_frequent_bases(tokens: TokenStore, asvs_U: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent base at each position of some ASVs.

    Parameters
    ----------
    tokens
        Token store with the ASVs.
    asvs_U
        Rows of the ASVs in it.

    Returns
    -------
    numpy.ndarray
        0 to 3, [S].
    """
    counts_4S = np.zeros((4, tokens.tokens.shape[1]), np.int64)
    for first in range(0, len(asvs_U), ASVS_COUNTED_AT_ONCE):
        letters_US = tokens.tokens[asvs_U[first : first + ASVS_COUNTED_AT_ONCE]]
        counts_4S += np.stack([(letters_US == base).sum(axis=0) for base in (1, 2, 3, 4)])
    return counts_4S.argmax(axis=0)
