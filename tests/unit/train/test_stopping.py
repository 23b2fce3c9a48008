import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.config.sections.training import EarlyStoppingSettings as Settings
from aam.train.early_stopping import EarlyStopping

scores = st.lists(st.floats(-1, 1) | st.sampled_from([0.0, 0.5, math.nan]), max_size=20)
rules = st.builds(Settings, patience=st.integers(1, 4), min_delta=st.sampled_from([0.0, 0.01, 0.3]))


def decisions(stopping: EarlyStopping, values: list[float]) -> list[tuple[bool, bool]]:
    return [(stopping.update(value), stopping.should_stop) for value in values]


@given(rules, scores, st.integers(0, 20))
def test_a_resumed_run_decides_as_one_that_never_stopped(rule, values, cut):
    expected = decisions(EarlyStopping(rule), values)
    first, second = EarlyStopping(rule), EarlyStopping(rule)
    found = decisions(first, values[:cut])
    second.restore(first.state())
    assert found + decisions(second, values[cut:]) == expected


@given(rules, scores)
def test_the_best_is_always_the_highest_value_so_far(rule, values):
    best = [n for n, (is_best, _) in enumerate(decisions(EarlyStopping(rule), values)) if is_best]
    worst = [-math.inf if math.isnan(value) else value for value in values]
    assert best == [n for n in range(len(values)) if n == 0 or worst[n] > max(worst[:n])]


@pytest.mark.parametrize(
    ("patience", "values", "stops_at"),
    [
        (1, [0.5, 0.4], 1),
        (2, [0.5, 0.4, 0.7, 0.7, 0.6], 4),
        (2, [0.5, 0.4, 0.45, 0.9], 2),
        (3, [0.5, 0.6, 0.7, 0.8], None),
        (2, [0.50, 0.56, 0.62, 0.62, 0.62], 4),
        (2, [0.50, 0.55, 0.58], 2),
        (2, [0.50, 0.60, 0.60], 2),
        (2, [math.nan, math.nan, math.nan], 2),
        (2, [math.nan, math.nan, 0.1, math.nan, math.nan], 4),
    ],
    ids=[
        "at once",
        "after an improvement",
        "before a late improvement",
        "never",
        "small steps add up",
        "smaller steps come too late",
        "just the least improvement is none",
        "only NaN",
        "NaN is no improvement",
    ],
)
def test_patience_counts_validations_without_a_real_improvement(patience, values, stops_at):
    stopping = EarlyStopping(Settings(patience=patience, min_delta=0.1))
    stops = [stop for _, stop in decisions(stopping, values)]
    assert (stops.index(True) if any(stops) else None) == stops_at


def test_an_improvement_below_the_least_gives_the_best_weights_and_no_more_patience():
    stopping = EarlyStopping(Settings(patience=2, min_delta=0.1))
    assert decisions(stopping, [0.5, 0.55, 0.58]) == [(True, False), (True, False), (True, True)]


@given(scores)
def test_without_settings_nothing_is_best_and_nothing_stops(values):
    stopping = EarlyStopping(None)
    assert decisions(stopping, values) == [(False, False)] * len(values)
    assert stopping.state() == EarlyStopping(None).state()
    stopping.restore(stopping.state())
