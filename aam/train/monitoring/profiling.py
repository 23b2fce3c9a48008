"""Where the time of a step goes: a table and a trace of a few steps, by torch.profiler."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from aam.util.atomic import atomic_path, write_text

logger = logging.getLogger(__name__)

WAITING, WARM_UP = 2, 2
"""Steps left alone, and steps recorded and thrown away, before those that count."""
ROWS = 30


class StepProfiler:
    """Told of each step by `step`; made by `profiled`.

    Parameters
    ----------
    folder
        Where `summary.txt` and `trace.json` go; None: nothing is recorded.
    steps
        Steps to record; 0: nothing is recorded.
    first_step
        Steps done before this start.
    """

    def __init__(self, folder: Path | None, steps: int, first_step: int) -> None:
        self._profile: profile | None = None
        if folder is None or not steps:
            return
        self._folder, self._steps, self._first = folder, steps, first_step
        self._done = 0
        self._on_gpu = torch.cuda.is_available()
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * self._on_gpu
        self._profile = profile(
            activities=activities,
            schedule=schedule(wait=WAITING, warmup=WARM_UP, active=steps, repeat=1),
            record_shapes=True,
            profile_memory=True,
        )
        self._profile.start()

    def step(self) -> None:
        """Note that a step is done; after the last recorded one, write the files."""
        if self._profile is None:
            return
        self._done += 1
        if self._recorded() == self._steps:
            self.close()
        else:
            self._profile.step()

    def close(self) -> None:
        """Write what was recorded, unless it is written; a run may end before all steps came."""
        if self._profile is None:
            return
        ended, self._profile = self._profile, None
        ended.stop()
        if self._recorded() < 1:
            logger.warning(
                "nothing profiled: the run ended after %d steps, the first %d are not recorded",
                self._done,
                WAITING + WARM_UP,
            )
            return
        try:
            write_text(self._folder / "summary.txt", self._summary(ended))
            with atomic_path(self._folder / "trace.json") as partial:
                ended.export_chrome_trace(str(partial))
        except OSError as error:
            logger.warning("the profile could not be written: %s", error)
            return
        logger.info("%d steps profiled: %s", self._recorded(), self._folder / "summary.txt")

    def _recorded(self) -> int:
        return self._done - WAITING - WARM_UP

    def _summary(self, ended: profile) -> str:
        first = self._first + WAITING + WARM_UP + 1
        device = torch.cuda.get_device_name() if self._on_gpu else "CPU"
        by_self_time = f"self_{'cuda' if self._on_gpu else 'cpu'}_time_total"
        parts = [
            f"Steps {first} to {first + self._recorded() - 1}, {device}, torch {torch.__version__}."
            " Times and memory are sums over these steps. trace.json opens in a browser:"
            " chrome://tracing or https://ui.perfetto.dev",
            "By operation",
            ended.key_averages().table(sort_by=by_self_time, row_limit=ROWS),
            "By operation and shapes of its inputs",
            ended.key_averages(group_by_input_shape=True).table(
                sort_by=by_self_time, row_limit=ROWS
            ),
        ]
        return "\n\n".join(parts) + "\n"


@contextmanager
def profiled(folder: Path | None, steps: int | None, first_step: int) -> Iterator[StepProfiler]:
    """Record `steps` steps of the loop inside the block, after two of waiting and two of warm-up.

    Parameters
    ----------
    folder
        Where `summary.txt` (the 30 operations with the most time of their own on the device in
        use, and the same by the shapes of their inputs) and `trace.json` (Chrome trace) go;
        None: nothing is recorded.
    steps
        Steps to record; 0 or None: nothing is recorded.
    first_step
        Steps done before this start, for the heading of the summary.

    Yields
    ------
    StepProfiler
        Its `step` is to be called after each step. What happens between steps, a validation for
        instance, is recorded with them.
    """
    profiler = StepProfiler(folder, steps or 0, first_step)
    try:
        yield profiler
    finally:
        profiler.close()
