"""What each baseline reaches on the development studies, and what it costs.

`python -m benchmarks.baseline_costs RESULTS` fits every baseline to each fold of the development
tasks of `benchmarks/config/leaderboard.yaml`, one at a time on one core, and prints its score over
all folds and the processor time of one fit. RESULTS is a folder of results with the folds, sample
store, tree and unweighted UniFrac of these studies; `--draw` chooses the draw of the folds.
"""

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from aam.data.predictions import mean_recall
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import predict_baselines, suitable_baselines
from aam.report.labels import row_label
from benchmarks.labels import read_problem
from benchmarks.speed.tables import markdown_table

TASKS = {
    "mackerel/mackerel_day": "regression",
    "mackerel/mackerel_site": "classification",
    "westernization/westernization_rank": "regression",
    "westernization/westernization_town": "classification",
}
"""Tasks that settings may be chosen on, and their kinds."""


def measure(task: Problem, name: str) -> tuple[float, float]:
    """Return the score of a baseline, and the seconds of processor time that a fit takes.

    The score of numbers is the mean absolute error, of classes the balanced accuracy.
    """
    start = time.process_time()
    with threadpool_limits(1):
        table = predict_baselines(dataclasses.replace(task, asked=[name]), threads=1)
    seconds = (time.process_time() - start) / len(np.unique(task.fold[task.fold >= 0]))
    table = table[table["baseline"] == name]
    if task.regression:
        return float((table["observed"] - table["predicted"]).abs().mean()), seconds
    return mean_recall(table["observed"].to_numpy(), table["predicted"].to_numpy()), seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per baseline, with a score and its seconds per task."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--draw", type=int, default=0)
    given = parser.parse_args(arguments)
    problems = {}
    for name, kind in TASKS.items():
        dataset, task_name = name.split("/")
        read = read_problem(given.results / dataset, f"{task_name}_{given.draw}", kind)
        problems[task_name] = read[0]
    names = dict.fromkeys(name for task in problems.values() for name in suitable_baselines(task))
    rows = []
    for name in names:
        cells = [row_label(name, "baseline")]
        for task in problems.values():
            if name not in suitable_baselines(task):
                cells.append("")
                continue
            score, seconds = measure(task, name)
            cells.append(f"{score:.3f}; {seconds:.1f} s")
        rows.append(cells)
    print(markdown_table(["", *problems], rows))


if __name__ == "__main__":
    main()
