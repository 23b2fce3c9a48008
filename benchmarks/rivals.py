"""What else says a target: false alarms of columns of noise, and the figures of real studies.

`python -m benchmarks.rivals simulate DRAWS TABLE` draws studies whose classes or numbers have
nothing to do with any column, or depend on one (the sex) alone, or on it and on the features, and
counts the lights that the page would have. The method is a kernel ridge with groups as folds.
`python -m benchmarks.rivals list RESULTS TABLE` lists the rivals of all answers in a folder that
predict a target, and the columns that were tried as groups.

Shape suffixes: N samples, U units, F features.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.confounding import CHANCE, Observed, list_rivals
from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.rivals import measure_rivals
from aam.evaluate.task_report import TaskReport
from aam.util.atomic import write_tsv

STUDIES = ((20, 1), (90, 1), (60, 4))
"""Units, and samples of each."""
COLUMNS = 20
"""Columns of noise, half of them the same for all samples of a unit."""
FEATURES = 30
FOLDS = 5
PENALTY = 0.3

Floats = NDArray[np.float64]


def simulate(draws: int) -> pd.DataFrame:
    """Return shares of the draws in which a rival has a light, by study and kind of dependence."""
    rows = []
    for units, each in STUDIES:
        for kind in ("classification", "regression"):
            for name, sex, signal in (("noise", 0.0, 0.7), ("sex", 1.5, 0.0), ("both", 1.5, 0.7)):
                lights = [
                    _lights(kind, units, each, sex=sex, signal=signal, seed=draw)
                    for draw in range(draws)
                ]
                shares = pd.DataFrame(lights).mean().to_dict()
                rows.append({"units": units, "each": each, "kind": kind, "depends": name, **shares})
    return pd.DataFrame(rows)


def _lights(
    kind: str, units: int, each: int, *, sex: float, signal: float, seed: int
) -> dict[str, bool]:
    """Return which lights a study has: of any column of noise, and of the sex."""
    rng = np.random.default_rng([seed, units, each])
    unit_N = np.repeat(np.arange(units), each)
    is_woman_U = rng.random(units) < 0.5
    score_U = sex * is_woman_U + rng.normal(size=units)
    target_U = score_U - np.median(score_U)
    if kind == "classification":
        target_U = np.where(target_U > 0, 1.0, -1.0)
    feature_UF = rng.normal(size=(units, FEATURES))
    feature_UF[:, :5] += sex * is_woman_U[:, None]
    feature_UF[:, 5:10] += signal * target_U[:, None]
    feature_NF = feature_UF[unit_N] + 0.7 * rng.normal(size=(len(unit_N), FEATURES))
    fold_N = rng.permutation(np.arange(units) % FOLDS)[unit_N]
    guess_N = _predict(feature_NF, target_U[unit_N], fold_N)
    ids = pd.Index([f"s{number}" for number in range(len(unit_N))], name="sample-id")
    predictions = pd.DataFrame({"observed": target_U[unit_N], "predicted": guess_N}, index=ids)
    if kind == "classification":
        share_N = np.clip((guess_N + 1) / 2, 0.01, 0.99)
        predictions = pd.DataFrame(
            {
                "observed": np.where(target_U[unit_N] > 0, "ill", "well"),
                "predicted": np.where(guess_N > 0, "ill", "well"),
                "probability:ill": share_N,
                "probability:well": 1 - share_N,
            },
            index=ids,
        )
    columns = {"sex": np.where(is_woman_U, "f", "m")[unit_N]}
    for number in range(COLUMNS):
        size = units if number % 2 else len(unit_N)
        drawn = rng.integers([2, 3, 10, 30][number % 4], size=size).astype(str)
        columns[f"run {number}"] = drawn[unit_N] if number % 2 else drawn
    observed = Observed.from_values(
        predictions["observed"], kind=kind, fold=fold_N, units=unit_N.astype(str)
    )
    rivals = list_rivals(pd.DataFrame(columns, index=ids), targets=["target"])
    predictions["fold"] = fold_N
    against = compare_with_guessing(kind, predictions, unit_N.astype(str))
    found = measure_rivals(
        observed, predictions.reset_index(), rivals, skill=against.skill(kind), seed=seed
    )
    by_name = {rival.name: rival for rival in found}
    own = by_name.pop("sex")
    return {
        "noise: predicts": any(one.p < CHANCE for one in by_name.values()),
        "noise: any light": any(one.left != "all" for one in by_name.values()),
        "sex: predicts": own.p < CHANCE,
        "sex: nothing left": own.left == "nothing",
        "sex: less left": own.left == "less",
        "sex: p within < 0.05": own.within is not None and own.within.p < CHANCE,
    }


def _predict(feature_NF: Floats, target_N: Floats, fold_N: NDArray[np.int64]) -> Floats:
    """Return held-out predictions of a Gaussian kernel ridge."""
    product_NN = feature_NF @ feature_NF.T
    square_N = np.diag(product_NN)
    square_NN = square_N[:, None] + square_N - 2 * product_NN
    kernel_NN = np.exp(-square_NN / np.median(square_NN))
    predicted_N = np.empty(len(target_N))
    for fold in range(FOLDS):
        is_known_N = fold_N != fold
        known_NN = kernel_NN[np.ix_(is_known_N, is_known_N)]
        mean = target_N[is_known_N].mean()
        weight_N = np.linalg.solve(
            known_NN + PENALTY * np.eye(len(known_NN)), target_N[is_known_N] - mean
        )
        predicted_N[~is_known_N] = mean + kernel_NN[np.ix_(~is_known_N, is_known_N)] @ weight_N
    return predicted_N


def list_figures(results: Path) -> pd.DataFrame:
    """Return what rivals and other groups say of all answers below a folder of results."""
    rows: list[dict[str, Any]] = []
    for path in sorted(results.glob("*/answers/*/*/scores.json")):
        report = TaskReport.read(path)
        for key, target in report.by_key():
            task = " ".join(filter(None, key))
            whole = target.best.scores[report.headline]
            about = {"dataset": path.parents[3].name, "task": task, "whole": whole}
            for rival in target.rivals:
                if rival.p >= CHANCE and rival.exactness is None:
                    continue
                within = {} if rival.within is None else rival.within.model_dump()
                rows.append(
                    {
                        **about,
                        "rival": rival.name,
                        "alone": rival.score,
                        "guessing": rival.guessing,
                        "p": rival.p,
                        **{f"within {name}": value for name, value in within.items()},
                        "left": rival.left,
                    }
                )
            for other in target.other_groups:
                rows.append(
                    {
                        **about,
                        "rival": f"groups: {other.column} ({other.groups})",
                        "alone": other.with_own_folds,
                        "within score": other.score,
                        "p": other.p,
                        "left": "worse" if other.is_worse else "all",
                    }
                )
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a table of simulated studies, or of the answers of real ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    simulated = commands.add_parser("simulate")
    simulated.add_argument("draws", type=int)
    listed = commands.add_parser("list")
    listed.add_argument("results", type=Path)
    for command in (simulated, listed):
        command.add_argument("table", type=Path)
    given = parser.parse_args(arguments)
    table = simulate(given.draws) if given.command == "simulate" else list_figures(given.results)
    write_tsv(given.table, table, float_format="%.4g")


if __name__ == "__main__":
    main()
