"""Fine-tuning: a task's folds, each predicted by a model that never saw its labels."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa

from aam.config.digest import code_digest
from aam.config.settings.finetuning import FinetuneSettings
from aam.data.predictions import write_predictions
from aam.data.table import read_biom
from aam.inference.bundle import SHARED, write_bundle
from aam.tasks.finetune.cross_validation import CrossValidation, Finished
from aam.tasks.finetune.parallel import Models, divide_models, processes, train_in_processes
from aam.tasks.finetune.prediction_tables import (
    nested_table,
    prediction_table,
    predictions_for_scores,
    recipe_table,
)
from aam.tasks.finetune.setup import FinetuneSetup
from aam.train.progress import write_history
from aam.util.atomic import write_json
from aam.util.digests import file_digest, settings_digest
from aam.util.parquet import write_table
from aam.util.run_options import RunOptions

WHICH_MODEL = [("fold", pa.int64()), ("recipe", pa.string()), ("model", pa.int64())]
"""Columns of the curves that say which model they are of."""


def finetune_task(
    *,
    tokens: Path,
    samples: Path,
    folds: Path,
    table: Path,
    model: Path | None = None,
    asvs: Path | None = None,
    settings: FinetuneSettings,
    runtime: RunOptions,
    model_out: Path,
    predictions_out: Path,
    digests_out: Path,
    history_out: Path,
    recipes_out: Path,
    nested_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Fine-tune and cross-validate one task.

    Parameters
    ----------
    tokens, samples
        Arrow files of the tokens of all ASVs, and of the samples.
    folds
        TSV file of the folds of the task.
    table
        BIOM file of the reads before rarefaction, by which training samples are recognized later.
    model
        Folder of a pretrained model, or of one per fold where the evaluation is inductive. None:
        encoders start from scratch.
    asvs
        File of ASV embeddings, for an encoder that pretraining left as it is.
    settings
        Target, training and optimization.
    runtime
        Threads, memory, devices; the folder of checkpoints, which is needed. They change no
        result.
    model_out
        Folder to write, with the models of all folds: see `aam.inference.bundle`.
    predictions_out
        TSV file to write, with the cross-validated prediction of every sample.
    digests_out
        JSON file to write, which stands for the folder of models.
    history_out
        Parquet file to write, with the curves of training.
    recipes_out
        TSV file to write, with the predictions of each recipe.
    nested_out
        Parquet file to write, with nested predictions.
    provenance
        Metadata of what is written (`aam.util.digests`). Checkpoints of another one are not
        used.

    Raises
    ------
    InputError
        The target cannot be learned from these samples.
    """
    # Processes that train some of the models each open the files for themselves.
    open_setup = partial(
        FinetuneSetup.open,
        settings,
        tokens=tokens,
        samples=samples,
        folds=folds,
        model=model,
        asvs=asvs,
        code=code_digest(__name__),
        origin=provenance,
    )
    setup = open_setup(runtime)
    finished = _cross_validate(setup, partial(_train, open_setup))
    write_predictions(predictions_out, predictions_for_scores(setup, finished.mixed))
    write_table(nested_out, nested_table(setup, finished.mixed), provenance)
    write_history(history_out, finished.history, provenance, extra=WHICH_MODEL)
    _write_models(model_out, setup, finished, table)
    write_predictions(recipes_out, recipe_table(setup, finished.mixed))
    # These stand for the model directory: facts that change no prediction are not among them.
    digests = {
        "models": finished.digests,
        "files": {name: file_digest(model_out / name) for name in SHARED},
        "settings": settings_digest(settings.plain()),
    }
    write_json(digests_out, digests)
    shutil.rmtree(setup.work, ignore_errors=True)


def _cross_validate(setup: FinetuneSetup, train: Callable[[Models, RunOptions], None]) -> Finished:
    """Train all models, several at a time where there are cores or accelerators for them."""
    validation = CrossValidation(setup)
    models = validation.models()
    number = processes(setup.settings, len(models), setup.runtime)
    if number > 1:
        train_in_processes(train, divide_models(models, number), setup.runtime)
    # Models that the processes have trained are finished, and read.
    return validation.run()


def _train(
    open_setup: Callable[[RunOptions], FinetuneSetup], models: Models, runtime: RunOptions
) -> None:
    """Train some of the models, in a process of their own."""
    CrossValidation(open_setup(runtime)).train(models)


def _write_models(directory: Path, setup: FinetuneSetup, finished: Finished, table: Path) -> None:
    """Write the folder of the models of all folds, with what predicting other tables takes."""
    reads = read_biom(table)
    rows = pd.Index(reads.sample_ids).get_indexer(pd.Index(finished.trained_on))
    write_bundle(
        directory,
        finished.models,
        finished.shares,
        tokens=setup.tokens,
        trained_on=reads.select_samples(rows),
        reference_ND=finished.reference_ND,
        reference_model=finished.reference_model,
        predictions=prediction_table(setup, finished.mixed.outputs),
    )
