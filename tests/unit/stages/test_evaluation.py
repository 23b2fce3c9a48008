"""The stages from baselines to summary, on small stores made here."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aam.data.samples import SampleStore, write_samples
from aam.evaluate.baselines import gradient_boosting, random_forest
from aam.evaluate.conformal import cross_intervals, interval_report
from aam.evaluate.predictions import read_predictions, write_predictions
from aam.evaluate.report import target_report
from aam.runtime.run_options import RunOptions
from aam.stages import (
    baselines,
    benchmark_accuracy,
    plot_benchmark,
    plot_pretraining,
    plot_rarefaction,
    plot_task,
    score,
    summary,
)
from aam.unifrac.store import write_distances
from aam.util.atomic import write_json
from aam.util.errors import InputError

SAMPLES, FEATURES = 24, 6
PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(random_forest, "TREES", 5)
    monkeypatch.setattr(gradient_boosting, "ITERATIONS", 5)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """Return stores of two views, distances and metadata in other orders than the folds."""
    rng = np.random.default_rng(0)
    ids = [f"{i:04d}" for i in range(SAMPLES)]
    rows = 2 * SAMPLES
    counts = rng.integers(1, 50, (rows, FEATURES))
    counts[:, 0] = np.tile(np.arange(SAMPLES), 2) + 1
    counts[SAMPLES:] = 1
    store = SampleStore(
        sample_ids=ids,
        views=2,
        row_view=np.repeat([0, 1], SAMPLES).astype(np.int32),
        offsets=np.arange(rows + 1, dtype=np.int64) * FEATURES,
        asvs=np.tile(np.arange(FEATURES, dtype=np.int32), rows),
        counts=counts.astype(np.int32).ravel(),
        parent_offsets=np.arange(rows + 1, dtype=np.int64),
        parents=np.tile(np.arange(SAMPLES, dtype=np.int32), 2),
        weights=np.ones(rows, dtype=np.float32),
    )
    names = ("samples", "distances", "metadata", "folds")
    paths = {name: tmp_path / "in" / name for name in names}
    paths["folds"].parent.mkdir()
    write_samples(paths["samples"], store, {})
    place = np.arange(SAMPLES, dtype=np.float64)
    write_distances(paths["distances"], ids, np.abs(place[:, None] - place) / SAMPLES, {})
    order = rng.permutation(SAMPLES)
    study = [None if i == 3 else "ab"[i % 2] for i in order]
    table = pa.table({"sample_id": [ids[i] for i in order], "study": study})
    pq.write_table(table, paths["metadata"])
    labelled = rng.permutation(SAMPLES)[:-2]
    pd.DataFrame(
        {
            "sample-id": [ids[i] for i in labelled],
            "fold": labelled % 3,
            "observed": [f"{10.0 * i}" for i in labelled],
            "group": "",
        }
    ).to_csv(paths["folds"], sep="\t", index=False)
    return paths


def run_baselines(folder: Path, inputs: dict[str, Path]) -> dict[str, Path]:
    outputs = {"predictions": folder / "predictions.tsv"}
    settings = {"kind": "regression", "seed": 0}
    baselines.run(settings, inputs=inputs, outputs=outputs, runtime=RunOptions(threads=2))
    return outputs


def run_score(folder: Path, inputs: dict[str, Path], **cfg) -> dict:
    """Score the median as if it were a model, beside all baselines."""
    table = read_predictions(inputs["baselines"])
    own = table[table["baseline"] == "median"].drop(columns="baseline")
    write_predictions(folder / "own.tsv", own)
    names = {"dataset": "d", "model": "m", "task": "t"}
    described = {"encoder": "full", "start": "pretrained", "evaluation": "transductive"}
    described |= {"kind": "regression", "classes": None, "bounds": [None, None], "labels": 1.0}
    settings = {"names": names, **described, "report_by": ["study"], **cfg}
    paths = {**inputs, "predictions": folder / "own.tsv"}
    outputs = {"metrics": folder / "metrics.json", "intervals": folder / "intervals.tsv"}
    score.run(settings, inputs=paths, outputs=outputs, runtime=RunOptions())
    return json.loads(outputs["metrics"].read_text())


def test_baselines_join_stores_by_sample_and_use_view_zero(tmp_path, inputs):
    outputs = run_baselines(tmp_path, inputs)
    table = read_predictions(outputs["predictions"])
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    for _, part in table.groupby("baseline"):
        assert part["sample-id"].tolist() == folds["sample-id"].tolist()
    own = 10.0 * table["sample-id"].astype(float)
    assert (pd.to_numeric(table["observed"]) == own).all()
    report = run_score(tmp_path, {**inputs, "baselines": outputs["predictions"]})
    others = report["baselines"]
    assert {"median", "random_forest", "knn_unifrac"} <= others.keys()
    # The ID is both the target and, in view 0, a count and a place: a wrong join is far off.
    assert others["knn_unifrac"]["mae_pooled"] < 25 < others["median"]["mae_pooled"]
    assert others["random_forest"]["mae_pooled"] < others["median"]["mae_pooled"]
    assert report["mae_by"]["study"].keys() == {"a", "b"}
    assert {key: report[key] for key in others["median"]} == others["median"]
    assert (report["model"], report["task"], report["start"]) == ("m", "t", "pretrained")


def test_baselines_give_the_same_bytes_again(tmp_path, inputs):
    first, second = (run_baselines(tmp_path / name, inputs) for name in ("first", "second"))
    for name in first:
        assert first[name].read_bytes() == second[name].read_bytes()


def test_an_unknown_report_column_stops_before_anything_is_written(tmp_path, inputs):
    baseline = run_baselines(tmp_path, inputs)["predictions"]
    with pytest.raises(InputError, match="'studdy'.*study"):
        run_score(tmp_path, {**inputs, "baselines": baseline}, report_by=["studdy"])
    assert not (tmp_path / "metrics.json").exists()


def described(headline: str, predictions: pd.DataFrame) -> dict:
    """Return what scoring adds to the scores."""
    return {
        "evaluation": "transductive",
        "bounds": [None, None],
        "labels": 1.0,
        "bootstrap": {headline: [0.875, 1.25]},
        "intervals": interval_report(cross_intervals(predictions, 0.6), 0.6),
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return the results of one model and two tasks, as the training stages leave them."""
    root = tmp_path / "results" / "mouth"
    pretraining = {
        "unifrac_pearson": 0.91,
        "unifrac_mae": 0.04,
        "nucleotide_accuracy": 0.8,
        "nucleotide_baseline_accuracy": 0.55,
        "held_out_samples": 30,
        "steps": 100,
        "wall_s": 90.0,
        "samples_per_s": 512.0,
        "parameters": 123456,
    }
    write_json(root / "pretrain" / "base" / "metrics.json", pretraining)
    ids = [f"s{i}" for i in range(12)]
    observed = np.arange(12.0)
    table = pd.DataFrame({"sample-id": ids, "fold": np.arange(12) % 3, "observed": observed})
    metadata = pd.DataFrame({"study|id": ["x", "y"] * 6}, index=ids)
    own, other = (
        target_report(
            "regression", table.assign(predicted=observed + error), metadata, ["study|id"]
        )
        for error in (1.0, 4.0)
    )
    against = {"folds": 3, "difference": -3.0, "folds_won": 1.0, "corrected_t_p": 0.0123}
    against |= {"wilcoxon_folds_p": None, "wilcoxon_samples_p": 1e-7}
    age = root / "finetune" / "base" / "age"
    write_json(
        age / "metrics.json",
        {
            **own,
            "model": "base",
            "task": "age",
            "kind": "regression",
            **described("mae_fold_mean", table.assign(predicted=observed + 1)),
            "comparisons": {"median": against},
            "baselines": {"median": other, "random_forest": {**other, "mae_fold_mean": 2.5}},
        },
    )
    table.assign(predicted=observed + 1).to_csv(age / "predictions.tsv", sep="\t", index=False)
    site = table.assign(observed=["a", "b"] * 6, predicted=["a", "a"] * 6)
    site = site.assign(**{"probability:a": 0.6, "probability:b": 0.4})
    scores = target_report("classification", site)
    better = {**scores, "balanced_accuracy": 0.75}
    names = {"model": "base", "task": "site", "kind": "classification"}
    folder = root / "finetune" / "base" / "site"
    names |= described("balanced_accuracy", site)
    names |= {"comparisons": {}, "baselines": {"knn_unifrac": better}}
    write_json(folder / "metrics.json", {**scores, **names})
    site.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    speed = root / "benchmark" / "speed.tsv"
    speed.parent.mkdir()
    speed.write_text(
        "name\tbatch_size\tsamples_per_s\tpeak_memory_mb\tspeedup\tgroup\n"
        "naive\t8\t5\t900\t1\torder\nadvanced\t8\t100\t800\t20\torder\n"
        "advanced\t64\t200\t800\t40\tbatch\nhuge\t64\t\t\t\tbatch\n"
    )
    for task in ("age", "site"):
        for name in ("intervals.tsv", "importance.tsv"):
            (root / "finetune" / "base" / task / name).touch()
    return root


def gather(root: Path) -> dict[str, Path]:
    outputs = {"table": root / "benchmark/accuracy.tsv", "text": root / "benchmark/accuracy.md"}
    metrics = sorted(root.glob("finetune/*/*/metrics.json"))
    benchmark_accuracy.run({}, inputs={"metrics": metrics}, outputs=outputs, runtime=RunOptions())
    return outputs


def test_accuracy_has_a_row_per_model_and_baseline(results):
    outputs = gather(results)
    table = pd.read_csv(outputs["table"], sep="\t")
    rows = table[["task", "name", "role"]].to_numpy().tolist()
    assert rows == [
        ["age", "base", "model"],
        ["age", "random_forest", "baseline"],
        ["age", "median", "baseline"],
        ["site", "knn_unifrac", "baseline"],
        ["site", "base", "model"],
    ]
    assert table["mae_fold_mean"].tolist()[:3] == [1.0, 2.5, 4.0]
    page = outputs["text"].read_text()
    assert "| **base** | 1.00 [0.875, 1.25] |" in page
    assert "| x | 6 | 1.00 | 4.00 | 4.00 |" in page


def test_summary_says_what_was_learned_and_its_links_lead_somewhere(results):
    table = gather(results)["table"]
    picture = results / "figures" / "finetune" / "base" / "age" / "predictions.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(PNG)
    dropped = [results / "inputs" / "dropped.tsv", results / "rarefied" / "view0.dropped.tsv"]
    for path, text in zip(
        dropped,
        (
            "what\tid\twhy\nsample\tq\tno reads\nfeature\tz\tno reads\n",
            "sample-id\treads\tdepth\nu\t7\t1000\nw\t9\t1000\n",
        ),
        strict=True,
    ):
        path.parent.mkdir()
        path.write_text(text)
    inputs = {
        "pretrain": [results / "pretrain" / "base" / "metrics.json"],
        "finetune": sorted(results.glob("finetune/*/*/metrics.json")),
        "speed": results / "benchmark" / "speed.tsv",
        "accuracy": table,
        "figures": [picture],
        "dropped": dropped,
    }
    page = results / "summary.md"
    summary.run({}, inputs=inputs, outputs={"summary": page}, runtime=RunOptions())
    text = page.read_text()
    for words in (
        "Pearson r 0.910",
        "80.0% of the masked nucleotides",
        "55.0%",
        "better than the best baseline, random forest (2.50)",
        "not better than the best baseline, kNN on UniFrac (0.750)",
        "at batch 8, 20 times as many as naive; 200 samples per second at batch 64",
        "Transductive: pretraining saw every sample",
        "prediction intervals for 60%: they cover 100.0% (100.0% to 100.0% in a fold)",
        "mean width 2.00",
        "less training median, mean of the folds: MAE -3, better in 100% of 3 folds; "
        "corrected t-test over folds p = 0.012, Wilcoxon over folds –, "
        "Wilcoxon over samples p < 0.0001.",
        "| **base** | 1.00 [0.875, 1.25] |",
        "sets of classes for 60%",
        "2, with fewer than 1000 reads",
        "feature: 1, no reads",
    ):
        assert words in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) == 7 + 2 * 2
    assert all((results / link).is_file() for link in links)


def test_terminal_summary_is_short_and_names_the_scores(results):
    lines = summary.terminal_summary(results).splitlines()
    assert len(lines) == 5
    assert "UniFrac r 0.910" in lines[1]
    assert "base 1.00 | random forest 2.50 | training median 4.00" in lines[2]


def test_terminal_summary_of_nothing_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="make demo"):
        summary.terminal_summary(tmp_path)


def test_plots_come_from_the_recorded_files(results, tmp_path):
    def records(name: str, content: dict) -> Path:
        path = tmp_path / f"{name}.parquet"
        pd.DataFrame(content).to_parquet(path)
        return path

    curve, dropped = tmp_path / "curve.tsv", tmp_path / "dropped.tsv"
    curve.write_text("sample-id\tdepth\trichness\nNA\t1\t1.0\nNA\t90\t8.0\n02\t1\t1\n02\t400\t20\n")
    dropped.write_text("sample-id\treads\tdepth\nNA\t90\t100\n")
    history = records(
        "history",
        {"epoch": [0.5, 1.0], "split": "train", "name": "loss", "value": [2.0, 1.0], "fold": 0},
    )
    pairs = {"metric": "unweighted", "observed": [0.1, 0.5, 0.9], "predicted": [0.2, 0.5, 0.7]}
    embeddings = {
        "split": ["training", "held-out", "training"],
        "embedding": [[1, 2], [2, 1], [0, 0]],
    }
    age = results / "finetune" / "base" / "age"
    recorded = {
        plot_rarefaction: {"curve": curve, "dropped": dropped},
        plot_pretraining: {
            "history": history,
            "pairs": records("pairs", pairs),
            "embeddings": records("embeddings", embeddings),
        },
        plot_task: {
            "predictions": age / "predictions.tsv",
            "metrics": age / "metrics.json",
            "history": history,
        },
        plot_benchmark: {
            "speed": results / "benchmark" / "speed.tsv",
            "accuracy": gather(results)["table"],
        },
    }
    for stage, inputs in recorded.items():
        drawn = {name: tmp_path / stage.__name__ / f"{name}.png" for name in inputs}
        for name in {"dropped", "metrics"} & drawn.keys():
            del drawn[name]
        stage.run({"depth": 100}, inputs=inputs, outputs=drawn, runtime=RunOptions())
        assert all(path.read_bytes().startswith(PNG) for path in drawn.values())
