"""Weights of a mixture, compared with its equations in plain loops.

What a super learner makes of them is in `test_super_learner.py`.
"""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from aam.learners import mixture as module
from aam.learners.mixture import (
    LEAST_LOG_PRIOR,
    LEAST_PROBABILITY,
    SIMILARITY,
    SIMILARITY_FREEDOM,
    SMOOTH,
    TEMPERATURE_PULL,
    Mixture,
)
from aam.learners.temperature import TEMPERATURES


def standard_errors_in_loops(difference_NM, weight_N, unit):
    """Return the standard errors of weighted means over groups: variances of groups, moderated."""
    units = sorted(set(unit))
    alone = len(unit) - len(units)
    prior_freedom = SIMILARITY_FREEDOM * alone / (SIMILARITY_FREEDOM + alone)
    freedom = prior_freedom + len(units) - 1
    weight_of = {name: sum(weight_N[unit == name]) for name in units}
    squares = sum(weight**2 for weight in weight_N)
    size = sum(weight**2 for weight in weight_of.values()) / squares
    result = []
    for difference_N in difference_NM.T:
        mean = sum(weight_N * difference_N)
        away = weight_N * (difference_N - mean)
        usual = sum(away**2) * (1 + SIMILARITY * (size - 1))
        by_group = sum(sum(away[unit == name]) ** 2 for name in units)
        variance = (prior_freedom * usual + len(units) * by_group) / (freedom - 2)
        result.append(np.sqrt(variance))
    return np.array(result)


def weights_by_search(loss, loss_NM, weight_N, unit):
    """Return the weights of least penalized loss, found by a search without slopes.

    Parameters
    ----------
    loss
        Loss of some weights.
    loss_NM
        Loss of each sample by each method alone.
    weight_N, unit
        Weights and groups of the samples.
    """
    mean_M = weight_N @ loss_NM
    best = int(np.argmin(mean_M))
    others = [method for method in range(len(mean_M)) if method != best]
    difference_NM = (loss_NM[:, others] - loss_NM[:, [best]]) / mean_M[best]
    error_M = standard_errors_in_loops(difference_NM, weight_N, unit)
    pull = sorted(error_M)[(len(error_M) - 1) // 2]
    prior_M = np.ones(len(mean_M))
    behind_M = weight_N @ difference_NM / error_M
    prior_M[others] = np.exp(np.maximum(-(behind_M**2) / 2, LEAST_LOG_PRIOR))
    prior_M /= prior_M.sum()

    def penalized(logit_M):
        weight_M = np.exp(logit_M - logit_M.max())
        weight_M /= weight_M.sum()
        apart = sum(w * np.log(w / p) for w, p in zip(weight_M, prior_M, strict=True) if w > 0)
        return loss(weight_M) / mean_M[best] + pull * apart

    options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000}
    found = minimize(penalized, np.log(prior_M), method="Nelder-Mead", options=options).x
    return np.exp(found - found.max()) / np.exp(found - found.max()).sum()


def groups_of_unequal_size(samples: int) -> np.ndarray:
    """Return groups of one, two, three samples and so on."""
    return np.repeat(np.arange(samples), np.arange(1, samples + 1))[:samples].astype(str)


@pytest.mark.parametrize("methods", [2, 3, 4])
def test_weights_of_numbers_are_those_of_least_penalized_absolute_error(methods):
    rng = np.random.default_rng(methods)
    observed = rng.normal(size=45)
    unit = groups_of_unequal_size(45)
    spread = 0.4 + 0.1 * np.arange(methods)
    error_NM = spread * rng.normal(size=(45, methods)) + 0.2 * rng.normal(size=(45, 1))
    values = {f"m{method}": (observed - error_NM[:, method])[:, None] for method in range(methods)}
    smooth = SMOOTH * np.abs(error_NM).mean(axis=0).min()

    def loss(weight_M):
        return np.sqrt((error_NM @ weight_M) ** 2 + smooth**2).mean()

    loss_NM = np.sqrt(error_NM**2 + smooth**2)
    expected = weights_by_search(loss, loss_NM, np.full(45, 1 / 45), unit)
    mixture = Mixture.fit(values, observed, [], unit)
    assert list(mixture.weights.values()) == pytest.approx(expected, abs=1e-5)
    assert set(mixture.temperatures.values()) == {1.0}
    assert sorted(expected)[-2] > 0.05, "the search would be at a corner"


@pytest.mark.parametrize("methods", [2, 3, 4])
def test_weights_of_classes_are_those_of_least_penalized_balanced_log_loss(methods):
    rng = np.random.default_rng(10 + methods)
    code = (np.arange(45) % 5 == 0).astype(int) + (np.arange(45) % 5 == 1)
    observed = np.array(["a", "b"])[code]
    unit = groups_of_unequal_size(45)
    values = {}
    for method in range(methods):
        score = 2.0 * code - 1 + (1 + 0.1 * method) * rng.normal(size=45)
        # One sample is so sure and so wrong that its probability counts as the least one.
        score[7] = 30.0
        share = 1 / (1 + np.exp(-score))
        values[f"m{method}"] = np.stack([1 - share, share], axis=1)
    mixture = Mixture.fit(values, observed, ["a", "b"], unit)
    probability_NM = np.empty((45, methods))
    for method, (name, share_NC) in enumerate(values.items()):
        scaled_NC = share_NC ** (1 / mixture.temperatures[name])
        scaled_NC /= scaled_NC.sum(axis=1, keepdims=True)
        probability_NM[:, method] = scaled_NC[np.arange(45), code]
    weight_N = np.where(code == 0, 0.5 / (code == 0).sum(), 0.5 / (code == 1).sum())

    def loss(weight_M):
        return weight_N @ -np.log(np.maximum(probability_NM @ weight_M, LEAST_PROBABILITY))

    loss_NM = -np.log(np.maximum(probability_NM, LEAST_PROBABILITY))
    expected = weights_by_search(loss, loss_NM, weight_N, unit)
    assert list(mixture.weights.values()) == pytest.approx(expected, abs=1e-5)
    assert sorted(expected)[-2] > 0.05, "the search would be at a corner"


def test_temperatures_are_pulled_towards_one_the_less_the_more_groups_there_are():
    rng = np.random.default_rng(4)
    code = np.arange(60) % 2
    score = 3 * (2.0 * code - 1 + 1.5 * rng.normal(size=60))
    share = 1 / (1 + np.exp(-score))
    values = {"sure": np.stack([1 - share, share], axis=1)}
    grid = np.geomspace(*TEMPERATURES, 40_001)
    true = np.where(code == 1, score, -score)
    log_loss = np.log1p(np.exp(-true / grid[:, None])).mean(axis=1)
    for groups in (6, 60):
        unit = np.arange(60) % groups
        mixture = Mixture.fit(values, np.array(["a", "b"])[code], ["a", "b"], unit)
        expected = grid[np.argmin(log_loss + TEMPERATURE_PULL / groups * np.log(grid) ** 2)]
        assert mixture.temperatures["sure"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("unit", "variance"),
    [
        # Away from the mean: -3, -1, 1 and 3 quarters, with squares of 20 / 16; sums of groups: -1
        # and 1. The prior has 8 * 2 / (8 + 2) = 1.6 degrees of freedom: 20 / 16, times 1.01 for
        # groups of two, is expected, and 2 * (1 + 1) found.
        pytest.param("aabb", (1.6 * 1.2625 + 4) / (1.6 + 1 - 2), id="two groups of two"),
        # Without a prior, 4 * 20 / 16 is found, over 3 - 2 degrees of freedom.
        pytest.param("abcd", 5.0, id="four samples of their own"),
    ],
)
def test_the_variance_over_groups_is_moderated_by_that_of_single_samples(unit, variance):
    difference_NM = np.array([[1.0], [3.0], [5.0], [7.0]])
    weight_N = np.full(4, 0.25)
    for standard_errors in (module._standard_errors, standard_errors_in_loops):
        found = standard_errors(difference_NM, weight_N=weight_N, unit=np.array(list(unit)))
        assert found.tolist() == pytest.approx([np.sqrt(variance)])


@pytest.mark.parametrize(
    ("groups", "is_known"),
    [([0] * 50, False), ([0, 1, 1], False), ([0, 1, 2], False), ([0, 1, 1, 1], True)],
)
def test_too_few_groups_to_tell_methods_apart_leave_equal_weights(groups, is_known):
    rng = np.random.default_rng(0)
    observed = rng.normal(size=len(groups))
    near = observed + 0.1 * rng.random(len(groups))
    values = {"good": near[:, None], "bad": np.full((len(groups), 1), 9.0)}
    weights = Mixture.fit(values, observed, [], np.array(groups)).weights
    assert (weights == {"good": 0.5, "bad": 0.5}) == (not is_known)
    assert weights["good"] >= 0.5


def test_absolute_errors_are_rounded_off_near_zero_on_the_scale_of_the_best_method():
    error_NM = np.array([[3.0, 1.0], [-4.0, 2.0]])
    loss = module._AbsoluteErrors(error_NM, np.array([0.25, 0.75]))
    # The mean absolute errors are 3.75 and 1.75.
    square = (SMOOTH * 1.75) ** 2
    np.testing.assert_allclose(loss.of_methods(), np.sqrt(error_NM**2 + square), rtol=1e-12)
    value, _ = loss(np.array([0.5, 0.5]))
    assert value == pytest.approx(0.25 * np.sqrt(4 + square) + 0.75 * np.sqrt(1 + square))


def test_the_slope_of_absolute_errors_is_that_of_differences():
    error_NM = np.array([[3.0, 1.0], [-4.0, 2.0]])
    loss = module._AbsoluteErrors(error_NM, np.array([0.25, 0.75]))
    weight_M = np.array([0.3, 0.7])
    numeric = approx_fprime(weight_M, lambda weight_M: loss(weight_M)[0], 1e-7)
    assert loss(weight_M)[1].tolist() == pytest.approx(numeric.tolist(), abs=1e-5)


def test_probabilities_count_as_the_least_one_at_least_where_their_logarithm_is_taken():
    least = LEAST_PROBABILITY
    probability_NM = np.array([[0.5, 0.25], [1e-6 * least, 0.01 * least]])
    loss = module._LogLosses(probability_NM, np.array([0.4, 0.6]))
    np.testing.assert_allclose(loss.of_methods(), -np.log([[0.5, 0.25], [least, least]]))
    value, slope_M = loss(np.array([0.2, 0.8]))
    assert value == pytest.approx(-0.4 * np.log(0.3) - 0.6 * np.log(least))
    # Below the least one nothing changes with the weights.
    assert slope_M.tolist() == pytest.approx([-0.4 * 0.5 / 0.3, -0.4 * 0.25 / 0.3])


@pytest.mark.parametrize("unit", [1e-200, 1e-101, 1e-90, 1e90])
def test_the_unit_of_the_target_changes_no_weight(unit):
    rng = np.random.default_rng(1)
    observed = rng.normal(size=30)
    values = {"a": rng.normal(size=(30, 1)), "b": (observed + rng.normal(0, 2, 30))[:, None]}
    expected = Mixture.fit(values, observed, [], np.arange(30)).weights
    scaled = {name: unit * value for name, value in values.items()}
    found = Mixture.fit(scaled, unit * observed, [], np.arange(30)).weights
    assert found["a"] == pytest.approx(expected["a"], abs=1e-4)
    assert 0.1 < expected["a"] < 0.9


def test_methods_without_an_error_have_equal_weights():
    observed = np.arange(8.0)
    values = {"a": observed[:, None], "b": observed[:, None]}
    assert Mixture.fit(values, observed, [], np.arange(8)).weights == {"a": 0.5, "b": 0.5}


def test_a_mixture_is_the_weighted_mean_of_what_methods_predict():
    mixture = Mixture({"a": 0.25, "b": 0.75}, {"a": 2.0, "b": 1.0})
    numbers = {"a": np.array([[4.0], [8.0]]), "b": np.array([[0.0], [4.0]])}
    assert mixture.apply(numbers).tolist() == [[1.0], [5.0]]
    # The square roots of 0.8 and 0.2 are as 2 to 1.
    shares = {"b": np.array([[0.5, 0.5]]), "a": np.array([[0.8, 0.2]])}
    assert mixture.apply(shares) == pytest.approx(np.array([[1 / 6 + 3 / 8, 1 / 12 + 3 / 8]]))


def test_a_mixture_is_written_with_weights_and_temperatures():
    mixture = Mixture({"a": 0.25, "b": 0.75}, {"a": 2.0, "b": 1.0})
    assert mixture.plain() == {
        "weights": {"a": 0.25, "b": 0.75},
        "temperatures": {"a": 2.0, "b": 1.0},
    }


def test_without_samples_methods_count_alike():
    values = dict.fromkeys("abcd", np.zeros((0, 2)))
    mixture = Mixture.fit(values, np.array([]), ["x", "y"], np.array([]))
    assert mixture.weights == dict.fromkeys("abcd", 0.25)
    assert mixture.temperatures == dict.fromkeys("abcd", 1.0)


def test_a_lone_method_has_all_of_the_weight():
    alone = {"a": np.ones((3, 1))}
    assert Mixture.fit(alone, np.arange(3.0), [], np.arange(3)).weights == {"a": 1.0}
