"""The stages from baselines to summary, on small stores made here."""

import html
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from stage_calls import as_outputs
from task_reports import GUESSING, changed, comparison, method_of, target_of, task_of

from aam.config.baselines import BASELINES
from aam.config.figures import PLOTS
from aam.config.settings.page import PageSettings
from aam.config.settings.plot import PlotSettings
from aam.data.predictions import read_predictions
from aam.data.table import FeatureTable, write_biom
from aam.distances.store import write_distances
from aam.evaluate.scores import SUPER_LEARNER
from aam.evaluate.task_report import Guessing, TaskReport
from aam.learners import conformal
from aam.learners.baselines import decision_trees
from aam.report.page.details import HIDDEN_IMPORTANCES
from aam.report.page.files import PageFile, PageFiles
from aam.stages import summary
from aam.stages.baselines import fit_baselines
from aam.stages.benchmark_accuracy import gather_accuracy
from aam.stages.plot import draw_figures
from aam.util.atomic import write_json
from aam.util.notes import Note, write_notes

SAMPLES, FEATURES = 24, 6
ITERATIONS = decision_trees.ITERATIONS


@pytest.fixture
def inputs(tmp_path: Path, few_trees: None) -> dict[str, Any]:
    """Return stores of two views, and distances, in other orders than the folds."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "in"
    folder.mkdir()
    paths: dict[str, Any] = {
        "tree": folder / "tree",
        "folds": folder / "folds",
        "views": [folder / "views0", folder / "views1"],
        "distances": [folder / "distances0", folder / "distances1"],
    }
    ids = [f"{number:04d}" for number in range(SAMPLES)]
    ids_backwards = ids[::-1]
    asvs = [f"asv{number}" for number in range(FEATURES)]

    # Reads tell nothing in view 0.
    same_reads = np.ones((SAMPLES, FEATURES - 1), np.int64)
    write_biom(paths["views"][0], FeatureTable(ids, asvs[1:], csr_array(same_reads)), {})
    telling_reads = rng.integers(1, 50, (SAMPLES, FEATURES))
    telling_reads[:, 0] = np.arange(SAMPLES) + 1
    reads_backwards = csr_array(telling_reads[::-1])
    write_biom(paths["views"][1], FeatureTable(ids_backwards, asvs, reads_backwards), {})

    # Distances tell nothing in view 1.
    number = np.arange(SAMPLES, dtype=np.float64)
    telling_distances = np.abs(number[:, None] - number) / SAMPLES
    write_distances(paths["distances"][0], ids, telling_distances, {})
    same_distances = 0.5 * (1 - np.eye(SAMPLES))
    write_distances(paths["distances"][1], ids_backwards, same_distances, {})

    tips = ",".join(f"{name}:1.0" for name in asvs)
    paths["tree"].write_text(f"({tips});")
    labelled = rng.permutation(SAMPLES)[:-2]
    folds = pd.DataFrame(
        {
            "sample-id": [ids[number] for number in labelled],
            "fold": labelled % 3,
            "observed": [f"{10.0 * number}" for number in labelled],
            "group": "",
        }
    )
    folds.to_csv(paths["folds"], sep="\t", index=False)
    return paths


def run_baselines(path: Path, inputs: dict[str, Any], threads: int) -> Path:
    settings = {"kind": "regression", "classes": None, "bounds": [0, 215], "seed": 0}
    settings["baselines"] = [*BASELINES]
    nested = path.with_suffix(".nested")
    fit_baselines(**inputs, **settings, threads=threads, predictions_out=path, nested_out=nested)
    return path


def test_baselines_join_stores_by_sample_see_all_views_and_give_the_same_bytes(
    tmp_path, inputs, monkeypatch
):
    # In other processes boosting has all its trees.
    monkeypatch.setattr(decision_trees, "ITERATIONS", ITERATIONS)
    first = run_baselines(tmp_path / "first", inputs, threads=1)
    second = run_baselines(tmp_path / "second", inputs, threads=2)
    assert first.read_bytes() == second.read_bytes()
    nested = pd.read_parquet(first.with_suffix(".nested"))
    pd.testing.assert_frame_equal(nested, pd.read_parquet(second.with_suffix(".nested")))

    table = read_predictions(first)
    assert set(nested["baseline"]) == set(table["baseline"]) - {"median"}
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    for _, rows in table.groupby("baseline"):
        assert rows["sample-id"].tolist() == folds["sample-id"].tolist()
    observed = pd.to_numeric(table["observed"])
    predicted = pd.to_numeric(table["predicted"])
    # The number in the ID is the target, divided by ten.
    assert (observed == 10.0 * table["sample-id"].astype(float)).all()
    absolute_error = (observed - predicted).abs()
    mae = absolute_error.groupby(table["baseline"]).mean()
    # It is also a position in the distances of view 0 and a count in view 1: a wrong join is far
    # off.
    assert mae["knn_unifrac"] < 25 < mae["median"]
    assert mae["random_forest"] < 0.9 * mae["median"]
    assert predicted.max() == 215


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the results of one model and two tasks, and the table of their accuracy."""
    # So few samples have no intervals of the usual level.
    monkeypatch.setattr(conformal, "LEVEL", 0.6)
    root = tmp_path / "results" / "mouth"
    pretraining = {
        "unifrac_pearson": 0.91,
        "unifrac_mae": 0.04,
        "nucleotide_accuracy": 0.8,
        "nucleotide_baseline_accuracy": 0.55,
        "held_out_samples": 3,
        "training_samples": 7,
        "steps": 100,
        "wall_s": 90.0,
        "samples_per_s": 512.0,
        "parameters": 123456,
    }
    write_json(root / "pretrain" / "base" / "scores.json", pretraining)
    ids = [f"s{i}" for i in range(12)]
    observed = np.arange(12.0)
    table = pd.DataFrame({"sample-id": ids, "fold": np.arange(12) % 3, "observed": observed})
    metadata = pd.DataFrame({"study|id": ["x", "y"] * 6}, index=ids)
    against = comparison(-3.0, 0.0123, holm_p=0.0246, folds=3, folds_won=1.0)
    own = table.assign(predicted=observed + 1)
    network = method_of(
        "regression",
        own,
        "base",
        "network",
        metadata,
        guessing=GUESSING.model_copy(update={"interval": (0.875, 1.25)}),
        comparisons={"random_forest": against},
    )
    other = method_of("regression", table.assign(predicted=observed + 4), "median", labels=metadata)
    forest = changed(other, mae_fold_mean=2.5).model_copy(update={"name": "random_forest"})
    age = task_of("regression", "age", target_of(own, [network, other, forest], "a column"))
    site = table.assign(observed=["a", "b"] * 6, predicted=["a", "a"] * 6)
    site = site.assign(**{"probability:a": 0.6, "probability:b": 0.4})
    network = method_of(
        "classification",
        site,
        "base",
        "network",
        guessing=Guessing(score=0.5, difference=-0.01, p=0.4, interval=(0.875, 1.25)),
        comparisons={"knn_unifrac": against.model_copy(update={"holm_p": 0.5})},
    )
    neighbours = method_of("classification", site, "knn_unifrac")
    neighbours = changed(neighbours, balanced_accuracy=0.75)
    of_site = task_of("classification", "site", target_of(site, [network, neighbours], "a column"))
    for report, predictions in ((age, own), (of_site, site)):
        answer = root / "answers" / report.task / "base"
        report.write(answer / "scores.json")
        predictions.to_csv(answer / "predictions.tsv", sep="\t", index=False)
        folder = root / "finetune" / "base" / report.task
        folder.mkdir(parents=True)
        asvs = pd.DataFrame({"feature-id": ["<b>", "NA"], "importance": [0.25, 0.125]})
        asvs.to_csv(folder / "importance.tsv", sep="\t", index=False)
    (root / "inputs").mkdir()
    reads = csr_array(np.full((12, 1), 1000, np.int64))
    write_biom(root / "inputs" / "table.biom", FeatureTable(ids, ["asv"], reads), {})
    (root / "benchmark").mkdir()
    scores = sorted(root.glob("answers/*/*/scores.json"))
    gather_accuracy(scores=scores, table_out=root / "benchmark/accuracy.tsv")
    return root


def rewrite(path: Path, **changes: Any) -> None:
    """Change the report of the only target of a task, in its file."""
    report = TaskReport.read(path)
    (target,) = report.targets
    changed_target = target.model_copy(update=changes)
    report.model_copy(update={"targets": (changed_target,)}).write(path)


def test_accuracy_has_a_row_per_model_and_baseline(results):
    table = pd.read_csv(results / "benchmark/accuracy.tsv", sep="\t")
    assert table[["task", "name", "role"]].to_numpy().tolist() == [
        ["age", "base", "network"],
        ["age", "random_forest", "baseline"],
        ["age", "median", "baseline"],
        ["site", "knn_unifrac", "baseline"],
        ["site", "base", "network"],
    ]
    assert table["mae_fold_mean"].tolist()[:3] == [1.0, 2.5, 4.0]


SETTINGS: dict[str, Any] = {
    "captions": {
        "predictions": "Of ``{{ snakemake.wildcards.task }}`` with {{ snakemake.wildcards.answer }}"
    },
    "depth": 1000,
    "views": 2,
    "drops_long_branches": False,
    "networks": {"state": "shown"},
    "metrics": ["unweighted", "bray_curtis"],
    "models": {
        "base": {
            "encoder": "bdh",
            "width": 64,
            "asv_layers": 2,
            "sample_layers": 3,
            "start": "mouse",
        }
    },
    "tasks": {
        name: {
            "columns": [name],
            "where": {},
            "kind": kind,
            "folds": {"column": None, "groups": "host", "stratified": False},
            "test_fraction": 0.0,
            "importance": name == "age",
        }
        for name, kind in (("age", "regression"), ("site", "classification"))
    },
}


def of_answers(paths: Iterable[Path], **facts: str) -> list[PageFile]:
    """Return files in the folder of an answer, with what they are of."""
    return [PageFile(path, task=path.parts[-3], model=path.parts[-2], **facts) for path in paths]


def importance_of(results: Path, scores: Iterable[Path]) -> list[PageFile]:
    """Return the importance of ASVs for the networks of some answers."""
    files = []
    for path in scores:
        task, model, _ = path.parts[-3:]
        importance = results / "finetune" / model / task / "importance.tsv"
        files.append(PageFile(importance, task=task, model=model))
    return files


def says(page: str, *facts: str) -> bool:
    """Return whether one sentence or cell of a page holds all facts, in whatever words."""
    parts = re.split(r"<[^>]*>|\n", page)
    return any(all(fact in html.unescape(part) for fact in facts) for part in parts)


def summed_up(
    results: Path,
    settings: Mapping[str, Any] = MappingProxyType({}),
    scores: Sequence[Path] = (),
    page: str = "report",
    **files: Any,
) -> tuple[str, str]:
    """Return the page and the summary of some files of results, with changed settings."""
    outputs = {"report": results / f"{page}.html", "summary": results / "summary.md"}
    predictions = [path.with_name("predictions.tsv") for path in scores]
    files.setdefault("cross_validated", of_answers(predictions))
    files.setdefault("importance", importance_of(results, scores))
    files |= {"scores": of_answers(scores), "table": results / "inputs" / "table.biom"}
    summary.write_summary(
        files=PageFiles(**files),
        settings=PageSettings(**{**SETTINGS, **settings}),
        **as_outputs(outputs),
    )
    html_text, text = (path.read_text(encoding="utf-8") for path in outputs.values())
    return " ".join(html.unescape(html_text).split()), text


def test_the_page_says_what_was_learned_and_its_links_lead_somewhere(results):
    header = "sample-id\tpredicted\tunseen_asvs\tnear_reads\tin_training\n"
    files = {
        "figures/answers/age/base/predictions.svg": '<svg viewBox="0 0 72 72">mark</svg>',
        "predict/base/age/new.tsv": f"{header}NA\t5\t0.75\t0.9\tid\nq\t4\t0.25\t1\t\n",
        "predict/base/age/networks/new.tsv": f"{header}NA\t6\t0.5\t0.9\tid\nq\t4\t0.5\t1\t\n",
        "inputs/dropped.tsv": "what\tid\twhy\nsample\tq\tno reads\nfeature\tz\tno reads\n",
        "rarefied/view0.dropped.tsv": "sample-id\treads\tdepth\nu\t7\t1000\nw\t9\t1000\n",
    }
    for name, content in files.items():
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(content)
    figure, prediction, mixed, *dropped = (results / name for name in files)
    of_age = {"model": "base", "task": "age"}
    page, text = summed_up(
        results,
        scores=sorted(results.glob("answers/*/*/scores.json")),
        encoders=[PageFile(results / "pretrain" / "base" / "scores.json", model="base")],
        accuracy=results / "benchmark" / "accuracy.tsv",
        figures=[PageFile(figure, figure="answers/{task}/{answer}/predictions", **of_age)],
        predictions=[
            PageFile(prediction, table="new", **of_age),
            PageFile(mixed, table="new", method="super learner", **of_age),
        ],
        dropped=dropped,
    )
    for facts in (
        ("Works", "1.0", "AAM", "0.9 to 1.2", "6.0", "p = 0.012", "p = 0.025", "2 tests", "2.5"),
        (
            "Does not work",
            "50.0 %",
            "AAM",
            "87.5 % to 125.0 %",
            "p = 0.4",
            "kNN on UniFrac",
            "75.0",
        ),
        ("4 groups", "host"),
        ("3 samples", "Pearson r 0.910"),
        ("1 of the 2 samples in new",),
        ("2 samples", "1000 reads"),
        ("1 feature", "no reads"),
    ):
        assert says(page, *facts), facts
        assert says(text, *facts), facts
    for facts in (
        ("80.0 %", "nucleotides"),
        ("Transductive",),
        ("partial 75 % (0.750", "kernel 25 % (0.500"),
        ("60 %", "AAM", "100.0 % to 100.0 %"),
        ("60 %", "sets", "AAM"),
        (HIDDEN_IMPORTANCES,),
        ("50 %", "reads in new", "95 %"),
        ("new", "super learner"),
        ("1000 reads", "2 draws"),
        ("weights of mouse",),
    ):
        assert says(page, *facts), facts
    for cells in (
        "<td>random forest</td><td>-3</td><td>3 of 3</td><td>0.012</td>",
        "<td>AAM</td><td>1.00 [0.875, 1.25]</td>",
        "<td>x</td><td>6</td><td>1.00</td><td>4.00</td><td>4.00</td>",
        "<td>NA</td><td>5</td>",
        "Of <code>age</code> with base",
        ">mark</svg>",
    ):
        assert cells in page
    assert "AAM was trained on" not in page
    assert "qiime feature-classifier classify-sklearn" in page
    links = re.findall(r'<a href="([^#"]+)"', page)
    assert len(links) == 1 + 2 + 2 + 2 + 1
    assert all((results / link).is_file() for link in links)


def test_predictions_that_rest_on_little_have_a_red_light_on_the_page_and_at_the_end_of_a_run(
    results,
):
    header = "sample-id\tpredicted\tunseen_asvs\tnear_reads\tin_training\n"
    tables = {
        # A column of an older version is missing.
        "older": "sample-id\tpredicted\tunseen_asvs\nx\t5\t0.3\n",
        "far": f"{header}01\t5\t1\t0.02\t\nq\t4\t0.1\t1\t\n",
        "good": f"{header}x\t5\t0.1\t1\t\n",
        "seen": f"{header}x\t5\t0\t1\tid\n",
        "unseen": f"{header}x\t5\t1\t1\t\n",
    }
    paths = [results / "predict" / "base" / "age" / f"{name}.tsv" for name in tables]
    for path, content in zip(paths, tables.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    lines = summary.closing_predictions([*paths, results / "predict" / "not there.tsv"])
    expected = [
        ("caution", "30 % of the reads in older"),
        ("stop", "1 of the 2 samples in far ('01')"),
        ("caution", "1 of the 1 samples in seen"),
        ("caution", "100 % of the reads in unseen"),
    ]
    assert len(lines) == len(expected)
    for line, (light, fact) in zip(lines, expected, strict=True):
        assert line.startswith(f"Predictions, light: {light}. ")
        assert fact in line
    page, text = summed_up(
        results,
        scores=sorted(results.glob("answers/*/*/scores.json")),
        predictions=[PageFile(path, model="base", task="age", table=path.stem) for path in paths],
    )
    for _, fact in expected:
        assert says(page, fact)
        assert says(text, fact)


def test_the_page_needs_no_other_file_and_takes_names_for_names(results):
    summed_up(results, scores=sorted(results.glob("answers/*/*/scores.json")))
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "<td>&lt;b&gt;</td>" in page
    assert re.findall(r'(?:src|href)="(?!#|data:|answers/)[^"]*"|@import|url\(', page) == []


@pytest.mark.parametrize("drops", [True, False])
def test_the_page_says_whether_asvs_were_left_out_by_the_tree(results, drops):
    settings = {"drops_long_branches": drops}
    page, text = summed_up(results, settings)
    assert ("behind extremely long branches of the tree" in text) == drops
    assert ("behind branches of more than 0.6 substitutions per site" in page) == drops
    assert ("No sample was left out." in page) != drops


def test_names_of_classes_that_look_like_numbers_stay_as_they_are(results):
    site = results / "answers/site/base"
    table = pd.read_csv(site / "predictions.tsv", sep="\t", dtype=str)
    for column in ("observed", "predicted"):
        table[column] = table[column].map({"a": "01", "b": "02"})
    table.to_csv(site / "predictions.tsv", sep="\t", index=False)
    page, _ = summed_up(results, scores=[site / "scores.json"])
    assert "<td>01</td>" in page
    assert "<td>02</td>" in page


def test_a_task_that_is_not_explained_says_so(results):
    site = results / "answers/site/base/scores.json"
    for importance, says_so in (([], True), (importance_of(results, [site]), False)):
        page, _ = summed_up(results, scores=[site], importance=importance)
        assert ("the configuration says importance: false" in page) == says_so
        assert "integrated gradients" not in page


@pytest.mark.parametrize(("labels", "said"), [(0.1, "10 %"), (0.125, "12.5 %")])
def test_a_model_of_few_labels_says_that_its_baselines_had_all(results, labels, said):
    path = results / "answers" / "age" / "base" / "scores.json"
    (target,) = TaskReport.read(path).targets
    training = target.best.training.model_copy(update={"labels": labels})
    network = target.best.model_copy(update={"training": training})
    rewrite(path, methods=(network, *target.methods[1:]))
    page, _ = summed_up(results, scores=[path])
    assert f"AAM was trained on {said} of the labels; the baselines on all." in page


def test_a_run_ends_with_every_task_of_the_page_and_names_what_is_left_over(results):
    scores = [results / "answers" / name / "base" / "scores.json" for name in ("site", "age")]
    # What an earlier configuration called a task.
    shutil.copytree(scores[1].parent, results / "answers" / "years" / "base")
    left_over = ["answers/years/base"]
    notes = results / "inputs" / "notes" / "metadata.tsv"
    write_notes(notes, [Note("Tabs were found."), Note("No metadata for 'S01'.", is_caution=True)])
    lines = summary.closing_summary(
        results / "report.html",
        scores,
        notes=[notes],
        left_over=left_over,
        older=["first/age"],
    ).splitlines()
    assert lines[0].startswith(f"{results.name}, site: Does not work: ")
    assert "50.0 % of the samples of a class" in lines[0]
    assert lines[1].startswith(f"{results.name}, age: Works: ")
    assert lines[2] == "Light: caution. No metadata for 'S01'."
    assert "report.html" in lines[3]
    assert "answers/years/base" in lines[4]
    assert "older version" in lines[5]
    assert "first/age" in lines[5]
    assert len(lines) == 6, "what was decided without harm stands on the page"
    (line, *_) = summary.closing_summary(results / "report.html", scores[1:]).splitlines()
    assert line.startswith(f"{results.name}, age: Works: ")
    said = summary.closing_summary(results / "report.html", [], left_over=left_over)
    assert "Works" not in said
    several = summary.closing_summary(results / "report.html", scores * 8).splitlines()
    assert len(several) == 12, "ten of sixteen answers, the others in one line, the page"
    assert re.search(r"does not work \(3\), doubtful \(3\)$", several[10])


def test_decisions_stand_on_both_pages_and_the_serious_ones_are_lights(results):
    notes = [results / "inputs" / "notes" / "table.tsv", results / "folds" / "age.notes.tsv"]
    common = Note("12 cells of 'age' were read as missing.")
    write_notes(notes[0], [common, Note("No metadata for 'S01'.", is_caution=True)])
    write_notes(notes[1], [common])
    page, text = summed_up(
        results, scores=sorted(results.glob("answers/*/*/scores.json")), notes=notes
    )
    assert page.count(common.text) == text.count(common.text) == 1
    assert 'class="light caution">Caution</span><span>No metadata for' in page
    assert "No metadata for 'S01'." in text


def test_without_models_the_answers_are_the_first_ones(results):
    age = TaskReport.read(results / "answers/age/base/scores.json")
    (target,) = age.targets
    changes = {"name": SUPER_LEARNER, "role": "super learner", "training": None}
    mixed = target.best.model_copy(update=changes)
    methods = (mixed, *target.methods[1:])
    first = results / "answers" / "age" / "first"
    target = target.model_copy(update={"methods": methods, "leading": SUPER_LEARNER})
    task_of("regression", "age", target, answer="first").write(first / "scores.json")
    shutil.copy(results / "answers/age/base/predictions.tsv", first)
    for folder in ("finetune", "pretrain"):
        shutil.rmtree(results / folder)
    closing = summary.closing_summary(results / "first.html", [first / "scores.json"])
    assert f"{results.name}, age: Works: " in closing
    settings = {"networks": {"state": "unasked"}}
    scores = [first / "scores.json"]
    page, text = summed_up(results, settings, scores, page="first", importance=[])
    for part in (page, text):
        assert says(part, "Works", "1.0")
        assert says(part, "not trained", "models: {}")
        assert says(part, "site", "networks alone")
    assert "[first.html](first.html)" in text
    assert "PyTorch" not in page
    assert re.findall(r"Versions: .*torch", page) == []


def test_an_encoder_that_was_used_as_it_came_says_so(results):
    path = results / "pretrain" / "base" / "scores.json"
    write_json(path, {**json.loads(path.read_text()), "steps": 0})
    age = results / "answers" / "age" / "base" / "scores.json"
    page, _ = summed_up(results, scores=[age], encoders=[PageFile(path, model="base")])
    assert says(page, "Transductive")
    assert says(page, "as it came", "without training")


def test_a_figure_is_drawn_of_ids_that_look_like_something_else(tmp_path):
    curve = "sample-id\tdepth\trichness\nNA\t1\t1.0\nNA\t90\t8.0\n02\t1\t1\n02\t400\t20\n"
    texts = {"curve": curve, "dropped": "sample-id\treads\nNA\t90\n"}
    inputs = {name: tmp_path / f"{name}.tsv" for name in texts}
    for name, path in inputs.items():
        path.write_text(texts[name])
    inputs["table"] = tmp_path / "table.biom"
    counts = csr_array(np.array([[90], [400]]))
    write_biom(inputs["table"], FeatureTable(["NA", "02"], ["a"], counts), {})
    outputs = {"rarefaction": tmp_path / "rarefaction.png"}
    draw_figures(
        settings=PlotSettings(draw=PLOTS["rarefaction"].draw, depth=100),
        records=inputs,
        figures_out=outputs,
    )
    assert outputs["rarefaction"].read_bytes().startswith(b"\x89PNG")
