"""Scores against the number of labels: models that are trained on the drawn labels alone.

Run as `python -m benchmarks.label_training RESULTS TASK KIND MODEL/TASK...`: RESULTS is the folder
of a dataset's results with the folds of TASK, and every MODEL/TASK names a model that the workflow
has fine-tuned, for its settings: as a whole, or a kernel machine. Samples are drawn as
`benchmarks.labels` draws them. All are trained for about as many steps, whatever the number of
labels; nothing is chosen by the scores.
"""

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.evaluate.baselines.problem import Problem
from aam.model.store import load_config
from aam.runtime.run_options import RunOptions
from aam.tasks.finetune.cross_validation import CrossValidation
from aam.tasks.finetune.fold_model import FoldModel
from aam.tasks.finetune.setup import FinetuneSetup
from aam.tasks.finetune.train_fold import trained
from benchmarks.labels import NUMBERS, UNLABELLED, drawn, read_problem, score

STEPS, BATCH = 64, 16
PREDICTED, TRAINED = 0, 1
"""Folds of the samples that are predicted, and learned from."""


def predicted(results: Path, task: str, way: str, part: Problem, work: Path) -> NDArray:
    """Return what a model says of the samples that are predicted, trained on the others."""
    given = load_config(results / "finetune" / way / "model/fold0")["settings"]
    inputs = {
        "model": results / "pretrain" / way.split("/")[0] / "model",
        "folds": results / "folds" / f"{task}.tsv",
        "samples": results / "views/samples.arrow",
        "tokens": results / "tokens/asvs.arrow",
    }
    if given["finetuning"]["start"] == "scratch":
        del inputs["model"]
    setup = FinetuneSetup.open(given, inputs, RunOptions(threads=2, work=work), "benchmark")
    fold = np.where(part.fold >= 0, TRAINED, TEST)
    fold[part.fold == UNLABELLED] = PREDICTED
    number = int((fold == TRAINED).sum())
    epochs = math.ceil(STEPS / math.ceil(number / BATCH))
    changes = {"epochs": epochs, "batch_size": BATCH, "seed": part.seed}
    setup = replace(
        setup,
        labelled=replace(setup.labelled, fold=fold),
        settings=setup.settings.model_copy(update=changes),
    )
    assert setup.settings.encoder in ("full", "kernel"), f"{way} trains neither"
    fold_model = FoldModel(setup, PREDICTED, 0, CrossValidation(setup)._frozen(PREDICTED))
    point_NC = fold_model.outputs(trained(fold_model)[0], part.test).point_NC
    return point_NC[:, 0] if part.regression else np.asarray(part.classes)[point_NC.argmax(axis=1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the mean score of every way, and its standard error over the draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("task")
    parser.add_argument("kind", choices=["regression", "classification"])
    parser.add_argument("ways", nargs="+")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS)
    given, rows = parser.parse_args(arguments), []
    problem, _ = read_problem(given.results, given.task, given.kind)
    for number, draw, way in product(given.numbers, range(given.draws), given.ways):
        part = drawn(problem, number, draw)
        with tempfile.TemporaryDirectory() as work:
            found = predicted(given.results, given.task, way, part, Path(work))
        rows.append((way, number, draw, score(part, found)))
        print(*rows[-1], flush=True)
    table = pd.DataFrame(rows, columns=["way", "labels", "draw", "score"])
    pivot = table.pivot_table(
        index="way", columns="labels", values="score", aggfunc=["mean", "sem"]
    )
    print(pivot.round(3).to_string())


if __name__ == "__main__":
    main()
