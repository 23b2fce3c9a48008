"""What covariates say, alone and with features: against plain refits, and in the odd cases."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import problem_of
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from aam.data.covariates import Covariates
from aam.learners import covariate_methods as module
from aam.learners.baselines.linear_and_nearest import centred_log_ratios
from aam.learners.baselines.problem import frequent_reads, leave_parts_out, prevalent_reads
from aam.learners.covariate_methods import (
    ALONE,
    JOINT,
    MedianRidge,
    fit_with_covariates,
    make_columns,
)

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


@pytest.mark.parametrize("penalty", [0.5, 1.0, 30.0])
def test_a_median_ridge_has_the_least_absolute_errors_and_squared_coefficients(penalty):
    rng = np.random.default_rng(0)
    column = rng.normal(size=41)
    target = 3 + column + rng.standard_t(2, 41)
    scale = np.abs(target - np.median(target)).mean()

    def loss(parameter):
        missed = np.abs(target - parameter[0] - parameter[1] * column).sum()
        return scale * missed + penalty / 2 * parameter[1] ** 2

    best = minimize(loss, [3, 1], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    fitted = MedianRidge(penalty).fit(column[:, None], target)
    assert loss(fitted.coefficients_) < best.fun * (1 + 2e-3)
    assert fitted.predict(np.array([[0.0], [2.0]])).tolist() == pytest.approx(
        [fitted.coefficients_[0], fitted.coefficients_[0] + 2 * fitted.coefficients_[1]]
    )
    if penalty == 1.0:
        default = MedianRidge().fit(column[:, None], target)
        assert default.coefficients_.tolist() == fitted.coefficients_.tolist()


def test_a_median_ridge_of_equal_numbers_predicts_them():
    fitted = MedianRidge().fit(np.arange(6.0)[:, None] - 2.5, np.full(6, 7.0))
    assert fitted.predict(np.array([[100.0]])).tolist() == pytest.approx([7.0])
    # Without a column that varies, the median is what is left.
    of_nothing = MedianRidge().fit(np.zeros((5, 1)), np.array([0.0, 1, 2, 50, 60]))
    assert of_nothing.predict(np.zeros((1, 1))).tolist() == pytest.approx([2.0], abs=0.05)


def spline_by_harrell(value: np.ndarray, knots: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the standardized columns of a restricted cubic spline (Harrell, section 2.4.5)."""
    columns = [value]
    last, before = knots[-1], knots[-2]
    for knot in knots[:-2]:
        column = [
            max(x - knot, 0) ** 3
            - max(x - before, 0) ** 3 * (last - knot) / (last - before)
            + max(x - last, 0) ** 3 * (before - knot) / (last - before)
            for x in value
        ]
        columns.append(np.array(column))
    return np.stack([(one - one[train].mean()) / one[train].std() for one in columns], axis=1)


@pytest.mark.parametrize(
    ("known", "levels"), [(99, (0.1, 0.5, 0.9)), (100, (0.05, 0.35, 0.65, 0.95))]
)
def test_a_number_is_a_restricted_cubic_spline(known, levels):
    rng = np.random.default_rng(1)
    value = rng.gamma(2, 10, known + 20)
    train = np.arange(known)
    inside = np.clip(value, value[train].min(), value[train].max())
    expected = spline_by_harrell(inside, np.quantile(value[train], levels), train)
    found = make_columns(Covariates({"age": value}, {}), train)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_missing_number_is_the_median_and_says_so():
    age = np.array([10.0, np.nan, 30, 40, 20, np.nan])
    train = np.arange(5)
    columns = make_columns(Covariates({"age": age}, {}), train)
    filled = np.where(np.isnan(age), 25.0, age)
    knots = np.quantile([10.0, 20, 30, 40], (0.1, 0.5, 0.9))
    expected = np.c_[spline_by_harrell(filled, knots, train), np.isnan(age)]
    np.testing.assert_allclose(columns, expected, atol=1e-9)
    # Where no training sample lacks it, there is nothing to say.
    assert make_columns(Covariates({"age": age}, {}), np.array([0, 2, 3])).shape == (6, 2)


def test_numbers_of_two_values_are_straight_and_constants_are_none():
    two = np.array([0.0, 0, 1, 1, 1])
    train = np.arange(5)
    columns = make_columns(Covariates({"two": two, "one": np.ones(5)}, {}), train)
    np.testing.assert_allclose(columns, ((two - 0.6) / two.std())[:, None])
    nothing = make_columns(Covariates({"one": np.ones(5), "none": np.full(5, np.nan)}, {}), train)
    assert nothing.tolist() == [[0.0]] * 5


def three_classes():
    """Return a fold to predict of a study of three classes of unequal size, and its covariates."""
    task, covariates = study("regression", adds=1.0)
    rank = task.target.argsort().argsort()
    names = np.array(list("cab"))[np.digitize(rank, [30, 50])]
    part = replace(task, kind="classification", classes=["c", "a", "b"], target=names)
    return replace(part.encode(), held_out=1), covariates


def two_classes():
    task, covariates = study("classification", adds=1.0)
    return replace(task.encode(), held_out=1), covariates


def one_number():
    task, covariates = study("regression", adds=1.0)
    return replace(task.encode(), held_out=1), covariates


PARTS = {"three classes": three_classes, "two classes": two_classes, "a number": one_number}


def outcomes(part) -> np.ndarray:
    """Return numbers, or 1 for the class of each training sample in the order of the classes."""
    target = part.target[part.train]
    if part.regression:
        return target[:, None]
    codes = [sorted(part.classes).index(name) for name in part.classes]
    return (target[:, None] == codes).astype(float)


def balance(part) -> np.ndarray:
    target = part.target[part.train]
    if part.regression:
        return np.ones(len(target))
    classes = len(set(target))
    return np.array([len(target) / (classes * (target == one).sum()) for one in target])


def in_order(part, shares: np.ndarray) -> np.ndarray:
    """Return shares of the classes by the alphabet in the order of the task."""
    return shares[:, [sorted(part.classes).index(name) for name in part.classes]]


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_covariates_alone_are_a_linear_model_and_a_forest_of_their_columns(make):
    part, covariates = make()
    columns = make_columns(covariates, part.train)
    train, test, target = columns[part.train], columns[part.test], part.target[part.train]
    found = module._predict_part(part, covariates)
    common = {"n_estimators": 20, "min_samples_leaf": 5, "max_features": 0.5}
    common["random_state"] = part.random_state("covariate_forest")
    if not part.regression:
        model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=500)
        expected = in_order(part, model.fit(train, target).predict_proba(test))
        np.testing.assert_allclose(found["covariate_spline"], expected)
        forest = RandomForestClassifier(**common).fit(train, target, sample_weight=balance(part))
        expected = in_order(part, forest.predict_proba(test))
        np.testing.assert_allclose(found["covariate_forest"], expected)
        return
    expected = MedianRidge(1.0).fit(train, target).predict(test)
    np.testing.assert_allclose(found["covariate_spline"][:, 0], expected)
    forest = RandomForestRegressor(**common).fit(train.astype(np.float32), target)
    own, others = (forest.apply(rows.astype(np.float32)) for rows in (train, test))
    for leaves, value in zip(others, found["covariate_forest"][:, 0], strict=True):
        is_same = own == leaves
        weight = (is_same / is_same.sum(axis=0)).sum(axis=1)
        assert weight[target < value].sum() <= 10 + 1e-6
        assert weight[target <= value].sum() >= 10 - 1e-6


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_features_learn_what_the_covariates_leave_on_parts_left_out(make):
    part, covariates = make()
    columns = make_columns(covariates, part.train)
    left = outcomes(part)
    splits = leave_parts_out(part)
    for training, out in splits:
        train = part.train[training]
        rows = columns[part.train[out]]
        if part.regression:
            guess = MedianRidge(1.0).fit(columns[train], part.target[train]).predict(rows)[:, None]
        else:
            model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=500)
            guess = model.fit(columns[train], part.target[train]).predict_proba(rows)
            guess = in_order(part, guess)
        left[out] -= guess
    weight = balance(part)
    left -= (weight[:, None] * left).sum(axis=0) / weight.sum()
    found = module._predict_part(part, covariates)

    def added(said: np.ndarray) -> np.ndarray:
        value = found["covariate_spline"] + said
        if part.regression:
            return value
        value = np.maximum(value, 0.01)
        return value / value.sum(axis=1, keepdims=True)

    ridge = module._learn_ridge(part, left, weight, splits)
    np.testing.assert_allclose(found["joint_ridge"], added(ridge), atol=1e-9)
    assert np.abs(ridge).max() > 0.05
    reads = frequent_reads(part).toarray()
    forest = RandomForestRegressor(
        n_estimators=20,
        min_samples_leaf=5,
        max_features=0.33,
        random_state=part.random_state("joint_forest"),
    )
    target = left if left.shape[1] == 3 else left[:, 0]
    said = forest.fit(reads[part.train], target, sample_weight=weight).predict(reads[part.test])
    said = said if left.shape[1] == 3 else said[:, None]
    if left.shape[1] == 2:
        said = np.hstack([said, -said])
    np.testing.assert_allclose(found["joint_forest"], added(said), atol=1e-9)


def test_the_penalty_of_the_ridge_is_the_best_of_seven_or_infinite():
    part, _ = one_number()
    splits = leave_parts_out(part)
    weight = np.ones(len(part.train))
    log_NP = centred_log_ratios(prevalent_reads(part))
    log_NP -= log_NP[part.train].mean(axis=0)
    log_NP /= np.sqrt(np.square(log_NP[part.train]).sum(axis=1).mean())
    train = log_NP[part.train]

    def refit(left, rows, others, penalty):
        gram = train[others].T @ train[others] + penalty * len(train) * np.eye(train.shape[1])
        return rows @ np.linalg.solve(gram, train[others].T @ left[others])

    rng = np.random.default_rng(3)
    slope = rng.normal(size=train.shape[1])
    chosen = []
    for noise in (0.02, 0.3, 1.0, 3.0, 300.0):
        left = (train @ slope + noise * rng.normal(size=len(train)))[:, None]
        left -= left.mean()
        losses = {np.inf: np.square(left).sum()}
        for penalty in (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0):
            losses[penalty] = sum(
                np.square(left[out] - refit(left, train[out], others, penalty)).sum()
                for others, out in splits
            )
        best = min(losses, key=losses.__getitem__)
        chosen.append(best)
        found = module._learn_ridge(part, left, weight, splits)
        if best == np.inf:
            assert not found.any()
        else:
            every = np.arange(len(train))
            expected = refit(left, log_NP[part.test], every, best)
            np.testing.assert_allclose(found, expected, atol=1e-8)
    assert chosen[0] == 1e-3
    assert chosen[-1] == np.inf
    assert len(set(chosen)) > 3
    # What cannot be tried is not said.
    assert not module._learn_ridge(part, left, weight, []).any()


def test_features_that_do_not_vary_say_nothing():
    part, _ = one_number()
    part = replace(part, counts=csr_array(np.ones((SAMPLES, 8))))
    left = part.target[part.train][:, None] - part.target[part.train].mean()
    said = module._learn_ridge(part, left, np.ones(len(left)), leave_parts_out(part))
    np.testing.assert_allclose(said, 0, atol=1e-12)


def test_one_class_in_training_is_all_that_covariates_say():
    part, covariates = three_classes()
    columns = make_columns(covariates, part.train)
    rows = part.train[part.target[part.train] == 0]
    said = module._predict_spline(part, columns, rows, part.test)
    # Code 0 is the class a, which is the second one.
    assert said.tolist() == [[0.0, 1.0, 0.0]] * len(part.test)
