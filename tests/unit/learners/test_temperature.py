"""Temperatures, which mixtures scale probabilities by."""

import numpy as np
import pytest

from aam.learners.temperature import fit_temperature

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
