"""Pretraining of a prepared model, on all samples or without those of a fold."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aam.config.sections.execution import Optimization
from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import MORE_KERNELS, Devices
from aam.distributed.inference_device import KERNELS
from aam.distributed.processes import World
from aam.inference.asv_cache import module_digest
from aam.model.store import is_whole, load_config
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import Prepared, prepare
from aam.tasks.pretrain.results import save, scores
from aam.train.checkpoint import Checkpoints
from aam.train.loop import Validation, fit
from aam.train.memory.meter import host_budget_mb
from aam.train.options import step_options
from aam.train.precision import PrecisionChoice
from aam.train.progress import EarlyStopping, Progress
from aam.util.atomic import read_json, write_json
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)
ROOM_MB = 4096.0
"""Memory of a process that has room for more kernels. The models of a task, many of which are
trained side by side, keep fewer."""


def pretraining_devices(optimization: Optimization, runtime: RunOptions) -> Devices:
    """Return where pretraining computes: in one process unless it was launched with others.

    Parameters
    ----------
    optimization
        Precision, and whether only deterministic algorithms are used.
    runtime
        Threads, devices and memory.

    Returns
    -------
    Devices
        With more kernels where there is room for them.

    Raises
    ------
    InputError
        See `Devices`.
    """
    options = step_options(optimization)
    world = World()
    if runtime.launched:
        world = World(runtime.devices, runtime.nodes, runtime.strategy)
    room_mb = host_budget_mb(runtime.max_memory_gb)
    if runtime.max_memory_gb is None:
        # The processes of a machine share what is free.
        room_mb /= world.devices
    return Devices(
        options.precision,
        runtime.threads,
        deterministic=options.deterministic,
        world=world,
        kernels=MORE_KERNELS if room_mb >= ROOM_MB else KERNELS,
    )


def train(
    settings: PretrainSettings,
    prepared: Prepared,
    devices: Devices,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    name: str,
) -> Progress:
    """Train a prepared model. Without epochs it is only validated.

    Parameters
    ----------
    settings
        How the model is trained.
    prepared
        The model with its data.
    devices
        Where the model is trained.
    checkpoints
        Where the state of the run is kept.
    runtime
        Limits, deadline, and what is logged.
    name
        Name of the run in messages.

    Returns
    -------
    Progress
        History of the run, and facts about it.

    Raises
    ------
    InputError
        See `aam.train.loop.fit`.
    """
    training = settings.pretraining
    logger.info(
        "%s: %d training samples, %d held out, %d ASVs, %d steps on %s",
        name,
        len(prepared.dataset.samples),
        prepared.is_held_out.sum(),
        len(prepared.tokens.lengths),
        len(prepared.dataset),
        devices.name,
    )

    def score() -> dict[str, float]:
        return prepared.validation.score(prepared.model, devices)

    if training.epochs == 0:
        untrained = Progress(EarlyStopping(None), facts={"optimization": {}})
        untrained.record(0, "validation", score())
        return untrained
    return fit(
        prepared.model,
        prepared.dataset,
        training,
        devices=devices,
        options=step_options(settings.optimization),
        checkpoints=checkpoints,
        runtime=runtime,
        name=name,
        validation=Validation(
            score=score,
            times=training.validations,
            watched=f"{prepared.model.watched}_pearson",
            stopping=EarlyStopping(training.early_stopping),
        ),
    )


def pretrain_without(
    unseen: Collection[str],
    settings: PretrainSettings,
    inputs: PretrainInputs,
    *,
    directory: Path,
    fingerprint: str,
    devices: Devices,
    runtime: RunOptions,
    origin: Mapping[str, str],
) -> dict[str, Any]:
    """Pretrain an encoder without some samples, unless that was done before.

    The encoders of one call of the stage share `devices`, and so a precision that was chosen for
    the first.

    Parameters
    ----------
    unseen
        IDs of the samples that are left out.
    settings
        Architecture, training and optimization.
    inputs
        Files that are read.
    directory
        Folder of the encoder; next to it lies a JSON file of what is returned.
    fingerprint
        A digest of settings, code, inputs and `unseen`.
    devices
        Where the model is trained.
    runtime
        Limits, deadline and the work folder, which has to be given.
    origin
        Provenance that is written with the model.

    Returns
    -------
    dict
        `scores`, `fingerprint`, and `digest`, which identifies the weights.

    Raises
    ------
    InputError
        See `prepare` and `aam.train.loop.fit`.
    """
    facts_file = directory.with_suffix(".json")
    finished = _finished_facts(directory, facts_file, fingerprint)
    if finished is not None:
        logger.info("%s was finished before", directory.name)
        PrecisionChoice(devices).adopt(load_config(directory)["optimization"])
        return finished
    assert runtime.work is not None
    checkpoints = Checkpoints(runtime.work / directory.name, fingerprint)
    prepared = prepare(settings, inputs, unseen, max_memory_gb=runtime.max_memory_gb)
    name = f"pretraining without {directory.name}"
    progress = train(settings, prepared, devices, checkpoints, runtime, name)
    facts = {
        "fingerprint": fingerprint,
        "scores": scores(prepared, progress, devices),
        "digest": module_digest(prepared.model.encoder),
    }
    # Facts of an earlier run must not stand next to the model of this one.
    facts_file.unlink(missing_ok=True)
    save(directory, prepared, settings, origin, progress)
    write_json(facts_file, facts)
    checkpoints.clear()
    return facts


def _finished_facts(directory: Path, facts_file: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the facts of an encoder that an earlier run finished; None: there is none."""
    if not (is_whole(directory) and facts_file.is_file()):
        return None
    facts: dict[str, Any] = read_json(facts_file)
    is_same = facts["fingerprint"] == fingerprint
    return facts if is_same and load_config(directory)["kind"] == "pretrained" else None
