"""How to combine learners where labels are few, compared on studies set apart for development.

`python -m benchmarks.small_studies predict RESULTS FOLDER` cuts the tasks of
`config/leaderboard.yaml` that settings may be chosen on down to some numbers of samples, whole
groups as long as they last, divides these into five folds, and writes the predictions of all
baselines, nested too, into FOLDER. RESULTS is a folder of results with the folds, sample store,
tree and unweighted UniFrac of these studies. `python -m benchmarks.small_studies compare FOLDER`
then prints how far each rule lies behind the best single learner, which nobody can know
beforehand, and behind the one that inner cross-validation chooses.

Shape suffixes: N samples.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from aam.evaluate.baselines.problem import Problem
from aam.evaluate.baselines.registry import predict_baselines, predict_nested
from benchmarks.labels import read_problem

TASKS = {
    "mackerel/mackerel_day_0": "regression",
    "mackerel/mackerel_site_0": "classification",
    "westernization/westernization_rank_0": "regression",
    "westernization/westernization_town_0": "classification",
}
"""Tasks that settings may be chosen on, and their kinds."""
SIZES = (35, 70, 100, 150, 250)
FOLDS = 5
THREADS = 2


def cut(task: Problem, samples: int, draw: int) -> Problem:
    """Return a problem of so many samples, whole groups as long as they last, in new folds."""
    names = np.arange(len(task.target)).astype(str)
    units = np.where(task.group == "", names, task.group)
    order = np.random.default_rng(draw).permutation(np.unique(units))
    place = {unit: number for number, unit in enumerate(order)}
    rows = np.sort(np.argsort([place[unit] for unit in units], kind="stable")[:samples])
    divide = GroupKFold if task.regression else StratifiedGroupKFold
    splitter = divide(FOLDS, shuffle=True, random_state=draw)
    fold = np.zeros(len(rows), np.int64)
    for number, (_, left_out) in enumerate(splitter.split(rows, task.target[rows], units[rows])):
        fold[left_out] = number
    return replace(
        task,
        target=task.target[rows],
        classes=[] if task.regression else sorted(set(task.target[rows])),
        fold=fold,
        group=task.group[rows],
        counts=task.counts[rows],
        distances=task.distances[np.ix_(rows, rows)],
        seed=draw,
    )


def predict(results: Path, folder: Path, sizes: Sequence[int], draws: Sequence[int]) -> None:
    """Write the predictions of every task, size and draw that has none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in draws:
        for size in sizes:
            for name, kind in TASKS.items():
                dataset, task_name = name.split("/")
                stem = folder / f"{task_name}-{size}-{draw}"
                if stem.with_suffix(".nested.parquet").exists():
                    continue
                task, _ = read_problem(results / dataset, task_name, kind)
                if len(task.target) < size:
                    continue
                part = cut(task, size, draw)
                predict_baselines(part, THREADS).assign(
                    group=lambda table, part=part: part.group[table["row"]]
                ).to_parquet(stem.with_suffix(".parquet"))
                predict_nested(part, THREADS).to_parquet(stem.with_suffix(".nested.parquet"))
                print(stem.name, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the predictions, or compare the rules."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("predict")
    maker.add_argument("results", type=Path)
    maker.add_argument("folder", type=Path)
    maker.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    maker.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args(arguments)
    if given.command == "predict":
        predict(given.results, given.folder, given.sizes, given.draws)


if __name__ == "__main__":
    main()
