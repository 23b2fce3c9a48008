"""What every script imports first: the package next to the workflow goes before any other."""

import os
import signal
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
if (REPOSITORY / "aam").is_dir() and sys.path[0] != str(REPOSITORY):
    sys.path.insert(0, str(REPOSITORY))
    # Processes that a stage starts need it, too: Snakemake unsets PYTHONPATH in the environments
    # that it makes.
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), others]))

from aam.config.digest import source_folders
from aam.stages.job import run_job
from aam.util.log import has_console

__all__ = ["run_job"]

# Where AAM is installed, `benchmarks` lies with the workflow below the prefix. It comes last, so
# that it hides no library.
sys.path += map(str, source_folders())

if has_console():
    # Ctrl-C reaches every process of a terminal: that the console says so is enough.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
