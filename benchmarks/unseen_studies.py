"""Do corrections of batches help in a study never seen? Each alone, and mixed.

    python -m benchmarks.unseen_studies real ../shared/data [TASK ...]
    python -m benchmarks.unseen_studies own TABLE METADATA LABEL STUDIES KIND
    python -m benchmarks.unseen_studies planted ../shared/data
    python -m benchmarks.unseen_studies simulate [--draws 60]

Batches stand for studies: whole ones are left out, and everything is learned from the others, the
correction too (`benchmarks.corrections`). A study left out is corrected by its own reads (`adapt`)
or not at all. A ridge, a kernel machine and a forest learn from the same corrected log-ratios.
`mixed` is the super learner of these three, with a correction that of six: the three without and
the three with it; `all` has the learners of all corrections. The weights are nested over studies.
Differences from no correction are tested over studies.

Tasks of `DEVELOPMENT` decide; oral (`age by study`) and infant guts (`age by child`) are only
quoted. With `planted`, samples of the former are divided at random into batches, in which the reads
of each feature are multiplied by a factor. Simulated studies have no signal, labels whose
frequencies alone differ between studies, a signal that all studies share, or both.

Shape suffixes: N samples, T training samples, R rows, P features, C columns of the target.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold

from aam.data.importing.table import load_table, without_empty
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.evaluate.comparison import compare, compare_with_guessing
from aam.evaluate.method_scores import headline_score
from aam.learners.baselines import kernel_ridge
from aam.learners.baselines.kernel_ridge import Kernel, predict_with_kernels
from aam.learners.baselines.problem import Prediction, Problem, RowSplit, predict, prevalent_reads
from aam.learners.nested_predictions import NestedCrossValidation, table_of
from aam.learners.super_learner import Learner, learners_by_target, super_learner
from aam.util.seeds import generator
from benchmarks.corrections import CORRECTIONS, Correction, Samples, refuse_coinciding
from benchmarks.leaderboard import labels

DEPTH = 1000
FOLDS = 9
"""Folds that more batches are joined to."""
TREES = 200
TUNED_SAMPLES = 1000
"""Samples that settings of kernels are tried on: each try has a correction of its own."""
DEVELOPMENT = ("site by day", "day by site", "room by town", "town by room", "rank by room")
ROWS_AT_ONCE = 1024
ALWAYS = [name for name in CORRECTIONS if name != "percentiles"]
"""Corrections that need no controls."""
CHEAP = ("centring", "location_scale", "quantiles")
PLANTED_BATCHES = 8
EFFECTS = (0.0, 0.5, 1.5)
SCENARIOS = ("no signal", "frequencies", "signal", "signal and frequencies")

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(eq=False)
class Corrected:
    """Features of a task that are corrected by the training samples of each fit."""

    samples: Samples
    correction: Correction
    adapt: bool
    made: dict[bytes, NDArray[np.float32]] = field(default_factory=dict)

    def features(self, train: Rows) -> NDArray[np.float32]:
        """Return the features of all samples, [N, P]."""
        key = train.tobytes()
        if key not in self.made:
            features_NP = self.correction(self.samples, train, adapt=self.adapt)
            self.made[key] = (features_NP - features_NP[train].mean(axis=0)).astype(np.float32)
        return self.made[key]

    def kernels(self) -> list[Kernel]:
        """Return a linear and a Gaussian kernel, scaled as those of `kernel_clr`."""

        def products(rows: Rows, train: Rows) -> Floats:
            features_NP = self.features(train)
            return (features_NP[rows] @ features_NP[train].T).astype(np.float64)

        def variance(product_TT: Floats) -> float:
            variance = float(np.diag(product_TT).mean() - product_TT.mean())
            return variance if variance > 1e-9 else 1.0

        def linear(product_RT: Floats, rows: Rows, train: Rows, scale: float) -> Floats:
            return product_RT / scale

        def gaussian(product_RT: Floats, rows: Rows, train: Rows, scale: float) -> Floats:
            square_N = np.square(self.features(train)).sum(axis=1, dtype=np.float64)
            squares_RT = (square_N[rows][:, None] + square_N[train]) / 2
            return np.exp((product_RT - squares_RT) / scale)

        return [Kernel(products, variance, linear), Kernel(products, variance, gaussian)]


def ridge(task: Problem, splits: Sequence[RowSplit], corrected: Corrected) -> list[Prediction]:
    """Predict with a ridge on corrected log-ratios."""
    return predict_with_kernels(task, splits, corrected.kernels()[:1])


def kernel(task: Problem, splits: Sequence[RowSplit], corrected: Corrected) -> list[Prediction]:
    """Predict with a linear or a Gaussian kernel of corrected log-ratios."""
    return predict_with_kernels(task, splits, corrected.kernels())


def forest(task: Problem, splits: Sequence[RowSplit], corrected: Corrected) -> list[Prediction]:
    """Predict with a random forest on corrected log-ratios."""
    predictions = []
    for train, rows in splits:
        model: Any = (
            RandomForestRegressor()
            if task.regression
            else RandomForestClassifier(class_weight="balanced")
        )
        model.set_params(n_estimators=TREES, max_features=0.1, min_samples_leaf=2, random_state=0)
        features_NP = corrected.features(train)
        model.fit(features_NP[train], task.target[train])
        predictions.append(predict(task, model, features_NP[rows]))
    return predictions


LEARNERS: dict[str, Callable[[Problem, Sequence[RowSplit], Corrected], list[Prediction]]] = {
    "ridge": ridge,
    "kernel": kernel,
    "forest": forest,
}


def cross_validate(
    task: Problem,
    batch_N: NDArray[np.str_],
    corrections: Mapping[str, bool],
    learners: Sequence[str],
    *,
    is_control_N: NDArray[np.bool_] | None = None,
) -> tuple[dict[str, Learner], dict[str, float]]:
    """Return what learners predict with corrections, nested too, and the seconds that each took.

    Parameters
    ----------
    task
        The labelled samples; whole batches make its folds.
    batch_N
        Batch of each sample.
    corrections
        Names, with a star where the study left out is corrected by its reads.
    learners
        Names in `LEARNERS`.
    is_control_N
        Named controls.
    """
    encoded = task.encode()
    nested = NestedCrossValidation(task)
    splits = nested.splits
    if task.regression:
        target_NC = encoded.target.astype(np.float64)[:, None]
    else:
        target_NC = 2.0 * np.eye(len(task.classes))[encoded.target] - 1.0
    labelled = encoded.learn_from(np.flatnonzero(task.fold >= 0))
    samples = Samples(
        prevalent_reads(labelled), batch_N, target_NC, is_control_N, labelled.pseudocount
    )
    by_method: dict[str, list[pd.DataFrame]] = {}
    seconds = {}
    for name, adapt in corrections.items():
        corrected = Corrected(samples, CORRECTIONS[name.rstrip("*")], adapt)
        start = time.process_time()
        for learner in learners:
            with patch.object(kernel_ridge, "TUNED_SAMPLES", TUNED_SAMPLES):
                predictions = LEARNERS[learner](encoded, splits, corrected)
            tables = [
                table_of(encoded, rows, prediction)
                for (_, rows), prediction in zip(splits, predictions, strict=True)
            ]
            by_method[f"{learner}, {name}"] = tables
        seconds[name] = time.process_time() - start
    whole = nested.tables(by_method)
    for table in (whole.predictions, whole.nested):
        table.insert(0, "sample-id", table.pop("row").astype(str))
    return learners_by_target(whole.predictions, whole.nested)[""], seconds


def compare_corrections(
    task: Problem,
    batch_N: NDArray[np.str_],
    corrections: Mapping[str, bool],
    learners: Sequence[str],
    **more: Any,
) -> pd.DataFrame:
    """Return the score of each correction with each learner, and mixed, and what it gains.

    Parameters are those of `cross_validate`. Columns: `correction`, `learner`, `score`, `gain`
    (positive where the correction helps) and its `p`, `is_signal` (whether the score is better than
    guessing, p < 0.05) and `seconds`.
    """
    fitted, seconds = cross_validate(task, batch_N, corrections, learners, **more)
    groups = pd.Series(batch_N, index=np.arange(len(batch_N)).astype(str))
    predictions = {
        (correction, learner): fitted[f"{learner}, {correction}"].predictions
        for correction in corrections
        for learner in learners
    }
    for correction in [*corrections, "all"]:
        names = {"none", *(corrections if correction == "all" else [correction])}
        mixed = {
            name: learner for name, learner in fitted.items() if name.partition(", ")[2] in names
        }
        predictions[correction, "mixed"] = super_learner(mixed, groups).predictions
    sign = -1 if task.regression else 1
    rows = []
    for (correction, learner), table in predictions.items():
        none = predictions["none", learner]
        difference = compare(task.kind, table, none, groups)
        beyond = compare_with_guessing(task.kind, table, groups.loc[table["sample-id"]])
        rows.append(
            {
                "correction": correction,
                "learner": learner,
                "score": headline_score(task.kind, table),
                "gain": sign * difference.difference,
                "p": difference.p,
                "is_signal": beyond.p is not None and beyond.p < 0.05 and _is_ahead(beyond, task),
                "seconds": seconds.get(correction, 0.0),
            }
        )
    return pd.DataFrame(rows)


def _is_ahead(beyond: Any, task: Problem) -> bool:
    """Return whether a score is better than guessing."""
    return (beyond.difference > 0) != task.regression


def read_task(name: str, data: Path) -> tuple[Problem, NDArray[np.str_]]:
    """Return a task whose folds are whole batches, and the batches."""
    label, _, column = name.partition(" by ")
    if name == "age by study":
        table = load_table(data / "oral/table.biom")
        metadata = pd.read_csv(data / "oral/metadata.tsv", sep="\t", dtype=str, index_col=0)
        metadata = metadata.rename(columns={"host_age": "age", "qiita_study_id": "study"})
    elif name == "age by child":
        table = load_table(data / "ecam/table.biom")
        metadata = pd.read_csv(data / "ecam/metadata.tsv", sep="\t", dtype=str, index_col=0)
        # Mothers' samples carry the day of life of their child.
        metadata = metadata[metadata["mom_child"] == "C"]
        metadata = metadata.rename(columns={"day_of_life": "age", "host_subject_id": "child"})
    else:
        study = "mackerel" if "day" in name else "westernization"
        table = load_table(data / "corpus/table.biom")
        whole = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
        whole = whole[whole["study"] == study]
        metadata = labels(study, whole)
    kind = "regression" if label in ("age", "day", "rank") else "classification"
    return select_samples(table, metadata, kind=kind, label=label, column=column)


def select_samples(
    table: FeatureTable, metadata: pd.DataFrame, *, kind: str, label: str, column: str
) -> tuple[Problem, NDArray[np.str_]]:
    """Return the task of the samples that have a label and a batch, and the batches.

    Parameters
    ----------
    table
        Reads, which are rarefied.
    metadata
        Text, by sample ID.
    kind
        Kind of the target.
    label, column
        Columns of the label and of the batch.
    """
    metadata = metadata[(metadata[label].fillna("") != "") & (metadata[column].fillna("") != "")]
    position = {sample: row for row, sample in enumerate(table.sample_ids)}
    metadata = metadata[[sample in position for sample in metadata.index]]
    table = table.select_samples(np.array([position[sample] for sample in metadata.index]))
    table = without_empty(rarefy(table, DEPTH, 0, 0))[0]
    metadata = metadata.loc[table.sample_ids]
    target = metadata[label].to_numpy(np.float64 if kind == "regression" else np.str_)
    return make_task(kind, target, table.counts, metadata[column].to_numpy(np.str_))


def make_task(
    kind: str, target: NDArray[Any], counts: Any, batch_N: NDArray[np.str_]
) -> tuple[Problem, NDArray[np.str_]]:
    """Return a task whose folds are whole batches, and the batches."""
    refuse_coinciding(target, batch_N, "batch")
    fold = np.unique(batch_N, return_inverse=True)[1].astype(np.int64)
    if fold.max() >= FOLDS:
        for number, (_, rows) in enumerate(GroupKFold(FOLDS).split(fold, groups=batch_N)):
            fold[rows] = number
    samples, features = counts.shape
    task = Problem(
        kind=kind,
        target=target,
        classes=[] if kind == "regression" else sorted(set(target)),
        fold=fold,
        group=batch_N,
        counts=csr_array(counts),
        distances=np.zeros((samples, 0), np.float32),
        above=csr_array((features, 0)),
        lengths=np.zeros(0),
        seed=0,
    )
    return task, batch_N


def plant(
    task: Problem, name: str, *, effect: float, unequal: bool
) -> tuple[Problem, NDArray[np.str_]]:
    """Return a task whose batches are drawn, and multiply the reads of each feature by a factor.

    Parameters
    ----------
    task
        Real samples.
    name
        Seed of what is drawn.
    effect
        Standard deviation of the logarithm of the factors.
    unequal
        Whether labels are unequally frequent in the batches: half of the samples are divided in
        the order of their labels.
    """
    rng = generator("planted", name)
    samples, features = task.counts.shape
    batch_N = rng.permutation(np.arange(samples) % PLANTED_BATCHES)
    if unequal:
        half = rng.permutation(samples)[: samples // 2]
        half = half[np.argsort(task.target[half], kind="stable")]
        batch_N[half] = np.arange(len(half)) * PLANTED_BATCHES // len(half)
    factor_BF = np.exp(effect * rng.normal(size=(PLANTED_BATCHES, features)))
    share_NF = task.counts.toarray() * factor_BF[batch_N]
    share_NF = share_NF.astype(np.float64)
    share_NF /= share_NF.sum(axis=1, keepdims=True)
    # Reads are drawn with the effect of 0, too: only the factors differ.
    counts = np.array([rng.multinomial(DEPTH, share_F) for share_F in share_NF])
    return make_task(task.kind, task.target, counts.astype(np.float32), batch_N.astype(str))


def simulate(
    scenario: str,
    number: int,
    *,
    studies: int = 8,
    size: int = 20,
    features: int = 40,
    batch_effect: float = 1.5,
    signal: float = 0.8,
) -> tuple[Problem, NDArray[np.str_], NDArray[np.bool_]]:
    """Return simulated studies, their batches, and controls that are healthy in all of them.

    Logarithms of amounts are those of the feature (standard deviation 2), of the study
    (`batch_effect`) and of the sample (1). Half of the samples, or a fraction between 0.15 and 0.85
    of a study, are cases, in which ten features are more frequent or rarer by `signal`.
    """
    rng = generator("unseen studies", scenario, number)
    study_N = np.repeat(np.arange(studies), size)
    is_case_N = np.zeros(len(study_N), bool)
    fractions = np.linspace(0.15, 0.85, studies) if "frequencies" in scenario else [0.5] * studies
    for study, fraction in enumerate(rng.permutation(fractions)):
        rows = np.flatnonzero(study_N == study)
        is_case_N[rng.choice(rows, round(fraction * size), replace=False)] = True
    log_NP = 2 * rng.normal(size=features) + rng.normal(size=(len(study_N), features))
    log_NP += batch_effect * rng.normal(size=(studies, features))[study_N]
    if scenario.startswith("signal"):
        log_NP[np.ix_(is_case_N, np.arange(10))] += signal * rng.choice([-1, 1], 10)
    share_NP = np.exp(log_NP) / np.exp(log_NP).sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(DEPTH, share_P) for share_P in share_NP])
    target = np.where(is_case_N, "case", "control")
    batch_N = study_N.astype(str)
    task, batch_N = make_task("classification", target, counts.astype(np.float32), batch_N)
    return task, batch_N, ~is_case_N & (rng.random(len(study_N)) < 0.5)


def starred(names: Sequence[str], *, plain: bool) -> dict[str, bool]:
    """Return corrections with `adapt`, named with a star, and without where `plain` says so."""
    chosen = {"none": False}
    for name in names:
        if name != "none":
            chosen |= {name: False} if plain else {}
            chosen |= {f"{name}*": True}
    return chosen


def measure_real(tasks: Iterable[tuple[str, tuple[Problem, NDArray[np.str_]]]]) -> None:
    """Print the table of each task, given its name."""
    for name, (task, batch_N) in tasks:
        start = time.perf_counter()
        table = compare_corrections(task, batch_N, starred(ALWAYS, plain=True), list(LEARNERS))
        minutes = (time.perf_counter() - start) / 60
        print(f"\n{name}: {len(batch_N)} samples, {len(set(batch_N))} batches, {minutes:.1f} min")
        shown = table.pivot(index="correction", columns="learner", values=["score", "p"])
        order = list(dict.fromkeys(table["correction"]))
        print(shown.loc[order].round(3).to_string(), flush=True)


def measure_planted(data: Path, names: Sequence[str]) -> None:
    """Print what corrections gain in batches that are planted."""
    rows = []
    for name in names:
        task, _ = read_task(name, data)
        for effect in EFFECTS:
            for unequal in (False, True):
                planted, batch_N = plant(task, name, effect=effect, unequal=unequal)
                corrections = starred(CHEAP, plain=False)
                table = compare_corrections(planted, batch_N, corrections, ["kernel"])
                table.insert(0, "labels", "unequal" if unequal else "equal")
                table.insert(0, "effect", effect)
                table.insert(0, "label", name.partition(" by ")[0])
                rows.append(table)
    whole = pd.concat(rows)
    index = ["label", "labels", "effect"]
    for learner, part in whole.groupby("learner"):
        for value in ("score", "p"):
            shown = part.pivot(index=index, columns="correction", values=value)
            print(f"\n{learner}, {value}\n{shown.round(3).to_string()}", flush=True)


def measure_simulated(draws: int, scenarios: Sequence[str]) -> None:
    """Print how often each correction is called better or worse than none, and finds a signal."""
    for scenario in scenarios:
        tables = []
        for number in range(draws):
            task, batch_N, is_control_N = simulate(scenario, number)
            corrections = starred([*CORRECTIONS], plain=False)
            tables.append(
                compare_corrections(
                    task, batch_N, corrections, ["ridge"], is_control_N=is_control_N
                )
            )
        whole = pd.concat(tables)
        whole["better"] = (whole["p"] < 0.05) & (whole["gain"] > 0)
        whole["worse"] = (whole["p"] < 0.05) & (whole["gain"] < 0)
        columns = ["score", "gain", "better", "worse", "is_signal", "seconds"]
        print(f"\n{scenario}: {draws} draws")
        means = whole.groupby(["learner", "correction"], sort=False)[columns].mean()
        print(means.round(3).to_string(), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    real = commands.add_parser("real")
    real.add_argument("data", type=Path)
    real.add_argument("tasks", nargs="*", default=[*DEVELOPMENT])
    own = commands.add_parser("own")
    own.add_argument("table", type=Path)
    own.add_argument("metadata", type=Path)
    own.add_argument("label", help="column to predict")
    own.add_argument("studies", help="column of the studies")
    own.add_argument("kind", choices=["regression", "classification"])
    planted = commands.add_parser("planted")
    planted.add_argument("data", type=Path)
    planted.add_argument("tasks", nargs="*", default=[*DEVELOPMENT])
    simulated = commands.add_parser("simulate")
    simulated.add_argument("--draws", type=int, default=60)
    simulated.add_argument("--scenario", nargs="*", default=[*SCENARIOS])
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if given.command == "real":
        measure_real((name, read_task(name, given.data)) for name in given.tasks)
    elif given.command == "own":
        metadata = pd.read_csv(given.metadata, sep="\t", dtype=str, index_col=0, comment="#")
        table = load_table(given.table)
        options = {"kind": given.kind, "label": given.label, "column": given.studies}
        measure_real([(given.label, select_samples(table, metadata, **options))])
    elif given.command == "planted":
        measure_planted(given.data, given.tasks)
    else:
        measure_simulated(given.draws, given.scenario)


if __name__ == "__main__":
    main()
