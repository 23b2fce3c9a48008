"""The configuration, and what all rules share: paths, code digests, resources."""

import atexit
import os
import re
import sys
import time
from functools import cache, partial
from pathlib import Path

# The package next to the workflow is used, whether it is installed or not.
REPOSITORY = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if (REPOSITORY / "aam").is_dir():
    sys.path.insert(0, str(REPOSITORY))

from aam.config import digest, result_paths, slices
from aam.config.figures import PLOTS
from aam.config.configuration import load, metrics_of, resolved
from aam.config.messages import read_configuration
from aam.config.metrics import METRICS
from aam.config.names import AAM, FIRST
from aam.config.questions import asked_task, question_of
from aam.config.user_files import require_files, user_files
from aam.util.machine import accelerated
from aam.util.records import (
    claim,
    record_results,
    require_own_results,
    result_folder,
    user_digests,
)
from aam.util.errors import InputError
from aam.util.forks import fork_scripts


def tables_of(config):
    """Return the results and the user's table of each dataset; None: it is simulated."""
    return [
        (
            result_folder(config.results_dir, name),
            user_files(config, section).get("table"),
        )
        for name, section in config.datasets.items()
    ]


def loaded(raw):
    """Return the validated configuration, or stop with one message."""
    try:
        for path in workflow.configfiles:
            read_configuration(Path(path))
        found = load(raw)
        # Not in jobs: files may go once they are imported, and every job parses this file again.
        if workflow.is_main_process:
            require_files(found)
        claim(Path(found.results_dir), Path.cwd())
        if workflow.is_main_process:
            for results, table in tables_of(found):
                require_own_results(results, table)
        return found
    except InputError as error:
        # An exception would be printed with the lines of this file.
        sys.exit(f"\n{error}\n")


# Threads that wait by spinning slow each other down twentyfold where jobs share the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

CONFIG = loaded(config)
STARTED = time.time()
ENVIRONMENT = "../envs/aam.yaml"
CAPTIONS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((REPOSITORY / "workflow" / "report").glob("*.rst"))
}
# Snakemake would warn at every start of rules that could be shared and are not.
SHARED = "SNAKEMAKE_OUTPUT_CACHE" in os.environ
# Folds are made before anything else: it takes seconds, and baselines and networks wait for them.
FOLDS_PRIORITY = 100
# What leads to the first answers comes before networks, so that nobody waits long for an answer.
FIRST_ANSWER_PRIORITY = 50
# What leads to a pretrained encoder comes next: most other rules wait for it, and the remaining jobs
# fill the gaps.
PRETRAINING_PRIORITY = 1
# Timing comes last: it takes all cores, and no other job waits for it but its figure.
TIMING_PRIORITY = -10
# Tasks that differ in their training alone share folds and baselines: those of the first of them.
folds_owner = cache(partial(slices.folds_owner, CONFIG))
baselines_owner = cache(partial(slices.baselines_owner, CONFIG))
covariates_owner = cache(partial(slices.covariates_owner, CONFIG))
inductive_owner = cache(partial(slices.inductive_owner, CONFIG))
# What messages call a model, with the wildcard of its name where there are several.
MODEL = AAM if len(CONFIG.models) < 2 else f"{AAM} ({{wildcards.model}})"
# The same where one model need not be named.
OF_A_MODEL = "" if len(CONFIG.models) < 2 else f", {MODEL}"
# The speed table times the first model, where there is one.
FIRST_MODEL = next(iter(CONFIG.models), None)


def script_digest(name, *modules):
    """Return the digest of the code that a script runs, and of further modules."""
    # From a remote address only files that are asked for are at hand; all scripts import this one.
    workflow.source_path("../scripts/stage_job.py")
    script = Path(workflow.source_path(f"../scripts/{name}.py"))
    return digest.script_digest(script, *modules)


def works_here():
    """Return whether this machine does the work itself; a dry run does not know."""
    executor = workflow.executor_plugin
    return executor is not None and executor.name == "local"


# Jobs of a cluster parse this file, too, and start Python.
if workflow.is_main_process:
    fork_scripts(works_here)


def gpus(wildcards, processes=1):
    """Return how many GPUs a job counts for.

    Zero where this machine does the work and has none: as many training runs as the cores allow
    then run side by side. An answer of baselines alone needs none.
    """
    has_none = works_here() and not accelerated()
    return 0 if has_none or wildcards.get("answer") == FIRST else processes


def all_cores(wildcards):
    """Return the cores of a job that takes times: all that there are, so that it is alone."""
    return workflow.cores if works_here() else 8


def one_of(names):
    """Return the pattern of a wildcard that is one of `names`."""
    return "|".join(map(re.escape, names)) or r"(?!)"


def result(path, **names):
    """Return a path below a dataset's folder of results; what is not named stays a wildcard."""
    path = f"{result_folder(CONFIG.results_dir, '{dataset}')}/{path}"
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path
