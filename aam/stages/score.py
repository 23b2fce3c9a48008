"""The scores of a task: of its baselines, and of the networks of a model where there are any."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from aam.config.settings.tasks import ScoreSettings
from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.data.predictions import read_predictions, write_predictions
from aam.data.table import read_biom, reads_of_samples
from aam.evaluate.task_scores import Networks, Samples, WithCovariates, report_task


def score_task(
    *,
    predictions: Path | None = None,
    recipes: Path | None = None,
    nested: Path | None = None,
    baselines: Path,
    nested_baselines: Path,
    covariates: Path | None = None,
    nested_covariates: Path | None = None,
    folds: Path,
    metadata: Path,
    table: Path,
    rarefied: Path,
    settings: ScoreSettings,
    scores_out: Path,
    predictions_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Score all methods of a task, and mix them: see `aam.evaluate.task_scores`.

    Parameters
    ----------
    predictions, recipes, nested
        What `aam.stages.finetune` writes: cross-validated predictions (TSV), those of each recipe
        (TSV), and nested ones (Parquet). None: baselines alone answer.
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    covariates, nested_covariates
        What `aam.stages.covariates` writes: predictions (TSV) and nested ones (Parquet). None: the
        task has no covariates.
    folds
        TSV file of the folds of the task.
    metadata
        Parquet file of the imported metadata.
    table
        BIOM file of the imported table: reads before rarefaction.
    rarefied
        BIOM file of a rarefied table, whose samples the folds divide.
    settings
        What is predicted, what the answer is called, and by what scores are reported.
    scores_out
        JSON file to write: an `aam.evaluate.task_report.TaskReport`.
    predictions_out
        TSV file to write: predictions of the leading method, with intervals or probabilities.
    provenance
        Where the scores come from, which is written with them (`aam.util.digests`).
    """
    networks = None
    if predictions is not None:
        assert recipes is not None, "fine-tuning writes the predictions of its recipes"
        assert nested is not None, "fine-tuning writes nested predictions"
        networks = Networks(
            predictions=read_predictions(predictions),
            nested=pd.read_parquet(nested),
            recipes=read_predictions(recipes),
        )
    with_covariates = None
    if covariates is not None:
        assert nested_covariates is not None, "covariates have nested predictions"
        with_covariates = WithCovariates(
            predictions=read_predictions(covariates), nested=pd.read_parquet(nested_covariates)
        )
    imported = read_biom(table)
    report, answer = report_task(
        settings,
        networks=networks,
        baselines=read_predictions(baselines),
        nested_baselines=pd.read_parquet(nested_baselines),
        covariates=with_covariates,
        samples=Samples(
            group=read_folds(folds)["group"],
            metadata=read_metadata(metadata),
            # Amounts of a sample add up to what the program scaled them to.
            reads=reads_of_samples(imported) if imported.facts.is_counted else None,
            rarefied=read_biom(rarefied),
        ),
        provenance=provenance,
    )
    report.write(scores_out)
    write_predictions(predictions_out, answer)
