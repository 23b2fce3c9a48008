import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.stats import norm, rankdata

from aam.data.target import KNOTS, QUANTILES, Scale, Target

properties = settings(deadline=None, max_examples=50)
NUMBERS = st.lists(st.floats(-0.9, 1e4), min_size=2, max_size=12)
TRANSFORMS = ["none", "zscore", "log", "log_zscore", "quantile"]
ORDER = ["low", "middle", "high"]


def column(values) -> list[list[str]]:
    return [[value if isinstance(value, str) else repr(float(value))] for value in values]


def fit(kind, values, is_training=None, **options) -> Target:
    is_training = np.ones(len(values), bool) if is_training is None else is_training
    return Target.fit(kind, ["age"], column(values), is_training, **options)


def fitted(numbers, transform, is_training=None, **options) -> Target:
    return fit("regression", numbers, is_training, transform=transform, **options)


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(numbers=NUMBERS)
@properties
def test_training_numbers_come_back(transform, numbers):
    target = fitted(numbers, transform)
    # In the precision that a model sees.
    encoded = target.encode(column(numbers))
    assert encoded.dtype == np.float32
    spread = 1 + np.abs(numbers).max()
    assume(transform != "quantile" or np.diff(np.unique(numbers)).min(initial=1) > 1e-3)
    np.testing.assert_allclose(target.decode(encoded)[:, 0], numbers, atol=1e-4 * spread)


@given(numbers=NUMBERS, training=st.integers(1, 12))
@properties
def test_scales_are_those_of_the_training_samples(numbers, training):
    known, x = np.array(numbers[:training]), np.array(numbers)
    is_training = np.arange(len(numbers)) < training
    assume(known.std() > 1e-3)
    logs = np.log1p(known)
    expected = {
        "none": x,
        "zscore": (x - known.mean()) / known.std(),
        "log": np.log1p(x),
        "log_zscore": (np.log1p(x) - logs.mean()) / logs.std(),
    }
    for transform, values in expected.items():
        found = fitted(numbers, transform, is_training).encode(column(numbers))[:, 0]
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transform", ["zscore", "quantile"])
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_a_column_changes_nothing_that_is_trained_on(transform, unit):
    numbers = np.array([3.0, 5.0, 10.0])
    found, expected = (Scale.fit(transform, x).forward(x) for x in (unit * numbers, numbers))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert Scale.fit(transform, unit * numbers).back(found) == pytest.approx(unit * numbers)


@pytest.mark.parametrize("transform", ["zscore", "log_zscore", "quantile"])
@pytest.mark.parametrize("number", [0.0, 0.1, 1e12 / 3])
def test_equal_numbers_are_constant_in_any_unit_and_come_back(transform, number):
    numbers = np.full(7, number)
    scale = Scale.fit(transform, numbers)
    assert scale.is_constant
    np.testing.assert_array_equal(scale.forward(numbers).round(9), 0)
    np.testing.assert_allclose(scale.back(np.array([-3.0, 0.0, 8.0])), number)
    assert np.isfinite(scale.forward(np.array([number + 1e3]))).all()


@given(numbers=st.lists(st.sampled_from([1.0, 2.0, 3.5, 8.0, 9.0]), min_size=1, max_size=20))
@example(numbers=np.random.default_rng(0).exponential(size=5 * KNOTS).tolist())
@properties
def test_the_quantile_transform_gives_normal_deviates_of_mean_ranks(numbers):
    target = fitted(numbers, "quantile")
    found = target.encode(column(numbers))[:, 0]
    expected = norm.ppf((rankdata(numbers) - 0.5) / len(numbers))
    assert len(target.scales[0].knots) <= KNOTS
    inner = np.abs(expected) < (9 if len(numbers) <= KNOTS else 2.5)
    atol = 1e-6 if len(numbers) <= KNOTS else 0.02
    np.testing.assert_allclose(found[inner], expected[inner], atol=atol)


@given(numbers=NUMBERS, outputs=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
@example(numbers=[0.0, 0.0, -3.4e-12, -3.4e-12, -2.2e-97], outputs=[-2.2e-97])
@properties
def test_quantile_predictions_stay_in_the_training_range(numbers, outputs):
    found = fitted(numbers, "quantile").decode(np.array(outputs)[:, None])
    assert min(numbers) <= found.min() <= found.max() <= max(numbers)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("low", "high"), [(0.0, None), (None, 50.0)])
def test_predictions_keep_to_the_bounds(transform, low, high):
    target = fitted([-0.5, 3.0, 90.0], transform, bounds=(low, high))
    found = target.decode(np.linspace(-2e3, 2e3, 9)[:, None])
    assert np.isfinite(found).all()
    assert found.min() == low or low is None
    assert found.max() == high or high is None


def test_each_category_of_the_training_samples_has_its_own_scale():
    numbers, by = [1.0, 3.0, 100.0, 140.0, 7.0, 5.0], ["a", "a", "b", "b", "single", ""]
    held_out = fitted(numbers, "zscore", np.arange(6) != 4, by=by)
    assert [name for name, _ in held_out.categories] == ["a", "b"]
    target = fitted(numbers, "zscore", by=by)
    encoded = target.encode(column(numbers), by)[:, 0]
    np.testing.assert_allclose(encoded[:4], [-1, 1, -1, 1], atol=1e-6)
    overall = (np.array(numbers) - np.mean(numbers)) / np.std(numbers)
    np.testing.assert_allclose(encoded[4:], overall[4:], rtol=1e-5)
    np.testing.assert_allclose(target.decode(encoded[:, None], by)[:, 0], numbers, rtol=1e-5)
    unseen = target.encode([["7"], ["7"]], ["never", ""])[:, 0]
    np.testing.assert_allclose(unseen, overall[4], rtol=1e-5)
    np.testing.assert_array_equal(target.encode([["7"]]), target.encode([["7"]], ["never"]))


@given(seed=st.integers(0, 99))
@properties
def test_quantiles_are_ordered_in_the_columns_units(seed):
    rows = [["1", "10"], ["3", "50"], ["9", "20"]]
    options = {"loss": "quantile", "bounds": (0, None)}
    target = Target.fit("regression", ["age", "bmi"], rows, np.ones(3, bool), **options)
    assert (target.encoded, target.outputs) == (2, 10)
    output = np.random.default_rng(seed).normal(0, 3, (4, 10))
    found = target.decode_quantiles(output)
    assert (np.diff(found, axis=-1) >= 0).all()
    numbers = np.array(rows, float)
    expected = np.sort(output.reshape(4, 2, 5)) * numbers.std(0)[:, None] + numbers.mean(0)[:, None]
    np.testing.assert_allclose(found, np.maximum(expected, 0), atol=1e-9)
    np.testing.assert_array_equal(target.decode(output), found[..., QUANTILES.index(0.5)])


@given(st.lists(st.sampled_from(["gut", "skin", "tongue"]), min_size=1, max_size=9))
def test_classes_come_back(words):
    target = fit("classification", words)
    assert target.classes == tuple(sorted(set(words)))
    assert fit("classification", words, np.arange(len(words)) == 0).classes == target.classes
    encoded = target.encode(column(words))
    assert encoded.shape == (len(words), target.outputs)
    assert (encoded.sum(axis=1) == 1).all()
    best = target.decode(encoded * 30).argmax(axis=1)
    assert [target.classes[i] for i in best] == words


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=3))
def test_probabilities_sum_to_one_for_any_outputs(outputs):
    loss = {2: None, 3: "cross_entropy"}[len(outputs)]
    target = fit("ordinal", ["low", "high"], classes=ORDER, loss=loss)
    assert target.outputs == len(outputs)
    probabilities = target.decode(np.array([outputs], np.float32))
    assert probabilities.shape == (1, 3)
    assert probabilities.sum() == pytest.approx(1)
    assert (probabilities >= 0).all()
    if loss is None:
        found = target.decode(np.log([[0.8 / 0.2, 0.3 / 0.7]]))
        np.testing.assert_allclose(found, [[0.2, 0.5, 0.3]], err_msg="differences")


def test_class_weights_let_every_class_count_alike():
    words, is_training = list("abbbcb"), np.array([1, 1, 1, 1, 0, 0], bool)
    target = fit("classification", words, is_training, class_weights=True)
    assert target.class_weights == pytest.approx((4 / (2 * 1), 4 / (2 * 3), 0))
    assert target.shares == pytest.approx((0.25, 0.75, 0))
    assert fit("classification", words, is_training).class_weights == ()


def test_a_target_survives_json():
    for target in (
        fitted([1.0, 2.0, 7.0], "zscore", by=["a", "a", "b"], bounds=(0.0, None)),
        fitted([1.0, 2.0, 7.0], "quantile", loss="quantile"),
        fit("ordinal", ["low"], classes=ORDER, class_weights=True),
    ):
        assert TypeAdapter(Target).validate_json(json.dumps(asdict(target))) == target
