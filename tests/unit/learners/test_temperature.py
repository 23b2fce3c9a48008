"""Temperatures, which mixtures scale probabilities by."""

import numpy as np
import pytest

from aam.learners.temperature import (
    TEMPERATURES,
    apply_temperature,
    fit_logit_temperature,
    fit_temperature,
)

CLASSES = ["a", "b", "c"]


def test_the_temperature_is_the_one_of_least_log_loss():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.6] * 3, 400)
    code = np.array([rng.choice(3, p=row) for row in shares])
    shares = shares**2 / (shares**2).sum(axis=1, keepdims=True)

    def loss(value: float) -> float:
        scaled = shares ** (1 / value)
        scaled /= scaled.sum(axis=1, keepdims=True)
        return -np.log(scaled[np.arange(len(code)), code]).mean()

    fitted = fit_temperature(np.array(CLASSES)[code], shares, CLASSES)
    grid = np.geomspace(0.5, 8, 400)
    assert fitted == pytest.approx(grid[np.argmin([loss(value) for value in grid])], rel=0.02)


def test_a_temperature_takes_the_root_of_probabilities():
    # The square roots of 0.8 and 0.2 are as 2 to 1; what was 0 counts as 1e-12.
    given = [[0.8, 0.2], [0.5, 0.5], [1.0, 0.0]]
    expected = [[2 / 3, 1 / 3], [0.5, 0.5], [1 / (1 + 1e-6), 1e-6 / (1 + 1e-6)]]
    assert apply_temperature(given, 2.0) == pytest.approx(np.array(expected), rel=1e-9)
    assert apply_temperature(given, 0.5)[0] == pytest.approx([0.64 / 0.68, 0.04 / 0.68])


@pytest.mark.parametrize("strength", [0.0, 0.1, 1.0])
def test_the_squared_logarithm_of_a_temperature_is_penalized(strength):
    rng = np.random.default_rng(2)
    logit_NC = 4 * rng.normal(size=(50, 3))
    code_N = np.where(rng.random(50) < 0.5, logit_NC.argmax(axis=1), rng.integers(0, 3, 50))
    grid = np.geomspace(0.05, 20, 4001)
    loss = []
    for value in grid:
        share_NC = np.exp(logit_NC / value)
        share_NC /= share_NC.sum(axis=1, keepdims=True)
        log_loss = -np.log(share_NC[np.arange(50), code_N]).mean()
        loss.append(log_loss + strength * np.log(value) ** 2)
    found = fit_logit_temperature(logit_NC, code_N, strength)
    assert found == pytest.approx(grid[np.argmin(loss)], rel=0.005)
    assert 1.5 < found < 10, "the penalty would not matter"
    if strength == 0:
        assert found == fit_logit_temperature(logit_NC, code_N)


def test_a_weight_of_two_is_a_sample_that_is_there_twice():
    rng = np.random.default_rng(3)
    logit_NC = 3 * rng.normal(size=(20, 2))
    code_N = np.arange(20) % 2
    weight_N = np.where(logit_NC.argmax(axis=1) == code_N, 2.0, 1.0)
    twice = np.repeat(np.arange(20), weight_N.astype(int))
    expected = fit_logit_temperature(logit_NC[twice], code_N[twice], 0.1)
    found = fit_logit_temperature(logit_NC, code_N, 0.1, weight_N)
    assert found == pytest.approx(expected, rel=1e-4)
    assert found != pytest.approx(fit_logit_temperature(logit_NC, code_N, 0.1), rel=1e-2)


def test_probabilities_that_are_always_right_or_always_wrong_get_the_outermost_temperature():
    shares = np.array([[0.6, 0.4], [0.4, 0.6]])
    lowest, highest = TEMPERATURES
    assert fit_temperature(["a", "b"], shares, ["a", "b"]) == pytest.approx(lowest, rel=1e-3)
    assert fit_temperature(["b", "a"], shares, ["a", "b"]) == pytest.approx(highest, rel=1e-3)
