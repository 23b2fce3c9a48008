"""Processes that train one model together: started by torchrun's agent, watched, ended as one.

    stage -> agent of a node -> one process per device, each of which calls the stage's function

On several nodes `srun` starts the agents. They find the job, and each other, in a folder below the
stage's work folder; there torch writes what a process raised, so that the stage can end with it.
"""

import importlib
import json
import logging
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher import LaunchConfig, elastic_launch

from aam.config.digest import PACKAGE_ROOT
from aam.distributed.processes import World, check_granted
from aam.util import log
from aam.util.atomic import write_text
from aam.util.errors import InputError, problem
from aam.util.machine import end_with
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)
JOB = "job.pickle"
"""File of a start: what is run."""
ADDRESS = "address"
"""File of a start: where the first node is."""
KILLED = "killed"
"""File of a start: which process a signal has ended."""
ADDRESS_AWAITED_S = 300
"""Seconds in which the first node must say where it is."""


def call_in_processes(
    function: Callable[..., None], *, runtime: RunOptions, **arguments: Any
) -> None:
    """Call a function in all processes that the run options ask for.

    The processes of a node share its threads.

    Parameters
    ----------
    function
        A function of a module, which every process can import.
    runtime
        How many devices and nodes there are, and the work folder. Each process gets it as the
        argument `runtime`, with `launched` and its share of the threads.
    **arguments
        Further arguments of the function.

    Raises
    ------
    InputError
        One of the processes raised it.
    RuntimeError
        One of the processes failed otherwise, which ends all.
    """
    assert runtime.work is not None, "processes that work together need a work folder"
    world = World(runtime.devices, runtime.nodes, runtime.strategy)
    command = _command(world)
    threads = max(1, runtime.threads // runtime.devices)
    granted = replace(runtime, threads=threads, launched=True)
    runtime.work.mkdir(parents=True, exist_ok=True)
    # In the work folder and not in /tmp, because all nodes have to see it.
    with tempfile.TemporaryDirectory(prefix="launch-", dir=runtime.work) as name:
        folder = Path(name).absolute()
        # The agents get the function by its name, so that they need not import what it needs.
        job = (function.__module__, function.__name__, {**arguments, "runtime": granted})
        (folder / JOB).write_bytes(pickle.dumps(job))
        logger.info("starting %d processes (%s)", world.processes, world.strategy)
        code = _run_agents([*command, str(folder), str(os.getpid())], threads)
        if code:
            raise _error(folder, world, code)


def _command(world: World) -> list[str]:
    """Return what starts the agents, without arguments."""
    start_agent = [sys.executable, "-m", __name__]
    if world.nodes == 1:
        check_granted(world)
        return start_agent
    if "SLURM_JOB_ID" not in os.environ or shutil.which("srun") is None:
        raise problem(
            "runtime.nodes",
            f"{world.nodes} outside of a SLURM job",
            "1, or a job of as many nodes",
            "run through profiles/slurm or in an allocation (salloc), see docs/how-to/cluster.md",
        )
    # Within a step of the same job, which has all its resources, the new one has to share them.
    options = "--ntasks-per-node 1 --overlap --cpu-bind none --kill-on-bad-exit 1"
    start_step = f"srun --nodes {world.nodes} --ntasks {world.nodes} {options}"
    return [*start_step.split(), *start_agent]


def _run_agents(command: list[str], threads: int) -> int:
    """Run the agents to their end, and return their exit code."""
    # The processes import the same package as this one, before any other.
    search_path = str(PACKAGE_ROOT.parent)
    if os.environ.get("PYTHONPATH"):
        search_path += os.pathsep + os.environ["PYTHONPATH"]
    environment = os.environ | {
        "PYTHONPATH": search_path,
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": str(threads),
    }
    with subprocess.Popen(command, env=environment) as agents:
        try:
            return agents.wait()
        except BaseException:
            agents.terminate()
            raise


def _error(folder: Path, world: World, code: int) -> Exception:
    """Return what one of the processes raised, or else the reason why they ended."""
    paths = sorted(folder.rglob("error.json"), key=lambda path: path.stat().st_mtime_ns)
    raised = []
    for path in paths:
        # A process that was ended while it wrote leaves a part of it.
        with suppress(json.JSONDecodeError):
            raised.append(json.loads(path.read_text(encoding="utf-8"))["message"])
    for failure in raised:
        kind, _, text = failure["message"].partition(": ")
        if kind == InputError.__name__:
            return InputError(text)
    reason = f"their agent ended with exit code {code}"
    if (folder / KILLED).is_file():
        reason = (folder / KILLED).read_text(encoding="utf-8")
    elif raised:
        reason = raised[0]["extraInfo"]["py_callstack"].strip()
    return RuntimeError(
        f"{reason}\nThe {world.processes} processes that work together were ended. "
        "Hint: run the same command again, it goes on from the last checkpoint"
    )


def run_agent(folder: Path, stage: int) -> None:
    """Start the processes of this node, and end with them; `stage` is the stage's process ID."""
    if not (folder / JOB).is_file():
        error = problem(
            folder,
            f"nothing on {socket.gethostname()}",
            "a folder that all nodes see",
            "put results_dir on a file system that all nodes share",
        )
        sys.exit(str(error))
    module, function, arguments = pickle.loads((folder / JOB).read_bytes())
    runtime: RunOptions = arguments["runtime"]
    if runtime.nodes == 1:
        end_with(stage)
    # The stage reports what a process failed with; the agent would report it, too.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=runtime.nodes,
        max_nodes=runtime.nodes,
        nproc_per_node=runtime.devices,
        run_id=folder.name,
        max_restarts=0,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
        **_rendezvous(folder, runtime.nodes),
    )
    try:
        elastic_launch(config, run_process)(module, function, arguments, os.getpid())
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            write_text(folder / KILLED, f"process {rank} ended with {failure.signal_name()}")
        sys.exit(1)


def _rendezvous(folder: Path, nodes: int) -> dict[str, Any]:
    """Return how the agents of several nodes find each other."""
    if nodes == 1:
        return {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    node = int(os.environ["SLURM_PROCID"])
    address = folder / ADDRESS
    if node == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        write_text(address, f"{os.environ.get('SLURMD_NODENAME') or socket.gethostname()}:{port}")
    until = time.monotonic() + ADDRESS_AWAITED_S
    while not address.exists():
        if time.monotonic() > until:
            sys.exit(f"{folder}: the first node said nothing in {ADDRESS_AWAITED_S} s")
        time.sleep(0.1)
    endpoint = address.read_text(encoding="utf-8")
    return {"rdzv_backend": "static", "rdzv_endpoint": endpoint, "rdzv_configs": {"rank": node}}


def run_process(module: str, function: str, arguments: dict[str, Any], parent: int) -> None:
    """Call a function as one of the processes; `parent` is the process ID of the agent."""
    end_with(parent)
    runtime: RunOptions = arguments["runtime"]
    if int(os.environ["RANK"]) == 0:
        log.start_log(None if runtime.log_dir is None else runtime.log_dir.with_suffix(".log"))
    else:
        # One process speaks for all, and draws the bar.
        os.environ["TTY_COMPATIBLE"] = "0"
        log.start_log(None)
        logging.getLogger().setLevel(logging.WARNING)
        runtime = replace(runtime, log_dir=None)
    call = getattr(importlib.import_module(module), function)
    try:
        call(**{**arguments, "runtime": runtime})
    except InputError as error:
        # The stage looks for the name of this class, which a subclass would hide.
        raise InputError(str(error)) from None
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    # The module is imported by its own name, so that its log records are those of the package.
    module = importlib.import_module("aam.distributed.launch")
    module.run_agent(Path(sys.argv[1]), int(sys.argv[2]))
