"""What covariates say, alone and with features: against plain refits, and in the odd cases."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import problem_of

from aam.data.covariates import Covariates
from aam.learners import covariate_methods as module
from aam.learners.baselines.linear_and_nearest import centred_log_ratios
from aam.learners.baselines.problem import leave_parts_out, prevalent_reads
from aam.learners.covariate_methods import ALONE, JOINT, fit_with_covariates, make_columns

SAMPLES = 60
FOLDS = 5


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TREES", 20)


def study(kind: str, *, adds: float = 0.0, seed: int = 0):
    """Return a task whose target follows from a number, and from a feature where it adds."""
    rng = np.random.default_rng(seed)
    age_N = rng.normal(50, 10, SAMPLES)
    hidden_N = rng.normal(size=SAMPLES)
    log_NF = 3 + 0.5 * rng.normal(size=(SAMPLES, 8))
    log_NF[:, 0] += hidden_N
    target = (age_N - 50) / 10 + adds * hidden_N + 0.3 * rng.normal(size=SAMPLES)
    if kind != "regression":
        target = np.where(target > np.median(target), "b", "a")
    counts = rng.poisson(np.exp(log_NF)).astype(float)
    distances = np.zeros((SAMPLES, SAMPLES))
    classes = "" if kind == "regression" else "ab"
    task = problem_of(target, counts, distances, np.arange(SAMPLES) % FOLDS, classes)
    return task, Covariates({"age": age_N}, {"sex": rng.choice(["m", "f"], SAMPLES).astype(object)})


def losses(predictions: pd.DataFrame) -> pd.Series:
    """Return the mean loss of each method on its held-out samples."""
    if predictions["observed"].dtype == float:
        loss = (predictions["observed"] - predictions["predicted"]).abs()
    else:
        loss = (predictions["observed"] != predictions["predicted"]).astype(float)
    return loss.groupby(predictions["baseline"]).mean()


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_what_features_say_beyond_covariates_is_found_and_nothing_is_made_up(kind):
    constant = {"regression": 1.0, "classification": 0.5}[kind]
    task, covariates = study(kind, adds=1.5)
    loss = losses(fit_with_covariates(task, covariates, threads=1).predictions)
    assert loss["joint_ridge"] < 0.75 * loss["covariate_spline"] < 0.75 * 1.6 * constant
    task, covariates = study(kind)
    loss = losses(fit_with_covariates(task, covariates, threads=1).predictions)
    assert loss["covariate_spline"] < 0.5 * constant
    assert loss["joint_ridge"] < 1.2 * loss["covariate_spline"] + 0.02


def test_nested_predictions_have_seen_neither_the_block_nor_the_sample():
    task, covariates = study("regression", adds=1.0)
    fitted = fit_with_covariates(task, covariates, threads=1)
    predictions, nested = fitted.predictions, fitted.nested
    assert [*predictions["baseline"].unique()] == [*ALONE, *JOINT]
    assert predictions.groupby("baseline")["row"].apply(list).tolist() == [[*range(SAMPLES)]] * 4
    # All samples but those of the block, once per block and method.
    assert len(nested) == 4 * FOLDS * SAMPLES * (FOLDS - 1) // FOLDS
    assert (task.fold[nested["row"].to_numpy(int)] != nested["without"]).all()
    # Other labels of block 0 change nothing that was predicted without it.
    target_N = np.where(task.fold == 0, 100.0, task.target)
    others = fit_with_covariates(replace(task, target=target_N), covariates, threads=1)
    kept = nested[nested["without"] == 0]
    again = others.nested[others.nested["without"] == 0]
    pd.testing.assert_frame_equal(kept, again)
    fold = predictions[predictions["fold"] == 0]["predicted"]
    pd.testing.assert_series_equal(
        fold, others.predictions[others.predictions["fold"] == 0]["predicted"]
    )


def test_processes_change_nothing(monkeypatch):
    # Other processes would not see a changed number of trees.
    monkeypatch.undo()
    task, covariates = study("classification", adds=1.0)
    task = replace(task, fold=task.fold % 2)
    one, two = (fit_with_covariates(task, covariates, threads) for threads in (1, 2))
    pd.testing.assert_frame_equal(one.predictions, two.predictions)
    pd.testing.assert_frame_equal(one.nested, two.nested)


def test_the_ridge_is_that_of_plain_refits(monkeypatch):
    task, _ = study("regression", adds=1.0)
    part = replace(task, held_out=0)
    left_TK = task.target[part.train][:, None] - task.target[part.train].mean()
    weight_T = np.random.default_rng(0).uniform(0.5, 2, len(left_TK))
    splits = leave_parts_out(part)
    found = {
        penalty: _ridge_with(monkeypatch, penalty, part, left_TK, weight_T, splits)
        for penalty in (1e-2, 0.1)
    }
    log_NP = centred_log_ratios(prevalent_reads(part))
    log_NP -= log_NP[part.train].mean(axis=0)
    log_NP /= np.sqrt(np.square(log_NP[part.train]).sum(axis=1).mean())

    def refit(rows, others, penalty):
        train = log_NP[part.train][others]
        gram = train.T * weight_T[others] @ train
        gram += penalty * len(part.train) * np.eye(train.shape[1])
        slope = np.linalg.solve(gram, train.T * weight_T[others] @ left_TK[others])
        return log_NP[rows] @ slope

    every = np.arange(len(part.train))
    loss = {}
    for penalty, said in found.items():
        np.testing.assert_allclose(said, refit(part.test, every, penalty), atol=1e-8)
        errors = [
            weight_T[out] @ (left_TK[out] - refit(part.train[out], others, penalty)) ** 2
            for others, out in splits
        ]
        loss[penalty] = float(np.sum(errors))
    # The penalty that is best in plain refits is chosen.
    best = min(loss, key=lambda penalty: loss[penalty])
    monkeypatch.setattr(module, "RIDGE", tuple(found))
    chosen = module._learn_ridge(part, left_TK, weight_T, splits)
    np.testing.assert_allclose(chosen, found[best], atol=1e-12)


def _ridge_with(monkeypatch, penalty, part, left_TK, weight_T, splits):
    monkeypatch.setattr(module, "RIDGE", (penalty,))
    return module._learn_ridge(part, left_TK, weight_T, splits)


def test_columns_are_made_by_the_training_samples_alone():
    age = np.array([20.0, 30, 40, 50, 60, np.nan, 1e9])
    sex = np.array(["m", "f", "m", "f", "rare", "", "new"], object)
    train = np.arange(5)
    columns = make_columns(Covariates({"age": age}, {"sex": sex}), train)
    # A value beyond those of training counts as the last of them, a missing one as the median.
    assert columns[6, 0] == columns[4, 0]
    assert columns[5, 0] == columns[2, 0]
    # Of the categories, the two that several training samples have are columns.
    assert columns[:, -2:].tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, 0], [0, 0], [0, 0]]
    changed = make_columns(Covariates({"age": age[:6]}, {"sex": sex[:6]}), train)
    np.testing.assert_array_equal(columns[:6], changed)


ODD = {
    "a constant": Covariates({}, {"site": np.full(SAMPLES, "gut", object)}),
    "an empty column": Covariates({"age": np.full(SAMPLES, np.nan)}, {}),
    "names": Covariates({}, {"name": np.arange(SAMPLES).astype(str).astype(object)}),
    "one far number": Covariates({"dose": np.r_[np.zeros(SAMPLES - 1), 1e12]}, {}),
    "a category of one fold": Covariates(
        {}, {"run": np.where(np.arange(SAMPLES) % FOLDS == 1, "one", "others").astype(object)}
    ),
}


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("covariates", ODD.values(), ids=list(ODD))
def test_columns_that_say_nothing_are_no_better_than_a_constant(kind, covariates):
    task, _ = study(kind)
    fitted = fit_with_covariates(task, covariates, threads=1)
    predictions, nested = fitted.predictions, fitted.nested
    tables = [predictions, nested]
    for table in tables:
        assert np.isfinite(table.select_dtypes(float).to_numpy()).all()
    loss = losses(predictions)
    constant = np.abs(task.target - np.median(task.target)).mean() if kind == "regression" else 0.5
    assert loss["covariate_spline"] > 0.8 * constant


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_covariate_that_is_the_target_says_all(kind):
    task, _ = study(kind)
    if kind == "regression":
        same = Covariates({"age again": task.target.astype(float)}, {})
    else:
        same = Covariates({}, {"class again": task.target.astype(object)})
    loss = losses(fit_with_covariates(task, same, threads=1).predictions)
    assert loss["covariate_spline"] < 0.05
    assert loss["joint_ridge"] < 0.05


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_numbers_have_the_unit_of_the_target(unit):
    task, covariates = study("regression", adds=1.0)
    first = fit_with_covariates(task, covariates, threads=1).predictions["predicted"]
    other = fit_with_covariates(
        replace(task, target=task.target * unit), covariates, threads=1
    ).predictions
    np.testing.assert_allclose(other["predicted"] / unit, first, rtol=1e-3, atol=1e-3)


def test_samples_set_aside_are_predicted_and_teach_nothing():
    task, covariates = study("classification")
    fold_N = np.where(np.arange(SAMPLES) < 10, -1, task.fold)
    held_out = replace(task, fold=fold_N)
    fitted = fit_with_covariates(held_out, covariates, threads=1)
    predictions, nested = fitted.predictions, fitted.nested
    assert set(predictions.loc[predictions["fold"] == -1, "row"]) == set(range(10))
    assert nested["row"].min() == 10
    target = np.where(fold_N == -1, "a", task.target)
    again = fit_with_covariates(replace(held_out, target=target), covariates, threads=1)
    columns = ["predicted", "probability:a", "probability:b"]
    pd.testing.assert_frame_equal(predictions[columns], again.predictions[columns])


def test_many_samples_are_learned_from_landmarks_alone():
    task, covariates = study("regression", adds=1.0)
    landmarks = np.arange(0, SAMPLES, 2)
    few = replace(task, landmarks=landmarks)
    predictions = fit_with_covariates(few, covariates, threads=1).predictions
    assert predictions.groupby("baseline").size().tolist() == [SAMPLES] * 4
    target = np.where(np.isin(np.arange(SAMPLES), landmarks), task.target, 100.0)
    again = fit_with_covariates(replace(few, target=target), covariates, threads=1).predictions
    pd.testing.assert_series_equal(predictions["predicted"], again["predicted"])
