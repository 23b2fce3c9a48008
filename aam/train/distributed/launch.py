"""Processes that train one model together: started by torchrun's agent, watched, ended as one.

    stage -> agent of a node -> one process per device, each of which calls the stage's `run`

On several nodes `srun` starts the agents. What they do is in a file of the work folder; there each
process leaves its last words too, so that the stage can end with them.
"""

import importlib
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args
from torch.distributed.run import run as run_agent

from aam.config.digest import PACKAGE_ROOT
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.train.distributed.world import World, check_granted
from aam.util import log
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem
from aam.util.machine import end_with

logger = logging.getLogger(__name__)
SPEC, ADDRESS, INPUT_ERROR, FAILURE = "spec.json", "address", "input-error", "failure"
"""Files of a start; the last two have the number of a process or of a node behind their name."""
PARENT = "AAM_PARENT"
"""Variable with the process ID of the one that started a process."""
SECONDS_BETWEEN_LOOKS = 0.1
ADDRESS_AWAITED_S = 300.0
"""Seconds in which the first node must say where it is."""


def is_needed(runtime: RunOptions) -> bool:
    """Whether a stage has to be started in several processes, and this is none of them."""
    return runtime.devices * runtime.nodes > 1 and not runtime.launched


def together(
    stage: str, cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions
) -> None:
    """Run a stage in all processes that `runtime` asks for; return when all have ended well.

    Parameters
    ----------
    stage
        Module of the stage; its `run` is called with the rest in every process.
    cfg, inputs, outputs, runtime
        What `run` is called with; the threads are divided among the processes of a node.

    Raises
    ------
    InputError
        When fewer devices were granted, several nodes are asked for outside of SLURM, or a process
        raised one.
    RuntimeError
        When a process ended in another way. All others are ended then.
    """
    assert runtime.work is not None, "processes that work together need a work folder"
    world = World(runtime.devices, runtime.nodes, runtime.strategy)
    command = _command(world)
    runtime.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="launch-", dir=runtime.work) as name:
        folder = Path(name)
        # The order of the metrics means something: nothing is sorted.
        write_text(folder / SPEC, json.dumps(_spec(stage, cfg, inputs, outputs, runtime)))
        logger.info("starting %d processes (%s)", world.processes, world.strategy)
        with subprocess.Popen([*command, str(folder)], env=_environment(runtime)) as agents:
            try:
                code = agents.wait()
            except BaseException:
                agents.terminate()
                raise
        if code:
            raise _error(folder, world, code)


def _command(world: World) -> list[str]:
    """Return what starts the agents, up to their last argument, the folder.

    Raises
    ------
    InputError
        When it cannot be.
    """
    own = [sys.executable, "-m", __name__, "agent"]
    if world.nodes == 1:
        check_granted(world)
        return own
    if "SLURM_JOB_ID" not in os.environ or shutil.which("srun") is None:
        raise problem(
            "runtime.nodes",
            f"{world.nodes} outside of a SLURM job",
            "1, or a job of as many nodes",
            "run through profiles/slurm or in an allocation (salloc), see docs/clusters.md",
        )
    nodes = str(world.nodes)
    # Within a step of the same job, which has all its resources, the new one has to share them.
    placement = ["--ntasks-per-node", "1", "--overlap", "--cpu-bind", "none"]
    return [
        *("srun", "--nodes", nodes, "--ntasks", nodes, *placement, "--kill-on-bad-exit", "1"),
        *own,
    ]


def _spec(
    stage: str, cfg: Mapping[str, Any], inputs: Files, outputs: Files, runtime: RunOptions
) -> dict[str, Any]:
    return {
        "stage": stage,
        "cfg": dict(cfg),
        "inputs": _plain(inputs),
        "outputs": _plain(outputs),
        "runtime": _plain(asdict(replace(runtime, threads=_threads(runtime), launched=True))),
    }


def _environment(runtime: RunOptions) -> dict[str, str]:
    """Return this process's, with the same package before any other, and its share of cores."""
    path = [str(PACKAGE_ROOT.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": str(_threads(runtime)),
        PARENT: str(os.getpid()),
    }


def _threads(runtime: RunOptions) -> int:
    return max(1, runtime.threads // runtime.devices)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return paths as absolute text."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return str(value.absolute()) if isinstance(value, Path) else value

    return {name: plain(value) for name, value in values.items()}


def _paths(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [Path(item) for item in value] if isinstance(value, list) else Path(value)
        for name, value in values.items()
    }


def _error(folder: Path, world: World, code: int) -> Exception:
    """Return the last words of the process that failed first."""
    said = sorted(folder.glob(f"{INPUT_ERROR}-*"), key=lambda path: path.stat().st_mtime_ns)
    if said:
        return InputError(said[0].read_text(encoding="utf-8"))
    reasons = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"{FAILURE}-*"))]
    reason = reasons[0] if reasons else f"their agent ended with exit code {code}"
    return RuntimeError(
        f"{reason}; the {world.processes} processes that work together were ended. What they said "
        "is above. Hint: run the same command again, it goes on from the last checkpoint"
    )


def agent(folder: Path) -> None:
    """Start the processes of this node, and end with them."""
    if not (folder / SPEC).is_file():
        where = f"nothing on {socket.gethostname()}"
        hint = "put results_dir on a file system that all nodes share"
        sys.exit(str(problem(folder, where, "a folder that all nodes see", hint)))
    spec = read_json(folder / SPEC)
    devices, nodes = spec["runtime"]["devices"], spec["runtime"]["nodes"]
    node = int(os.environ["SLURM_PROCID"]) if nodes > 1 else 0
    if nodes == 1:
        end_with(int(os.environ[PARENT]))
    os.environ[PARENT] = str(os.getpid())
    arguments = ["--nproc-per-node", str(devices), *_rendezvous(folder, node, nodes)]
    try:
        run_agent(parse_args([*arguments, "-m", __name__, "process", str(folder)]))
    except ChildFailedError as error:
        first, failure = error.get_first_failure()
        how = failure.signal_name() if failure.exitcode < 0 else f"exit code {failure.exitcode}"
        write_text(folder / f"{FAILURE}-{node}", f"process {first} ended with {how}")
        sys.exit(1)


def _rendezvous(folder: Path, node: int, nodes: int) -> list[str]:
    """Return the arguments by which the agents of several nodes find each other."""
    if nodes == 1:
        return []
    address = folder / ADDRESS
    if node == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        write_text(address, f"{os.environ.get('SLURMD_NODENAME') or socket.gethostname()} {port}")
    waited = time.monotonic()
    while not address.exists():
        if time.monotonic() - waited > ADDRESS_AWAITED_S:
            sys.exit(f"{folder}: the first node said nothing in {ADDRESS_AWAITED_S:.0f} s")
        time.sleep(SECONDS_BETWEEN_LOOKS)
    host, port_text = address.read_text(encoding="utf-8").split()
    return [
        *("--nnodes", str(nodes), "--node-rank", str(node), "--rdzv-backend", "static"),
        *("--master-addr", host, "--master-port", port_text),
    ]


def process(folder: Path) -> None:
    """Run the stage as one of the processes."""
    end_with(int(os.environ[PARENT]))
    spec, rank = read_json(folder / SPEC), int(os.environ["RANK"])
    plain = spec["runtime"]
    paths = {name: Path(plain[name]) for name in ("work", "log_dir") if plain[name] is not None}
    runtime = RunOptions(**{**plain, **paths})
    if rank == 0:
        log.start(None if runtime.log_dir is None else runtime.log_dir.with_suffix(".log"))
    else:
        # One process speaks for all, and draws the bar.
        os.environ["TTY_COMPATIBLE"] = "0"
        log.start(None)
        logging.getLogger().setLevel(logging.WARNING)
        runtime = replace(runtime, log_dir=None)
    run = importlib.import_module(spec["stage"]).run
    try:
        run(
            spec["cfg"],
            inputs=_paths(spec["inputs"]),
            outputs=_paths(spec["outputs"]),
            runtime=runtime,
        )
    except InputError as error:
        write_text(folder / f"{INPUT_ERROR}-{rank}", str(error))
        sys.exit(1)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    # By its own name, so that its records are those of a module of the package.
    own = importlib.import_module("aam.train.distributed.launch")
    {"agent": own.agent, "process": own.process}[sys.argv[1]](Path(sys.argv[2]))
