"""Run the stage that `code`, among the rule's params, begins with."""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # The package beside the workflow, installed or not, also for the processes that a stage starts:
    # Snakemake unsets PYTHONPATH in the environments that it makes.
    repository = Path(__file__).resolve().parents[2]
    if (repository / "aam").is_dir():
        sys.path.insert(0, str(repository))
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(repository), others]))
    if import_module("aam.util.log").has_console():
        # Ctrl-C reaches every process of a terminal: that the console says so is enough.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    stage = import_module(f"aam.stages.{snakemake.params.code.partition(' ')[0]}")
    import_module("aam.runtime.entry").main(stage.run, snakemake)
