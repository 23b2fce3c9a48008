"""Several models of a task at a time, in processes of one core of a CPU, or one accelerator, each.

A model of this size gains little from a second core, and its result may depend on their number in
the last bits; so on a CPU a model has one core, however many were granted.
"""

import logging
import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import torch

from aam.config.sections.finetuning import Finetuning
from aam.data.folds import folder_of_fold
from aam.distributed.processes import release_device
from aam.train.memory.meter import host_budget_mb
from aam.util import log
from aam.util.errors import InputError
from aam.util.machine import end_with
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelKey:
    """Which of the models of a task."""

    recipe: str
    fold: int
    """Fold whose labels the model has not seen; of a nested fit, the fold whose encoder it starts
    from, which matters where each fold has one of its own."""
    without: str = ""
    """Name of the fit of the nested cross-validation; empty: a model of the fold itself."""
    number: int = 0
    """Number of the model, where several differ in their seeds alone."""

    @property
    def part(self) -> str:
        """Words for what the model has not seen."""
        return f"without{self.without}" if self.without else folder_of_fold(self.fold)

    def file_name(self, *, names_recipe: bool) -> str:
        """Return the name of the model's folder and of its curves; nothing is read from it again.

        Parameters
        ----------
        names_recipe
            Whether the task has several recipes, so that their names tell them apart.
        """
        further = [self.recipe if names_recipe else "", str(self.number) if self.number else ""]
        return "-".join([self.part, *filter(None, further)])


Models = Sequence[ModelKey]
"""Some of the models of a task."""


def threads_of_a_model(threads: int) -> int:
    """Return the threads that one model is trained in: on a CPU one.

    Parameters
    ----------
    threads
        Threads that were granted.

    Returns
    -------
    int
        1 at least.
    """
    return threads if torch.cuda.is_available() else 1


def processes(settings: Finetuning, models: int, runtime: RunOptions) -> int:
    """Return how many processes train at a time.

    Parameters
    ----------
    settings
        How the models are trained: one process does where the encoder stays as it is.
    models
        Number of models.
    runtime
        Threads and accelerators that were granted.

    Returns
    -------
    int
        1 at least.
    """
    if settings.recipe in ("frozen", "kernel"):
        return 1
    return min(models, runtime.devices if torch.cuda.is_available() else runtime.threads)


def divide_models(models: Models, number: int) -> list[list[ModelKey]]:
    """Divide models among processes, each recipe alike.

    Parameters
    ----------
    models
        Keys of the models.
    number
        Number of processes.

    Returns
    -------
    list of list
        Keys of the models of each process.
    """
    # Models of one recipe take about the same time. In a process, those of a fold follow each
    # other, so that what they leave as it is is embedded once.
    by_recipe = sorted(models, key=lambda model: model.recipe)
    return [
        sorted(by_recipe[first::number], key=lambda model: (model.part, model.recipe, model.number))
        for first in range(number)
    ]


def train_in_processes(
    train: Callable[[Models, RunOptions], None], work: Sequence[Models], runtime: RunOptions
) -> None:
    """Call a function in a process of its own for each part of the work.

    On a CPU the processes share the memory: its limit or, without one, what is free. One that fails
    leaves the others at work; its error is raised after them.

    Parameters
    ----------
    train
        A function of a module. It gets a part of the work and the run options of its process.
    work
        Keys of the models of each process.
    runtime
        Run options of all processes together.

    Raises
    ------
    InputError
        A process raised it; other errors are raised, too.
    """
    if torch.cuda.is_available():
        share = replace(runtime, threads=max(1, runtime.threads // len(work)))
        release_device()
    else:
        share = replace(runtime, threads=1, max_memory_gb=_memory_gb(runtime, len(work)))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(work), mp_context=spawn) as pool:
        calls = [pool.submit(_process, train, turn, share, os.getpid()) for turn in work]
        for call in calls:
            call.result()


def _process(
    train: Callable[[Models, RunOptions], None], models: Models, runtime: RunOptions, parent: int
) -> None:
    end_with(parent)
    # Bars of several processes would overwrite each other.
    os.environ["TTY_COMPATIBLE"] = "0"
    log.start_log(None if runtime.log_dir is None else runtime.log_dir.with_suffix(".log"))
    try:
        train(models, runtime)
    except InputError as error:
        logger.error("%s", error)
        raise
    except Exception:
        logger.exception("stopped by an error; the other processes go on")
        raise


def _memory_gb(runtime: RunOptions, number: int) -> float:
    """Return the memory of each process, in GB of 2^30 bytes.

    What is free is rounded down, to whole GB or to a half, a quarter, … of one: micro-batches are
    chosen again where the limit is another than that of an interrupted run.
    """
    if runtime.max_memory_gb is not None:
        return runtime.max_memory_gb / number
    share_gb = host_budget_mb(None) / 1024 / number
    return math.floor(share_gb) if share_gb >= 1 else 2.0 ** math.floor(math.log2(share_gb))
