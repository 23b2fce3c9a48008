import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.config.sections.training import EarlyStoppingSettings as Settings
from aam.train.progress import EarlyStopping

NAN = math.nan
scores = st.lists(st.floats(-1, 1) | st.sampled_from([0.0, 0.5, NAN]), max_size=20)
rules = st.builds(Settings, patience=st.integers(1, 4), min_delta=st.sampled_from([0.0, 0.01, 0.3]))


def decisions(stopping: EarlyStopping, values: list[float]) -> list[tuple[bool, bool]]:
    return [(stopping.update(value), stopping.should_stop) for value in values]


@given(rules, scores, st.integers(0, 20))
def test_a_resumed_run_decides_alike_and_the_best_is_the_highest_value(rule, values, cut):
    expected = decisions(EarlyStopping(rule), values)
    first, second = EarlyStopping(rule), EarlyStopping(rule)
    before = decisions(first, values[:cut])
    second.restore(first.state())
    assert before + decisions(second, values[cut:]) == expected
    worst = [-math.inf if math.isnan(value) else value for value in values]
    best = [n for n, (is_best, _) in enumerate(expected) if is_best]
    assert best == [n for n in range(len(values)) if n == 0 or worst[n] > max(worst[:n])]


@pytest.mark.parametrize(
    ("patience", "values", "stops_at"),
    [
        pytest.param(1, [0.5, 0.4], 1, id="at once"),
        pytest.param(2, [0.5, 0.4, 0.7, 0.7, 0.6], 4, id="after an improvement"),
        pytest.param(2, [0.5, 0.4, 0.45, 0.9], 2, id="before a late improvement"),
        pytest.param(3, [0.5, 0.6, 0.7, 0.8], None, id="never"),
        pytest.param(2, [0.50, 0.56, 0.62, 0.62, 0.62], 4, id="small steps add up"),
        pytest.param(2, [0.50, 0.55, 0.58], 2, id="smaller steps come too late"),
        pytest.param(2, [0.50, 0.60, 0.60], 2, id="just the least improvement is none"),
        pytest.param(2, [NAN, NAN, 0.1, NAN, NAN], 4, id="NaN is no improvement"),
    ],
)
def test_patience_counts_validations_without_a_real_improvement(patience, values, stops_at):
    stopping = EarlyStopping(Settings(patience=patience, min_delta=0.1))
    stops = [stop for _, stop in decisions(stopping, values)]
    assert (stops.index(True) if any(stops) else None) == stops_at


@given(scores)
def test_without_settings_nothing_is_best_and_nothing_stops(values):
    assert decisions(EarlyStopping(None), values) == [(False, False)] * len(values)
