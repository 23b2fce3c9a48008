"""Kept super learners of baselines: predicting from their arrays beside fitting again, and size.

`python -m benchmarks.kept_models MODEL...` takes folders such as
`results/mine/answers/age/first/super_learner`. The first 50 kept samples are predicted from the
arrays and by methods that are fitted to all kept samples once more, in turns, on one thread. The
last columns are the size of the folder without and with the arrays, and that of the copy of
`aam share`.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.predictions import PROBABILITY
from aam.inference.apply import share_model
from aam.inference.with_baselines import SuperLearner, used_mixtures
from aam.learners.baselines.registry import predict_others
from aam.learners.kept_mixture import METHODS
from aam.stages.super_learner import task_of
from benchmarks.speed.tables import markdown_table

SAMPLES = 50
REPEATS = 3
Predicted = dict[str, NDArray[np.float64]]
"""What the mixture predicts, by target."""


def predict_from_arrays(learner: SuperLearner, drawn: list[csr_array]) -> Predicted:
    """Return predictions as `aam predict` makes them."""
    return learner.predict_reads(drawn, 1)


def predict_by_refitting(learner: SuperLearner, drawn: list[csr_array]) -> Predicted:
    """Return predictions of methods that are fitted to the kept samples again."""
    assert learner.folds is not None, "a shared copy has no samples to fit to"
    columns = [PROBABILITY + name for name in learner.settings["classes"]] or ["predicted"]
    mixed = {}
    for target, mixture in used_mixtures(learner.settings).items():
        task = task_of(learner.settings, learner.folds, learner.reads, drawn, target)
        parts = predict_others(task, 1).groupby("baseline")
        values = {str(name): part[columns].to_numpy(np.float64) for name, part in parts}
        mixed[target] = mixture.apply(values)
    return mixed


def measure(model: Path) -> dict[str, str]:
    """Return the figures of a model by their names."""
    learner = SuperLearner.load(model)
    assert learner is not None, f"{model} is no super learner"
    assert learner.folds is not None, f"{model} was shared without samples"
    drawn = [csr_array(view.counts[:SAMPLES]) for view in learner.reads.views]
    refit_s, arrays_s = [], []
    for _ in range(REPEATS):
        begun_s = time.perf_counter()
        expected = predict_by_refitting(learner, drawn)
        between_s = time.perf_counter()
        found = predict_from_arrays(learner, drawn)
        refit_s.append(between_s - begun_s)
        arrays_s.append(time.perf_counter() - between_s)
    difference = max(np.abs(found[target] - value).max() for target, value in expected.items())
    with tempfile.TemporaryDirectory() as name:
        share_model(model, Path(name) / "shared")
        shared_mb = _size_mb(Path(name) / "shared")
    arrays_mb = (model / METHODS).stat().st_size / 1e6
    return {
        "samples": str(len(learner.folds)),
        "fitted again, s": _spread(refit_s),
        "from arrays, s": _spread(arrays_s),
        "ratio": f"{median(refit_s) / median(arrays_s):.0f}",
        "largest difference": f"{difference:.0e}",
        "MB without arrays": f"{_size_mb(model) - arrays_mb:.1f}",
        "with arrays": f"{_size_mb(model):.1f}",
        "shared": f"{shared_mb:.1f}",
    }


def _spread(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    """Measure models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("models", type=Path, nargs="+")
    rows = {str(model): measure(model) for model in parser.parse_args().models}
    head = list(next(iter(rows.values())))
    print(markdown_table(["model", *head], [[name, *row.values()] for name, row in rows.items()]))


if __name__ == "__main__":
    main()
