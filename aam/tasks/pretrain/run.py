"""Pretraining of a prepared model."""

import logging

from aam.config.sections.execution import Optimization
from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import MORE_KERNELS, Devices
from aam.distributed.inference_device import KERNELS
from aam.distributed.processes import World
from aam.tasks.pretrain.preparation import Prepared
from aam.train.checkpoint import Checkpoints
from aam.train.loop import Validation, fit
from aam.train.memory.meter import host_budget_mb
from aam.train.options import step_options
from aam.train.progress import EarlyStopping, Progress
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
