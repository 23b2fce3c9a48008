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
    FEW_KNOTS,
    JOINT,
    KNOTS,
    LEAF,
    LEAST_PROBABILITY,
    MANY,
    PENALTY,
    RIDGE,
    MedianRidge,
    fit_with_covariates,
    make_columns,
)

SAMPLES = 60
FOLDS = 4


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TREES", 5)


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


def scaled_log_ratios(part) -> np.ndarray:
    """Return centred log-ratios [N, P] whose mean square length in training is 1."""
    log_NP = centred_log_ratios(prevalent_reads(part))
    log_NP -= log_NP[part.train].mean(axis=0)
    return log_NP / np.sqrt(np.square(log_NP[part.train]).sum(axis=1).mean())


def refit_ridge(part, left_TK, weight_T, *, rows, others, penalty) -> np.ndarray:
    """Return what a ridge, which learns from some of the training samples, says of some rows.

    Parameters
    ----------
    part
        The fold to predict.
    left_TK, weight_T
        What is left of the training samples, and their weights.
    rows
        Rows to predict.
    others
        Training samples to learn from.
    penalty
        Penalty for each training sample.
    """
    log_NP = scaled_log_ratios(part)
    train = log_NP[part.train][others]
    gram = train.T * weight_T[others] @ train
    gram += penalty * len(part.train) * np.eye(train.shape[1])
    return log_NP[rows] @ np.linalg.solve(gram, train.T * weight_T[others] @ left_TK[others])


def error_of_refits(part, left_TK, weight_T, penalty) -> float:
    """Return the squared error of ridges on parts that were left out."""
    errors = []
    for others, out in leave_parts_out(part):
        rows = part.train[out]
        said = refit_ridge(part, left_TK, weight_T, rows=rows, others=others, penalty=penalty)
        errors.append(weight_T[out] @ (left_TK[out] - said) ** 2)
    return float(np.sum(errors))


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
    every = np.arange(len(part.train))
    loss = {}
    for penalty, said in found.items():
        expected = refit_ridge(
            part, left_TK, weight_T, rows=part.test, others=every, penalty=penalty
        )
        np.testing.assert_allclose(said, expected, atol=1e-8)
        loss[penalty] = error_of_refits(part, left_TK, weight_T, penalty)
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
    # Steps of reweighting come near the minimum, where the loss has an edge.
    assert loss(fitted.coefficients_) < best.fun * (1 + 2e-3)
    assert fitted.predict(np.array([[0.0], [2.0]])).tolist() == pytest.approx(
        [fitted.coefficients_[0], fitted.coefficients_[0] + 2 * fitted.coefficients_[1]]
    )


def test_a_median_ridge_of_equal_numbers_predicts_them():
    fitted = MedianRidge().fit(np.arange(6.0)[:, None] - 2.5, np.full(6, 7.0))
    assert fitted.predict(np.array([[100.0]])).tolist() == pytest.approx([7.0])


def test_a_median_ridge_without_a_column_that_varies_predicts_the_median():
    fitted = MedianRidge().fit(np.zeros((5, 1)), np.array([0.0, 1, 2, 50, 60]))
    assert fitted.predict(np.zeros((1, 1))).tolist() == pytest.approx([2.0], abs=0.05)


def restricted_cubic_spline(value: np.ndarray, knots: np.ndarray, train: np.ndarray) -> np.ndarray:
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


@pytest.mark.parametrize(("known", "levels"), [(MANY - 1, FEW_KNOTS), (MANY, KNOTS)])
def test_a_number_is_a_restricted_cubic_spline_with_more_knots_where_many_are_known(known, levels):
    rng = np.random.default_rng(1)
    value = rng.gamma(2, 10, known + 20)
    train = np.arange(known)
    inside = np.clip(value, value[train].min(), value[train].max())
    expected = restricted_cubic_spline(inside, np.quantile(value[train], levels), train)
    found = make_columns(Covariates({"age": value}, {}), train)
    np.testing.assert_allclose(found, expected, atol=1e-9)


AGE = np.array([10.0, np.nan, 30, 40, 20, np.nan])


def test_a_missing_number_is_the_median_and_a_column_says_that_it_is_missing():
    train = np.arange(5)
    columns = make_columns(Covariates({"age": AGE}, {}), train)
    filled = np.where(np.isnan(AGE), 25.0, AGE)
    knots = np.quantile([10.0, 20, 30, 40], FEW_KNOTS)
    expected = np.c_[restricted_cubic_spline(filled, knots, train), np.isnan(AGE)]
    np.testing.assert_allclose(columns, expected, atol=1e-9)


def test_where_no_training_sample_lacks_a_number_no_column_says_that_it_is_missing():
    # The two columns are those of the spline.
    assert make_columns(Covariates({"age": AGE}, {}), np.array([0, 2, 3])).shape == (6, 2)


def test_a_number_of_two_values_is_one_standardized_column():
    two = np.array([0.0, 0, 1, 1, 1])
    columns = make_columns(Covariates({"two": two, "one": np.ones(5)}, {}), np.arange(5))
    np.testing.assert_allclose(columns, ((two - 0.6) / two.std())[:, None])


def test_covariates_that_do_not_vary_are_a_column_of_zeros():
    covariates = Covariates({"one": np.ones(5), "none": np.full(5, np.nan)}, {})
    assert make_columns(covariates, np.arange(5)).tolist() == [[0.0]] * 5


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


CLASSES = {"three classes": three_classes, "two classes": two_classes}
PARTS = {**CLASSES, "a number": one_number}
every_part = pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)


def outcomes(part) -> np.ndarray:
    """Return numbers, or 1 for the class of each training sample in the order of the classes."""
    target = part.target[part.train]
    if part.regression:
        return target[:, None]
    codes = [sorted(part.classes).index(name) for name in part.classes]
    return (target[:, None] == codes).astype(float)


def balanced_weights(part) -> np.ndarray:
    """Return the weights of the training samples with which classes count alike."""
    target = part.target[part.train]
    if part.regression:
        return np.ones(len(target))
    classes = len(set(target))
    return np.array([len(target) / (classes * (target == one).sum()) for one in target])


def in_order(part, shares: np.ndarray) -> np.ndarray:
    """Return shares of the classes by the alphabet in the order of the task."""
    return shares[:, [sorted(part.classes).index(name) for name in part.classes]]


def linear_model_says(part, columns: np.ndarray, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return what a linear model of the columns says: numbers, or shares of balanced classes."""
    if part.regression:
        model = MedianRidge(PENALTY).fit(columns[train], part.target[train])
        return model.predict(columns[rows])[:, None]
    model = LogisticRegression(C=1 / PENALTY, class_weight="balanced", max_iter=500)
    model.fit(columns[train], part.target[train])
    return in_order(part, model.predict_proba(columns[rows]))


def covariate_forest(part) -> dict:
    """Return the settings with which scikit-learn grows the forest of covariates."""
    seed = part.random_state("covariate_forest")
    return {
        "n_estimators": module.TREES,
        "min_samples_leaf": LEAF,
        "max_features": 0.5,
        "random_state": seed,
    }


@every_part
def test_the_spline_is_a_median_ridge_or_a_balanced_logistic_regression(make):
    part, covariates = make()
    columns = make_columns(covariates, part.train)
    expected = linear_model_says(part, columns, part.train, part.test)
    found = module._predict_part(part, covariates)["covariate_spline"]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("make", CLASSES.values(), ids=CLASSES)
def test_a_forest_of_covariates_votes_with_balanced_classes(make):
    part, covariates = make()
    columns = make_columns(covariates, part.train)
    forest = RandomForestClassifier(**covariate_forest(part))
    target = part.target[part.train]
    forest.fit(columns[part.train], target, sample_weight=balanced_weights(part))
    expected = in_order(part, forest.predict_proba(columns[part.test]))
    found = module._predict_part(part, covariates)["covariate_forest"]
    np.testing.assert_allclose(found, expected)


def test_a_forest_of_covariates_predicts_the_median_of_the_samples_in_its_leaves():
    part, covariates = one_number()
    columns = make_columns(covariates, part.train).astype(np.float32)
    target = part.target[part.train]
    forest = RandomForestRegressor(**covariate_forest(part)).fit(columns[part.train], target)
    own, others = forest.apply(columns[part.train]), forest.apply(columns[part.test])
    found = module._predict_part(part, covariates)["covariate_forest"][:, 0]
    for leaves, value in zip(others, found, strict=True):
        # Every tree has a weight of one, which the samples of a leaf share.
        is_same = own == leaves
        weight = (is_same / is_same.sum(axis=0)).sum(axis=1)
        half = module.TREES / 2
        assert weight[target < value].sum() <= half + 1e-6
        assert weight[target <= value].sum() >= half - 1e-6


def left_by_spline(part, covariates: Covariates) -> tuple[np.ndarray, np.ndarray]:
    """Return what the spline, fitted to other parts, leaves of the training samples.

    Returns
    -------
    tuple of numpy.ndarray
        What is left, around its weighted mean, and the weights of the samples.
    """
    columns = make_columns(covariates, part.train)
    left = outcomes(part)
    for training, out in leave_parts_out(part):
        left[out] -= linear_model_says(part, columns, part.train[training], part.train[out])
    weight = balanced_weights(part)
    return left - np.average(left, axis=0, weights=weight), weight


def add_to_spline(part, spline: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Return numbers, or probabilities that are not below the least one."""
    if part.regression:
        return spline + said
    value = np.maximum(spline + said, LEAST_PROBABILITY)
    return value / value.sum(axis=1, keepdims=True)


@every_part
def test_the_ridge_learns_what_the_spline_leaves_of_parts_that_it_has_not_seen(make):
    part, covariates = make()
    left, weight = left_by_spline(part, covariates)
    # The ridge itself is compared with plain refits in the tests above and below.
    said = module._learn_ridge(part, left, weight, leave_parts_out(part))
    found = module._predict_part(part, covariates)
    expected = add_to_spline(part, found["covariate_spline"], said)
    np.testing.assert_allclose(found["joint_ridge"], expected, atol=1e-9)
    assert np.abs(said).max() > 0.05, "there is nothing to learn"


@every_part
def test_a_forest_learns_what_the_spline_leaves_of_parts_that_it_has_not_seen(make):
    part, covariates = make()
    left, weight = left_by_spline(part, covariates)
    reads = frequent_reads(part).toarray()
    forest = RandomForestRegressor(
        n_estimators=module.TREES,
        min_samples_leaf=LEAF,
        max_features=0.33,
        random_state=part.random_state("joint_forest"),
    )
    # What is said of one of two classes is, with the other sign, that of the other.
    target = left if left.shape[1] == 3 else left[:, 0]
    forest.fit(reads[part.train], target, sample_weight=weight)
    said = forest.predict(reads[part.test]).reshape(len(part.test), -1)
    if left.shape[1] == 2:
        said = np.hstack([said, -said])
    found = module._predict_part(part, covariates)
    expected = add_to_spline(part, found["covariate_spline"], said)
    np.testing.assert_allclose(found["joint_forest"], expected, atol=1e-9)


def noisy_rest(part, noise: float) -> np.ndarray:
    """Return what is left of the training samples: a sum of features, and noise."""
    rng = np.random.default_rng(3)
    train = scaled_log_ratios(part)[part.train]
    left = train @ rng.normal(size=train.shape[1]) + noise * rng.normal(size=len(train))
    return (left - left.mean())[:, None]


def test_the_penalty_of_the_ridge_is_the_best_of_the_candidates_or_infinite():
    part, _ = one_number()
    weight = np.ones(len(part.train))
    chosen = []
    for noise in (0.02, 0.3, 1.0, 3.0, 300.0):
        left = noisy_rest(part, noise)
        errors = {penalty: error_of_refits(part, left, weight, penalty) for penalty in RIDGE}
        errors[np.inf] = np.square(left).sum()
        best = min(errors, key=errors.__getitem__)
        chosen.append(best)
        expected = np.zeros((len(part.test), 1))
        if best != np.inf:
            every = np.arange(len(left))
            expected = refit_ridge(part, left, weight, rows=part.test, others=every, penalty=best)
        found = module._learn_ridge(part, left, weight, leave_parts_out(part))
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert (chosen[0], chosen[-1]) == (min(RIDGE), np.inf)
    assert len(set(chosen)) > 3, "hardly any penalty would do"


def test_a_ridge_whose_penalty_cannot_be_chosen_says_nothing():
    part, _ = one_number()
    left = noisy_rest(part, 0.02)
    assert not module._learn_ridge(part, left, np.ones(len(left)), []).any()


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
