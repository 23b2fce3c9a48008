"""Results in words: the accuracy page, the summary of a dataset, a few lines for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from aam.evaluate.labels import (
    EVALUATION,
    TESTS,
    interval,
    p_value,
    plain,
    quantity,
    row_label,
    score,
)
from aam.evaluate.scores import HEADLINE, MAIN, SCORES, accuracy_table, of_each_target

LEAST_SHOWN = 0.01
"""Least weight of a method that is told."""
CHANCE = 0.05
"""p-value from which on a difference is called one that could be chance."""


@dataclass(frozen=True)
class Results:
    """What was recorded of one dataset: contents of `metrics.json`, sentences, and links."""

    dataset: str
    pretraining: Mapping[str, Mapping[str, Any]]
    tasks: Sequence[Mapping[str, Any]]
    speed: pd.DataFrame | None = None
    dropped: Sequence[str] = ()
    figures: Sequence[str] = ()
    tables: Sequence[tuple[str, str]] = ()
    """What a table holds, and the link to it."""


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose others are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def accuracy_page(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the accuracy of every model and baseline, a section per task, as Markdown."""
    parts = [
        "# Accuracy",
        "Cross-validated: every sample is predicted by a model that never saw its label, and all "
        "rows of a task share its folds and its rarefied table. The best row comes first. In "
        "brackets: 95 % of the values that other draws of samples would give. A super learner "
        "mixes these predictions by those for the other folds.",
    ]
    for task, of_task, tables in _tasks(reports):
        kind, n, folds = (of_task[0][key] for key in ("kind", "n", "folds"))
        parts += [f"## {task}", f"{kind.capitalize()}, {n} samples, {len(folds)} folds.", *tables]
    return "\n\n".join(parts) + "\n"


def summary_page(results: Results) -> str:
    """Return the summary of a dataset as Markdown, in plain words."""
    parts = [f"# Results of `{results.dataset}`"]
    if results.dropped:
        parts += ["## Left out", _items(results.dropped)]
    parts += ["## Pretraining"]
    parts += [_pretraining_text(model, report) for model, report in results.pretraining.items()]
    if results.tasks:
        parts += ["## Tasks"]
        for task, of_task, tables in _tasks(results.tasks):
            lines = _items(line for report in of_task for line in _task_lines(report))
            parts += [f"### {task}", lines, *tables, *_comparison_tables(of_task)]
    if results.speed is not None:
        parts += ["## Speed", _speed_sentence(results.speed)]
    if results.figures:
        parts += ["## Figures"]
        parts += [f"![{_title(link)}]({link})" for link in results.figures]
    if results.tables:
        parts += ["## Files", _items(f"{what}: [{link}]({link})" for what, link in results.tables)]
    return "\n\n".join(parts) + "\n"


def terminal_lines(results: Results) -> list[str]:
    """Return the same in a few short lines: what was learned, and the scores beside baselines."""
    lines = [f"Results of {results.dataset}"]
    for model, report in results.pretraining.items():
        learned = []
        if "unifrac_pearson" in report:
            learned.append(f"UniFrac r {score(report['unifrac_pearson'])}")
        if "nucleotide_accuracy" in report:
            learned.append(
                f"masked nucleotides {report['nucleotide_accuracy']:.1%} (most frequent base "
                f"{report['nucleotide_baseline_accuracy']:.1%})"
            )
        lines.append(f"  pretraining, {model}: {', '.join(learned)}, on held-out samples")
    if results.tasks:
        for task, rows in accuracy_table(results.tasks).groupby("task", sort=False):
            name = HEADLINE[rows["kind"].iloc[0]]
            shown = [
                f"{row_label(row['name'], row['role'])} {score(row[name])}"
                for row in rows.to_dict("records")
            ]
            lines.append(f"  {task}, {SCORES[name]}: {' | '.join(shown)}")
    if results.speed is not None:
        lines.append(f"  speed: {_speed_sentence(results.speed)}")
    return lines


def _tasks(
    reports: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """Yield the name of each task, the reports of all models on it, and its tables."""
    each = of_each_target(reports)
    for task, rows in accuracy_table(reports).groupby("task", sort=False):
        of_task = [report for report in each if report["task"] == task]
        tables = [_score_table(rows, of_task[0]["kind"]), *_subset_tables(of_task)]
        yield str(task), of_task, tables


def _score_table(rows: pd.DataFrame, kind: str) -> str:
    body = []
    for row in rows.to_dict("records"):
        label = row_label(row["name"], row["role"])
        shown = f"**{label}**" if row["role"] == "model" else label
        bounds = {HEADLINE[kind]: (row["headline_low"], row["headline_high"])}
        cells = [interval(row[name], *bounds.get(name, (None, None))) for name in MAIN[kind]]
        body.append([shown, *cells])
    return markdown_table(["", *(SCORES[name] for name in MAIN[kind])], body)


def _subset_tables(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table per column of `report_by`: values down, models and baselines across."""
    regression = reports[0]["kind"] == "regression"
    name, label = ("mae", "MAE") if regression else ("accuracy", "Accuracy")
    key, tables = f"{name}_by", []
    for column, values in reports[0][key].items():
        across = {report["model"]: report[key][column] for report in reports}
        for baseline, scores in reports[0]["baselines"].items():
            across[row_label(baseline, "baseline")] = scores[key][column]
        rows = [
            [value, str(own["n"]), *(score(part[value][name]) for part in across.values())]
            for value, own in values.items()
        ]
        tables += [f"{label} within each `{column}`:", markdown_table([column, "n", *across], rows)]
    return tables


def _pretraining_text(model: str, report: Mapping[str, Any]) -> str:
    text = f"**{model}**, scored on {report['held_out_samples']} samples kept from training. "
    if "unifrac_pearson" in report:
        text += (
            "Distances between its embeddings of two such samples agree with their UniFrac "
            f"distance: Pearson r {score(report['unifrac_pearson'])}, mean absolute error "
            f"{score(report['unifrac_mae'])}. "
        )
    if "nucleotide_accuracy" in report:
        text += (
            f"It names {report['nucleotide_accuracy']:.1%} of the masked nucleotides; always "
            "guessing the most frequent base of each position names "
            f"{report['nucleotide_baseline_accuracy']:.1%}. "
        )
    if "near_known_reads" in report:
        near = f"{report['near_known_reads']:.0%} of the reads"
        text += f"{near} lie near an ASV that the model it started from had seen. "
    if report["steps"] == 0:
        return f"{text}It is used as it came, with {report['parameters']:,} parameters."
    return (
        f"{text}{report['steps']} steps took {quantity(report['wall_s'] / 60)} minutes "
        f"({quantity(report['samples_per_s'])} samples per second) for "
        f"{report['parameters']:,} parameters."
    )


def _task_sentence(report: Mapping[str, Any]) -> str:
    """Compare a model with the best of its baselines."""
    kind = report["kind"]
    name = HEADLINE[kind]
    sign = 1 if kind == "regression" else -1
    value = report[name]
    baseline = min(report["baselines"], key=lambda key: sign * report["baselines"][key][name])
    other = report["baselines"][baseline][name]
    verdict = "better than" if sign * (other - value) > 0 else "not better than"
    spread = report.get("mae_fold_sd")
    shown = score(value) + (f" ± {score(spread)}" if kind == "regression" and spread else "")
    share = report["labels"]
    few = f" Trained on {100 * share:g} % of the labels; the baselines on all." if share < 1 else ""
    return (
        f"**{report['model']}**: {SCORES[name]} {shown}, {verdict} the best baseline, "
        f"{row_label(baseline, 'baseline')} ({score(other)}).{few} "
        f"{EVALUATION[report['evaluation']]}"
    )


def _task_lines(report: Mapping[str, Any]) -> list[str]:
    """Say how a model does, against each baseline, on test samples, and how sure it is."""
    lines = [_super_learner_sentence(report)] if "super_learner" in report else []
    lines += [_task_sentence(report)]
    lines += [_recipe_sentence(report)] if len(report["recipes"]) > 1 else []
    lines += [_test_sentence(report)] if "test" in report else []
    lines += [_interval_sentence(report)]
    if "temperature" in report:
        lines.append(
            f"**{report['model']}**, probabilities: calibration error {score(report['ece'])}, "
            f"Brier score {score(report['brier'])}; scaled by the temperature of the other folds "
            f"{score(report['calibrated_ece'])} and {score(report['calibrated_brier'])}."
        )
    return lines


def _recipe_sentence(report: Mapping[str, Any]) -> str:
    """Say of which recipes a model is mixed, and what each reaches alone."""
    found = sorted(report["recipes"].items(), key=lambda item: -item[1]["weight"])
    parts = ", ".join(f"{name} {one['weight']:.0%} ({score(one['score'])})" for name, one in found)
    return f"**{report['model']}**, recipes by weight, and what each reaches alone: {parts}."


def _super_learner_sentence(report: Mapping[str, Any]) -> str:
    """Say what the mixture of all methods reaches, of what it is made, and what the model adds."""
    name, found = HEADLINE[report["kind"]], report["super_learner"]
    without, model = found["without_own"], report["model"]
    weights = sorted(found["weights"].items(), key=lambda item: (-item[1], item[0]))
    parts = ", ".join(
        f"{row_label(learner, 'model' if learner == model else 'baseline')} {weight:.0%}"
        for learner, weight in weights
        if weight >= LEAST_SHOWN
    )
    p = without["comparison"]["corrected_t_p"]
    chance = p_value(p)
    if p is not None and p >= CHANCE:
        chance = f"which could be chance, {chance}"
    return (
        f"**Super learner with {model}**, a mixture of all methods: {SCORES[name]} "
        f"{score(found[name])} ({parts}). Without {model} it has {score(without[name])}; the "
        f"difference, mean of the folds, is {without['comparison']['difference']:+.3g} ({chance})."
    )


def _test_sentence(report: Mapping[str, Any]) -> str:
    name, test = HEADLINE[report["kind"]], report["test"]
    others = ", ".join(
        f"{row_label(baseline, 'baseline')} {score(scores['test'][name])}"
        for baseline, scores in report["baselines"].items()
        if "test" in scores
    )
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    return (
        f"**{report['model']}** on {test['n']} held-out test samples: {label} "
        f"{score(test[name])}" + (f" ({others})." if others else ".")
    )


def _interval_sentence(report: Mapping[str, Any]) -> str:
    found = report["intervals"]
    of_folds = found["coverage_by_fold"].values()
    if "width" in found:
        what, size = "prediction intervals", f"mean width {score(found['width'])}"
    else:
        what, size = "sets of classes", f"{score(found['set_size'])} classes on average"
    test = f"; of the test samples {found['test']['coverage']:.1%}" if "test" in found else ""
    return (
        f"**{report['model']}**, {what} for {found['level']:.0%}: they cover "
        f"{found['coverage']:.1%} ({min(of_folds):.1%} to {max(of_folds):.1%} in a fold){test}; "
        f"{size}."
    )


def _comparison_tables(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield for each model words and a table: its difference to every baseline, and the tests."""
    for report in reports:
        if not report["comparisons"]:
            continue
        score_name, better = (
            ("MAE", "lower") if report["kind"] == "regression" else ("balanced accuracy", "higher")
        )
        known = next(iter(report["comparisons"].values()))
        tests = [key for key in TESTS if key in known]
        rows = [
            [
                row_label(baseline, "baseline"),
                f"{found['difference']:+.3g}",
                f"{found['folds_won']:.0%} of {found['folds']}",
                *(p_value(found[key]).removeprefix("p = ").removeprefix("p ") for key in tests),
            ]
            for baseline, found in report["comparisons"].items()
        ]
        yield (
            f"**{report['model']}** less each baseline, {score_name}, mean of the folds ({better} "
            "is better), and the p-values of paired tests:"
        )
        head = "baseline", "difference", "better in folds", *(TESTS[key] for key in tests)
        yield markdown_table(head, rows)


def _speed_sentence(speed: pd.DataFrame) -> str:
    """Compare the fastest mode with the first at the same batch size, and say the highest rate."""
    measured = speed[speed["samples_per_s"].notna()].sort_values("samples_per_s")
    if not len(measured):
        return "no mode could run"
    first, top = speed.iloc[0], measured.iloc[-1]
    alike = measured[measured["batch_size"] == first["batch_size"]]
    parts = []
    if pd.notna(first["samples_per_s"]) and len(alike) > 1:
        best = alike.iloc[-1]
        parts.append(
            f"{plain(str(best['name']))} trains on {quantity(best['samples_per_s'])} samples per "
            f"second at batch {best['batch_size']}, {quantity(best['speedup'])} times as many as "
            f"{plain(str(first['name']))}"
        )
    if not parts or top["batch_size"] != first["batch_size"]:
        rate = f"{quantity(top['samples_per_s'])} samples per second at batch {top['batch_size']}"
        parts.append(rate if parts else f"{plain(str(top['name']))}: {rate}")
    return "; ".join(parts)


def _title(link: str) -> str:
    """Return words for a figure: `figures/pretrain/base/pairs.png` as `pretrain, base, pairs`."""
    return plain(link.rsplit(".", 1)[0].removeprefix("figures/").replace("/", ", "))


def _items(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
