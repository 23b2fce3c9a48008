"""The means of a run, as training takes them."""

import time
from dataclasses import replace

from aam.stages.entry import RunContext
from aam.train.loop import Pace
from aam.train.watch import Notes

MARGIN_S = 180.0
"""Seconds kept before a time limit for the checkpoint and the scheduler."""


def left(runtime: RunContext, started: float) -> RunContext:
    """Return the means that are left of a run that `started` at an instant of `time.monotonic`."""
    limit_s = runtime.time_limit_s
    if limit_s is None:
        return runtime
    return replace(runtime, time_limit_s=limit_s - (time.monotonic() - started))


def pace(runtime: RunContext, name: str) -> Pace:
    """Return the pace of a training called `name`."""
    limit_s = runtime.time_limit_s
    return Pace(
        name=name,
        workers=runtime.workers,
        checkpoint_every_s=runtime.checkpoint_every_s,
        deadline=None if limit_s is None else time.monotonic() + limit_s - MARGIN_S,
        max_memory_gb=runtime.max_memory_gb,
        notes=Notes(
            folder=runtime.notes,
            every_s=runtime.log_every_s,
            tensorboard=runtime.tensorboard,
            profile_steps=runtime.profile_steps,
        ),
    )
