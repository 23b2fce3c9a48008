"""Spread of a score over draws of initial weights, with one network and with averages of several.

`python -m benchmarks.weight_draws results/DATASET/finetune/MODEL/TASK/predictions.tsv` reads the
predictions of a task that predicts numbers and was fine-tuned with `finetuning.networks: 10`, so
that every recipe that trains a network has ten. The file has what the model predicts with each
network alone; predictions of several networks are means of these.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.predictions import DRAW
from aam.util.errors import problem
from benchmarks.speed.tables import markdown_table

SIZES = (1, 2, 3)
"""Networks that are averaged."""
PARTITIONS = 200
"""Random partitions of the networks into sets of one size."""


def errors_of_sets(
    observed_L: NDArray[np.float64],
    predicted_DL: NDArray[np.float64],
    size: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the mean and the standard deviation of the error of averages of several networks.

    Parameters
    ----------
    observed_L
        True values of the labelled samples.
    predicted_DL
        What the model predicts with each network alone.
    size
        Networks in a set. The standard deviation is that between sets without a common network,
        its variance averaged over random partitions.
    rng
        Draws the partitions.
    """
    draws = len(predicted_DL)
    sets = draws // size
    means = []
    variances = []
    for _ in range(PARTITIONS):
        order = rng.permutation(draws)[: sets * size].reshape(sets, size)
        averaged_SL = predicted_DL[order].mean(axis=1)
        error_S = np.abs(averaged_SL - observed_L).mean(axis=1)
        means.append(error_S.mean())
        variances.append(error_S.var(ddof=1))
    return float(np.mean(means)), float(np.sqrt(np.mean(variances)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print mean and spread of the mean absolute error by the number of networks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("predictions", type=Path, nargs="+")
    given = parser.parse_args(arguments)
    rows = []
    for path in given.predictions:
        table = pd.read_csv(path, sep="\t")
        names = [name for name in map(str, table) if name.startswith(DRAW)]
        if len(names) < 2 * max(SIZES):
            where = f"{path}, columns {DRAW}<number>"
            raise problem(where, str(len(names)), "6 or more", "set finetuning.networks: 10")
        observed_L = table["observed"].to_numpy(np.float64)
        predicted_DL = table[names].to_numpy(np.float64).T
        rng = np.random.default_rng(0)
        for size in SIZES:
            mean, spread = errors_of_sets(observed_L, predicted_DL, size, rng)
            rows.append([path.parent.name, str(size), f"{mean:.3f}", f"{spread:.3f}"])
    head = ["task", "networks averaged", "mean absolute error", "sd between draws"]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
