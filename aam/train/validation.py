"""How well a pretrained model does on held-out samples.

Letters: N held-out samples, U ASVs, S positions, M masked nucleotides, D width.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.train.collate import asv_blocks
from aam.train.devices import Devices
from aam.train.inference import ASVS_PER_BATCH, embed_samples
from aam.train.masking import Masker
from aam.train.pretraining import PretrainingModel
from aam.train.statistics import settle, some_of
from aam.util.seeds import generator

ROWS_AT_ONCE = 512
ASVS_SCORED = 4096
PAIRS_RECORDED = 20_000


@dataclass
class PairMoments:
    """Sums over pairs, from which correlation and error follow; merging loses nothing."""

    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(7))

    def add(self, true: NDArray[np.floating], predicted: NDArray[np.floating]) -> None:
        """Take in some pairs."""
        x, y = true.astype(np.float64) - 0.5, predicted.astype(np.float64) - 0.5
        parts = (x, y, x * x, y * y, x * y, np.abs(x - y))
        self.sums += [len(x), *(part.sum() for part in parts)]

    @property
    def pearson(self) -> float:
        """Pearson correlation; 0 where one side is constant."""
        n, x, y, xx, yy, xy, _ = self.sums
        spread = (n * xx - x * x) * (n * yy - y * y)
        return float((n * xy - x * y) / np.sqrt(spread)) if spread > 0 else 0.0

    @property
    def mean_absolute_error(self) -> float:
        """Mean of the absolute errors."""
        return float(self.sums[6] / self.sums[0])


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a pretrained model is validated on.

    Attributes
    ----------
    store, tokens
        Where the samples and the sequences are.
    samples
        Positions of the held-out samples.
    training_samples
        Positions of the others.
    distances
        Per metric the matrices [V, N, N]; view 0 is scored.
    values
        Per name the standardized values [N, 1] of all samples.
    masker
        Masks with a fixed seed.
    """

    store: SampleStore
    tokens: TokenStore
    samples: NDArray[np.int64]
    training_samples: NDArray[np.int64]
    distances: Mapping[str, NDArray[np.float32]]
    values: Mapping[str, NDArray[np.float32]]
    masker: Masker

    def score(self, model: PretrainingModel, devices: Devices) -> dict[str, float]:
        """Return correlation and error per distance, and the accuracy on masked nucleotides.

        The statistics of the heads are set from training samples first.
        """
        rows = some_of(self.training_samples)
        settle(model, embed_samples(model.encoder, self.store, self.tokens, rows, devices))
        sample_ND = embed_samples(model.encoder, self.store, self.tokens, self.samples, devices)
        values: dict[str, float] = {}
        for metric in model.distances:
            moments = PairMoments()
            for true, predicted in self._pairs(model, metric, sample_ND, devices):
                moments.add(true, predicted)
            values[f"{metric}_pearson"] = moments.pearson
            values[f"{metric}_mae"] = moments.mean_absolute_error
        if model.faith_pd is not None:
            with devices.inference(model):
                predicted_N = model.faith_pd(sample_ND.to(devices.device)).cpu().numpy().squeeze(-1)
            moments = PairMoments()
            moments.add(self.values["faith_pd"][self.samples, 0], predicted_N)
            values["faith_pd_pearson"] = moments.pearson
        return {**values, **self._nucleotides(model, devices)}

    def recorded_pairs(
        self, model: PretrainingModel, devices: Devices, seed: int
    ) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Return true and predicted distances of a bounded sample of pairs, per metric."""
        sample_ND = embed_samples(model.encoder, self.store, self.tokens, self.samples, devices)
        number = len(self.samples)
        first, second = np.triu_indices(number, 1) if number < 2000 else _random_pairs(number, seed)
        if len(first) > PAIRS_RECORDED:
            chosen = generator("pairs", seed).choice(len(first), PAIRS_RECORDED, replace=False)
            first, second = first[np.sort(chosen)], second[np.sort(chosen)]
        recorded = {}
        for metric in model.distances:
            with devices.inference(model):
                z_ND = model.projected(metric, sample_ND.to(devices.device))
                rows = [
                    model.between(metric, z_ND[i : i + 1], z_ND[j]).cpu().numpy()[0]
                    for i, j in _by_first(first, second)
                ]
            true = self.distances[metric][0][self.samples[first], self.samples[second]]
            recorded[metric] = (true, np.concatenate(rows).astype(np.float32))
        return recorded

    def _pairs(
        self, model: PretrainingModel, metric: str, sample_ND: torch.Tensor, devices: Devices
    ) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating]]]:
        """Yield true and predicted distances of all pairs, some rows at a time."""
        with devices.inference(model):
            z_ND = model.projected(metric, sample_ND.to(devices.device))
        for first in range(0, len(self.samples), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            with torch.inference_mode():
                predicted = model.between(metric, z_ND[rows], z_ND).cpu().numpy()
            above = np.triu(np.ones(predicted.shape, bool), first + 1)
            true = self.distances[metric][0][np.ix_(self.samples[rows], self.samples)]
            yield true[above], predicted[above]

    def _nucleotides(self, model: PretrainingModel, devices: Devices) -> dict[str, float]:
        """Score masked nucleotides of the held-out samples' ASVs, beside the commonest base's."""
        asvs_U = self._asvs(self.samples)
        seen = np.isin(asvs_U, self._asvs(self.training_samples))
        if len(asvs_U) > ASVS_SCORED:
            chosen = np.sort(
                generator("asvs", self.masker.seed).permutation(len(asvs_U))[:ASVS_SCORED]
            )
            asvs_U, seen = asvs_U[chosen], seen[chosen]
        common_S = commonest_bases(self.tokens, self._asvs(self.training_samples))
        right, base_right, unseen = [], [], []
        with devices.inference(model):
            for first in range(0, len(asvs_U), ASVS_PER_BATCH):
                chunk = asvs_U[first : first + ASVS_PER_BATCH]
                blocks, number = asv_blocks(self.tokens, chunk, masker=self.masker)
                seen_in_order = np.empty(len(chunk), bool)
                seen_in_order[number] = seen[first : first + ASVS_PER_BATCH]
                done = 0
                for block in blocks:
                    masked = block.masked
                    assert masked is not None
                    on_device = block.to(devices.device)
                    patches_UTD = model.encoder.asv(on_device.tokens_US, model.encoder.backend)[1]
                    guess_M = model.nucleotides(patches_UTD, on_device.masked).argmax(-1).cpu()
                    right.append((guess_M == masked.base_M).numpy())
                    base_right.append(common_S[masked.position_M.numpy()] == masked.base_M.numpy())
                    unseen.append(~seen_in_order[done + masked.asv_M.numpy()])
                    done += len(block.tokens_US)
        hits, base_hits, new = (np.concatenate(part) for part in (right, base_right, unseen))
        values = {
            "nucleotide_accuracy": float(hits.mean()),
            "nucleotide_baseline_accuracy": float(base_hits.mean()),
        }
        if new.any():
            values["nucleotide_accuracy_unseen_asvs"] = float(hits[new].mean())
        return values

    def _asvs(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        offsets = self.store.offsets
        parts = [self.store.asvs[offsets[i] : offsets[i + 1]] for i in samples]
        return np.unique(np.concatenate(parts)).astype(np.int64)


def commonest_bases(tokens: TokenStore, asvs_U: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the commonest base (0 to 3) at each position of some ASVs, [L]."""
    letters_US = tokens.tokens[asvs_U]
    counts_4S = np.stack([(letters_US == base).sum(axis=0) for base in (1, 2, 3, 4)])
    return counts_4S.argmax(axis=0)


def _random_pairs(number: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = generator("pairs", seed).integers(0, number, (2, 2 * PAIRS_RECORDED))
    different = first != second
    pairs = np.unique(np.sort(np.stack([first[different], second[different]]), axis=0), axis=1)
    return pairs[0], pairs[1]


def _by_first(
    first: NDArray[np.int64], second: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each first sample with its partners; `first` is ascending."""
    numbers, starts = np.unique(first, return_index=True)
    for number, partners in zip(numbers, np.split(second, starts[1:]), strict=True):
        yield int(number), partners
