"""Pretraining of a prepared model."""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.distributed.devices import KERNELS, MORE_KERNELS, Devices
from aam.distributed.world import World
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.preparation import Prepared
from aam.train.checkpoint import Checkpoints
from aam.train.early_stopping import EarlyStopping
from aam.train.loop import Validation, fit
from aam.train.monitoring.memory import budget_mb
from aam.train.options import step_options
from aam.train.progress import Progress

logger = logging.getLogger(__name__)
ROOM_MB = 4096.0
"""Memory of a process that has room for more kernels. The models of a task, many of which are
trained side by side, keep fewer."""


def devices_of(cfg: Mapping[str, Any], runtime: RunOptions) -> Devices:
    """Return where pretraining computes: in one process unless it was launched with others.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.pretrain`.
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
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    world = World(runtime.devices, runtime.nodes, runtime.strategy) if runtime.launched else World()
    room_mb = budget_mb(runtime.max_memory_gb, torch.device("cpu"))
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
    cfg: Mapping[str, Any],
    prepared: Prepared,
    devices: Devices,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    name: str,
) -> Progress:
    """Train a prepared model. Without epochs it is only validated.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.pretrain`.
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
        History and report of the run.

    Raises
    ------
    InputError
        See `aam.train.loop.fit`.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    logger.info(
        "%s: %d training samples, %d held out, %d ASVs, %d steps on %s",
        name,
        len(prepared.dataset.samples),
        prepared.is_held_out.sum(),
        len(prepared.tokens.lengths),
        len(prepared.dataset),
        devices.name,
    )
    if settings.epochs == 0:
        untrained = Progress(EarlyStopping(None), report={"optimization": {}})
        untrained.record(0, "validation", prepared.validation.score(prepared.model, devices))
        return untrained
    return fit(
        prepared.model,
        prepared.dataset,
        settings,
        devices=devices,
        options=step_options(Optimization.model_validate(cfg["optimization"])),
        checkpoints=checkpoints,
        runtime=runtime,
        name=name,
        validation=Validation(
            score=lambda: prepared.validation.score(prepared.model, devices),
            times=settings.validations,
            watched=f"{prepared.model.watched}_pearson",
            stopping=EarlyStopping(settings.early_stopping),
        ),
    )
