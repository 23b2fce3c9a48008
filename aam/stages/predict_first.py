"""Prediction without networks: the baselines of a task, mixed, applied to another table."""

import logging

from aam.inference.first_answer import FirstAnswer
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Predict the samples of a table; `cfg` is empty, the super learner brings its settings."""
    result = FirstAnswer.load(inputs["model"]).predict(inputs["table"], inputs.get("sequences"))
    unseen = result["unseen_asvs"].mean()
    logger.info("%d samples; %.0f %% of reads of unseen ASVs", len(result), 100 * unseen)
    write_tsv(outputs["predictions"], result, index=True, float_format="%.9g")
