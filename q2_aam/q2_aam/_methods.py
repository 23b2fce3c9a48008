"""The methods: models are kept and applied. `plugin_setup` describes their parameters."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import qiime2
import skbio
from q2_types.distance_matrix import LSMatFormat
from q2_types.feature_data import DNAFASTAFormat, TSVTaxonomyFormat
from q2_types.feature_table import BIOMV210Format
from q2_types.tree import NewickFormat

from q2_aam._command import call_aam, check_version
from q2_aam._format import AAMModelDirectoryFormat
from q2_aam._study import open_study

COMPONENTS = 10
"""Most principal components of an embedding."""
PROBABILITY = "probability:"
"""Beginning of a column with the probabilities of a class."""
HIDDEN = "."
"""Beginning of the names of files that are no part of a model."""


def fit_classifier(
    table: BIOMV210Format,
    metadata: qiime2.CategoricalMetadataColumn,
    rep_seqs: DNAFASTAFormat = None,
    phylogeny: NewickFormat = None,
    groups: qiime2.CategoricalMetadataColumn = None,
    sampling_depth: int = None,
    random_state: int = None,
    n_jobs: int = 1,
    missing_samples: str = "error",
    settings: str = None,
) -> (AAMModelDirectoryFormat, pd.Series, pd.DataFrame):
    """Keep a model of classes; return its cross-validated predictions, too."""
    model, predictions = _fit(
        table,
        metadata,
        groups,
        n_jobs=n_jobs,
        rep_seqs=rep_seqs,
        phylogeny=phylogeny,
        sampling_depth=sampling_depth,
        random_state=random_state,
        missing_samples=missing_samples,
        settings=settings,
    )
    return model, _predicted(predictions, str), _probabilities(predictions)


def fit_regressor(
    table: BIOMV210Format,
    metadata: qiime2.NumericMetadataColumn,
    rep_seqs: DNAFASTAFormat = None,
    phylogeny: NewickFormat = None,
    groups: qiime2.CategoricalMetadataColumn = None,
    sampling_depth: int = None,
    random_state: int = None,
    n_jobs: int = 1,
    missing_samples: str = "error",
    settings: str = None,
) -> (AAMModelDirectoryFormat, pd.Series):
    """Keep a model of numbers; return its cross-validated predictions, too."""
    model, predictions = _fit(
        table,
        metadata,
        groups,
        n_jobs=n_jobs,
        rep_seqs=rep_seqs,
        phylogeny=phylogeny,
        sampling_depth=sampling_depth,
        random_state=random_state,
        missing_samples=missing_samples,
        settings=settings,
    )
    return model, _predicted(predictions, float)


def predict_classification(
    table: BIOMV210Format,
    model: AAMModelDirectoryFormat,
    rep_seqs: DNAFASTAFormat = None,
    metadata: qiime2.Metadata = None,
    reference: str = None,
    n_jobs: int = 1,
) -> (pd.Series, pd.DataFrame, pd.DataFrame):
    """Predict classes of the samples of a table."""
    predictions = _predict(table, model, rep_seqs, metadata, reference, n_jobs)
    return _predicted(predictions, str), _probabilities(predictions), predictions


def predict_regression(
    table: BIOMV210Format,
    model: AAMModelDirectoryFormat,
    rep_seqs: DNAFASTAFormat = None,
    metadata: qiime2.Metadata = None,
    reference: str = None,
    n_jobs: int = 1,
) -> (pd.Series, pd.DataFrame):
    """Predict numbers of the samples of a table."""
    predictions = _predict(table, model, rep_seqs, metadata, reference, n_jobs)
    return _predicted(predictions, float), predictions


def place(
    rep_seqs: DNAFASTAFormat, reference: str = "greengenes", n_jobs: int = 1
) -> (NewickFormat, TSVTaxonomyFormat):
    """Place sequences in the tree of a reference, and name them."""
    with _files(**{"rep-seqs.fasta": rep_seqs}) as folder:
        options = ["--reference", reference, "--threads", n_jobs, "--output", "placed"]
        call_aam("place", "rep-seqs.fasta", *options, folder=folder)
        places = _read(folder / "placed" / "places.tsv")
        if "taxon" not in places:
            raise ValueError(
                f"reference: got {reference!r}, which has no names; expected one of whole genes "
                "with lineages. Hint: run `aam reference get greengenes`, and leave the parameter "
                "out"
            )
        tree = NewickFormat()
        shutil.copy(str(folder / "placed" / "tree.nwk"), str(tree))
    names = {"taxon": "Taxon", "confidence": "Confidence"}
    named = places[list(names)].rename(columns=names).rename_axis("Feature ID")
    taxonomy = TSVTaxonomyFormat()
    named.replace({"Taxon": {"": "Unassigned"}}).to_csv(str(taxonomy), sep="\t")
    return tree, taxonomy


def distances(
    table: BIOMV210Format,
    rep_seqs: DNAFASTAFormat = None,
    metric: str = "unweighted",
    reference: str = "v4",
    sampling_depth: int = None,
    random_state: int = 0,
    n_jobs: int = 1,
) -> LSMatFormat:
    """Measure the distances of samples on the tree of a reference."""
    with _files(**{"table.biom": table, "rep-seqs.fasta": rep_seqs}) as folder:
        options = ["--metric", metric, "--reference", reference, "--seed", random_state]
        call_aam(
            *("distances", "table.biom", *_sequences(rep_seqs), *options, *_depth(sampling_depth)),
            *("--threads", n_jobs, "--output", "distances.tsv"),
            folder=folder,
        )
        matrix = LSMatFormat()
        shutil.copy(str(folder / "distances.tsv"), str(matrix))
    return matrix


def embed(
    table: BIOMV210Format,
    encoder: AAMModelDirectoryFormat,
    rep_seqs: DNAFASTAFormat = None,
    sampling_depth: int = None,
    n_jobs: int = 1,
) -> (pd.DataFrame, skbio.OrdinationResults):
    """Embed samples by a pretrained encoder."""
    with _files(**{"table.biom": table, "rep-seqs.fasta": rep_seqs}) as folder:
        call_aam(
            *("embed", encoder.path, "table.biom", *_sequences(rep_seqs), *_depth(sampling_depth)),
            *("--threads", n_jobs, "--output", "embedding.tsv"),
            folder=folder,
        )
        embedding = _read(folder / "embedding.tsv").astype(float)
    return embedding, _principal_components(embedding)


def _fit(table, metadata, groups, *, n_jobs, **study_options):
    """Return the kept model of a column, and its cross-validated predictions.

    Parameters
    ----------
    table, n_jobs, **study_options
        As for `fit_classifier`.
    metadata, groups : qiime2.MetadataColumn
        The column to predict, and the one whose samples stay together; None: there is none.
    """
    frame = metadata.to_dataframe()
    if groups is not None:
        frame = frame.join(groups.to_dataframe(), how="left")
    with open_study(
        table,
        qiime2.Metadata(frame),
        [metadata.name],
        groups="false" if groups is None else groups.name,
        **study_options,
    ) as study:
        (task,) = study.tasks
        answer = study.results / "answers" / task / "first"
        learner = answer / "super_learner"
        target = learner.with_suffix(".json").relative_to(study.folder)
        study.run(target, answer.relative_to(study.folder) / "scores.json", n_jobs=n_jobs)
        model = AAMModelDirectoryFormat()
        for file in learner.rglob("*"):
            if file.is_file() and not file.name.startswith(HIDDEN):
                copy = model.path / file.relative_to(learner)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file), str(copy))
        return model, _read(answer / "predictions.tsv")


def _predict(table, model, rep_seqs, metadata, reference, n_jobs):
    """Return all columns that `aam predict` writes, as text, by sample."""
    files = {"table.biom": table, "rep-seqs.fasta": rep_seqs}
    with _files(**files) as folder:
        options = ["--threads", n_jobs]
        if metadata is not None:
            metadata.save(str(folder / "metadata.tsv"))
            options += ["--metadata", "metadata.tsv"]
        if reference is not None:
            options += ["--reference", reference]
        call_aam(
            *("predict", model.path, "table.biom", *_sequences(rep_seqs), *options),
            *("--output", "predictions.tsv"),
            folder=folder,
        )
        predictions = _read(folder / "predictions.tsv")
    if "predicted" not in predictions:
        raise ValueError(
            "model: got one of several columns; expected a model of one. Hint: predict by "
            "`aam predict`, outside of QIIME 2"
        )
    return predictions


@contextlib.contextmanager
def _files(**views):
    """Yield a folder with copies of views that are files, by their names there; None: no file."""
    check_version()
    with tempfile.TemporaryDirectory(prefix="q2-aam-") as name:
        folder = Path(name)
        for file, view in views.items():
            if view is not None:
                shutil.copy(str(view), str(folder / file))
        yield folder


def _sequences(rep_seqs):
    return [] if rep_seqs is None else ["--sequences", "rep-seqs.fasta"]


def _depth(sampling_depth):
    return [] if sampling_depth is None else ["--depth", sampling_depth]


def _read(path):
    """Return a table as text, by the IDs in its first column."""
    table = pd.read_csv(str(path), sep="\t", dtype=str, keep_default_na=False)
    return table.set_index(table.columns[0])


def _predicted(predictions, kind):
    """Return predictions as q2-sample-classifier has them."""
    return predictions["predicted"].astype(kind).rename("prediction").rename_axis("SampleID")


def _probabilities(predictions):
    """Return the probabilities of classes as q2-sample-classifier has them."""
    columns = [name for name in predictions if name.startswith(PROBABILITY)]
    numbers = predictions[columns].astype(float).rename_axis("SampleID")
    return numbers.rename(columns={name: name[len(PROBABILITY) :] for name in columns})


def _principal_components(embedding):
    """Return the first principal components of samples; eigenvalues are sums of squares."""
    centred = embedding.to_numpy() - embedding.to_numpy().mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    kept = min(COMPONENTS, len(singular))
    squares = singular**2
    return skbio.OrdinationResults(
        short_method_name="PCA",
        long_method_name="Principal components of the embedding",
        eigvals=pd.Series(squares[:kept]),
        samples=pd.DataFrame((left * singular)[:, :kept], index=embedding.index),
        proportion_explained=pd.Series(squares[:kept] / squares.sum()),
    )
