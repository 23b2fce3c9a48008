import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from aam.bench import models
from aam.config import slices
from aam.config.configuration import load
from aam.config.figures import PLOTS
from aam.evaluate.figures.models import draw_models
from aam.evaluate.scores import MAIN
from aam.runtime.run_options import RunOptions
from aam.stages import benchmark_models, plot
from aam.util.errors import InputError

MODEL = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
MODELS = {
    "slow": {**MODEL, "patch_bp": 1},
    "NA": {**MODEL, "encoder": "bilstm", "pretraining": {"distances": {"unweighted": 1}}},
    "basic": {**MODEL, "optimization": {"level": "basic"}},
}
STEP_S = {"slow": 0.4, "NA": 0.1, "basic": 0.16}
PEARSON = {
    "slow": {10: 0.5, 20: 0.7},
    "NA": {10: 0.2, 20: 0.4, 40: 0.6},
    "basic": {20: 0.1, 40: 0.5, 60: 0.9},
}
COLUMNS = """model encoder patch_bp level batch_size parameters step_ms_median step_ms_iqr
samples_per_s peak_memory_mb steps train_s pearson equal_steps pearson_equal_steps equal_s
pearson_equal_s age:mae_fold_mean"""
DATA = {"tokens": "t", "samples": "s", "distances": ["u0", "u1", "f0", "f1"]}


@pytest.fixture
def cfg(new_config) -> dict:
    return slices.models(load(new_config(models=MODELS)), "d")


@pytest.fixture
def measure(cfg, stand_in):
    """Return the function that stands in for a measurement, and notes what it was asked."""
    asked = []

    def is_of(model, request) -> bool:
        return model["model"] == request["model"] and (
            model["optimization"]["level"] == request["optimization"]["level"]
        )

    def answer(request) -> dict:
        asked.append(request)
        result = stand_in(request)
        if request["kind"] == "steps":
            (name,) = (n for n, model in cfg["models"].items() if is_of(model, request["cfg"]))
            request["model"] = name
            result["step_s"] = [STEP_S[name]] * len(result["step_s"])
        return result

    answer.asked = asked
    return answer


def history(name: str) -> pd.DataFrame:
    columns = ["step", "split", "name", "value"]
    learned = [(k, "validation", "unweighted_pearson", r) for k, r in PEARSON[name].items()]
    other = [(10, "train", "loss", 3.0), (10, "validation", "unweighted_mae", 0.3)]
    return pd.DataFrame([*learned[::-1], *other], columns=columns)


HISTORIES = {name: history(name) for name in MODELS}


@pytest.mark.parametrize(
    ("training", "problem"),
    [
        ({"distances": {"faith_pd": 1}}, "different distances"),
        ({"held_out": 0.3}, r"different samples, by pretraining\.held_out"),
        ({"seed": 5}, r"different samples, by pretraining\.seed"),
        ({"epochs": 5}, None),
    ],
)
def test_models_must_learn_one_distance_and_hold_out_the_same(new_config, training, problem):
    both = {"b": {**MODEL, "pretraining": training}, "NA": MODELS["NA"]}
    config = load(new_config(models=both, unifrac={"metrics": ["faith_pd", "unweighted"]}))
    assert slices.comparable(config, "d") == (problem is None)
    if problem is not None:
        cfg = slices.models(config, "d")
        with pytest.raises(InputError, match=rf"models: .*{problem}.*Hint"):
            benchmark_models.run(cfg, inputs={}, outputs={}, runtime=RunOptions())
    assert not slices.comparable(load(new_config()), "d"), "one model is not compared"


def test_models_are_timed_in_turns_as_they_are_configured(cfg, measure):
    costs, about = models.step_costs(measure, cfg, DATA, RunOptions())
    assert about == {"device": "none"}
    step_ms = [cost["step_ms_median"] for cost in costs.values()]
    assert step_ms == pytest.approx([1e3 * STEP_S[name] for name in costs])
    first, *steps = measure.asked
    assert first["kind"] == "device"
    assert [request["model"] for request in steps] == [*MODELS, *MODELS]
    by_name = {request["model"]: request for request in steps}
    assert by_name["NA"]["inputs"]["distances"] == ["u0", "u1"]
    assert by_name["basic"]["inputs"]["distances"] == DATA["distances"]
    attention = {name: by_name[name]["cfg"]["optimization"]["attention"] for name in by_name}
    assert attention == {"slow": "auto", "NA": "auto", "basic": "math"}
    assert {request["cfg"]["pretraining"]["batch_size"] for request in steps} == {4}
    assert not any(any(request["batch"].values()) for request in steps)


def test_models_are_compared_by_the_shortest_training(cfg):
    """By steps that of `slow`: 20. By time that of `NA`: 40 steps of 0.1 s."""
    costs = {name: {"step_ms_median": 1e3 * step_s} for name, step_s in STEP_S.items()}
    table, curves = models.side_by_side(cfg, costs, HISTORIES)
    assert list(curves.columns) == ["model", "step", "seconds", "pearson"]
    assert table["model"].tolist() == ["slow", "NA", "basic"]
    for column, expected in {
        "pearson": [0.7, 0.6, 0.9],
        "equal_steps": [20] * 3,
        "pearson_equal_steps": [0.7, 0.4, 0.1],
        "equal_s": [4.0] * 3,
        "train_s": [8.0, 4.0, 9.6],
        # `slow` is at its first validation, `basic` a quarter of the way to its second.
        "pearson_equal_s": [0.5, 0.6, 0.2],
    }.items():
        assert table[column].tolist() == pytest.approx(expected), column
    # Before the first validation there is nothing to be said, nor without times.
    short = history("NA").assign(step=5, value=0.3)
    found, _ = models.side_by_side(cfg, {}, {**HISTORIES, "NA": short, "basic": short})
    assert np.isnan(found.loc[0, "pearson_equal_steps"])
    assert found.loc[1, "pearson_equal_steps"] == 0.3
    assert found["pearson_equal_s"].isna().all()


def test_a_model_that_cannot_run_has_no_costs(cfg, measure, figures, tmp_path):
    def failing(request):
        answer = measure(request)
        return None if request.get("model") == "slow" else answer

    costs, _ = models.step_costs(failing, cfg, DATA, RunOptions())
    table, curves = models.side_by_side(cfg, costs, HISTORIES)
    assert table["step_ms_median"].isna().tolist() == [True, False, False]
    assert table["equal_s"].tolist() == pytest.approx([4.0] * 3)
    row = "| slow | transformer, 1 bp per token | advanced |  |  | not run |  | 20 | 0.700 |"
    assert row in models.models_page(table, "unweighted", {})
    draw_models(table, curves, tmp_path / "models.png")
    steps, _, step_ms, *_ = figures[0].axes
    assert [len(line.get_xdata()) for line in steps.lines[:3]] == [2, 3, 3]
    assert "not run" in [text.get_text() for text in step_ms.texts]


def test_the_stage_writes_scores_beside_costs_and_the_figure_shows_them(
    cfg, files, measure, tmp_path, instead_of_processes
):
    instead_of_processes(measure)
    histories = [tmp_path / f"{name}.parquet" for name in MODELS]
    reports = [tmp_path / f"{name}.json" for name in MODELS]
    report = {"task": "age", "kind": "regression", "n": 9, "encoder": "frozen"}
    report |= {"start": "pretrained", **dict.fromkeys(MAIN["regression"], 1.0)}
    for number, name in enumerate(MODELS):
        history(name).to_parquet(histories[number])
        own = {**report, "model": name, "mae_fold_mean": 7.0 + number}
        reports[number].write_text(json.dumps({**own, "baselines": {"median": report}}))
    inputs = {**files, "histories": histories, "metrics": reports}
    made = {name: tmp_path / f"{name}.tsv" for name in ("table", "curves", "text")}
    benchmark_models.run(cfg, inputs=inputs, outputs=made, runtime=RunOptions(threads=1))
    table = pd.read_csv(made["table"], sep="\t", keep_default_na=False, na_values=[""])
    assert table["model"].tolist() == list(MODELS)
    assert list(table.columns) == COLUMNS.split()
    assert table["age:mae_fold_mean"].tolist() == [7.0, 8.0, 9.0]
    page = made["text"].read_text()
    assert "r after 20 steps | r after 4 s | age: MAE, mean of the folds |" in page
    assert "| NA | bilstm, 5 bp per token | advanced | 1,234 | 4 | 100 (0) |" in page
    assert "- task age: encoder frozen, pretrained" in page
    drawn = {"models": made["table"], "curves": made["curves"]}
    figure = tmp_path / "models.png"
    outputs, draw = {"models": figure}, {"draw": PLOTS["models"].draw}
    plot.run(draw, inputs=drawn, outputs=outputs, runtime=RunOptions())
    assert np.ptp(imread(figure)) > 0.5
