"""Fine-tuning: a task's folds, each predicted by a model that never saw its labels."""

import shutil
from functools import partial

import pandas as pd
import pyarrow as pa

from aam.config.digest import code_digest
from aam.data.table import read_biom
from aam.evaluate.predictions import write_predictions
from aam.inference.bundle import SHARED, write_bundle
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.tasks.finetune.cross_validation import CrossValidation
from aam.tasks.finetune.parallel import Models, in_processes, processes, turns
from aam.tasks.finetune.prediction_tables import (
    nested_table,
    prediction_table,
    predictions_for_scores,
    recipe_table,
)
from aam.tasks.finetune.setup import FinetuneSetup
from aam.train.history import write_history
from aam.util.atomic import write_json
from aam.util.parquet import write_table
from aam.util.provenance import file_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Fine-tune and cross-validate one task.

    `model` is a pretrained model, or one per fold where the evaluation is inductive; none: scratch.
    `table` has the reads before rarefaction, by which training samples are recognized later.
    """
    setup = FinetuneSetup.open(cfg, inputs, runtime, code_digest(__name__))
    validation, origin = CrossValidation(setup), setup.about["provenance"]
    several = processes(setup.settings, len(validation.models()), runtime)
    if several > 1:
        in_processes(partial(_train, cfg, inputs), turns(validation.models(), several), runtime)
    finished = validation.run()
    table = prediction_table(setup, finished.mixed.outputs)
    write_predictions(outputs["predictions"], predictions_for_scores(setup, finished.mixed))
    write_table(outputs["nested"], nested_table(setup, finished.mixed), origin)
    which = [("fold", pa.int64()), ("recipe", pa.string()), ("model", pa.int64())]
    write_history(outputs["history"], finished.history, origin, extra=which)
    reads = read_biom(inputs["table"])
    rows = pd.Index(reads.sample_ids).get_indexer(pd.Index(finished.trained_on))
    write_bundle(
        outputs["model"],
        finished.models,
        finished.shares,
        tokens=setup.tokens,
        trained_on=reads.of_samples(rows),
        reference_ND=finished.reference_ND,
        reference_model=finished.reference_model,
        predictions=table,
    )
    write_predictions(outputs["recipes"], recipe_table(setup, finished.mixed))
    # What stands for the model directory: no fact that leaves predictions as they are.
    digests = {
        "models": finished.digests,
        "files": {name: file_digest(outputs["model"] / name) for name in SHARED},
        "settings": origin["aam.settings"],
    }
    write_json(outputs["digests"], digests)
    shutil.rmtree(setup.work, ignore_errors=True)


def _train(cfg: Cfg, inputs: Files, models: Models, runtime: RunOptions) -> None:
    """Train some of the models, in a process of their own."""
    setup = FinetuneSetup.open(cfg, inputs, runtime, code_digest(__name__))
    CrossValidation(setup).train(models)
