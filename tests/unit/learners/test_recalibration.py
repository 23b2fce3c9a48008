import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.learners.recalibration import Recalibration, class_frequencies

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
