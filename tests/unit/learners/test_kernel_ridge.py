"""Kernel ridge regression, against its equations solved one setting and one part at a time."""

import dataclasses

import numpy as np
import pytest
from problems import problem_of

from aam.learners.baselines import kernel_ridge as module
from aam.learners.baselines.kernel_ridge import (
    NUGGET,
    PENALTIES,
    UNTUNED,
    KernelRidge,
    kernel_clades,
    kernel_clr,
    kernel_distances,
    ridge_clades,
    ridge_clr,
    ridge_distances,
    solve_ridge,
)
from aam.learners.baselines.problem import PSEUDOCOUNT, Problem
from aam.learners.temperature import fit_logit_temperature

SAMPLES = 32
METHODS = {
    "clr": (kernel_clr, ridge_clr),
    "clades": (kernel_clades, ridge_clades),
    "distances": (kernel_distances, ridge_distances),
}
KINDS = ["regression", "classification"]


def study(kind: str, **more) -> Problem:
    """Return samples in four folds, with a class that is rare and one that is absent."""
    rng = np.random.default_rng(8)
    level = rng.normal(size=SAMPLES)
    counts = rng.poisson(np.exp(1 + rng.normal(size=(SAMPLES, 5)) / 2 + level[:, None] / 2))
    counts[:, 4] = 3
    distances = np.abs(level[:, None] - level) + 0.5 * rng.random((SAMPLES, SAMPLES))
    distances = np.triu(distances, 1) + np.triu(distances, 1).T
    target = 200 + level + 0.3 * rng.normal(size=SAMPLES)
    classes = ""
    if kind == "classification":
        classes = "cabz"
        target = np.array(list("abc"))[np.digitize(level + 0.5 * rng.normal(size=SAMPLES), [0, 1])]
    task = problem_of(target, counts, distances, np.arange(SAMPLES) % 4, classes, **more)
    lengths = np.array([1.0, 4.0, 0.25, 2.0, 1.0])
    return dataclasses.replace(task, lengths=lengths).encode()


def plain_kernels(task: Problem, method: str) -> list:
    """Return functions that make the kernel of rows and training rows."""
    counts = task.counts.toarray()
    if method == "distances":

        def laplacian(rows, train):
            pairs = [task.distances[i, j] for i in train for j in train if i < j]
            return np.exp(-task.distances[np.ix_(rows, train)] / np.median(pairs))

        return [laplacian]
    features = np.log(counts + PSEUDOCOUNT)
    if method == "clr":
        features = features - features.mean(axis=1, keepdims=True)
    else:
        features = features * np.sqrt(task.lengths)

    def scaled(train):
        own = features - features[train].mean(axis=0)
        return own / np.sqrt(np.square(own[train]).sum(axis=1).mean())

    def linear(rows, train):
        return scaled(train)[rows] @ scaled(train)[train].T

    def gaussian(rows, train):
        own = scaled(train)
        squares = ((own[rows][:, None] - own[train]) ** 2).sum(axis=2)
        return np.exp(-squares / 2)

    return [linear, gaussian]


def plain_fit(task: Problem, kernel, train, rows, penalty) -> np.ndarray:
    """Return decision values of rows, from the equations with the intercept as a last unknown."""
    target = task.target[train][:, None]
    weight = np.ones(len(train))
    if not task.regression:
        codes = np.arange(len(task.classes))
        target = np.where(target == codes, 1.0, -1.0)
        weight = np.array([1 / (task.target[train] == task.target[row]).sum() for row in train])
        weight /= weight.mean()
    size = len(train)
    system = np.ones((size + 1, size + 1))
    system[:-1, :-1] = kernel(train, train) + np.diag(penalty / weight)
    system[-1, -1] = 0
    solution = np.linalg.solve(system, np.vstack([target, np.zeros_like(target[:1])]))
    return kernel(rows, train) @ solution[:-1] + solution[-1]


def plain_loss(task: Problem, value: np.ndarray, rows) -> tuple[float, float]:
    """Return the loss of decision values and the temperature of least loss."""
    if task.regression:
        return np.abs(value[:, 0] - task.target[rows]).mean(), 1.0
    weight = np.array([1 / (task.target[rows] == task.target[row]).sum() for row in rows])
    temperature = fit_logit_temperature(value, task.target[rows], weight_N=weight)
    share = np.exp(value / temperature)
    share = share[np.arange(len(rows)), task.target[rows]] / share.sum(axis=1)
    return np.average(-np.log(share), weights=weight), temperature


def plain_prediction(task: Problem, method: str, train, rows) -> np.ndarray:
    """Return numbers [R, 1], or shares of the classes in the order of their codes."""
    losses = {}
    for number, kernel in enumerate(plain_kernels(task, method)):
        for penalty in PENALTIES:
            left_out, values = [], []
            for fold in np.unique(task.fold[train]):
                inner, left = train[task.fold[train] != fold], train[task.fold[train] == fold]
                values.append(plain_fit(task, kernel, inner, left, penalty))
                left_out.append(left)
            rest = np.concatenate(left_out)
            losses[number, penalty] = plain_loss(task, np.concatenate(values), rest)
    number, penalty = min(losses, key=lambda key: losses[key][0])
    temperature = losses[number, penalty][1]
    value = plain_fit(task, plain_kernels(task, method)[number], train, rows, penalty)
    if task.regression:
        return value
    value[:, ~np.isin(np.arange(len(task.classes)), task.target[train])] = -np.inf
    share = np.exp(value / temperature)
    return share / share.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("at_once", [1024, 3])
def test_settings_and_predictions_are_those_of_plain_refits(kind, method, at_once, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    task = study(kind)
    train, rows = np.flatnonzero(task.fold != 1), np.flatnonzero(task.fold == 1)
    predict, _ = METHODS[method]
    ((values, shares),) = predict(task, [(train, rows)])
    expected = plain_prediction(task, method, train, rows)
    if kind == "regression":
        assert values.tolist() == pytest.approx(expected[:, 0].tolist(), rel=1e-5)
        assert shares.shape == (len(rows), 0)
    else:
        # The classes are c, a, b and z; codes count them as a, b, c and z.
        np.testing.assert_allclose(shares, expected[:, [2, 0, 1, 3]], atol=1e-4)
        assert values.tolist() == np.array(list("cabz"))[shares.argmax(axis=1)].tolist()
        assert (shares[:, 3] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept_of_a_fit_predicts_the_same(kind, method):
    task = study(kind)
    train, rows = np.flatnonzero(task.fold != 1), np.flatnonzero(task.fold == 1)
    predict, ridge = METHODS[method]
    ((values, shares),) = predict(task, [(train, rows)])
    fits = ridge(task)
    kept = fits.solve(train)
    assert kept.train.tolist() == train.tolist()
    kernel = fits.kernels[kept.kernel]
    kernel_RT = kernel.value(kernel.pairs(rows, train), rows, train, kept.scale)
    decision = kernel_RT @ kept.dual_TC + kept.intercept_C
    if kind == "regression":
        assert decision[:, 0].tolist() == pytest.approx(values.tolist())
        assert kept.is_missing_C.tolist() == [False]
    else:
        assert kept.is_missing_C.tolist() == [False, False, False, True]
        share = np.exp(decision[:, :3] / kept.temperature)
        np.testing.assert_allclose(share / share.sum(axis=1, keepdims=True), shares[:, [1, 2, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_where_no_part_can_be_left_out_a_linear_kernel_gets_a_usual_penalty(kind):
    task = study(kind)
    # Both samples are in fold 0, and one class remains.
    train = np.array([0, 4]) if kind == "regression" else np.flatnonzero(task.target == 0)
    rows = np.array([5, 6])
    ((values, shares),) = kernel_clr(task, [(train, rows)])
    linear, _ = plain_kernels(task, "clr")
    expected = plain_fit(task, linear, train, rows, PENALTIES[UNTUNED])
    if kind == "regression":
        assert values.tolist() == pytest.approx(expected[:, 0].tolist())
    else:
        assert shares.tolist() == [[0, 1, 0, 0]] * 2


def test_settings_of_a_large_study_are_tried_on_some_labelled_landmarks_alone(monkeypatch):
    monkeypatch.setattr(module, "TUNED_SAMPLES", 20)
    landmarks = np.arange(1, SAMPLES)
    task = dataclasses.replace(study("regression"), fold=np.r_[-1, 0, 1, -1, np.arange(28) % 4])
    task = dataclasses.replace(task, landmarks=landmarks, distances=task.distances[:, landmarks])
    fits = ridge_distances(task)
    assert len(set(fits.tuned.tolist())) == 20
    assert (np.diff(fits.tuned) > 0).all()
    # Sample 0 is no landmark, and sample 3 has no label.
    assert not {0, 3} & {*fits.tuned.tolist()}
    train = np.flatnonzero(task.fold > 0)
    few = np.intersect1d(train, fits.tuned)
    chosen = dataclasses.astuple(fits._choose(train))
    assert chosen == dataclasses.astuple(ridge_distances(task)._choose(few))
    every = np.intersect1d(np.flatnonzero(task.fold >= 0), landmarks)
    monkeypatch.setattr(module, "TUNED_SAMPLES", len(every))
    assert ridge_distances(task).tuned.tolist() == every.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_are_no_landmarks_are_predicted_and_not_learned_from(method):
    task = study("regression")
    landmarks = np.flatnonzero(np.arange(SAMPLES) % 3)
    few = dataclasses.replace(task, landmarks=landmarks, distances=task.distances[:, landmarks])
    train, rows = np.flatnonzero(task.fold != 1), np.flatnonzero(task.fold == 1)
    ((values, _),) = METHODS[method][0](few, [(train, rows)])
    learned = np.intersect1d(train, landmarks)
    expected = plain_prediction(task, method, learned, rows)[:, 0]
    # Products of features of landmarks have 32 bits; targets are around 200.
    assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert METHODS[method][1](few).solve(train).train.tolist() == learned.tolist()


LANDMARKS = np.arange(0, SAMPLES, 2)
SKETCHED = np.array([0, 14, 30])
"""The first landmark, the eighth of sixteen and the last one."""


def products_of_landmarks(task: Problem) -> module.FeatureProducts:
    """Return the products of centred log-ratios in a study with landmarks."""
    return ridge_clr(dataclasses.replace(task, landmarks=LANDMARKS)).kernels[0].products


def sketched_features(task: Problem) -> np.ndarray:
    """Return centred log-ratios around the mean of the three landmarks that are sketched."""
    logs = np.log(task.counts.toarray() + PSEUDOCOUNT)
    features = logs - logs.mean(axis=1, keepdims=True)
    return features - features[SKETCHED].mean(axis=0)


def test_features_of_landmarks_are_centred_on_some_of_them(monkeypatch):
    monkeypatch.setattr(module, "SKETCHED_SAMPLES", len(SKETCHED))
    task = study("regression")
    products = products_of_landmarks(task)
    centred = sketched_features(task)
    np.testing.assert_allclose(products.square_N, (centred**2).sum(axis=1), rtol=1e-5)
    rows = np.array([1, 4])
    np.testing.assert_allclose(
        products.pairs(rows, LANDMARKS), centred[rows] @ centred[LANDMARKS].T, atol=1e-5
    )


@pytest.mark.parametrize("most", [2, 5])
def test_more_features_than_axes_are_projected_on_the_axes_of_landmarks(monkeypatch, most):
    monkeypatch.setattr(module, "SKETCHED_SAMPLES", len(SKETCHED))
    monkeypatch.setattr(module, "MOST_AXES", most)
    task = study("regression")
    axes = products_of_landmarks(task).axes_PD
    # There are five features.
    if most == 5:
        assert axes is None
        return
    assert axes.shape == (5, 2)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-5)
    # Three landmarks around their centre span two axes.
    span = sketched_features(task)[SKETCHED]
    np.testing.assert_allclose(span @ axes @ axes.T, span, atol=1e-4)


@pytest.mark.parametrize(
    ("distances", "scale"),
    [
        pytest.param([[0, 2, 3], [2, 0, 7], [3, 7, 0]], 3.0, id="median"),
        pytest.param(
            [[0, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0]],
            2 / 6,
            id="mean, mostly copies",
        ),
        pytest.param([[0, 0], [0, 0]], 1.0, id="copies alone"),
        pytest.param([[0]], 1.0, id="one sample"),
    ],
)
def test_the_scale_of_distances_is_their_median_or_mean_or_one(distances, scale):
    (kernel,) = ridge_distances(study("regression")).kernels
    assert kernel.measure(np.array(distances, float)) == pytest.approx(scale)


def test_the_scale_of_features_is_their_variance_or_one_where_they_are_alike():
    kernel = ridge_clr(study("regression")).kernels[0]
    # Mean square length, less the square length of the mean.
    assert kernel.measure(np.diag([3.0, 6.0])) == pytest.approx(4.5 - 2.25)
    assert kernel.measure(np.full((3, 3), 5.0)) == 1.0


def test_equations_are_solved_for_any_origin_and_any_kernel():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(6, 3))
    weight = np.array([1.0, 1.0, 2.0, 0.5, 1.0, 0.5])
    target = rng.normal(size=(6, 2))
    # The second kernel has negative eigenvalues.
    for kernel in (factor @ factor.T, factor @ factor.T - 3 * np.eye(6)):
        dual, intercept = solve_ridge(kernel, target, weight, 0.3)
        left = kernel + np.diag(0.3 / weight + NUGGET)
        np.testing.assert_allclose(left @ dual + intercept, target, atol=1e-9)
        np.testing.assert_allclose(dual.sum(axis=0), 0, atol=1e-9)
        moved, further = solve_ridge(kernel, target + 1e6, weight, 0.3)
        np.testing.assert_allclose(moved, dual, atol=1e-7)
        np.testing.assert_allclose(further, intercept + 1e6)


def test_fits_are_tried_once_for_all_splits(monkeypatch):
    task = study("regression")
    fits = KernelRidge(task, ridge_distances(task).kernels)
    fitted = []
    fit = KernelRidge._fit

    def counting(self, kernel, train, rows, penalties):
        if len(penalties) > 1:
            fitted.append(tuple(train.tolist()))
        return fit(self, kernel, train, rows, penalties)

    monkeypatch.setattr(KernelRidge, "_fit", counting)
    parts = [np.flatnonzero(task.fold == fold) for fold in range(4)]
    every = np.arange(SAMPLES)
    fits([(np.setdiff1d(every, part), part) for part in parts])
    # Three parts of each of four splits; a pair of folds is left out of two of them.
    assert len(fitted) == len(set(fitted)) == 6
