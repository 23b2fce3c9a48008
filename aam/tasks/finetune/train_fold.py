"""Training of one model of a cross-validation, unless an earlier run finished it."""

import logging
from dataclasses import replace
from pathlib import Path

from aam.model.encoder import set_dropout
from aam.model.heads import recalibrate_batch_norm, select_evenly
from aam.model.predictor import Predictor
from aam.model.store import is_whole, load_config, load_weights
from aam.tasks.finetune.fold_model import FoldModel
from aam.tasks.finetune.kernel_machine import fit_machine
from aam.train.checkpoint import Checkpoints
from aam.train.loop import fit
from aam.train.precision import PrecisionChoice
from aam.train.progress import Progress, Record
from aam.util.atomic import read_json, write_json

logger = logging.getLogger(__name__)


def train_or_read(model: FoldModel) -> tuple[Predictor, list[Record]]:
    """Train a model; one that was finished before is read.

    Parameters
    ----------
    model
        Which of the models of a task this is.

    Returns
    -------
    predictor : Predictor
        The trained model.
    records : list of dict
        Its training curves.

    Raises
    ------
    InputError
        See `aam.train.loop.fit` and `fit_machine`.
    """
    setup = model.setup
    fingerprint = f"{setup.fingerprint}-{model.name}"
    predictor = model.new_predictor()
    # The curves lie next to the model's folder: they hold times, by which the files of equal models
    # would differ.
    history = model.directory.with_name(f"{model.name}.json")
    finished = _finished_curves(model, history, fingerprint)
    if finished is not None:
        logger.info("%s is finished, and is read", model.name)
        PrecisionChoice(setup.devices).adopt(load_config(model.directory)["optimization"])
        load_weights(model.directory, predictor)
        return predictor, finished
    records = []
    optimization = None
    if setup.settings.recipe == "kernel":
        fit_machine(model, predictor)
    else:
        progress = _fit_by_steps(model, predictor, fingerprint)
        records = progress.history
        optimization = progress.facts["optimization"]
    write_json(history, {"fingerprint": fingerprint, "records": records})
    facts = {"fold": model.fold, "fingerprint": fingerprint, "optimization": optimization}
    predictor.save(model.directory, {**setup.about, **facts})
    Checkpoints(setup.work / model.name, fingerprint).clear()
    return predictor, records


def _finished_curves(model: FoldModel, history: Path, fingerprint: str) -> list[Record] | None:
    """Return the curves of a model that an earlier run finished; None: there is none."""
    if not (is_whole(model.directory) and history.is_file()):
        return None
    written = read_json(history)
    is_same = load_config(model.directory)["fingerprint"] == fingerprint
    if not is_same or written.get("fingerprint") != fingerprint:
        return None
    records: list[Record] = written["records"]
    return records


def _fit_by_steps(model: FoldModel, predictor: Predictor, fingerprint: str) -> Progress:
    """Train a predictor step by step, from its last checkpoint where there is one."""
    setup = model.setup
    settings = model.setup.settings
    dataset = model.dataset(predictor)
    set_dropout(predictor, settings.dropout)
    log_dir = setup.runtime.log_dir
    progress = fit(
        predictor,
        dataset,
        settings,
        devices=setup.devices,
        options=setup.options,
        checkpoints=Checkpoints(setup.work / model.name, fingerprint),
        runtime=replace(setup.runtime, log_dir=log_dir and log_dir / model.name),
        name=f"fine-tuning, {model.name}",
    )
    some_RD = model.embedded(predictor, select_evenly(dataset.samples), setup.devices)
    recalibrate_batch_norm(predictor.head, some_RD)
    return progress
