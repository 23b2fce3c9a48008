from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import learners_of, nested_of, predictions_of, problem_of

from aam.data.predictions import by_baseline
from aam.learners import mixture as module
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import predict_baselines, predict_nested
from aam.learners.super_learner import Learner, learners_by_target, super_learner

ROWS = 60


def tables(kind: str) -> dict[str, pd.DataFrame]:
    """Return predictions of three methods, the first the best."""
    rng = np.random.default_rng(0)
    tables, fold = {}, np.arange(ROWS) % 5 - 1
    number = rng.normal(size=ROWS)
    name = np.where(number > 0.3, "y", "x")
    for method, error in (("good", 0.3), ("fair", 0.6), ("poor", 3.0)):
        guess = number + rng.normal(0, error, ROWS)
        if kind == "regression":
            tables[method] = predictions_of(number, guess, fold)
            continue
        share = 1 / (1 + np.exp(3 * (0.3 - guess)))
        shares, predicted = np.stack([1 - share, share], axis=1), np.where(share > 0.5, "y", "x")
        tables[method] = predictions_of(name, predicted, fold, shares, "xy")
    return tables


def no_groups() -> pd.Series:
    names = [f"s{i}" for i in range(ROWS)]
    return pd.Series(names, names)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_weights_of_a_fold_rest_on_nested_predictions_without_it(kind):
    """Neither the labels of the fold nor what its own models say of others have a part in them."""
    learners = learners_of(tables(kind))
    first = super_learner(learners, no_groups())
    value = "predicted" if kind == "regression" else "probability:y"
    changed = {}
    for name, learner in learners.items():
        table = learner.predictions.copy()
        # Models that predict other folds have seen fold 2: what they say is changed.
        others = (table["fold"] >= 0) & (table["fold"] != 2)
        table.loc[others, value] = table.loc[others, value].to_numpy()[::-1]
        if kind == "classification":
            table["probability:x"] = 1 - table[value]
        changed[name] = Learner(table, learner.nested)
    second = super_learner(changed, no_groups())
    is_in_fold = first.predictions["fold"] == 2
    for name in ("predictions", "chosen"):
        one = getattr(first, name).loc[is_in_fold, value]
        other = getattr(second, name).loc[is_in_fold, value]
        assert one.tolist() == other.tolist()
    assert first.names[2] == second.names[2] == "good"
    # Weights that are not nested look at them, and so do those for new samples.
    one = first.unnested.loc[is_in_fold, value]
    assert one.tolist() != second.unnested.loc[is_in_fold, value].tolist()
    assert first.mixture.weights != second.mixture.weights


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_neither_the_order_of_rows_nor_of_methods_matters(kind):
    given = tables(kind)
    mixed = super_learner(learners_of(given), no_groups())
    order = np.random.default_rng(1).permutation(ROWS)
    turned = {name: given[name].iloc[order] for name in ("poor", "good", "fair")}
    others = super_learner(learners_of(turned), no_groups())
    assert others.mixture.weights == pytest.approx(mixed.mixture.weights, abs=1e-4)
    value = "predicted" if kind == "regression" else "probability:y"
    expected = mixed.predictions[value].to_numpy()[order]
    assert others.predictions[value].to_numpy() == pytest.approx(expected, abs=1e-3)
    assert others.names == mixed.names


def test_a_learner_with_fewer_nested_predictions_leaves_weights_to_the_rows_that_all_have():
    learners = learners_of(tables("regression"))
    nested = learners["good"].nested
    sample_ids = set(nested.loc[nested["without"] == 0, "sample-id"][:10])
    is_kept = nested["sample-id"].isin(sample_ids)
    fewer = {**learners, "good": Learner(learners["good"].predictions, nested[is_kept])}
    cut = {
        name: Learner(one.predictions, one.nested[one.nested["sample-id"].isin(sample_ids)])
        for name, one in learners.items()
    }
    first = super_learner(fewer, no_groups()).predictions
    second = super_learner(cut, no_groups()).predictions
    pd.testing.assert_frame_equal(first, second)


def test_without_nested_predictions_all_learners_count_alike():
    learners = {
        name: Learner(one.predictions, one.nested.iloc[:0])
        for name, one in learners_of(tables("regression")).items()
    }
    mixed = super_learner(learners, no_groups()).predictions
    mean = np.mean([one.predictions["predicted"] for one in learners.values()], axis=0)
    is_kept = mixed["fold"] >= 0
    np.testing.assert_allclose(mixed["predicted"][is_kept], mean[is_kept])


def test_a_learner_without_nested_probabilities_leaves_equal_weights():
    """Where folds are too small for a nested fit, its table lacks the columns of classes."""
    learners = learners_of(tables("classification"))
    nothing = pd.DataFrame({"sample-id": [], "without": [], "predicted": []})
    learners["poor"] = Learner(learners["poor"].predictions, nothing)
    mixed = super_learner(learners, no_groups()).predictions
    share = [one.predictions["probability:y"] for one in learners.values()]
    is_kept = mixed["fold"] >= 0
    mean = np.mean(share, axis=0)[is_kept]
    np.testing.assert_allclose(mixed["probability:y"][is_kept], mean)


def test_weights_are_those_of_least_penalized_error(monkeypatch):
    """Against a search over a grid."""
    monkeypatch.setattr(module, "SMOOTH", 1e-6)
    given = {name: part for name, part in tables("regression").items() if name != "poor"}
    is_scored = given["good"]["fold"] >= 0
    residual = [
        (part["observed"] - part["predicted"])[is_scored].to_numpy() for part in given.values()
    ]

    def loss(weight: float) -> float:
        penalty = module.RIDGE / int(is_scored.sum()) * 2 * 2 * (weight - 0.5) ** 2
        unit = min(np.abs(part).mean() for part in residual)
        return np.abs(weight * residual[0] + (1 - weight) * residual[1]).mean() / unit + penalty

    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmin([loss(weight) for weight in grid])]
    weight = super_learner(learners_of(given), no_groups()).mixture.weights["good"]
    assert weight == pytest.approx(best, abs=0.01)
    assert 0.5 < weight < 1


def test_few_groups_hold_the_weights_near_equal_ones():
    few = pd.Series(["a", "b", "c"] * (ROWS // 3), no_groups().index)
    learners = learners_of(tables("regression"))
    free = super_learner(learners, no_groups()).mixture.weights
    held = super_learner(learners, few).mixture.weights
    assert free["poor"] < held["poor"] < 1 / 3
    assert sum(held.values()) == pytest.approx(1)


def test_a_method_that_is_far_off_leaves_the_others_their_weights():
    given = tables("regression")
    expected = super_learner(learners_of(given), no_groups()).mixture.weights
    given["wild"] = given["poor"].assign(predicted=1e5 * given["poor"]["predicted"])
    weights = super_learner(learners_of(given), no_groups()).mixture.weights
    assert weights["wild"] == pytest.approx(0, abs=1e-3)
    assert weights["good"] == pytest.approx(expected["good"], abs=0.03)


@pytest.mark.parametrize(("samples", "least", "most"), [(8, 0.7, 0.97), (4000, 0.99, 1.0)])
def test_few_samples_without_an_error_do_not_make_a_mixture_sure(samples, least, most):
    code = np.arange(samples) % 2
    share = np.where(code == 0, 0.7, 0.3)
    values = {name: np.stack([share, 1 - share], axis=1) for name in "ab"}
    mixture = module.Mixture.fit(values, np.array(["x", "y"])[code], ["x", "y"], np.arange(samples))
    assert least < mixture.apply(values)[0, 0] < most


def study(kind: str) -> Problem:
    """Return samples along a gradient, in five folds, which cheap methods learn from."""
    rng = np.random.default_rng(3)
    gradient = rng.random(50)
    reads = rng.poisson(3 + 20 * gradient[:, None] * np.array([1, 0, 0, 0.5]))
    distances = np.abs(gradient[:, None] - gradient) + 0.05
    np.fill_diagonal(distances, 0)
    target = gradient + rng.normal(0, 0.2, 50)
    asked = ["elastic_net", "svm_clr", "svm_unifrac", "knn_unifrac"]
    if kind == "classification":
        names = np.where(target > 0.5, "y", "x")
        return problem_of(names, reads, distances, np.arange(50) % 5, "xy", asked=asked)
    return problem_of(target, reads, distances, np.arange(50) % 5, asked=asked)


def fitted(task: Problem) -> dict[str, Learner]:
    """Return the learners of a study, fitted with and without pairs of folds."""
    predictions = predict_baselines(task, threads=1)
    nested = predict_nested(task, threads=1)
    for table in (predictions, nested):
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
    return learners_by_target(predictions, nested)[""]


def groups_of(task: Problem) -> pd.Series:
    names = [f"s{row}" for row in range(len(task.target))]
    return pd.Series(names, names)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_no_label_of_a_fold_has_a_part_in_what_is_predicted_for_it(kind):
    """All methods are fitted again to changed labels of fold 2: its predictions stay the same."""
    task = study(kind)
    value = "predicted" if kind == "regression" else "probability:y"
    is_in_fold = task.fold == 2
    other = np.where(task.target == "x", "y", "x") if kind == "classification" else 9.0
    changed = replace(task, target=np.where(is_in_fold, other, task.target))
    first, second = (super_learner(fitted(one), groups_of(one)) for one in (task, changed))
    for name in ("predictions", "chosen"):
        before = getattr(first, name)[value][is_in_fold]
        assert before.tolist() == getattr(second, name)[value][is_in_fold].tolist()
        assert before.nunique() > 1
    assert first.unnested[value][is_in_fold].tolist() != second.unnested[value][is_in_fold].tolist()


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_it_is_the_super_learner_that_is_made_anew_without_each_fold(kind):
    """The slow reference cross-validates all other folds again, without any part of the fold."""
    task = study(kind)
    value = "predicted" if kind == "regression" else "probability:y"
    predictions = super_learner(fitted(task), groups_of(task)).predictions
    for fold in range(5):
        inner = replace(task, fold=np.where(task.fold == fold, -1, task.fold))
        table = predict_baselines(inner, threads=1)
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
        parts = by_baseline(table)
        learners = {
            name: Learner(parts[name][""], nested_of(parts[name][""])) for name in task.asked
        }
        expected = super_learner(learners, groups_of(task)).predictions
        is_in_fold = task.fold == fold
        np.testing.assert_allclose(
            predictions[value][is_in_fold], expected[value][is_in_fold], atol=1e-3
        )
