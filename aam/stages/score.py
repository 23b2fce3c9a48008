"""The scores of a task: of its baselines, and of the networks of a model where there are any."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from aam.config.settings.tasks import ScoreSettings
from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.data.predictions import read_predictions, read_results, write_predictions
from aam.data.table import read_biom, reads_of_samples
from aam.evaluate.task_scores import Asked, Networks, Samples, WithCovariates, report_task


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
    asked: Path | None = None,
    asked_folds: Path | None = None,
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
    asked, asked_folds
        Predictions (TSV) and folds (TSV) of the task that a further question is about. None: the
        task is none of these.
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
    answer_asked = None
    if asked is not None:
        assert asked_folds is not None, "a task has folds"
        answer_asked = Asked(
            predictions=read_results(asked), group=read_folds(asked_folds)["group"]
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
        asked=answer_asked,
        provenance=provenance,
    )
    report.write(scores_out)
    write_predictions(predictions_out, answer)
