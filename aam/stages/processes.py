"""Several models of a task at a time on a CPU, in processes of one core each.

A model of this size gains little from a second core, and its result may depend on their number in
the last bits; so a model has one core, however many were granted.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import torch

from aam.config.sections.training import Finetuning
from aam.stages.entry import RunContext
from aam.util import log

SECONDS_BETWEEN_LOOKS = 1.0
Models = list[tuple[int, int]]
"""Fold and number of each."""


def threads_of_a_model(settings: Finetuning, threads: int) -> int:
    """Return the threads that one model is trained in, of those granted."""
    return threads if torch.cuda.is_available() or settings.encoder == "frozen" else 1


def processes(settings: Finetuning, models: int, threads: int) -> int:
    """Return how many processes train at a time: an accelerator, and heads alone, take one."""
    if threads_of_a_model(settings, threads) == threads:
        return 1
    return min(models, threads)


def in_processes(
    train: Callable[[Models, RunContext], None], models: Models, number: int, runtime: RunContext
) -> None:
    """Train models in `number` processes, in turns.

    Parameters
    ----------
    train
        Trains some models; the same function in every process, so it must be of a module.
    models
        All of them.
    number
        Of processes.
    runtime
        Means of the run; a memory limit is divided.

    Raises
    ------
    InputError
        As `train` raises it, of the first process that did.
    """
    started = time.monotonic()
    memory = None if runtime.max_memory_gb is None else runtime.max_memory_gb / number
    share = replace(runtime, threads=1, max_memory_gb=memory)
    turns = [models[first::number] for first in range(number)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, mp_context=spawn) as pool:
        running = [pool.submit(_process, train, turn, share, started) for turn in turns]
        for each in running:
            each.result()


def _process(
    train: Callable[[Models, RunContext], None], models: Models, runtime: RunContext, started: float
) -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Bars of several processes would overwrite each other.
    os.environ["TTY_COMPATIBLE"] = "0"
    log.start(None if runtime.notes is None else runtime.notes.with_suffix(".log"))
    limit_s = runtime.time_limit_s
    left = None if limit_s is None else limit_s - (time.monotonic() - started)
    train(models, replace(runtime, time_limit_s=left))


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: the next run trains the same models again."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
