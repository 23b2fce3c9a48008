"""How often the page claims what is not so: the claims on labels that nothing can tell.

`python -m benchmarks.null RESULTS TABLE` draws labels without any relation to the samples of
studies that are set apart for development, has cheap learners predict them, and counts how often
each claim of the page is made, next to its nominal rate. RESULTS is a folder of results with the
folds, sample store, tree and unweighted UniFrac of these studies. TABLE keeps a row per draw, so
that a run that was ended goes on, and `--quick` makes a tenth of the draws.

Labels are permuted freely, or by group: then whole groups keep together and share what is drawn for
them, as samples of one person do. Numbers are noise. The method in the place of AAM is a support
vector machine on clades.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from aam.config.baselines import CONSTANTS
from aam.config.settings.tasks import SampleGroups, ScoreSettings, TrainingFacts
from aam.evaluate.task_report import TaskReport
from aam.evaluate.task_scores import Networks, Samples, report_task
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import cross_validate
from aam.util.atomic import write_tsv
from benchmarks.labels import read_problem
from benchmarks.small_studies import cut
from benchmarks.speed.tables import markdown_table

STUDIES = {
    "mackerel/mackerel_site_0": "classification",
    "westernization/westernization_town_0": "classification",
    "demo/site": "classification",
}
"""Tasks of development studies whose samples and groups are used; their labels are not."""
LEARNERS = ("kernel_clr", "kernel_unifrac", "knn_unifrac")
MODEL = "kernel_clades"
"""The method in the place of AAM."""
SAMPLES = 80
DRAWS = 200
WAYS = ("two classes", "two classes by group", "12 % of one class", "numbers", "numbers by group")
LEVEL = 0.05
CLAIMS = {
    "works, by the super learner": 0.025,
    "works, by AAM": 0.025,
    "better than the best baseline": 0.025,
    "AAM adds to the super learner": 0.025,
    "the interval leaves out guessing, on the good side": 0.025,
}
"""Claims, and how often they may be made where nothing can be told."""

MEANS = (
    "super learner less guessing",
    "unnested less nested",
    "brier less the constant's",
    "log_loss less the constant's",
)
"""Figures whose means should not lie above 0; those of scores are larger where better."""


def draw_labels(task: Problem, way: str, rng: np.random.Generator) -> Problem:
    """Return the samples of a study with labels that have nothing to do with them."""
    is_by_group = way.endswith("by group")
    group_N = task.group if is_by_group else np.full(len(task.target), "")
    target_N = labels_of(group_N, way, rng)
    if way.startswith("numbers"):
        return replace(task, kind="regression", target=target_N, classes=[], group=group_N)
    classes = ["no", "yes"]
    return replace(task, kind="classification", target=target_N, classes=classes, group=group_N)


def labels_of(group_N: NDArray[np.str_], way: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return labels of one kind, [N]; by group, whole groups share what is drawn for them."""
    names = np.arange(len(group_N)).astype(str)
    if way.endswith("by group"):
        names = np.where(group_N == "", names, group_N)
    unit, unit_N = np.unique(names, return_inverse=True)
    if not way.endswith("by group"):
        # Labels are drawn in the order of the samples.
        unit = names
        unit_N = np.arange(len(names))
    if way.startswith("numbers"):
        shared_N = rng.normal(size=len(unit))[unit_N]
        spread = 0.5 if way.endswith("by group") else 0.0
        return shared_N + spread * rng.normal(size=len(unit_N))
    share = 0.12 if way.startswith("12 %") else 0.5
    is_positive = rng.permutation(len(unit)) < max(round(share * len(unit)), 6)
    return np.where(is_positive[unit_N], "yes", "no")


def claims(task: Problem) -> dict[str, Any]:
    """Return which claims the page makes of a task, and how far its scores are off."""
    chosen = replace(task, asked=(MODEL, *LEARNERS))
    tables = cross_validate(chosen, threads=1)
    predictions, nested = tables.predictions, tables.nested
    for table in (predictions, nested):
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
    is_model = predictions["baseline"] == MODEL
    is_nested = nested["baseline"] == MODEL
    own = predictions[is_model].drop(columns="baseline")
    networks = Networks(
        predictions=own,
        nested=nested[is_nested].drop(columns="baseline"),
        recipes=own.assign(recipe=MODEL, weight=1.0),
    )
    names = [f"s{row}" for row in range(len(task.group))]
    report, _ = report_task(
        ScoreSettings(
            dataset="null",
            task="noise",
            answer="base",
            kind=task.kind,
            columns=["noise"],
            classes=None,
            bounds=(None, None),
            report_by=[],
            structure=SampleGroups(column=None, stated=True),
            training=TrainingFacts(
                recipe=MODEL,
                start="scratch",
                labels=1.0,
                evaluation="inductive",
                start_directory=None,
            ),
        ),
        networks=networks,
        baselines=predictions[~is_model],
        nested_baselines=nested[~is_nested],
        samples=Samples(group=pd.Series(task.group, names), metadata=pd.DataFrame(index=names)),
    )
    return claims_of(report)


def claims_of(report: TaskReport) -> dict[str, Any]:
    """Return which claims the page makes of a report; without networks none of AAM."""
    (target,) = report.targets
    mixed = target.super_learner
    assert mixed is not None
    assert mixed.mixing is not None
    name = report.headline
    sign = -1 if report.kind == "regression" else 1
    scores = {method.name: _headline(method.scores[name]) for method in target.methods}
    learners = [one.name for one in target.baselines if one.name not in CONSTANTS]
    best = min(learners, key=lambda key: -sign * scores[key])
    against = mixed.comparisons[best]
    interval = mixed.interval
    guess = mixed.guessing.score
    result: dict[str, Any] = {
        "works, by the super learner": _is_better(
            mixed.guessing.p, mixed.guessing.difference, sign
        ),
        "better than the best baseline": _is_better(against.holm_p, against.difference, sign),
        "the interval leaves out guessing, on the good side": interval is not None
        and (interval[0] > guess if sign > 0 else interval[1] < guess),
        "has an interval": interval is not None,
        "super learner less guessing": sign * (scores[mixed.name] - guess),
        "unnested less nested": sign * mixed.mixing.unnested.difference,
        "coverage": target.coverage.coverage,
    }
    if target.networks is not None and mixed.mixing.without_networks is not None:
        without = mixed.mixing.without_networks.comparison
        result["works, by AAM"] = _is_better(
            target.networks.guessing.p, target.networks.guessing.difference, sign
        )
        result["AAM adds to the super learner"] = _is_better(without.p, without.difference, sign)
    calibrated = mixed.calibrated
    for key in ("brier", "log_loss"):
        difference = None
        if calibrated is not None:
            difference = getattr(calibrated, key) - getattr(calibrated, f"constant_{key}")
        result[f"{key} less the constant's"] = difference
    return result


def _headline(score: float | None) -> float:
    assert score is not None, "a headline score is always defined"
    return score


def _is_better(p: float | None, difference: float, sign: int) -> bool:
    return p is not None and p < LEVEL and sign * difference > 0


@cache
def study_problem(results: Path, study: str) -> Problem:
    """Return the samples of a study."""
    dataset, task_name = study.split("/")
    return read_problem(results / dataset, task_name, STUDIES[study])[0]


def without_absent(task: Problem) -> Problem:
    """Return a problem without the features and branches that none of its samples has."""
    is_present_F = np.asarray(task.counts.sum(axis=0)).ravel() > 0
    above = task.above[is_present_F]
    is_above_E = np.asarray(above.sum(axis=0)).ravel() > 0
    return replace(
        task,
        counts=task.counts[:, is_present_F],
        above=above[:, is_above_E],
        lengths=task.lengths[is_above_E],
    )


def one_draw(results: Path, study: str, way: str, draw: int, samples: int) -> dict[str, Any]:
    """Return the claims on one draw of labels of some samples of a study."""
    task = study_problem(results, study)
    rng = np.random.default_rng([draw, WAYS.index(way), list(STUDIES).index(study)])
    kept = cut(draw_labels(task, way, rng), min(samples, len(task.target)), draw)
    about = {"study": study, "way": way, "draw": draw, "samples": samples}
    return {**about, **claims(without_absent(kept))}


def missing_draws(table: pd.DataFrame, draws: int) -> Iterator[tuple[str, str, int]]:
    """Yield study, way and number of every draw that the table lacks."""
    done = (
        set(zip(table["study"], table["way"], table["draw"], strict=True)) if len(table) else set()
    )
    for draw in range(draws):
        for study in STUDIES:
            for way in WAYS:
                if (study, way, draw) not in done:
                    yield study, way, draw


def summary(table: pd.DataFrame) -> str:
    """Return how often each claim was made, and how far figures are off, as Markdown."""
    head = ["claim", "labels", "draws", "made", "nominal"]
    rows: list[list[str]] = []
    for claim, nominal in CLAIMS.items():
        part = table[table["has an interval"]] if "interval" in claim else table
        ways = [(str(way), values) for way, values in part.groupby("way")[claim]]
        for way, values in [*ways, ("all", part[claim])]:
            rows.append([claim, way, f"{len(values)}", f"{values.mean():.1%}", f"{nominal:.1%}"])
    means: list[list[str]] = []
    for name in MEANS:
        for label, values in table.groupby("way")[name]:
            values_of_claim = values.dropna().astype(float)
            if len(values_of_claim):
                error = values_of_claim.std(ddof=1) / np.sqrt(len(values_of_claim))
                means.append(
                    [
                        name,
                        str(label),
                        f"{len(values_of_claim)}",
                        f"{values_of_claim.mean():+.4f}",
                        f"{error:.4f}",
                    ]
                )
    figures = markdown_table(["figure", "labels", "draws", "mean", "standard error"], means)
    return f"{markdown_table(head, rows)}\n\n{figures}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the draws that are missing, and print how often each claim was made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    given = parser.parse_args(arguments)
    draws = given.draws // 10 if given.quick else given.draws
    table = pd.read_csv(given.table, sep="\t") if given.table.exists() else pd.DataFrame()
    missing = list(missing_draws(table, draws))
    # By the name of its module, so that each process keeps the studies that it has read.
    work = import_module("benchmarks.null").one_draw
    batch = 10 * given.processes
    for first in range(0, len(missing), batch):
        rows = Parallel(given.processes)(
            delayed(work)(given.results, study, way, draw, given.samples)
            for study, way, draw in missing[first : first + batch]
        )
        table = pd.concat([table, pd.DataFrame(rows)], ignore_index=True)
        write_tsv(given.table, table)
        print(f"{min(first + batch, len(missing))} of {len(missing)} draws", flush=True)
    print(summary(table))


if __name__ == "__main__":
    main()
