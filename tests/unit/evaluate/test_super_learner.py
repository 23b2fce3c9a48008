import numpy as np
import pandas as pd
import pytest
from problems import predictions_of

from aam.evaluate import mixture as module
from aam.evaluate.super_learner import super_learner

ROWS = 60


def tables(kind: str) -> dict[str, pd.DataFrame]:
    """Return predictions of three methods, the first the best."""
    rng = np.random.default_rng(0)
    found, fold = {}, np.arange(ROWS) % 5 - 1
    number = rng.normal(size=ROWS)
    name = np.where(number > 0.3, "y", "x")
    for method, error in (("good", 0.3), ("fair", 0.6), ("poor", 3.0)):
        guess = number + rng.normal(0, error, ROWS)
        if kind == "regression":
            found[method] = predictions_of(number, guess, fold)
            continue
        share = 1 / (1 + np.exp(3 * (0.3 - guess)))
        shares, predicted = np.stack([1 - share, share], axis=1), np.where(share > 0.5, "y", "x")
        found[method] = predictions_of(name, predicted, fold, shares, "xy")
    return found


def no_groups() -> pd.Series:
    names = [f"s{i}" for i in range(ROWS)]
    return pd.Series(names, names)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_weights_are_not_fitted_to_the_labels_of_their_fold(kind):
    given, changed = tables(kind), tables(kind)
    for part in changed.values():
        own = part["fold"] == 2
        observed = part.loc[own, "observed"]
        part.loc[own, "observed"] = observed[::-1].to_numpy() if kind == "classification" else 9.0
    mixed, mixture = super_learner(given, no_groups())
    others, other = super_learner(changed, no_groups())
    columns = [name for name in mixed if name not in ("observed",)]
    is_own, is_test = mixed["fold"] == 2, mixed["fold"] == -1
    pd.testing.assert_frame_equal(mixed.loc[is_own, columns], others.loc[is_own, columns])
    # Those of all other folds, and of new samples, ask this one too.
    assert not mixed.loc[is_test, columns].equals(others.loc[is_test, columns])
    assert mixture.weights != other.weights


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_neither_the_order_of_rows_nor_of_methods_matters(kind):
    given = tables(kind)
    mixed, mixture = super_learner(given, no_groups())
    order = np.random.default_rng(1).permutation(ROWS)
    turned = {name: given[name].iloc[order] for name in ("poor", "good", "fair")}
    others, other = super_learner(turned, no_groups())
    assert other.weights == pytest.approx(mixture.weights, abs=1e-4)
    value = "predicted" if kind == "regression" else "probability:y"
    assert others[value].to_numpy() == pytest.approx(mixed[value].to_numpy()[order], abs=1e-3)


def test_weights_are_those_of_least_penalized_error(monkeypatch):
    """Against a search over a grid."""
    monkeypatch.setattr(module, "SMOOTH", 1e-6)
    given = {name: part for name, part in tables("regression").items() if name != "poor"}
    known = given["good"]["fold"] >= 0
    residual = [(part["observed"] - part["predicted"])[known].to_numpy() for part in given.values()]

    def loss(weight: float) -> float:
        penalty = module.RIDGE / int(known.sum()) * 2 * 2 * (weight - 0.5) ** 2
        unit = min(np.abs(part).mean() for part in residual)
        return np.abs(weight * residual[0] + (1 - weight) * residual[1]).mean() / unit + penalty

    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmin([loss(weight) for weight in grid])]
    weight = super_learner(given, no_groups())[1].weights["good"]
    assert weight == pytest.approx(best, abs=0.01)
    assert 0.5 < weight < 1


def test_few_groups_hold_the_weights_near_equal_ones():
    few = pd.Series(["a", "b", "c"] * (ROWS // 3), no_groups().index)
    free, held = (super_learner(tables("regression"), of)[1].weights for of in (no_groups(), few))
    assert free["poor"] < held["poor"] < 1 / 3
    assert sum(held.values()) == pytest.approx(1)


def test_a_method_that_is_far_off_leaves_the_others_their_weights():
    given = tables("regression")
    expected = super_learner(given, no_groups())[1].weights
    given["wild"] = given["poor"].assign(predicted=1e5 * given["poor"]["predicted"])
    found = super_learner(given, no_groups())[1].weights
    assert found["wild"] == pytest.approx(0, abs=1e-3)
    assert found["good"] == pytest.approx(expected["good"], abs=0.03)


@pytest.mark.parametrize(("samples", "least", "most"), [(8, 0.7, 0.97), (4000, 0.99, 1.0)])
def test_few_samples_without_an_error_do_not_make_a_mixture_sure(samples, least, most):
    code = np.arange(samples) % 2
    share = np.where(code == 0, 0.7, 0.3)
    values = {name: np.stack([share, 1 - share], axis=1) for name in "ab"}
    mixture = module.Mixture.fit(values, np.array(["x", "y"])[code], ["x", "y"], np.arange(samples))
    assert least < mixture.apply(values)[0, 0] < most
