"""Processes that write their numbers and sleep, for a test that kills the one that began them."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from aam.runtime.run_options import RunOptions
from aam.tasks.finetune.parallel import in_processes


def sleep(folder: Path, models: list[tuple[int, int]], runtime: RunOptions) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(600)


if __name__ == "__main__":
    in_processes(partial(sleep, Path(sys.argv[1])), [(0, 0), (1, 0)], 2, RunOptions())
