"""Prediction: a task's models applied to another table, ASVs never seen included."""

import logging

from aam.api import Model
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict the samples of a table; `cfg` is empty, the models bring their own settings."""
    result = Model.load(inputs["model"]).predict(
        inputs["table"],
        inputs.get("sequences"),
        inputs.get("metadata"),
        threads=runtime.threads,
        asvs=inputs.get("asvs"),
    )
    unseen = result["unseen_asvs"].mean()
    logger.info("%d samples; %.0f %% of reads of unseen ASVs", len(result), 100 * unseen)
    write_tsv(outputs["predictions"], result, index=True, float_format="%.9g")
