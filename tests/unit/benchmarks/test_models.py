from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from problems import predictions_of
from task_reports import changed, method_of, target_of, task_of

from aam.config.configuration import load
from benchmarks import models

MODEL = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
BATCH = {"targets": "batch", "distances": {"unweighted": 1}}
MODELS = {
    "slow": {**MODEL, "patch_bp": 1},
    "NA": {**MODEL, "encoder": "bilstm", "pretraining": {"distances": {"unweighted": 1}}},
    "basic": {**MODEL, "optimization": {"level": "basic"}, "pretraining": BATCH},
}
STEP_S = {"slow": 0.4, "NA": 0.1, "basic": 0.16}
PEARSON = {
    "slow": {10: 0.5, 20: 0.7},
    "NA": {10: 0.2, 20: 0.4, 40: 0.6},
    "basic": {20: 0.1, 40: 0.5, 60: 0.9},
}
COLUMNS = """model encoder patch_bp level batch_size parameters step_ms_median step_ms_iqr
samples_per_s peak_memory_mb steps train_s pearson equal_steps pearson_equal_steps equal_s
pearson_equal_s equal_pearson s_equal_pearson age:mae_fold_mean"""
METRICS = ("unifrac/unweighted", "unifrac/faith_pd")
TASK = {"dataset": "d", "column": "age", "kind": "regression", "folds": {"k": 2}}


def history(name: str) -> pd.DataFrame:
    columns = ["step", "split", "name", "value"]
    learned = [(k, "validation", "unweighted_pearson", r) for k, r in PEARSON[name].items()]
    other = [(10, "train", "loss", 3.0), (10, "validation", "unweighted_mae", 0.3)]
    return pd.DataFrame([*learned[::-1], *other], columns=columns)


HISTORIES = {name: history(name) for name in MODELS}


@pytest.fixture
def results(tmp_path) -> Path:
    """Return results of which only what is read has any content."""
    folder = tmp_path / "results" / "d"
    metrics = [f"{path}/view0.parquet" for path in METRICS]
    for path in ("tokens/asvs.arrow", "views/samples.arrow", "inputs/tree.nwk", *metrics):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    table = predictions_of(np.arange(9.0), np.arange(9.0) + 1, np.arange(9) % 3)
    median = method_of("regression", table, "median")
    for number, name in enumerate(MODELS):
        pretrained, tuned = folder / "pretrain" / name, folder / "finetune" / name / "age"
        for made in (pretrained, tuned):
            made.mkdir(parents=True)
        history(name).to_parquet(pretrained / "history.parquet")
        own = changed(method_of("regression", table, name, "network"), mae_fold_mean=7.0 + number)
        target = target_of(table, [own, median], "age")
        task_of("regression", "age", target, answer=name).write(tuned / "scores.json")
    return folder


def test_models_are_compared_by_the_shortest_training(new_config):
    """By steps that of `slow`: 20. By time that of `NA`: 40 steps of 0.1 s."""
    plain_settings = models.settings(load(new_config(models=MODELS)), "d")
    costs = {name: {"step_ms_median": 1e3 * step_s} for name, step_s in STEP_S.items()}
    table, curves = models.side_by_side(plain_settings, costs, HISTORIES)
    assert list(curves.columns) == ["model", "step", "seconds", "pearson"]
    assert table["model"].tolist() == ["slow", "NA", "basic"]
    for column, expected in {
        "pearson": [0.7, 0.6, 0.9],
        "equal_steps": [20] * 3,
        "pearson_equal_steps": [0.7, 0.4, 0.1],
        "equal_s": [4.0] * 3,
        "train_s": [8.0, 4.0, 9.6],
        "pearson_equal_s": [0.5, 0.6, 0.2],
        "s_equal_pearson": [6.0, 4.0, 7.2],
    }.items():
        assert table[column].tolist() == pytest.approx(expected), column
    short = history("NA").assign(step=5, value=0.3)
    found, _ = models.side_by_side(plain_settings, {}, {**HISTORIES, "NA": short, "basic": short})
    assert np.isnan(found.loc[0, "pearson_equal_steps"])
    assert found.loc[1, "pearson_equal_steps"] == 0.3
    assert found["pearson_equal_s"].isna().all()


def test_models_are_timed_in_turns_and_shown_with_scores_or_as_not_run(
    new_config, results, stand_in, instead_of_processes, tmp_path
):
    asked = []

    def measure(request) -> dict | None:
        """Measure steps; `slow` cannot run."""
        found = stand_in(request)
        if request["kind"] != "steps":
            return found
        shape = request["settings"]["model"]
        other = "NA" if shape["encoder"] == "bilstm" else "basic"
        name = "slow" if shape["patch_bp"] == 1 else other
        asked.append((name, request))
        step_s = [STEP_S[name]] * len(found["step_s"])
        return None if name == "slow" else {**found, "step_s": step_s}

    instead_of_processes(measure)
    config = tmp_path / "config.yaml"
    sections = {"models": MODELS, "tasks": {"age": TASK}, "rarefaction": {"views": 1}}
    config.write_text(yaml.safe_dump(new_config(**sections), sort_keys=False))
    folder = tmp_path / "compared"
    models.main([str(config), "d", "--results", str(results.parent), "--folder", str(folder)])
    assert [name for name, _ in asked] == ["slow", "NA", "basic", "NA", "basic"]
    requests = dict(asked)
    assert {r["settings"]["pretraining"]["batch_size"] for r in requests.values()} == {4}
    path = folder / "models.tsv"
    table = pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""])
    assert table["model"].tolist() == list(MODELS)
    assert list(table.columns) == COLUMNS.split()
    assert table["step_ms_median"].tolist() == pytest.approx([np.nan, 100, 160], nan_ok=True)
    assert table["equal_s"].tolist() == pytest.approx([4.0] * 3)
    assert table["age:mae_fold_mean"].tolist() == [7.0, 8.0, 9.0]
    page = (folder / "models.md").read_text()
    for words in (
        "r after 20 steps | r after 4 s | s to r 0.600 | age: MAE, mean of the folds |",
        "| slow | transformer, 1 bp per token | advanced |  |  | not run |  | 20 | 0.700 |",
        "| NA | bilstm, 5 bp per token | advanced | 1,234 | 4 | 100 (0) |",
        "\n- device: none\n",
        "\n- task age: recipe auto, pretrained\n",
    ):
        assert words in page
    assert (folder / "models_curves.tsv").is_file()
    assert "<svg" in (folder / "models.svg").read_text()
