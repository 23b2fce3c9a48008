"""Prediction: a task's models applied to another table, ASVs never seen included."""

import logging
from collections.abc import Mapping
from typing import Any

from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table, without_empty
from aam.stages.entry import Files, RunContext
from aam.train.ensemble import Ensemble
from aam.util.atomic import atomic_path

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Predict the samples of a table.

    Parameters
    ----------
    cfg
        Empty: the models bring their own settings.
    inputs
        `table`, optional `sequences`, `model`, the directory that fine-tuning wrote, and optional
        `asvs`, the ASV embeddings that pretraining wrote, for models with a frozen encoder.
    outputs
        `predictions`: TSV that QIIME 2 reads as sample metadata.
    runtime
        Means of the run.
    """
    table, _ = without_empty(load_table(inputs["table"]))
    sequences = feature_sequences(table, inputs["table"], inputs.get("sequences"))
    ensemble = Ensemble.load(inputs["model"])
    result = ensemble.predict(table, sequences, runtime.threads, inputs.get("asvs"))
    shallow = len(table.sample_ids) - len(result)
    if shallow:
        logger.warning(
            "%d of %d samples have fewer than %d reads and are not predicted",
            shallow,
            len(table.sample_ids),
            ensemble.depth,
        )
    share = result["unseen_asvs"].mean()
    logger.info("%d samples; %.0f %% of reads of unseen ASVs", len(result), 100 * share)
    with atomic_path(outputs["predictions"]) as partial:
        result.to_csv(partial, sep="\t", float_format="%.6g", lineterminator="\n")
