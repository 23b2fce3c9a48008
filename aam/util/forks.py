"""The scripts of jobs run in forks of one process, which imports once what they all import.

Python needs one to three seconds for what a rule's script imports, and most jobs of a first answer
work for less. On one machine a run therefore starts one process more, which imports the stages and
forks for each job. A job stays a process of its own: it has its own log, benchmark and exit status,
its memory is freed with it, and nothing that it does reaches the next job.
"""

import ast
import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

PACKAGE = Path(__file__).resolve().parents[1]
FIRST_ANSWER = (
    "aam.stages.job",
    "aam.stages.import_table",
    "aam.stages.import_metadata",
    "aam.stages.rarefy",
    "aam.stages.folds",
    "aam.stages.import_tree",
    "aam.stages.unifrac",
    "aam.stages.baselines",
    "aam.stages.score",
    "aam.stages.plot",
    "aam.report.figures.task",
    "aam.stages.summary",
)
"""What the jobs of a first answer import, in the order in which they need it."""
AT_WORK = {"aam.stages.plot": "aam.report.figures.task"}
"""Modules of the package by stages that import them, or what these import, at work."""
THREADS = (
    "OMP_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""Variables that Snakemake sets to the threads of a job."""
TEMPORARY = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")
"""Variables that Snakemake sets to a job's folder for temporary files."""
PROGRAM = """
import sys
control, folder, *modules = sys.argv[1:]
sys.path[:0] = [folder] if folder else []
from aam.util.forks import serve
serve(int(control), modules)
"""
DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux."""
PATIENCE_S = 5.0
"""Seconds that jobs get to end when the run that asked for them is gone."""


class ForkServer:
    """The process that forks, as a run sees it. Several threads may ask for jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = os.getpid()

    def start(self, *modules: str) -> socket.socket:
        """Start the process unless it is there, and return the socket for requests.

        Parameters
        ----------
        *modules
            Dotted names of what it imports while nobody asks for a job. What a script imports of
            the package, it imports before the first job that needs it.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._control = None
            if self._control is None:
                self._control = self._started(modules)
            return self._control

    def _started(self, modules: Sequence[str]) -> socket.socket:
        ours, theirs = socket.socketpair()
        folder = str(PACKAGE.parent)
        # Where packages are installed Python looks last, so that none hides a module of its own.
        if folder in map(sysconfig.get_path, ("purelib", "platlib")):
            folder = ""
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno()), folder, *modules],
                pass_fds=[theirs.fileno()],
                # A process with threads must not fork: libraries start theirs in the jobs.
                env={**os.environ, **dict.fromkeys(THREADS, "1")},
            )
        self._owner = os.getpid()
        atexit.register(self.close)
        return ours

    def close(self) -> None:
        """End the process, and with it jobs that still run."""
        atexit.unregister(self.close)
        with self._lock:
            # A fork of the run inherits what the run has to do at its end.
            if self._control is None or self._process is None or os.getpid() != self._owner:
                return
            self._control.close()
            self._control = None
            # It may be importing what nobody needs any more.
            self._process.kill()
            self._process.wait()

    def run(self, script: str, environment: Mapping[str, str], record: Any = None) -> int:
        """Run a script to its end.

        Parameters
        ----------
        script
            Path of the script.
        environment
            All environment variables that it sees.
        record
            Snakemake's record of what the job takes; None: nobody asks.

        Returns
        -------
        int
            Exit status; minus the number of a signal that ended it.
        """
        control = self.start()
        connection, theirs = socket.socketpair()
        request = {"script": script, "folder": str(Path.cwd()), "environment": dict(environment)}
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            with theirs, self._lock:
                socket.send_fds(control, [b"."], [theirs.fileno()])
            stream.write(f"{json.dumps(request)}\n")
            stream.flush()
            status = ""
            if pid := stream.readline():
                with _benchmarked(int(pid), record):
                    # It waits for this, so that nothing of it is missed.
                    stream.write("begin\n")
                    stream.flush()
                    status = stream.readline()
        if not status:
            self._forget(control)
            return -signal.SIGKILL
        return int(status)

    def _forget(self, control: socket.socket) -> None:
        """Take note that the process is gone, and its jobs with it: the next one is another."""
        with self._lock:
            if control is self._control and self._process is not None:
                self._process.wait()
                self._control = None
        control.close()


SERVER = ForkServer()
"""That of this process."""


def fork_scripts(is_wanted: Callable[[], bool]) -> None:
    """Let Snakemake ask for a fork where it would start Python for the script of a rule.

    Parameters
    ----------
    is_wanted
        Whether the jobs of this run are to be forks, which is asked before each job. Those that
        run in a container or an environment of their own never are.
    """
    # The Snakefile imports this module, and Snakemake is imported at that time.
    from snakemake.script import PythonScript

    if sys.platform != "linux":
        return
    start_python = PythonScript.execute_script

    def execute_script(job: Any, fname: str, edit: bool = False) -> None:
        elsewhere = job.container_img, job.conda_env, job.env_modules, job.shadow_dir
        if edit or any(elsewhere) or not is_wanted():
            start_python(job, fname, edit)
            return
        environment = _environment(job.threads, job.resources.get("tmpdir"))
        status = SERVER.run(fname, environment, job.bench_record)
        if status:
            raise subprocess.CalledProcessError(status, [sys.executable, fname])

    PythonScript.execute_script = execute_script


def _environment(threads: int, temporary: str | None) -> dict[str, str]:
    """Return the environment that Snakemake gives to the script of a rule."""
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    if temporary:
        environment |= dict.fromkeys(TEMPORARY, temporary)
    return environment


def _benchmarked(pid: int, record: Any) -> Any:
    from snakemake.benchmark import benchmarked

    return nullcontext() if record is None else benchmarked(pid, record)


def serve(control: int, modules: Sequence[str]) -> None:
    """Fork for each request, and run its script there; in a fork this returns behind the script.

    Parameters
    ----------
    control
        Number of the socket on which connections with requests arrive. When its other end is
        closed, this process ends, and all that it forked.
    modules
        Dotted names of what is imported while nobody asks for a job.
    """
    gc.disable()
    ending = _Ending()
    # What is registered first is called last, behind all that libraries and the script register.
    atexit.register(ending.leave)
    request = _Jobs(socket.socket(fileno=control), modules).fork_for_each()
    gc.enable()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    # Python has looked for it, and libraries have read how many threads they may have.
    tempfile.tempdir = None
    from threadpoolctl import threadpool_limits

    threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))
    sys.argv = [request["script"]]
    with ending.noted():
        runpy.run_path(request["script"], run_name="__main__")


class _Ending:
    """The end of a fork, at which Python would take apart, and so copy, all that was imported."""

    def __init__(self) -> None:
        self.status: int | None = None
        """Exit status; None: this is no fork."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Take note of how the block ends."""
        self.status = 1
        try:
            yield
            self.status = 0
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                self.status = end.code or 0
            raise

    def leave(self) -> None:
        """End the fork, as the last thing that is called at its exit."""
        if self.status is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.status)


class _Jobs:
    """What the process that forks knows of its forks."""

    def __init__(self, control: socket.socket, modules: Sequence[str]) -> None:
        self.control = control
        self.connections: dict[int, socket.socket] = {}
        """That of each job that runs, by its process."""
        self.modules = list(modules)
        """Those that are still to be imported while nobody asks for anything."""
        self.ended, self.wakes = os.pipe()
        for end in (self.ended, self.wakes):
            os.set_blocking(end, False)

    def fork_for_each(self) -> dict[str, Any]:
        """Return a request in its fork; the process itself stays here until the run is over."""
        signal.set_wakeup_fd(self.wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C and a scheduler reach every process of the run. Jobs say how they end, and with
        # the run this process ends, too.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        control = self.control.fileno()
        while True:
            waiting_s = 0.0 if self.modules else None
            ready, _, _ = select.select([control, self.ended], [], [], waiting_s)
            if self.ended in ready:
                os.read(self.ended, 4096)
                self._report_ends()
            if control in ready:
                request = self._fork()
                if request is not None:
                    return request
            elif not ready and self.modules:
                _import(self.modules.pop(0))

    def _fork(self) -> dict[str, Any] | None:
        """Fork for a request, and return it there."""
        _, descriptors, *_ = socket.recv_fds(self.control, 1, 1)
        if not descriptors:
            self._end()
        connection = socket.socket(fileno=descriptors[0])
        with connection.makefile(encoding="utf-8") as stream:
            request: dict[str, Any] = json.loads(stream.readline())
        # What it imports before the fork, the next job need not import.
        for module in _imports(Path(request["folder"], request["script"])):
            _import(module)
        gc.freeze()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.connections[pid] = connection
            connection.sendall(f"{pid}\n".encode())
            return None
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number, handler in (
            (signal.SIGCHLD, signal.SIG_DFL),
            (signal.SIGTERM, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
        ):
            signal.signal(number, handler)
        for end in (self.ended, self.wakes):
            os.close(end)
        self.control.close()
        for other in self.connections.values():
            other.close()
        begins = connection.recv(64)
        connection.close()
        if not begins:
            os._exit(1)
        return request

    def _report_ends(self) -> None:
        """Tell the run how jobs have ended."""
        while self.connections:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self.connections.pop(pid) as connection:
                # The run may be gone.
                with suppress(OSError):
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())

    def _end(self) -> NoReturn:
        """End this process, because the run is over; jobs that are left end with it."""
        for pid in self.connections:
            os.kill(pid, signal.SIGTERM)
        patient_until = time.monotonic() + PATIENCE_S
        while self.connections and time.monotonic() < patient_until:
            select.select([self.ended], [], [], 0.1)
            self._report_ends()
        os._exit(0)


def _imports(script: Path) -> list[str]:
    """Return the modules of the package that a script imports."""
    statements = ast.parse(script.read_bytes()).body
    modules = [one.module for one in statements if isinstance(one, ast.ImportFrom)]
    names = [name for name in modules if name and name.split(".")[0] == PACKAGE.name]
    return [*names, *(AT_WORK[name] for name in names if name in AT_WORK)]


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001
        # The job that needs the module says so in its log.
        sys.modules.pop(module, None)
