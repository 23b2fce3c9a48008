"""How well UniFrac of studies that were never seen is predicted from sequences alone.

Run as `python -m benchmarks.transfer RESULTS METADATA --without horse ocean`: RESULTS is the folder
of a dataset's results with `tokens/`, `views/` and `inputs/tree.nwk`, METADATA names the `study` of
each sample. Studies that are left out give neither samples nor ASVs to the training.

A sample is sketched by K numbers. Every branch b of length l gets K independent Gumbel variables G;
the k-th number of a set of branches is the largest log(l_b) + G_bk in it. It is a Gumbel variable
again, whose location is the logarithm of the set's length (the trick of Maddison, Tarlow and Minka
2014, arXiv:1411.0030). So the mean of the sketch of sample s estimates log W_s up to a constant,
the mean of the larger of two sketches the logarithm of what both have together, and

    unweighted UniFrac of s and t = 2 - exp(log W_s - log W_st) - exp(log W_t - log W_st)

The sketch of a sample is the largest of those of its ASVs, whatever their number: an encoder has to
learn nothing but the sketch of one ASV. The branch to an ASV alone cannot be known: its length is
predicted, and its noise is a draw of its own.

Shape suffixes: F ASVs, E branches, K numbers of a sketch, B samples, U ASVs of a batch, D width, P
pairs.
"""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from torch import Tensor, nn
from torch.nn.functional import gelu

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.inference.embed import asvs_of
from aam.model.asv_encoders import Architecture
from aam.model.batch import SampleBlock
from aam.model.build import build_encoder
from aam.train.clipping import clip_gradients
from aam.train.data.collate import asv_blocks, entries_of, sample_blocks
from aam.train.distributed.devices import Devices
from aam.train.optimizer import set_rate, warmup_cosine
from aam.train.options import set_up, step_options
from aam.unifrac.in_batch import BatchDistances
from aam.util.seeds import generator

logger = logging.getLogger(__name__)
MODEL = {"width": 128, "heads": 4, "asv_layers": 4, "sample_layers": 1, "patch_bp": 10}
HIDDEN = 512
"""Width of the layer between an ASV's embedding and its sketch."""
ASVS, SAMPLES = 1024, 48
"""ASVs of a step that learns their sketches, samples of one that learns distances."""
FIELD_WEIGHT = 0.3
"""Weight of the ASVs' sketches while distances are learned."""
NEVER = -30.0
"""Less than any number of a sketch."""
PER_MISMATCH = 0.006
"""Substitutions per site: half the distance on the tree of two ASVs of 90 nt per mismatch."""
SCORED = 300
"""Samples of a study whose pairs are scored."""


@dataclass(frozen=True, eq=False)
class Data:
    """A dataset of several studies with one tree."""

    store: SampleStore
    tokens: TokenStore
    exact: BatchDistances
    above_FE: csr_array
    length_E: NDArray[np.float64]
    study: NDArray[np.object_]

    @classmethod
    def open(cls, results: Path, metadata: Path) -> "Data":
        """Read what the stages before pretraining wrote."""
        store = SampleStore.open(results / "views/samples.arrow")
        tokens = TokenStore.open(results / "tokens/asvs.arrow")
        tree = results / "inputs/tree.nwk"
        exact = BatchDistances.of(["unweighted"], tree, tokens.feature_ids, 1.0)
        assert exact.above_FE is not None
        assert exact.length_E is not None
        table = pd.read_csv(metadata, sep="\t", index_col=0, dtype=str)
        study = table.loc[store.sample_ids, "study"].to_numpy(object)
        return cls(store, tokens, exact, exact.above_FE, np.maximum(exact.length_E, 1e-6), study)

    def asvs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct ASVs of some samples."""
        return asvs_of(self.store, rows, len(self.tokens.lengths))

    def distances(self, rows_B: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return unweighted UniFrac, [B, B]."""
        return self.exact(self.store.counts_of(rows_B, len(self.tokens.lengths)))["unweighted"]


def true_sketches(data: Data, number: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return sketches of the branches above each ASV, [F, K], without its own and of its own alone.

    The third is the logarithm of the length of its own, [F].
    """
    rng = generator("sketch", seed)
    noise_EK = rng.gumbel(size=(len(data.length_E), number)) + np.log(data.length_E)[:, None]
    is_own = np.bincount(data.above_FE.indices, minlength=len(data.length_E)) == 1
    inner_FK, own_FK = (np.full((data.above_FE.shape[0], number), NEVER) for _ in range(2))
    own_length_F = np.full(data.above_FE.shape[0], 1e-4)
    for asv, (first, last) in enumerate(
        zip(data.above_FE.indptr[:-1], data.above_FE.indptr[1:], strict=True)
    ):
        path = data.above_FE.indices[first:last]
        own, inner = path[is_own[path]], path[~is_own[path]]
        if len(inner):
            inner_FK[asv] = noise_EK[inner].max(axis=0)
        if len(own):
            own_FK[asv] = noise_EK[own].max(axis=0)
            own_length_F[asv] = max(data.length_E[own].sum(), 1e-4)
    own_F = torch.from_numpy(np.log(own_length_F)).float()
    return torch.from_numpy(inner_FK).float(), torch.from_numpy(own_FK).float(), own_F


def unifrac_of(sketch_BK: Tensor) -> Tensor:
    """Return unweighted UniFrac of some samples, [B, B], by their sketches."""
    both_BB = torch.stack([torch.maximum(own_K, sketch_BK).mean(1) for own_K in sketch_BK])
    own_B = sketch_BK.mean(1)
    distance_BB = 2 - (own_B[:, None] - both_BB).exp() - (own_B - both_BB).exp()
    return distance_BB - torch.diag(torch.diag(distance_BB))


def sketches_of(asv_UK: Tensor, blocks: Sequence[SampleBlock], order_B: Tensor) -> Tensor:
    """Return the sketches [B, K] of samples: the largest number of their ASVs."""
    parts = [
        asv_UK[block.asv_BA].masked_fill(~block.present_BA[..., None], NEVER).amax(1)
        for block in blocks
    ]
    return torch.cat(parts)[order_B]


class SketchModel(nn.Module):
    """An ASV encoder, and what makes a sketch of each embedding."""

    def __init__(self, length_bp: int, start_K: Tensor, own: float) -> None:
        super().__init__()
        shape = Architecture(encoder="transformer", ffn_ratio=4, max_length_bp=length_bp, **MODEL)
        self.asv = build_encoder(shape, seed=0, backend="auto").asv
        self.norm = nn.LayerNorm(shape.width)
        self.hidden = nn.Linear(shape.width, HIDDEN)
        self.inner = nn.Linear(HIDDEN, len(start_K))
        self.own = nn.Linear(HIDDEN, 1)
        nn.init.normal_(self.hidden.weight, std=shape.width**-0.5)
        nn.init.normal_(self.inner.weight, std=0.3 * HIDDEN**-0.5)
        with torch.no_grad():
            self.inner.bias.copy_(start_K)
            self.own.weight.mul_(0.1)
            self.own.bias.fill_(own)

    def forward(self, tokens: TokenStore, asvs_U: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the sketches [U, K] without the ASVs' own branches, whose log lengths are [U]."""
        blocks, number_U = asv_blocks(tokens, asvs_U)
        embedded = torch.cat([self.asv(block.tokens_US, None, "auto")[0] for block in blocks])
        hidden_UD = gelu(self.hidden(self.norm(embedded[torch.from_numpy(number_U)])))
        return self.inner(hidden_UD).float(), self.own(hidden_UD).float().squeeze(-1)


@dataclass(frozen=True, eq=False)
class SketchTraining:
    """Learns sketches of ASVs, then distances of samples, from some samples."""

    data: Data
    samples: NDArray[np.int64]
    inner_FK: Tensor
    own_F: Tensor
    model: SketchModel
    devices: Devices

    def run(self, asv_steps: int, pair_steps: int, rate: float, pair_rate: float) -> None:
        """Do all steps."""
        settings = Pretraining(learning_rate=rate)
        wrapped, optimizer, _ = set_up(
            self.model, settings, step_options(Optimization()), self.devices
        )
        wrapped.train()
        seen, variance = self.data.asvs(self.samples), self._variance()
        plan = [(asv_steps, rate, self._asv_loss), (pair_steps, pair_rate, self._pair_loss)]
        for steps, peak, loss_of in plan:
            for step in range(steps):
                set_rate(optimizer, peak * warmup_cosine(step, steps, settings.warmup))
                loss = loss_of(wrapped, step, seen, variance)
                self.devices.backward(loss)
                clip_gradients(wrapped, optimizer, self.devices, "norm", 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if (step + 1) % 50 == 0:
                    logger.info("step %d of %d: %.3f", step + 1, steps, float(loss.detach()))

    def _variance(self) -> float:
        some = self.samples[np.linspace(0, len(self.samples) - 1, 512).astype(int)]
        found = self.data.distances(some)
        return float(found[np.triu_indices(len(some), 1)].var())

    def _asv_loss(self, model: nn.Module, step: int, seen: NDArray, variance: float) -> Tensor:
        asvs_U = generator("asvs", step).choice(seen, min(ASVS, len(seen)), replace=False)
        inner_UK, own_U = model(self.data.tokens, asvs_U)
        own = (own_U - self.own_F[asvs_U]).square().mean()
        return (inner_UK - self.inner_FK[asvs_U]).square().mean() + 0.05 * own

    def _pair_loss(self, model: nn.Module, step: int, seen: NDArray, variance: float) -> Tensor:
        data = self.data
        rows_B = generator("rows", step).choice(self.samples, SAMPLES, replace=False)
        entries, distinct_U, place = entries_of(data.store, rows_B, None, step)
        asvs_U = distinct_U.astype(np.int64)
        inner_UK, own_U = model(data.tokens, asvs_U)
        noise_UK = generator("own", step).gumbel(size=inner_UK.shape).astype(np.float32)
        sketch_UK = torch.maximum(inner_UK, own_U[:, None] + torch.from_numpy(noise_UK))
        found_BB = unifrac_of(sketches_of(sketch_UK, *sample_blocks(place, entries)))
        true_BB = torch.from_numpy(data.distances(rows_B).astype(np.float32))
        error = (found_BB - true_BB).square().sum() / (SAMPLES * (SAMPLES - 1) * variance)
        return error + FIELD_WEIGHT * (inner_UK - self.inner_FK[asvs_U]).square().mean()

    @torch.inference_mode()
    def sketches(self) -> Tensor:
        """Return the sketches of all ASVs, [F, K]."""
        self.model.eval()
        number = len(self.data.tokens.lengths)
        parts = [
            self.model(self.data.tokens, part)
            for part in np.array_split(np.arange(number), -(-number // 2048))
        ]
        inner_FK, own_F = (torch.cat(each) for each in zip(*parts, strict=True))
        noise_FK = generator("own", "scored").gumbel(size=inner_FK.shape).astype(np.float32)
        return torch.maximum(inner_FK, own_F[:, None] + torch.from_numpy(noise_FK))


def placed(data: Data, rows_B: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return UniFrac [B, B] on the tree of the ASVs seen, each other one placed by its nearest.

    It gets the branches of the ASV with the fewest mismatches, and one of its own of `PER_MISMATCH`
    each: the rival that learns nothing.
    """
    asvs = data.asvs(rows_B)
    letters_FS = data.tokens.tokens
    new = np.setdiff1d(asvs, seen)
    mismatches = np.array([(letters_FS[seen] != letters_FS[asv]).sum(axis=1) for asv in new])
    place = dict(zip(new, seen[mismatches.argmin(axis=1)], strict=True)) if len(new) else {}
    own = PER_MISMATCH * mismatches.min(axis=1) if len(new) else np.empty(0)
    paths = data.above_FE[[place.get(asv, asv) for asv in asvs]]
    column = np.searchsorted(new, asvs)
    is_new = np.isin(asvs, new)
    extra = csr_array(
        (np.ones(len(new)), (np.flatnonzero(is_new), column[is_new])), (len(asvs), len(new))
    )
    above = csr_array(hstack([paths, extra], format="csr"))
    lengths = np.concatenate([data.length_E, own])
    counts = data.store.counts_of(rows_B, len(data.tokens.lengths))[:, asvs]
    return BatchDistances(["unweighted"], 1.0, above, lengths)(csr_array(counts))["unweighted"]


def scores(true_BB: NDArray[np.floating], found_BB: NDArray[np.floating]) -> tuple[float, float]:
    """Return Pearson correlation and mean absolute error over pairs."""
    above = np.triu_indices(len(true_BB), 1)
    true_P, found_P = true_BB[above], found_BB[above]
    return float(np.corrcoef(true_P, found_P)[0, 1]), float(np.abs(true_P - found_P).mean())


def compare(data: Data, asv_FK: dict[str, Tensor], studies: Sequence[str]) -> pd.DataFrame:
    """Return r and error of each way to sketch the ASVs, and of placing them, per study."""
    seen = data.asvs(np.flatnonzero(~np.isin(data.study, studies)))
    rows = []
    for study in studies:
        samples = np.flatnonzero(data.study == study)[:SCORED]
        own, true_BB = data.asvs(samples), data.distances(samples)
        entries, distinct_U, place = entries_of(data.store, samples, None, 0)
        found = {
            name: unifrac_of(sketches_of(table[distinct_U], *sample_blocks(place, entries))).numpy()
            for name, table in asv_FK.items()
        }
        found["placed"] = placed(data, samples, seen)
        row = {"study": study, "samples": len(samples), "unseen": (~np.isin(own, seen)).mean()}
        for name, found_BB in found.items():
            row[f"{name} r"], row[f"{name} error"] = scores(true_BB, found_BB)
        rows.append(row)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train without some studies, and print how well they are predicted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("metadata", type=Path)
    parser.add_argument("--without", nargs="+", required=True, help="studies that are left out")
    parser.add_argument("--numbers", type=int, default=1024, help="of a sketch")
    parser.add_argument("--asv-steps", type=int, default=1200)
    parser.add_argument("--pair-steps", type=int, default=80)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--pair-rate", type=float, default=5e-4)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    data = Data.open(given.results, given.metadata)
    inner_FK, own_FK, own_F = true_sketches(data, given.numbers, seed=0)
    samples = np.flatnonzero(~np.isin(data.study, given.without))
    seen = data.asvs(samples)
    start_K, own = inner_FK[seen].mean(0), float(own_F[seen].mean())
    model = SketchModel(data.tokens.tokens.shape[1], start_K, own)
    training = SketchTraining(data, samples, inner_FK, own_F, model, Devices("bf16", given.threads))
    training.run(given.asv_steps, 0, given.rate, given.pair_rate)
    found = {"true sketches": torch.maximum(inner_FK, own_FK), "ASVs alone": training.sketches()}
    if given.pair_steps:
        training.run(0, given.pair_steps, given.rate, given.pair_rate)
        found["with distances"] = training.sketches()
    table = compare(data, found, given.without)
    mean = table.drop(columns=["study", "samples"]).mean().to_dict()
    table.loc[len(table)] = {"study": "mean", "samples": table["samples"].sum(), **mean}
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
