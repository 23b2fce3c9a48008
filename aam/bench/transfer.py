"""How well encoders predict the distances of studies that they were not pretrained on.

Shape suffixes: F ASVs, B samples, K numbers of a sketch, P pairs, D width of an embedding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from aam.bench.tables import markdown_table, page
from aam.data.metadata import metadata_column, read_metadata
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.inference.embed import asvs_of
from aam.inference.pretrained import TableEmbedder
from aam.model.known_asvs import KnownAsvs, bases_of
from aam.model.placement import PER_MISMATCH, Placement
from aam.model.sketch import SKETCHED, SketchDistance
from aam.unifrac.in_batch import BatchDistances
from aam.util.errors import problem

SCORED = 300
"""Samples of a study whose pairs are scored."""
FEWEST = 3
"""Samples of a study below which no correlation is told."""
NUMBERS = 1024
"""Numbers of the sketches of the true tree."""
NOTES = f"""\
Pearson correlation r and mean absolute error of unweighted UniFrac, all pairs of at most {SCORED}
samples, of view 0, of each study that an encoder was not pretrained on. `unseen`: the fraction of
the study's ASVs that the encoder's studies lack. `tree`: {NUMBERS} numbers of the true branches of
every ASV. `placed`: exact UniFrac with every unseen ASV beside the nearest seen one."""


@dataclass(frozen=True, eq=False)
class Studies:
    """A dataset of several studies with one tree."""

    store: SampleStore
    tokens: TokenStore
    exact: BatchDistances
    study: NDArray[np.object_]
    """Of every sample."""

    @classmethod
    def open(cls, inputs: Mapping[str, Any], column: str) -> "Studies":
        """Read what the stages before pretraining wrote."""
        store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
        exact = BatchDistances.of([SKETCHED], inputs["tree"], tokens.feature_ids, 1.0)
        metadata = read_metadata(inputs["metadata"])
        study = metadata_column(metadata.loc[store.sample_ids], column).to_numpy(object)
        return cls(store, tokens, exact, study)

    def asvs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct ASVs of some samples."""
        return asvs_of(self.store, rows, len(self.tokens.lengths))

    def distances(self, rows_B: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return unweighted UniFrac, [B, B]."""
        return self.exact(self.store.counts_of(rows_B, len(self.tokens.lengths)))[SKETCHED]

    def true_sketches(self, numbers: int) -> torch.Tensor:
        """Return the sketches [F, K] of all ASVs, every one at its place in the tree."""
        placement = Placement(numbers).eval()
        known = KnownAsvs.of(self.tokens, np.arange(len(self.tokens.lengths)))
        placement.learn(known, self.exact.above_FE, self.exact.length_E)
        return placement(torch.from_numpy(self.tokens.tokens.copy()))


def placed(
    data: Studies, rows_B: NDArray[np.int64], seen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return UniFrac [B, B] with every ASV that was not seen beside the nearest one that was."""
    asvs = data.asvs(rows_B)
    new = np.setdiff1d(asvs, seen)
    known = KnownAsvs.of(data.tokens, seen)
    near, mismatches, compared = known.nearest(bases_of(data.tokens.tokens[new]))
    place = dict(zip(new, seen[near], strict=True))
    own = PER_MISMATCH * mismatches / np.maximum(compared, 1)
    paths = data.exact.above_FE[[place.get(asv, asv) for asv in asvs]]
    column, is_new = np.searchsorted(new, asvs), np.isin(asvs, new)
    extra = csr_array(
        (np.ones(len(new)), (np.flatnonzero(is_new), column[is_new])), (len(asvs), len(new))
    )
    above = csr_array(hstack([paths, extra], format="csr"))
    counts = data.store.counts_of(rows_B, len(data.tokens.lengths))[:, asvs]
    lengths = np.concatenate([data.exact.length_E, own])
    return BatchDistances([SKETCHED], 1.0, above, lengths)(csr_array(counts))[SKETCHED]


def sketched(
    data: Studies, rows_B: NDArray[np.int64], sketch_FK: torch.Tensor
) -> NDArray[np.float32]:
    """Return UniFrac [B, B] by given sketches of all ASVs."""
    offsets, asvs = data.store.offsets, data.store.asvs.astype(np.int64)
    held = [torch.from_numpy(asvs[slice(*offsets[row : row + 2])]) for row in rows_B]
    sketch_BK = torch.stack([sketch_FK[own].float().amax(dim=0) for own in held])
    return SketchDistance(0, sketch_FK.shape[1]).between(sketch_BK, sketch_BK).numpy()


def scores(true_BB: NDArray[np.floating], found_BB: NDArray[np.floating]) -> tuple[float, float]:
    """Return Pearson correlation and mean absolute error over pairs."""
    above = np.triu_indices(len(true_BB), 1)
    true_P, found_P = true_BB[above], found_BB[above]
    return float(np.corrcoef(true_P, found_P)[0, 1]), float(np.abs(true_P - found_P).mean())


def transfer_table(
    data: Studies, models: Mapping[str, tuple[list[str], Path, Path]]
) -> pd.DataFrame:
    """Return r and error of every model, and of its rivals, on every study left out.

    `models` are the studies, the directory and the embeddings of each model.
    """
    true_FK, rows = data.true_sketches(NUMBERS), []
    for model, (studies, directory, embeddings) in models.items():
        embedding = pd.read_parquet(embeddings).set_index("sample_id")["embedding"]
        embedder = TableEmbedder.load(directory)
        seen = data.asvs(np.flatnonzero(np.isin(data.study, studies)))
        for study in sorted({*data.study[pd.notna(data.study)]} - {*studies}):
            samples = np.flatnonzero(data.study == study)[:SCORED]
            if len(samples) < FEWEST:
                continue
            own, true_BB = data.asvs(samples), data.distances(samples)
            names = [data.store.sample_ids[sample] for sample in samples]
            sample_BD = torch.from_numpy(np.stack(embedding.loc[names].tolist()))
            found = {
                "model": embedder.between(sample_BD, SKETCHED).numpy(),
                "tree": sketched(data, samples, true_FK),
                "placed": placed(data, samples, seen),
            }
            row = {"model": model, "study": study, "samples": len(samples)}
            row["sketch"] = embedder.encoder.shape.sketch
            row["unseen"] = (~np.isin(own, seen)).mean()
            for name, found_BB in found.items():
                row[f"{name}_pearson"], row[f"{name}_mae"] = scores(true_BB, found_BB)
            rows.append(row)
    if not rows:
        got = f"every study of {FEWEST} samples or more is among those of {', '.join(models)}"
        raise problem("models.<name>.pretrained_on", got, "a study left out", "leave one out")
    return pd.DataFrame(rows)


def transfer_page(table: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return the Markdown page of a table of `transfer_table`, with the means of every model."""
    ways, rows = ("model", "tree", "placed"), []
    for model, part in table.groupby("model", sort=False):
        mean = part.drop(columns=["model", "study", "samples", "sketch"]).mean().to_dict()
        total = {"model": model, "study": "mean", "samples": part["samples"].sum(), **mean}
        rows += [*part.to_dict("records"), total]
    cells = [
        [
            *(str(row[name]) for name in ("model", "study", "samples")),
            f"{row['unseen']:.0%}",
            *(f"{row[f'{way}_pearson']:.3f}; {row[f'{way}_mae']:.3f}" for way in ways),
        ]
        for row in rows
    ]
    head = ("model", "study", "samples", "unseen", *(f"{way}: r; error" for way in ways))
    return page("Studies left out", markdown_table(head, cells), NOTES, about=about)
