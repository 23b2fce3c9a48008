"""Jobs in forks of one process end, fail and are killed as processes of their own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from aam.util.forks import THREADS, ForkServer

REPOSITORY = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

TELLS = """
import json, os, sys, tempfile
from pathlib import Path
from threadpoolctl import threadpool_info
import numpy
facts = {
    "process": os.getpid(),
    "folder": os.getcwd(),
    "arguments": sys.argv,
    "main": __name__,
    "temporary": tempfile.gettempdir(),
    "variable": os.environ.get("AAM_TEST"),
    "threads": [library["num_threads"] for library in threadpool_info()],
    "left": hasattr(numpy, "left_by_a_job"),
}
numpy.left_by_a_job = True
Path("facts.json").write_text(json.dumps(facts))
"""
SLEEPS = "import time\nopen('began', 'w').close()\ntime.sleep(600)\n"
RUN = """
import os, sys
from aam.util.forks import SERVER
sys.exit(SERVER.run(sys.argv[1], {**os.environ, "OMP_NUM_THREADS": "1"}) != 0)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.chdir(tmp_path)
    server = ForkServer()
    yield server
    server.close()


def environment(threads: int = 1, **others: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), **others}


def script(text: str, name: str = "script.py") -> str:
    path = Path(name).resolve()
    path.write_text(text, encoding="utf-8")
    return str(path)


def start_run() -> subprocess.Popen[bytes]:
    """Start a program that asks for a job which sleeps, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, script(SLEEPS)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def wait_for(what: Path) -> None:
    until = time.monotonic() + 60
    while not what.exists():
        assert time.monotonic() < until, f"{what} does not come"
        time.sleep(0.02)


def sleepers() -> list[psutil.Process]:
    """Return the processes that work in this folder, this one left out."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(Path.cwd()) and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return [one for one in found if one.status() != psutil.STATUS_ZOMBIE]


def test_a_job_has_its_own_environment_and_leaves_nothing_behind(
    server: ForkServer, tmp_path: Path
) -> None:
    told = []
    for threads in (2, 1):
        (tmp_path / f"temporary{threads}").mkdir()
        given = environment(threads, AAM_TEST=str(threads), TMPDIR=f"{tmp_path}/temporary{threads}")
        path = script(TELLS)
        assert server.run(path, given) == 0
        facts = json.loads(Path("facts.json").read_text())
        assert facts["folder"] == str(tmp_path)
        assert facts["arguments"] == [path]
        assert facts["main"] == "__main__"
        assert facts["temporary"] == given["TMPDIR"]
        assert facts["variable"] == str(threads)
        assert set(facts["threads"]) == {threads}
        assert not facts["left"]
        told.append(facts["process"])
    assert len({os.getpid(), *told}) == 3


def test_the_status_is_that_of_the_job(
    server: ForkServer, capfd: pytest.CaptureFixture[str]
) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for text, status in (
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('a message')", 1),
        ("raise ValueError", 1),
        (kill, -signal.SIGKILL),
        ("import atexit; atexit.register(open, 'at_exit', 'w')", 0),
    ):
        assert server.run(script(text), environment()) == status, text
    assert Path("at_exit").exists()
    told = capfd.readouterr()
    assert "a message\n" in told.err
    assert "ValueError" in told.err
    assert server.run(script("print('to the end', end='')"), environment()) == 0
    assert capfd.readouterr().out == "to the end"


def test_a_module_that_cannot_be_imported_fails_its_own_job_alone(
    server: ForkServer, capfd: pytest.CaptureFixture[str]
) -> None:
    assert server.run(script("from aam.nowhere import nothing"), environment()) == 1
    assert "No module named 'aam.nowhere'" in capfd.readouterr().err
    assert server.run(script("from aam.util import atomic"), environment()) == 0


def test_jobs_run_side_by_side(server: ForkServer) -> None:
    waits = "import time; from pathlib import Path\nPath('{}').touch()\n"
    waits += "while not Path('{}').exists(): time.sleep(0.01)"
    jobs = []
    for mine, other in (("a", "b"), ("b", "a")):
        path = script(waits.format(mine, other), f"{mine}.py")
        jobs.append(threading.Thread(target=server.run, args=(path, environment())))
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
        assert not job.is_alive()


def test_a_killed_run_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = start_run()
    wait_for(tmp_path / "began")
    run.kill()
    run.wait()
    psutil.wait_procs(sleepers(), timeout=30)
    assert sleepers() == []


def test_ctrl_c_ends_the_job_and_then_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = start_run()
    wait_for(tmp_path / "began")
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(30) != 0
    assert sleepers() == []


def test_after_its_end_the_next_job_starts_it_again(server: ForkServer, tmp_path: Path) -> None:
    status = []
    job = threading.Thread(target=lambda: status.append(server.run(script(SLEEPS), environment())))
    job.start()
    wait_for(tmp_path / "began")
    (parent,) = {process.ppid() for process in sleepers()} & {one.pid for one in sleepers()}
    os.kill(parent, signal.SIGKILL)
    job.join(30)
    assert status == [-signal.SIGKILL]
    assert server.run(script(""), environment()) == 0
    (idle,) = sleepers()
    assert idle.pid != parent, "the job went with the process that it was forked from"
    idle.kill()
    psutil.wait_procs([idle])
    assert server.run(script(""), environment()) == 0


def test_what_stages_import_starts_no_thread_of_work_and_no_gpu() -> None:
    """A process with such threads, or with a GPU, could not fork."""
    names = [path.stem for path in (REPOSITORY / "aam" / "stages").glob("[a-z]*.py")]
    imports = "; ".join(f"import aam.stages.{name}" for name in sorted(names))
    tells = "import os; from pathlib import Path; import torch; print(torch.cuda.is_initialized(), "
    tells += "*(path.read_text() for path in Path('/proc/self/task').glob('*/comm')))"
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}; {tells}"],
        env={**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    is_initialized, *threads = done.stdout.split()
    assert is_initialized == "False"
    # That of Arrow's memory stops before a fork, and starts again on both sides.
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1
