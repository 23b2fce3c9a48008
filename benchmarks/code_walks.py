"""How many places a reader visits between a question to the code and its answer.

`python -m benchmarks.code_walks CHECKOUT [CHECKOUT]` runs the same small study with each checkout,
and notes every function of `aam` when it is called for the first time.
A reader who follows the calls reads each function once, and goes back to the caller for the next.
A *stay* is the time in one file, a *return* one in a file that was visited before.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

TRACER = """
import os, sys, threading
ROOT, FOLDER = os.environ["WALK_ROOT"], os.environ["WALK_FOLDER"]
PACKAGE = os.path.join(ROOT, "aam", "")
seen = set()
def note(frame, event, _):
    code = frame.f_code
    if event != "call" or code in seen:
        return
    seen.add(code)
    # A body of a module or a class, and what stands inside a function, is no call.
    is_function = code.co_flags & 1 and not code.co_name.startswith("<")
    if not is_function or not code.co_filename.startswith(PACKAGE):
        return
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    origin = "" if caller is None else os.path.relpath(caller.f_code.co_filename, ROOT)
    place = os.path.relpath(code.co_filename, ROOT)
    with open(os.path.join(FOLDER, f"{os.getpid()}.calls"), "a") as handle:
        handle.write(f"{place}\\t{code.co_name}\\t{origin}\\n")
os.register_at_fork(after_in_child=seen.clear)
threading.setprofile(note)
sys.setprofile(note)
"""
"""What Python imports at its start, as `sitecustomize`."""
CHANGES = """
models:
  base: {width: 16, heads: 2, asv_layers: 1, sample_layers: 1}
pretraining: {epochs: 2, batch_size: 16, validations: 1}
finetuning: {epochs: 1, recipe: full}
"""
WALKS = {
    "table to rarefied": ("import_table", "rarefy"),
    "batch to encoder": ("pretrain",),
    "folds to sentence": ("folds", "baselines", "first", "finetune", "score", "summary"),
}
"""Stages whose jobs a walk goes through, in this order; some versions have only a part of them."""
Call = tuple[str, str, str]
"""File of a function, its name, and the file of its caller."""


def count_walks(checkout: Path) -> Iterator[str]:
    """Run the study with a checkout, and yield a line for each walk.

    Parameters
    ----------
    checkout
        Folder that holds the folder `aam`.
    """
    with TemporaryDirectory() as folder:
        study = Path(folder)
        _write_study(study)
        (study / "sitecustomize.py").write_text(TRACER, encoding="utf-8")
        files = ["--sequences", "asvs.fasta", "--tree", "tree.nwk", "--output", "study.yaml"]
        begun = _run(checkout, study, "init", "table.tsv", "metadata.tsv", *files)
        # The name of the recipe's key is that of the checkout.
        key = "recipe" if (checkout / "aam" / "distances").is_dir() else "encoder"
        (study / "more.yaml").write_text(CHANGES.replace("recipe", key), encoding="utf-8")
        planned = _run(checkout, study, "run", "study.yaml", "more.yaml", "-n")
        jobs = _run(checkout, study, "run", "study.yaml", "more.yaml", "--cores", "1")
    by_stage = {stage: calls for calls in jobs if (stage := _stage_of(calls)) is not None}
    walks = {
        name: [call for stage in stages for call in by_stage.get(stage, [])]
        for name, stages in WALKS.items()
    }
    training = walks["batch to encoder"]
    start = next(n for n, (_, name, _) in enumerate(training) if name == "fit")
    walks["batch to encoder"] = training[start:]
    walks["init to run"] = [call for calls in (*begun, *planned) for call in calls]
    for name, calls in walks.items():
        yield f"{name}: {_describe(calls)}"


def _run(checkout: Path, study: Path, *words: str) -> list[list[Call]]:
    """Run a command of a checkout, and return the calls of each of its processes."""
    traces = study / "traces"
    traces.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(study), str(checkout)]),
        "WALK_ROOT": str(checkout),
        "WALK_FOLDER": str(traces),
    }
    command = [sys.executable, "-m", "aam", *words]
    done = subprocess.run(
        command, cwd=study, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{checkout}: aam {' '.join(words)}\n{done.stdout}{done.stderr}")
    found = []
    for path in sorted(traces.glob("*.calls"), key=lambda path: path.stat().st_mtime_ns):
        lines = path.read_text(encoding="utf-8").splitlines()
        found.append([(place, name, caller) for place, name, caller in map(_fields, lines)])
        path.unlink()
    traces.rmdir()
    return found


def _fields(line: str) -> list[str]:
    return line.split("\t")


def _stage_of(calls: Sequence[Call]) -> str | None:
    """Return the stage that a job calls; None: the process was no job."""
    if not any(name == "run_job" for _, name, _ in calls):
        return None
    places = (Path(place) for place, _, _ in calls)
    stages = (path.stem for path in places if path.parent.name == "stages" and path.stem != "job")
    return next(stages, None)


def _describe(calls: Sequence[Call]) -> str:
    """Return the counts of a walk."""
    stays: list[str] = []
    read: set[tuple[str, str]] = set()
    for place, name, caller in calls:
        if (place, name) in read:
            continue
        read.add((place, name))
        for stop in (caller, place):
            if stop and stays[-1:] != [stop]:
                stays.append(stop)
    places = set(stays)
    rooms = {str(Path(place).parent) for place in places}
    return (
        f"{len(read)} functions in {len(places)} files of {len(rooms)} folders; "
        f"{len(stays)} stays, {len(stays) - len(places)} of them returns"
    )


def _write_study(folder: Path) -> None:
    """Write a table, sequences, a tree and metadata: 60 samples of 20 hosts, 60 ASVs."""
    rng = np.random.default_rng(0)
    names = [f"asv{number}" for number in range(60)]
    sequences = ["".join(rng.choice(list("ACGT"), 100)) for _ in names]
    fasta = "".join(f">{name}\n{text}\n" for name, text in zip(names, sequences, strict=True))
    (folder / "asvs.fasta").write_text(fasta, encoding="utf-8")
    nodes = list(names)
    while len(nodes) > 1:
        nodes.append(f"({nodes.pop(0)}:0.1,{nodes.pop(0)}:0.1)")
    (folder / "tree.nwk").write_text(f"{nodes[0]};\n", encoding="utf-8")
    ph_N = rng.normal(7, 1, 60)
    weights_NU = np.exp(rng.normal(0, 1, 60) + np.outer(ph_N - 7, rng.normal(0, 1, 60)))
    counts_NU = np.stack([rng.multinomial(2000, row / row.sum()) for row in weights_NU])
    samples = [f"s{number}" for number in range(60)]
    lines = ["\t".join(["#OTU ID", *samples])]
    lines += [
        "\t".join([name, *map(str, counts)])
        for name, counts in zip(names, counts_NU.T, strict=True)
    ]
    (folder / "table.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["sample-id\thost\tph"]
    rows += [f"{name}\th{n // 3}\t{ph_N[n]:.2f}" for n, name in enumerate(samples)]
    (folder / "metadata.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path)
    for checkout in parser.parse_args().checkouts:
        for line in count_walks(checkout.resolve()):
            print(f"{checkout}: {line}", flush=True)
