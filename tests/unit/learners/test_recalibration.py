import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from aam.learners import recalibration as module
from aam.learners.recalibration import FLOOR, LEAST_EVIDENCE, Recalibration, class_frequencies

CLASSES = ["a", "b", "c"]


def test_no_samples_leave_probabilities_as_they_are():
    shares = np.array([[0.2, 0.3, 0.5]])
    fitted = Recalibration.fit([], np.zeros((0, 3)), CLASSES, [])
    assert fitted.apply(shares) == pytest.approx(shares, abs=1e-3)
    assert class_frequencies([], CLASSES) == pytest.approx([1 / 3] * 3)


def test_the_mean_of_calibrated_probabilities_is_how_frequent_classes_are():
    rng = np.random.default_rng(0)
    observed = rng.choice(CLASSES, 200, p=[0.7, 0.2, 0.1])
    code = np.array([CLASSES.index(name) for name in observed])
    logits = rng.normal(size=(200, 3)) + 1.5 * np.eye(3)[code]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    fitted = Recalibration.fit(observed, shares, CLASSES, np.arange(200))
    assert fitted.slope > 0.5
    wanted = class_frequencies(observed, CLASSES)
    assert fitted.apply(shares).mean(axis=0) == pytest.approx(wanted, abs=1e-6)


def test_predictions_that_are_turned_around_end_at_the_constant():
    observed = np.repeat(["a", "b"], [30, 10])
    shares = np.where((observed == "a")[:, None], [0.2, 0.8], [0.8, 0.2])
    fitted = Recalibration.fit(observed, shares, ["a", "b"], np.arange(40))
    assert fitted.slope == 0
    wanted = np.tile(class_frequencies(observed, ["a", "b"]), (40, 1))
    assert fitted.apply(shares) == pytest.approx(wanted, abs=1e-12)


def test_samples_of_one_group_count_as_what_they_are():
    """Copies of each sample add no evidence once they are said to be copies."""
    rng = np.random.default_rng(3)
    observed = np.array(["a", "b"] * 12)
    score = 0.8 * (observed == "b") + rng.normal(size=24)
    share = 1 / (1 + np.exp(-score))
    shares = np.stack([1 - share, share], axis=1)
    many = np.repeat(np.arange(24), 10)

    def slope(group: np.ndarray) -> float:
        return Recalibration.fit(observed[many], shares[many], ["a", "b"], group).slope

    assert slope(np.arange(240)) > 0.1
    assert slope(many) == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0.0, 1e-9, 0.3, 1.0])),
        min_size=1,
        max_size=30,
    )
)
def test_missing_classes_and_probabilities_of_zero_give_finite_ones(rows):
    """The third class never occurs; perfect and hopeless predictions are among the draws."""
    observed = [CLASSES[code] for code, _ in rows]
    first = np.array([share for _, share in rows])
    shares = np.stack([first, 1 - first, np.zeros(len(rows))], axis=1)
    fitted = Recalibration.fit(observed, shares, CLASSES, np.arange(len(rows)))
    calibrated = fitted.apply(shares)
    assert 0 <= fitted.slope < 50
    assert (calibrated > 0).all()
    assert calibrated.sum(axis=1) == pytest.approx(1)
    again = Recalibration.fit(observed[::-1], shares[::-1], CLASSES, np.arange(len(rows)))
    assert again.apply(shares) == pytest.approx(calibrated, abs=1e-5)


def log_loss_of(parameter_P: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean log loss of a slope and the intercepts that follow it."""
    score_NC = parameter_P[0] * inputs + parameter_P[1:]
    score_NC = score_NC - score_NC.max(axis=1, keepdims=True)
    log_share_NC = score_NC - np.log(np.exp(score_NC).sum(axis=1, keepdims=True))
    return float(-(labels * log_share_NC).sum(axis=1).mean())


def fit_without_derivatives(
    observed: np.ndarray, shares: np.ndarray, group: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return slope and intercepts, found by a search that knows no slope of the loss.

    One sample, spread evenly over the classes, is added to the labels and to their frequencies.
    """
    samples, classes = shares.shape
    count = [sum(observed == name) for name in CLASSES[:classes]]
    frequency_C = (np.array(count) + 1 / classes) / (samples + 1)
    is_class = np.array([[name == one for one in CLASSES[:classes]] for name in observed])
    labels = (samples * is_class + 1 / classes) / (samples + 1)
    inputs = np.log((1 - FLOOR) * shares + FLOOR / classes)

    def least(slope: float | None) -> tuple[np.ndarray, float]:
        def loss(free: np.ndarray) -> float:
            fixed = free if slope is None else np.r_[slope, free]
            return log_loss_of(np.r_[fixed, 0.0], inputs, labels)

        start = np.zeros(classes - (slope is not None))
        options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000}
        found = minimize(loss, start, method="Nelder-Mead", options=options)
        parameter = found.x if slope is None else np.r_[slope, found.x]
        return np.r_[parameter, 0.0], found.fun

    best, loss = least(None)
    gain = 2 * samples * (-sum(frequency_C * np.log(frequency_C)) - loss)
    score_N = ((labels - labels.mean(axis=0)) * (inputs - inputs.mean(axis=0))).sum(axis=1)
    score_N -= score_N.mean()
    sums = [score_N[group == name].sum() for name in set(group)]
    inflation = len(sums) / (len(sums) - 1) * sum(np.square(sums)) / sum(score_N**2)
    evidence = gain / max(1.0, inflation)
    if evidence <= LEAST_EVIDENCE:
        return 0.0, np.log(frequency_C)
    shrunken, _ = least(best[0] * (1 - LEAST_EVIDENCE / evidence))
    return shrunken[0], shrunken[1:] - shrunken[1:].mean()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("signal", [0.0, 0.8, 2.0])
@pytest.mark.parametrize("grouped", [False, True])
def test_slope_and_intercepts_are_those_of_a_search_without_derivatives(classes, signal, grouped):
    rng = np.random.default_rng(classes)
    group = np.arange(60) // 3 if grouped else np.arange(60)
    code = rng.choice(classes, group.max() + 1, p=[0.6, 0.4] if classes == 2 else [0.5, 0.3, 0.2])
    code = code[group]
    shared = rng.normal(size=(group.max() + 1, classes))[group]
    logits = signal * np.eye(classes)[code] + shared + 0.3 * rng.normal(size=(60, classes))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    observed = np.array(CLASSES)[code]
    fitted = Recalibration.fit(observed, shares, CLASSES[:classes], group)
    slope, intercept_C = fit_without_derivatives(observed, shares, group)
    assert fitted.slope == pytest.approx(slope, rel=1e-4)
    assert fitted.intercept_C == pytest.approx(intercept_C, abs=1e-4)
    assert (slope > 0.1) == (signal > 0)


def test_a_slope_is_a_power_and_an_intercept_a_factor_of_probabilities():
    fitted = Recalibration(slope=2.0, intercept_C=np.log([3.0, 1.0]))
    # A thousandth of each row is spread over the classes: 0.2 becomes 0.2003.
    expected = 3 * 0.2003**2 / (3 * 0.2003**2 + 0.7997**2)
    assert fitted.apply([[0.2, 0.8]])[0] == pytest.approx([expected, 1 - expected])


def test_a_recalibration_is_written_with_its_intercepts_by_class():
    fitted = Recalibration(slope=2.0, intercept_C=np.log([3.0, 1.0]))
    assert fitted.plain(["x", "y"]) == {
        "slope": 2.0,
        "intercepts": {"x": pytest.approx(np.log(3)), "y": 0.0},
    }


def test_frequencies_have_one_sample_more_that_is_spread_evenly():
    found = class_frequencies(["a", "a", "b"], CLASSES)
    assert found == pytest.approx([(2 + 1 / 3) / 4, (1 + 1 / 3) / 4, (1 / 3) / 4])


def test_samples_of_a_single_group_are_no_more_alike_than_lone_ones():
    rng = np.random.default_rng(0)
    code = np.arange(40) % 2
    share = 1 / (1 + np.exp(-(3.0 * code - 1.5 + rng.normal(size=40))))
    shares = np.stack([1 - share, share], axis=1)
    observed = np.array(["a", "b"])[code]
    lone = Recalibration.fit(observed, shares, ["a", "b"], np.arange(40))
    together = Recalibration.fit(observed, shares, ["a", "b"], np.zeros(40))
    assert 0 < together.slope == pytest.approx(lone.slope, rel=0.05)


def test_the_curvature_is_that_of_differences_of_the_loss():
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(7, 3))
    labels = rng.dirichlet([1.0] * 3, 7)
    parameter_P = np.array([0.7, 0.2, -0.4, 0.1])
    step = 1e-4
    expected = np.empty((4, 4))
    for first in range(4):
        for second in range(4):
            corners = [
                sign * other * log_loss_of(parameter_P + moved, inputs, labels)
                for sign in (1, -1)
                for other in (1, -1)
                for moved in [step * (sign * np.eye(4)[first] + other * np.eye(4)[second])]
            ]
            expected[first, second] = sum(corners) / (4 * step**2)
    np.testing.assert_allclose(module._curvature(inputs, parameter_P), expected, atol=1e-6)


def test_probabilities_that_are_the_same_for_all_say_nothing():
    fitted = Recalibration.fit(["a", "b", "b", "b"], [[0.25, 0.75]] * 4, ["a", "b"], np.arange(4))
    assert fitted.slope == 0
    assert fitted.apply([[0.9, 0.1]])[0] == pytest.approx([1.5 / 5, 3.5 / 5])
