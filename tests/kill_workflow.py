"""The whole workflow, killed again and again: `kill_workflow.py --kills 20 --seed 1`.

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
from dataclasses import dataclass, field
from pathlib import Path

import artifacts
import psutil
from checkouts import TINY, Checkout, copy_of_the_workflow

STARTS_AFTER_KILLS = 3
"""Times that a study may be started again without being killed."""
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


@dataclass
class Tally:
    """What happened."""

    kills: int = 0
    rounds: int = 0
    starts: int = 0
    unlocks: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Killed(Checkout):
    """A copy of the workflow whose runs may be killed; what they print is in `output.txt`."""

    def attempt(self, *arguments: str, kill_after_s: float | None = None) -> int | None:
        """Return the exit status of a run, or None where it was killed."""
        named = [*self.configured(), *arguments]
        with (self.root / "output.txt").open("a", encoding="utf-8") as output:
            process = self.started(*named, stdout=output, start_new_session=True)
        try:
            return process.wait(LONGEST_S if kill_after_s is None else kill_after_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill_session(process.pid)
            process.wait()

    def forget(self) -> None:
        """Remove what was computed, and what Snakemake knows of it."""
        for name in ("results", ".snakemake"):
            shutil.rmtree(self.root / name, ignore_errors=True)

    def said(self, characters: int = 4000) -> str:
        """Return the end of what was printed."""
        return (self.root / "output.txt").read_text(encoding="utf-8")[-characters:]


def a_copy(root: Path) -> Killed:
    """Return a new copy of the workflow with the study of this test."""
    return Killed(copy_of_the_workflow(root).root, STUDY)


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


def finished(checkout: Killed, delays: list[float], tally: Tally) -> bool:
    """Start the study, killing it after the delays, until it ends; False: it ended badly."""
    unharmed = 0
    while unharmed < STARTS_AFTER_KILLS:
        if tally.starts:
            tally.unlocks += 1
            if checkout.attempt("--unlock") != 0:
                return False
        delay = delays.pop(0) if delays else None
        tally.starts += 1
        status = checkout.attempt(kill_after_s=delay)
        if status is None:
            tally.kills += 1
            print(f"killed after {delay:.1f} s", flush=True)
            continue
        if status == 0:
            if delay is not None:
                delays.insert(0, delay)
            return True
        unharmed += 1
    return False


def main() -> int:
    """Carry out the test, and return the exit status: 0 where all artifacts are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder to keep; otherwise a temporary one")
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp(prefix="aam-kill-"))
    try:
        return kill_often(work, arguments.kills, arguments.seed)
    finally:
        if arguments.work is None:
            shutil.rmtree(work)


def kill_often(work: Path, kills: int, seed: int) -> int:
    """Compare an undisturbed study with one that is killed so many times; print a report."""
    undisturbed = a_copy(work / "undisturbed")
    begun = time.monotonic()
    if undisturbed.attempt() != 0:
        print(undisturbed.said())
        return 1
    wall_s = time.monotonic() - begun
    expected = artifacts.of(undisturbed.root / "results")
    print(f"undisturbed: {wall_s:.0f} s, {len(expected)} artifacts", flush=True)
    rng = random.Random(seed)
    delays = [rng.uniform(0.0, LONGEST_DELAY * wall_s) for _ in range(kills)]
    tally = Tally()
    killed = a_copy(work / "killed")
    while tally.kills < kills:
        killed.forget()
        if not finished(killed, delays, tally):
            print(killed.said())
            return 1
        tally.rounds += 1
        tally.wrong += artifacts.differences(expected, artifacts.of(killed.root / "results"))
        print(f"round {tally.rounds}: {tally}", flush=True)
        if tally.wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
