"""How well encoders predict the distances of studies that they have never seen.

Run as `python -m benchmarks.transfer RESULTS MODEL...`: RESULTS is the folder of a dataset's
results, each MODEL one of its models with `pretrained_on`. For every study that a model was not
pretrained on it prints Pearson correlation and mean absolute error over all pairs of at most 300
samples, of view 0: by the model; by true sketches, the ceiling of a model with as many numbers; and
by placing every ASV at the nearest one of the model's studies, the rival that learns nothing.

Shape suffixes: F ASVs, B samples, K numbers of a sketch, P pairs, D width of an embedding.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from aam.data.metadata import metadata_column
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.inference.embed import asvs_of
from aam.inference.pretrained import TableEmbedder
from aam.model.batch import SampleBlock
from aam.model.known_asvs import KnownAsvs, bases_of
from aam.model.placement import PER_MISMATCH, Placement
from aam.model.sketch import SketchDistance, pooled_sketches
from aam.model.store import load_config
from aam.unifrac.in_batch import BatchDistances

METRIC = "unweighted"
SCORED = 300
"""Samples of a study whose pairs are scored."""
TRUE_NUMBERS = 1024


@dataclass(frozen=True, eq=False)
class Data:
    """A dataset of several studies with one tree."""

    store: SampleStore
    tokens: TokenStore
    exact: BatchDistances
    metadata: pd.DataFrame

    @classmethod
    def open(cls, results: Path) -> "Data":
        """Read what the stages before pretraining wrote."""
        store = SampleStore.open(results / "views/samples.arrow")
        tokens = TokenStore.open(results / "tokens/asvs.arrow")
        exact = BatchDistances.of([METRIC], results / "inputs/tree.nwk", tokens.feature_ids, 1.0)
        metadata = pd.read_parquet(results / "inputs/metadata.parquet").set_index("sample_id")
        return cls(store, tokens, exact, metadata.loc[store.sample_ids])

    def asvs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct ASVs of some samples."""
        return asvs_of(self.store, rows, len(self.tokens.lengths))

    def distances(self, rows_B: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return unweighted UniFrac, [B, B]."""
        return self.exact(self.store.counts_of(rows_B, len(self.tokens.lengths)))[METRIC]


def placed(data: Data, rows_B: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return UniFrac [B, B] on the tree of the ASVs seen, each other one placed by its nearest.

    It gets the branches of the ASV with the fewest mismatches, and one of its own, as the sketches
    of an encoder do, but no sketch stands between.
    """
    asvs, above_FE, length_E = data.asvs(rows_B), data.exact.above_FE, data.exact.length_E
    assert above_FE is not None
    assert length_E is not None
    new = np.setdiff1d(asvs, seen)
    known = KnownAsvs.of(data.tokens, seen)
    near, mismatches, compared = known.nearest(bases_of(data.tokens.tokens[new]))
    place = dict(zip(new, seen[near], strict=True))
    own = PER_MISMATCH * mismatches / compared
    paths = above_FE[[place.get(asv, asv) for asv in asvs]]
    column, is_new = np.searchsorted(new, asvs), np.isin(asvs, new)
    extra = csr_array(
        (np.ones(len(new)), (np.flatnonzero(is_new), column[is_new])), (len(asvs), len(new))
    )
    above = csr_array(hstack([paths, extra], format="csr"))
    counts = data.store.counts_of(rows_B, len(data.tokens.lengths))[:, asvs]
    lengths = np.concatenate([length_E, own])
    return BatchDistances([METRIC], 1.0, above, lengths)(csr_array(counts))[METRIC]


def sketched(data: Data, rows_B: NDArray[np.int64], sketch_FK: torch.Tensor) -> NDArray[np.float32]:
    """Return UniFrac [B, B] by given sketches of all ASVs."""
    numbers, parts = sketch_FK.shape[1], []
    for row in rows_B:
        held = slice(*data.store.offsets[row : row + 2])
        asvs = torch.from_numpy(data.store.asvs[held].astype(np.int64))[None]
        counts = torch.from_numpy(data.store.counts[held].astype(np.float32))[None]
        block = SampleBlock(asvs, torch.ones_like(asvs, dtype=torch.bool), counts)
        parts.append(pooled_sketches(sketch_FK[asvs], block)[0])
    sketch_BK = torch.cat(parts)
    return SketchDistance(0, numbers).between(sketch_BK, sketch_BK).numpy()


def true_sketches(data: Data, numbers: int) -> torch.Tensor:
    """Return the sketches [F, K] of all ASVs, every one at its place in the tree."""
    exact, placement = data.exact, Placement(numbers).eval()
    assert exact.above_FE is not None
    assert exact.length_E is not None
    known = KnownAsvs.of(data.tokens, np.arange(len(data.tokens.lengths)))
    placement.learn(known, exact.above_FE, exact.length_E)
    return placement(torch.from_numpy(data.tokens.tokens.copy()))


def scores(true_BB: NDArray[np.floating], found_BB: NDArray[np.floating]) -> tuple[float, float]:
    """Return Pearson correlation and mean absolute error over pairs."""
    above = np.triu_indices(len(true_BB), 1)
    true_P, found_P = true_BB[above], found_BB[above]
    return float(np.corrcoef(true_P, found_P)[0, 1]), float(np.abs(true_P - found_P).mean())


def compare(data: Data, folder: Path, ceiling_FK: torch.Tensor) -> pd.DataFrame:
    """Return r and error of a pretrained model and its rivals on every study left out."""
    studies = load_config(folder / "model")["settings"]["studies"]
    study = metadata_column(data.metadata, studies["column"]).to_numpy(object)
    embedding = pd.read_parquet(folder / "embeddings.parquet").set_index("sample_id")["embedding"]
    embedder = TableEmbedder.load(folder / "model")
    seen = data.asvs(np.flatnonzero(np.isin(study, studies["pretrained_on"])))
    rows = []
    for left_out in sorted({*study} - {*studies["pretrained_on"]}):
        samples = np.flatnonzero(study == left_out)[:SCORED]
        own, true_BB = data.asvs(samples), data.distances(samples)
        names = [data.store.sample_ids[sample] for sample in samples]
        sample_BD = torch.from_numpy(np.stack(embedding.loc[names]))
        found = {
            "model": embedder.distances(sample_BD, METRIC).numpy(),
            "true sketches": sketched(data, samples, ceiling_FK),
            "placed": placed(data, samples, seen),
        }
        row = {"model": folder.name, "study": left_out, "samples": len(samples)}
        row["unseen"] = (~np.isin(own, seen)).mean()
        for name, found_BB in found.items():
            row[f"{name} r"], row[f"{name} error"] = scores(true_BB, found_BB)
        rows.append(row)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how well the studies that models have not seen are predicted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("models", nargs="+")
    given = parser.parse_args(arguments)
    data = Data.open(given.results)
    ceiling_FK = true_sketches(data, TRUE_NUMBERS)
    found = [compare(data, given.results / "pretrain" / name, ceiling_FK) for name in given.models]
    table = pd.concat(found, ignore_index=True)
    mean = table.drop(columns=["model", "study", "samples"]).mean().to_dict()
    total = pd.DataFrame([{"model": "mean", "samples": table["samples"].sum(), **mean}])
    table = pd.concat([table, total], ignore_index=True).fillna({"study": ""})
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
