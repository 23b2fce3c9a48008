"""Every learner on every labelled study, all with default settings.

`python -m benchmarks.leaderboard prepare ../shared/data leaderboard` writes a folder per study with
the labels of `benchmarks/config/leaderboard.yaml`; Snakemake then makes the reports,
`python -m benchmarks.leaderboard scores results TABLE` puts their scores into a table, in which
draws that were run elsewhere stay, and `python -m benchmarks.leaderboard report TABLE PAGE FIGURE`
makes ranks of it. `python -m benchmarks.leaderboard networks results TABLE` writes and prints what
networks add to each task, and what they cost. Settings and defaults are judged by the tasks of
`DEVELOPMENT` alone.

Shape suffixes: T tasks, L learners.
"""

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range

from aam.config.baselines import BASELINES, CONSTANTS
from aam.config.names import FIRST
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.table import write_biom
from aam.data.trees import write_newick
from aam.evaluate.task_report import TargetReport, TaskReport
from aam.report.labels import row_label
from aam.util.atomic import atomic_path, write_text
from aam.util.log import read_work
from benchmarks.speed.tables import markdown_table

CORPUS = ("mackerel", "westernization", "bronx", "griffon")
"""Studies of the corpus whose metadata, or the names of whose samples, tell a label."""
LINKED = ("oral", "ecam", "moving-pictures")
DEVELOPMENT = ("mackerel", "westernization")
"""Datasets that settings may be chosen on; all others are only quoted."""
RANKS = {"Che": "0", "Pue": "1", "Iqu": "2", "Man": "3"}
"""Towns by their size: Checherta, Puerto Almendras, Iquitos, Manaus."""
KEYS = ["dataset", "task", "draw", "learner"]
OF_TASK = ["samples", "guessing", "low", "high", "coverage"]
"""Columns that all learners of a task share."""
SUPER = "super learner"
NOT_NESTED = "super learner, not nested"
CHOSEN = "single learner chosen inside of the training folds"
FOREST = row_label("random_forest", "baseline")
KERNELS = frozenset(name for name in BASELINES if name.startswith("kernel_"))
TREES = frozenset(("random_forest", "random_forest_median", "extra_trees", "gradient_boosting"))


def labels(study: str, metadata: pd.DataFrame) -> pd.DataFrame:
    """Return the labels of a study of the corpus, by sample ID, empty where there is none."""
    parts = metadata["original_id"].str.split(".")
    labels_of_study = pd.DataFrame({"environment": metadata["environment"]})
    if study == "mackerel":
        site = parts.str[-1]
        labels_of_study["site"] = site.where(site.isin(["gill", "skin", "digesta"]), "")
        labels_of_study["day"] = metadata["original_id"].str.extract(r"\.s(\d+)\.")[0]
    if study == "westernization":
        labels_of_study["town"] = parts.str[1]
        labels_of_study["room"] = parts.str[3]
        labels_of_study["rank"] = labels_of_study["town"].map(RANKS)
    labels_of_study["host"] = metadata["host_subject"].fillna(metadata.index.to_series())
    return labels_of_study.fillna("")


def prepare(data: Path, folder: Path) -> None:
    """Write table, tree and labels of every study, and link the others."""
    table = load_table(data / "corpus/table.biom")
    path = data / "corpus/tree.nwk"
    metadata = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str)
    metadata = metadata.set_index("sample-id").loc[table.sample_ids]
    for study in CORPUS:
        rows = np.flatnonzero(metadata["study"] == study)
        part = table.select_samples(rows)
        (folder / study).mkdir(parents=True, exist_ok=True)
        write_biom(folder / study / "table.biom", part, {})
        write_newick(folder / study / "tree.nwk", cut_tree(load_tree(path), part.feature_ids, path))
        text = labels(study, metadata.iloc[rows]).to_csv(sep="\t")
        write_text(folder / study / "metadata.tsv", text)
    for name in LINKED:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to((data / name).resolve())


def scores(results: Path) -> pd.DataFrame:
    """Return the score of every learner in every draw, its loss, and its relative error.

    The loss is the score, or less the score of classes. The error of the constant is 1, none is 0.
    Tasks whose names end with an underscore and a number are draws of one. Where networks were
    trained, their report counts, elsewhere that of the first answer. The number of samples, the
    score of guessing, the interval of the super learner and the coverage are those of the task.
    """
    reports: dict[tuple[str, str], Path] = {}
    paths = sorted(results.glob("*/answers/*/*/scores.json"))
    for path in sorted(paths, key=lambda path: path.parent.name != FIRST):
        dataset, _, task, *_ = path.relative_to(results).parts
        reports[dataset, task] = path
    rows = []
    for (dataset, _), path in sorted(reports.items()):
        rows += _rows(dataset, TaskReport.read(path))
    columns = [*KEYS, "score", "loss", "error", *OF_TASK]
    return pd.DataFrame(rows, columns=columns)


def _rows(dataset: str, report: TaskReport) -> list[dict[str, Any]]:
    """Return a row per learner of a task that has a super learner."""
    target = report.targets[0]
    mixed = target.super_learner
    if mixed is None:
        return []
    task, number = _task_and_draw(report.task)
    low, high = mixed.interval or (None, None)
    constant = next(one for one in target.baselines if one.name in CONSTANTS)
    constant_score = _headline(constant.scores[report.headline])
    rows = []
    for learner, score in _scores_by_learner(target, report.headline).items():
        if report.kind == "regression":
            loss = score
            error = score / constant_score
        else:
            loss = -score
            error = (1 - score) / (1 - constant_score)
        rows.append(
            {
                "dataset": dataset,
                "task": f"{dataset}, {task}",
                "draw": number,
                "learner": learner,
                "score": score,
                "loss": loss,
                "error": error,
                "samples": mixed.n,
                "guessing": mixed.guessing.score,
                "low": low,
                "high": high,
                "coverage": target.coverage.coverage,
            }
        )
    return rows


def _task_and_draw(name: str) -> tuple[str, int]:
    """Return the task that a name stands for, and the number of the draw, 0 without one."""
    task, _, number = name.rpartition("_")
    if task and number.isdigit():
        return task, int(number)
    return name, 0


def _scores_by_learner(target: TargetReport, name: str) -> dict[str, float]:
    score_by_learner = {}
    for method in target.methods:
        if method.name in CONSTANTS:
            continue
        label = "AAM" if method.role == "network" else row_label(method.name, method.role)
        score_by_learner[label] = _headline(method.scores[name])
        mixing = method.mixing
        if mixing is not None:
            score_by_learner[NOT_NESTED] = mixing.unnested.score
            score_by_learner[CHOSEN] = mixing.chosen.score
            if mixing.without_networks is not None:
                score_by_learner[f"{SUPER} without AAM"] = mixing.without_networks.score
    return score_by_learner


def _headline(score: float | None) -> float:
    assert score is not None, "a headline score is always defined"
    return score


def merged(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of both tables, of the second where a draw of a task is in both."""
    old_draws = pd.MultiIndex.from_frame(old[["task", "draw"]])
    new_draws = pd.MultiIndex.from_frame(new[["task", "draw"]])
    kept = old[~old_draws.isin(new_draws)]
    return pd.concat([kept, new]).sort_values(KEYS, ignore_index=True)


def mean_of_draws(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each task over its draws."""
    means = table.groupby(["dataset", "task", "learner"], as_index=False).mean()
    return means.drop(columns="draw")


def ranked(table: pd.DataFrame) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Return the learners that all tasks have, their ranks [T, L], and their errors [T, L].

    The flattered score of weights that are not nested has no rank.
    """
    table = table[table["learner"] != NOT_NESTED]
    error_TL = table.pivot_table(index="task", columns="learner", values="error").dropna(axis=1)
    return list(map(str, error_TL)), rankdata(error_TL, axis=1), error_TL.to_numpy()


def critical_difference(learners: int, tasks: int, level: float = 0.05) -> float:
    """Return the difference of mean ranks that chance exceeds in 5 % of cases (Nemenyi).

    Demšar, J. (2006). Statistical comparisons of classifiers over multiple data sets. JMLR 7:1-30.
    """
    q = studentized_range.ppf(1 - level, learners, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(learners * (learners + 1) / (6 * tasks)))


def page(table: pd.DataFrame) -> str:
    """Return the ranks on the development tasks and on the others, and every score, as Markdown."""
    is_development = table["dataset"].isin(DEVELOPMENT)
    parts = []
    for title, half in (("Development", is_development), ("Quoted", ~is_development)):
        if not half.any():
            continue
        learners, rank_TL, error_TL = ranked(table[half])
        best_TL = error_TL == error_TL.min(axis=1, keepdims=True)
        order = np.argsort(rank_TL.mean(axis=0), kind="stable")
        rows = [
            [
                learners[i],
                f"{rank_TL[:, i].mean():.2f}",
                f"{best_TL[:, i].sum()} of {len(rank_TL)}",
                f"{error_TL[:, i].mean():.3f}",
            ]
            for i in order
        ]
        difference = critical_difference(len(learners), len(rank_TL))
        parts.append(f"## {title}")
        parts.append(markdown_table(["", "mean rank", "best", "mean error"], rows))
        parts.append(f"Critical difference of mean ranks: {difference:.2f}.")
        parts.append(aims(table[half]))
    parts.append("## Tasks")
    parts.append(tasks_table(table))
    values = table.pivot_table(index="learner", columns="task", values="score")
    cells = [
        [str(name), *("" if np.isnan(score) else f"{score:.3f}" for score in row)]
        for name, row in values.iterrows()
    ]
    parts.append("## Scores")
    parts.append(markdown_table(["", *values.columns], cells))
    return "\n\n".join(["# Leaderboard", *parts]) + "\n"


def single_learners(names: Iterable[str]) -> list[str]:
    """Return the learners that are neither a mixture nor a choice among others."""
    return [name for name in names if not name.startswith(SUPER) and name != CHOSEN]


def tasks_table(table: pd.DataFrame) -> str:
    """Return what the mixture, the chosen and the best learner reach on each task, as Markdown."""
    rows = []
    for task, part in table.groupby("task"):
        by_learner = part.set_index("learner")
        first = part.iloc[0]
        single = by_learner.loc[single_learners(by_learner.index)]
        best = single["loss"].idxmin()
        score = by_learner["score"].map("{:.3f}".format).to_dict()
        has_interval = pd.notna(first["low"])
        interval = f" ({first['low']:.3f} to {first['high']:.3f})" if has_interval else ""
        rows.append(
            [
                f"{task} ({first['samples']:.0f})",
                f"{score[SUPER]}{interval}",
                score[NOT_NESTED],
                score.get(f"{SUPER} without AAM", ""),
                score.get("AAM", ""),
                score[CHOSEN],
                f"{score[best]}, {best}",
                f"{first['guessing']:.3f}",
                f"{first['coverage']:.1%}",
            ]
        )
    head = [
        "task (samples)",
        "super learner (95 % interval)",
        "not nested",
        "without AAM",
        "AAM",
        "chosen",
        "best single learner",
        "guessing",
        "intervals for 90 % cover",
    ]
    return markdown_table(head, rows)


def networks(results: Path) -> pd.DataFrame:
    """Return what networks add to the answer of each task, and what they cost.

    Parameters
    ----------
    results
        Folder of the results of all datasets.

    Returns
    -------
    pandas.DataFrame
        A row per task that networks were trained for. Scores are headline scores: of the super
        learner without and with networks, of the network alone, and of the best kernel machine and
        the best trees, which nobody knows beforehand. `p` is that of the difference of both super
        learners. Minutes of a core are those of the logs; encoders that were pretrained without the
        fold are fine-tuning's.
    """
    rows = []
    for path in sorted(results.glob("*/answers/*/*/scores.json")):
        report = TaskReport.read(path)
        target = report.targets[0]
        mixed = target.super_learner
        if mixed is None or mixed.mixing is None or mixed.mixing.without_networks is None:
            continue
        dataset, model = path.parents[3].name, path.parent.name
        score_by_name = {
            method.name: _headline(method.scores[report.headline]) for method in target.methods
        }
        network = next(one.name for one in target.methods if one.role == "network")
        best = min if report.kind == "regression" else max
        low, high = mixed.interval or (np.nan, np.nan)
        without = mixed.mixing.without_networks
        logs = path.parents[3] / "logs"
        rows.append(
            {
                "dataset": dataset,
                "task": f"{dataset}, {_task_and_draw(report.task)[0]}",
                "labels": mixed.n,
                "kind": report.kind,
                "without": without.score,
                "with": _headline(mixed.scores[report.headline]),
                "low": low,
                "high": high,
                "network": score_by_name[network],
                "kernel": _best_of(score_by_name, KERNELS, best),
                "trees": _best_of(score_by_name, TREES, best),
                "difference": without.comparison.difference,
                "p": without.comparison.p,
                "baselines_min": _minutes_of_core(logs / "baselines" / f"{report.task}.log"),
                "pretrain_min": _minutes_of_core(logs / "pretrain" / f"{model}.log"),
                "finetune_min": _minutes_of_core(logs / "finetune" / model / f"{report.task}.log"),
            }
        )
    return pd.DataFrame(rows)


def networks_table(table: pd.DataFrame) -> str:
    """Return what networks add as Markdown.

    Parameters
    ----------
    table
        As `networks` returns it.
    """
    rows = []
    for row in table.to_dict("records"):
        p = "" if pd.isna(row["p"]) else f", p = {row['p']:.2g}"
        minutes = [row[f"{stage}_min"] for stage in ("baselines", "pretrain", "finetune")]
        rows.append(
            [
                f"{row['task']} ({row['labels']})",
                *(f"{row[name]:.3f}" for name in ("kernel", "trees", "without")),
                f"{row['with']:.3f} ({row['low']:.3f} to {row['high']:.3f})",
                f"{row['network']:.3f}",
                f"{row['difference']:+.3f}{p}",
                "; ".join("" if pd.isna(some) else f"{some:.1f}" for some in minutes),
            ]
        )
    head = [
        "task (samples)",
        "best kernel machine",
        "best trees",
        "super learner of the baselines",
        "with AAM's network",
        "AAM's network alone",
        "difference that it makes",
        "minutes of a core: baselines; pretraining; fine-tuning",
    ]
    return markdown_table(head, rows)


def _best_of(
    score_by_name: Mapping[str, float],
    names: Collection[str],
    best: Callable[[Iterable[float]], float],
) -> float:
    """Return the best score of some methods, NaN where there are none of them."""
    scores_of_names = [score for name, score in score_by_name.items() if name in names]
    return best(scores_of_names) if scores_of_names else np.nan


def _minutes_of_core(log: Path) -> float:
    work = read_work(log.read_text(encoding="utf-8")) if log.exists() else None
    return np.nan if work is None else work.cores_s / 60


def aims(table: pd.DataFrame) -> str:
    """Say how the super learner stands to single learners, AAM to the forest, and the coverage."""
    loss_TL = table.pivot_table(index="task", columns="learner", values="loss")
    best_T = loss_TL[single_learners(map(str, loss_TL))].min(axis=1)
    behind_T = (loss_TL[SUPER] - best_T) / best_T.abs()
    behind_chosen_T = (loss_TL[SUPER] - loss_TL[CHOSEN]) / loss_TL[CHOSEN].abs()
    compared = loss_TL[["AAM", FOREST]].dropna() if "AAM" in loss_TL else loss_TL[:0]
    ahead = (compared["AAM"] < compared[FOREST]).sum() if len(compared) else 0
    covered_T = table.groupby("task")["coverage"].first()
    return (
        f"The super learner is first on {(behind_T <= 0).sum()} of {len(behind_T)} tasks, "
        f"{100 * behind_T.mean():+.1f} % of the score behind the best single learner on average, "
        f"and {max(0.0, 100 * behind_T.max()):.1f} % at most. It is "
        f"{100 * behind_chosen_T.mean():+.1f} % behind the single learner that is chosen inside "
        "of the training folds on average, and "
        f"{max(0.0, 100 * behind_chosen_T.max()):.1f} % at most. "
        f"AAM alone is ahead of the random forest on {ahead} of {len(compared)}. "
        f"Intervals and sets for 90 % cover {100 * covered_T.min():.1f} to "
        f"{100 * covered_T.max():.1f} %."
    )


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw the mean ranks on the quoted tasks, with a bar as long as the critical difference."""
    quoted = table[~table["dataset"].isin(DEVELOPMENT)]
    learners, rank_TL, _ = ranked(quoted if len(quoted) else table)
    tasks = len(rank_TL)
    mean_L = rank_TL.mean(axis=0)
    worst_first_L = np.argsort(-mean_L, kind="stable")
    height = 0.35 * len(learners) + 1.2
    figure, axes = plt.subplots(figsize=(7, height), layout="constrained")
    rows = np.arange(len(learners))
    axes.plot(mean_L[worst_first_L], rows, "o", color="#20639b")
    axes.set_yticks(rows, [learners[index] for index in worst_first_L])
    bar_start = mean_L.min()
    bar_end = bar_start + critical_difference(len(learners), tasks)
    above_rows = len(learners) - 0.4
    axes.plot([bar_start, bar_end], [above_rows, above_rows], color="#888888", lw=3)
    axes.set_xlabel(f"mean rank on {tasks} tasks; the bar: critical difference")
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the studies, gather the scores, or report them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    arguments_of_command = {
        "prepare": ["data", "folder"],
        "scores": ["results", "table"],
        "report": ["table", "page", "figure"],
        "networks": ["results", "table"],
    }
    for command, names in arguments_of_command.items():
        subparser = commands.add_parser(command)
        for name in names:
            subparser.add_argument(name, type=Path)
    given = parser.parse_args(arguments)
    if given.command == "prepare":
        prepare(given.data, given.folder)
    elif given.command == "scores":
        table = scores(given.results)
        if given.table.exists():
            table = merged(pd.read_csv(given.table, sep="\t"), table)
        write_text(given.table, table.to_csv(sep="\t", index=False, float_format="%.6g"))
    elif given.command == "networks":
        table = networks(given.results)
        write_text(given.table, table.to_csv(sep="\t", index=False, float_format="%.6g"))
        print(networks_table(table))
    else:
        table = mean_of_draws(pd.read_csv(given.table, sep="\t"))
        write_text(given.page, page(table))
        draw(table, given.figure)


if __name__ == "__main__":
    main()
