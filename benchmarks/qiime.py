"""AAM beside q2-sample-classifier: time, memory and score, with and without groups.

`python -m benchmarks.qiime leaderboard qiime` needs the folder that `benchmarks.leaderboard` has
prepared, and the command `qiime` with its plugin sample-classifier on the path (Debian 12:
`apt-get install --no-install-recommends qiime q2cli q2-types q2-metadata q2-feature-table
q2-sample-classifier`). For each task of `TASKS` it makes AAM's first answer twice, with the groups
of the task and without, runs q2-sample-classifier's nested cross-validation as its users do, and
its forest once more on both sets of folds of AAM. QIIME 2 gets the labelled samples of the rarefied
table that AAM reads, with default settings (a forest of 100 trees). The table goes to standard
output.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error

from aam.data.folds import read_folds
from aam.data.table import read_biom, write_biom
from aam.evaluate.task_report import TaskReport
from aam.util.atomic import write_text
from benchmarks.speed.tables import markdown_table

CONFIG = Path(__file__).with_name("config") / "leaderboard.yaml"
TASKS = ("mackerel_day_0", "ecam_delivery_0", "oral_age_0")
CORES = 2
ACTIONS = {"classification": ("classify", "classifier"), "regression": ("regress", "regressor")}
"""Verb and noun of the plugin's actions by the kind of a task."""


@dataclass(frozen=True)
class Cost:
    """What a command took, with all processes that it waited for."""

    clock_s: float
    processor_s: float
    peak_mb: float
    """Of its largest process."""


def run(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in a folder, with its output in `log.txt` there, and return what it took.

    Parameters
    ----------
    command
        Program and arguments.
    folder
        Folder to run it in.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        started = time.perf_counter()
        # QIIME 2 has packages of its own, which those of this process must not hide.
        hidden = ("PYTHONPATH", "VIRTUAL_ENV")
        environment = {name: text for name, text in os.environ.items() if name not in hidden}
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        clock_s = time.perf_counter() - started
    if process.returncode != 0:
        message = f"{' '.join(command)} failed; see {folder / 'log.txt'}"
        raise RuntimeError(message)
    return Cost(clock_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def answer_first(name: str, data: Path, folder: Path, *, grouped: bool) -> Cost:
    """Make AAM's first answer to a task of the leaderboard in a folder of its own.

    Parameters
    ----------
    name
        Name of the task.
    data
        Folder with the prepared studies.
    folder
        Folder to work in; what is there is removed.
    grouped
        Whether folds keep groups together, as those of the leaderboard do.
    """
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    task: dict[str, Any] = config["tasks"][name]
    if not grouped:
        task["folds"].pop("groups")
    mine = {
        "data_dir": str(data.resolve()),
        "datasets": {task["dataset"]: config["datasets"][task["dataset"]]},
        "models": {},
        "tasks": {"task": task},
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_text(folder / "config.yaml", yaml.safe_dump(mine, sort_keys=False))
    aam = [sys.executable, "-m", "aam", "run", "config.yaml", "first", "--cores", str(CORES)]
    return run(aam, folder)


def results_of(answer: Path) -> Path:
    """Return the results of the one dataset of a first answer."""
    return next(path.parent for path in (answer / "results").glob("*/folds"))


@dataclass(frozen=True)
class Labelled:
    """The labelled samples of a task, as both programs read them."""

    kind: str
    folds: pd.DataFrame
    """As `aam.data.folds.read_folds` returns them."""
    artifact: Path
    """QIIME 2's file of the table."""

    def score(self, predicted: pd.Series) -> float:
        """Return the mean absolute error or the balanced accuracy of predictions by sample."""
        observed = self.folds["observed"]
        guesses = predicted.loc[observed.index]
        if self.kind == "regression":
            return float(mean_absolute_error(observed.astype(float), guesses.astype(float)))
        return float(balanced_accuracy_score(observed.astype(str), guesses))


def read_labelled(answer: Path) -> Labelled:
    """Return the labelled samples of a first answer, and import their table into QIIME 2."""
    results = results_of(answer)
    report = TaskReport.read(results / "answers/task/first/scores.json")
    folds = read_folds(results / "folds/task.tsv")
    table = read_biom(results / "rarefied/view0.biom")
    rows = pd.Index(table.sample_ids).get_indexer(folds.index)
    write_biom(answer / "labelled.biom", table.select_samples(rows), {})
    artifact = answer / "labelled.qza"
    kinds = ["--type", "FeatureTable[Frequency]", "--input-format", "BIOMV210Format"]
    files = ["--input-path", "labelled.biom", "--output-path", artifact.name]
    run(["qiime", "tools", "import", *kinds, *files], answer)
    return Labelled(report.kind, folds, artifact)


def nest(labelled: Labelled, folder: Path) -> tuple[Cost, float]:
    """Return cost and score of q2-sample-classifier's nested cross-validation."""
    verb, _ = ACTIONS[labelled.kind]
    _write_metadata(labelled, labelled.folds.index, folder / "labels.tsv")
    command = ["qiime", "sample-classifier", f"{verb}-samples-ncv"]
    command += ["--i-table", str(labelled.artifact.resolve()), "--m-metadata-file", "labels.tsv"]
    command += ["--m-metadata-column", "observed", "--p-random-state", "0"]
    command += ["--p-n-jobs", str(CORES), "--output-dir", "nested"]
    shutil.rmtree(folder / "nested", ignore_errors=True)
    cost = run(command, folder)
    return cost, labelled.score(_read_predictions(folder / "nested/predictions.qza", labelled))


def predict_folds(labelled: Labelled, folder: Path) -> float:
    """Return the score of q2-sample-classifier's forest on the folds of AAM."""
    _, noun = ACTIONS[labelled.kind]
    outcome = "classification" if labelled.kind == "classification" else "regression"
    table = ["--i-table", str(labelled.artifact.resolve())]
    parts = []
    for fold in sorted(labelled.folds["fold"].unique()):
        is_held_out = labelled.folds["fold"] == fold
        _write_metadata(labelled, labelled.folds.index[~is_held_out], folder / "labels.tsv")
        fit = ["qiime", "sample-classifier", f"fit-{noun}", *table, "--m-metadata-file"]
        fit += ["labels.tsv", "--m-metadata-column", "observed", "--p-random-state", "0"]
        fit += ["--p-missing-samples", "ignore", "--p-n-jobs", str(CORES), "--output-dir", "fit"]
        shutil.rmtree(folder / "fit", ignore_errors=True)
        run(fit, folder)
        predict = ["qiime", "sample-classifier", f"predict-{outcome}", *table]
        predict += ["--i-sample-estimator", "fit/sample_estimator.qza"]
        predict += ["--output-dir", "predicted"]
        shutil.rmtree(folder / "predicted", ignore_errors=True)
        run(predict, folder)
        predicted = _read_predictions(folder / "predicted/predictions.qza", labelled)
        parts.append(predicted[is_held_out.index[is_held_out]])
    return labelled.score(pd.concat(parts))


def _write_metadata(labelled: Labelled, samples: pd.Index, path: Path) -> None:
    """Write the labels of some samples as QIIME 2 reads them, whatever they look like."""
    observed = labelled.folds.loc[samples, "observed"]
    kind = "numeric" if labelled.kind == "regression" else "categorical"
    lines = ["sample-id\tobserved", f"#q2:types\t{kind}"]
    lines += [f"{sample}\t{value}" for sample, value in observed.items()]
    write_text(path, "\n".join(lines) + "\n")


def _read_predictions(path: Path, labelled: Labelled) -> pd.Series:
    """Return the predictions of an artifact of QIIME 2, by sample."""
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        member = next(name for name in archive.namelist() if name.endswith("predictions.tsv"))
        table = pd.read_csv(archive.extract(member, folder), sep="\t", index_col=0, dtype=str)
    table.index = table.index.astype(str)
    return table["prediction"].astype(float if labelled.kind == "regression" else str)


def compare(data: Path, folder: Path) -> str:
    """Return the table of all tasks.

    Parameters
    ----------
    data
        Folder with the prepared studies.
    folder
        Folder to work in.
    """
    rows = []
    for name in TASKS:
        answers = {grouped: folder / name / f"groups-{grouped}" for grouped in (True, False)}
        costs = {
            grouped: answer_first(name, data, answer, grouped=grouped)
            for grouped, answer in answers.items()
        }
        labelled = {grouped: read_labelled(answer) for grouped, answer in answers.items()}
        nested_cost, nested_score = nest(labelled[True], answers[True])
        forest = {
            grouped: predict_folds(labelled[grouped], answer) for grouped, answer in answers.items()
        }
        mixed = {
            grouped: labelled[grouped].score(_mixture_predictions(answer))
            for grouped, answer in answers.items()
        }
        samples = len(labelled[True].folds)
        for program, cost, own, with_groups, without in (
            ("q2-sample-classifier", nested_cost, nested_score, forest[True], forest[False]),
            ("AAM", costs[True], None, mixed[True], mixed[False]),
        ):
            rows.append(
                [
                    f"{name} ({samples})",
                    program,
                    f"{cost.clock_s:.1f}",
                    f"{cost.processor_s:.1f}",
                    f"{cost.peak_mb:.0f}",
                    "" if own is None else f"{own:.3g}",
                    f"{without:.3g}",
                    f"{with_groups:.3g}",
                ]
            )
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    head = ["task (samples)", "program", "clock, s", "processor, s", "MB", "its own folds"]
    return markdown_table([*head, "AAM's folds without groups", "with groups"], rows)


def _mixture_predictions(answer: Path) -> pd.Series:
    """Return what the super learner of a first answer predicts, by sample."""
    results = results_of(answer)
    path = results / "answers/task/first/predictions.tsv"
    table = pd.read_csv(path, sep="\t", index_col=0, dtype=str)
    return table["predicted"]


def main() -> None:
    """Compare the programs, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder that benchmarks.leaderboard prepared")
    parser.add_argument("folder", type=Path, help="folder to work in")
    arguments = parser.parse_args()
    if shutil.which("qiime") is None:
        sys.exit("There is no command qiime on the path; the first lines of this file install it.")
    print(compare(arguments.data, arguments.folder))


if __name__ == "__main__":
    main()
