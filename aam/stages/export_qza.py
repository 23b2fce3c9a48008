"""A result as an artifact that QIIME 2 reads.

Shape suffixes: N samples, D width of an embedding, K components.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from aam.data.predictions import PROBABILITY, class_names
from aam.distances.store import distance_rows, read_faith_pd
from aam.util.qiime2 import write_artifact

COMPONENTS = 10
"""Most components of an ordination."""


def export_artifact(
    *,
    source: Path,
    semantic_type: str,
    artifact_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Write one result as an artifact that QIIME 2 reads.

    Parameters
    ----------
    source
        File of the result: a Parquet file of distances, of Faith's diversity or of embeddings, or
        a TSV file of predictions, of importance or of taxa.
    semantic_type
        Type of the artifact in QIIME 2, one of `WRITERS`.
    artifact_out
        File to write, which ends in `.qza`.
    provenance
        Metadata that the artifact's own provenance carries (`aam.util.digests`).

    Raises
    ------
    KeyError
        The type is none of `WRITERS`.
    """
    text = WRITERS[semantic_type](source)
    write_artifact(artifact_out, semantic_type, text, provenance)


def _distances(path: Path) -> Iterator[str]:
    """Yield a square matrix row group by row group."""
    names = pd.read_parquet(path, columns=["sample_id"])["sample_id"].to_list()
    yield "".join(f"\t{name}" for name in names) + "\n"
    for row_names, rows in distance_rows(path):
        table = pd.DataFrame(rows.astype(np.float64), index=row_names)
        yield table.to_csv(sep="\t", header=False, float_format="%.7g", lineterminator="\n")


def _ordination(path: Path) -> Iterator[str]:
    """Yield principal components, in scikit-bio's format; eigenvalues are sums of squares."""
    embeddings = pd.read_parquet(path)
    embedding_ND = np.stack(embeddings["embedding"].to_list()).astype(np.float64)
    samples, width = embedding_ND.shape
    pca = PCA(n_components=min(COMPONENTS, samples - 1, width), svd_solver="full")
    coordinate_NK = pca.fit_transform(embedding_ND)
    by_component = {
        "Eigvals": pca.explained_variance_ * (samples - 1),
        "Proportion explained": pca.explained_variance_ratio_,
    }
    for title, values in by_component.items():
        yield f"{title}\t{len(values)}\n{_joined(values)}\n\n"
    yield f"Species\t0\t0\n\nSite\t{samples}\t{pca.n_components}\n"
    for name, coordinate_K in zip(embeddings["sample_id"], coordinate_NK, strict=True):
        yield f"{name}\t{_joined(coordinate_K)}\n"
    yield "\nBiplot\t0\t0\n\nSite constraints\t0\t0\n"


def _alpha(path: Path) -> Iterator[str]:
    names, values = read_faith_pd(path)
    yield _text(pd.DataFrame({"": names, "faith_pd": values}))


def _predictions(path: Path) -> Iterator[str]:
    """Yield what is predicted; a class is the one chosen with all classes counting alike."""
    table = _texts(path)
    yield _text(table[["sample-id", "predicted"]].set_axis(["id", "prediction"], axis=1))


def _probabilities(path: Path) -> Iterator[str]:
    """Yield calibrated probabilities, whose highest may belong to another class than predicted."""
    table = _texts(path)
    names = class_names(table)
    columns = ["sample-id", *(PROBABILITY + name for name in names)]
    yield _text(table[columns].set_axis(["id", *names], axis=1))


def _importance(path: Path) -> Iterator[str]:
    """Yield the columns that are numbers throughout: the format knows no others."""
    table = _texts(path).rename(columns={"feature-id": "id"})
    is_text = (table == "").any() | table.columns.str.match("(taxon|sequence|clade)(:|$)")
    yield _text(table.loc[:, ~is_text])


def _taxonomy(path: Path) -> Iterator[str]:
    """Yield the names of features by the genes near them; those without one are `Unassigned`."""
    columns = {"feature-id": "Feature ID", "taxon": "Taxon", "confidence": "Confidence"}
    table = _texts(path).rename(columns=columns).replace({"Taxon": {"": "Unassigned"}})
    yield _text(table)


def _texts(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


def _text(table: pd.DataFrame) -> str:
    return table.to_csv(sep="\t", index=False, float_format="%.9g", lineterminator="\n")


def _joined(values: NDArray[np.float64]) -> str:
    return "\t".join(f"{value:.9g}" for value in values)


WRITERS: Mapping[str, Callable[[Path], Iterator[str]]] = {
    "DistanceMatrix": _distances,
    "PCoAResults": _ordination,
    "SampleData[AlphaDiversity]": _alpha,
    "SampleData[RegressorPredictions]": _predictions,
    "SampleData[ClassifierPredictions]": _predictions,
    "SampleData[Probabilities]": _probabilities,
    "FeatureData[Importance]": _importance,
    "FeatureData[Taxonomy]": _taxonomy,
}
"""What writes the text of a semantic type, from the file of a result."""
