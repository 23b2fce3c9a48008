"""Where the time of a step goes: a table and a trace of a few steps, by torch.profiler."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from aam.util.atomic import atomic_path, write_text

logger = logging.getLogger(__name__)
WAITING = 2
"""Steps that are not recorded, at the start."""
WARM_UP = 2
"""Steps behind these that are recorded and thrown away."""
ROWS = 30


@contextmanager
def profile_steps(folder: Path | None, steps: int, first_step: int) -> Iterator[Callable[[], None]]:
    """Record some steps of the loop inside the block.

    Two steps of waiting and two of warm-up come first. What happens between steps, a validation for
    instance, is recorded with them. `summary.txt` gets the operations that take the most time of
    their own on the device in use, `trace.json` a Chrome trace.

    Parameters
    ----------
    folder
        Folder of both files; None: nothing is recorded.
    steps
        Steps to record; 0: nothing is recorded.
    first_step
        Number of steps that were done before.

    Yields
    ------
    Callable
        The loop calls it after each step.
    """
    if folder is None or not steps:
        yield lambda: None
        return
    before = WAITING + WARM_UP

    def write(ended: profile) -> None:
        recorded = min(ended.step_num - before, steps)
        if recorded > 0:
            _write(folder, ended, first_step + before + 1, recorded)

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=WAITING, warmup=WARM_UP, active=steps, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        yield profiler.step
    if profiler.step_num <= before:
        logger.warning(
            "nothing profiled: the run ended after %d steps, the first %d are not recorded",
            profiler.step_num,
            before,
        )


def _write(folder: Path, ended: profile, first: int, steps: int) -> None:
    """Write table and trace; a folder that cannot be written costs a warning, never the run."""
    has_gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if has_gpu else "CPU"
    by_self_time = f"self_{'cuda' if has_gpu else 'cpu'}_time_total"
    by_name = ended.key_averages()
    by_shape = ended.key_averages(group_by_input_shape=True)
    parts = [
        f"Steps {first} to {first + steps - 1}, {device}, torch {torch.__version__}."
        " Times and memory are sums over these steps. trace.json opens in a browser:"
        " chrome://tracing or https://ui.perfetto.dev",
        "By operation",
        by_name.table(sort_by=by_self_time, row_limit=ROWS),
        "By operation and shapes of its inputs",
        by_shape.table(sort_by=by_self_time, row_limit=ROWS),
    ]
    try:
        write_text(folder / "summary.txt", "\n\n".join(parts) + "\n")
        with atomic_path(folder / "trace.json") as partial:
            ended.export_chrome_trace(str(partial))
    except OSError as error:
        logger.warning("the profile could not be written: %s", error)
        return
    logger.info("%d steps profiled: %s", steps, folder / "summary.txt")
