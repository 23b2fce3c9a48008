"""The whole workflow, killed again and again.

Run as `python -m benchmarks.kill_workflow --kills 20 --seed 1`.

A tiny study is carried out undisturbed, then again while SIGKILL ends Snakemake and all that it
started at random moments. After a kill a user would type `snakemake --unlock` and the command
itself, and so does this program. Where the study ends before the last kill is done, its artifacts
are compared with the undisturbed ones, thrown away, and it begins from nothing.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks import artifacts
from tests.checkouts import TINY, Checkout, copy_of_the_workflow

LONGEST_S = 1800
"""A run that takes longer hangs."""
LONGEST_DELAY = 0.5
"""Of a kill, as a fraction of the undisturbed time: later moments come after several kills."""
STUDY = {
    **TINY,
    "rarefaction": {"depth": 200, "views": 1},
    "models": {"base": TINY["models"]["base"]},
    "pretraining": {**TINY["pretraining"], "epochs": 8},
    "finetuning": {**TINY["finetuning"], "epochs": 2},
    "tasks": {"environment": {**TINY["tasks"]["environment"], "finetuning": {"inductive": True}}},
    "runtime": {**TINY["runtime"], "checkpoint_every_s": 0.5},
}


def attempt(checkout: Checkout, *arguments: str, kill_after_s: float | None = None) -> int | None:
    """Return the exit status of a run, or None where it was killed."""
    with (checkout.root / "output.txt").open("a", encoding="utf-8") as output:
        process = checkout.started(
            *checkout.configured(), *arguments, stdout=output, start_new_session=True
        )
    try:
        return process.wait(LONGEST_S if kill_after_s is None else kill_after_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        kill_session(process.pid)
        process.wait()


def kill_session(session: int) -> None:
    """Kill all processes of a session until none is left."""
    while members := [pid for pid in psutil.pids() if session_of(pid) == session]:
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def session_of(pid: int) -> int | None:
    """Return the session of a live process."""
    try:
        zombie = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return None if zombie else os.getsid(pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def succeeded(status: int | None, checkout: Checkout) -> None:
    """End with what was printed last, unless a run has ended well."""
    if status != 0:
        sys.exit((checkout.root / "output.txt").read_text(encoding="utf-8")[-4000:])


def carry_out(checkout: Checkout, delays: list[float], targets: list[str]) -> None:
    """Start the study, killing it after the delays as long as there are any, until it ends."""
    for name in ("results", ".snakemake"):
        shutil.rmtree(checkout.root / name, ignore_errors=True)
    while delays:
        status = attempt(checkout, "--", *targets, kill_after_s=delays[0])
        if status is not None:
            succeeded(status, checkout)
            return
        print(f"killed after {delays.pop(0):.1f} s", flush=True)
        succeeded(attempt(checkout, "--unlock"), checkout)
    succeeded(attempt(checkout, "--", *targets), checkout)


def kill_often(work: Path, kills: int, seed: int, targets: list[str]) -> list[str]:
    """Return how a study that is killed so many times differs from one that is not."""
    undisturbed = copy_of_the_workflow(work / "undisturbed", study=STUDY)
    killed = copy_of_the_workflow(work / "killed", study=STUDY)
    begun = time.monotonic()
    succeeded(attempt(undisturbed, "--", *targets), undisturbed)
    wall_s = time.monotonic() - begun
    expected = artifacts.digests(undisturbed.root / "results")
    print(f"undisturbed: {wall_s:.0f} s, {len(expected)} artifacts", flush=True)
    rng = random.Random(seed)
    delays = [rng.uniform(0.0, LONGEST_DELAY * wall_s) for _ in range(kills)]
    wrong: list[str] = []
    while delays and not wrong:
        carry_out(killed, delays, targets)
        wrong = artifacts.differences(expected, artifacts.digests(killed.root / "results"))
        print(f"compared, {len(delays)} kills left: {wrong or 'no difference'}", flush=True)
    return wrong


def main() -> int:
    """Carry out the test, and return the exit status: 0 where all artifacts are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="*", default=[], help="files to make; otherwise all")
    parser.add_argument("--work", type=Path, help="folder to keep; otherwise a temporary one")
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp(prefix="aam-kill-"))
    try:
        return bool(kill_often(work, arguments.kills, arguments.seed, arguments.targets))
    finally:
        if arguments.work is None:
            shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
