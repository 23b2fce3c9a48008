"""The score that is told first is that of the report, and nothing else is told."""

import logging

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.method_scores import headline_score
from aam.stages.first_score import FirstScore

N = 60
GROUPS = np.array([f"host{number // 2}" for number in range(N)])


def predictions(kind: str, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    fold = np.arange(N) % 5 - (np.arange(N) % 20 == 19)
    table = pd.DataFrame({"row": np.arange(N), "fold": fold})
    if kind == "regression":
        observed = rng.normal(100, 30, N)
        return table.assign(observed=observed, predicted=observed + rng.normal(0, 10, N))
    is_a = rng.random(N) < 0.5
    is_right = rng.random(N) < 0.8
    names = np.array(["a", "b"])
    table = table.assign(observed=names[is_a * 1], predicted=names[(is_a == is_right) * 1])
    for name in names:
        table[f"probability:{name}"] = np.where(table["predicted"] == name, 0.9, 0.1)
    return table


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_first_score_is_that_of_the_report(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tell = FirstScore(kind, GROUPS, (), methods=9)
    tell("median" if kind == "regression" else "majority", predictions(kind, 1))
    assert caplog.messages == [], "guessing is no score"
    first = predictions(kind)
    tell("knn_unifrac", first)
    tell("random_forest", predictions(kind, 2))
    (message,) = caplog.messages
    scored = first[first["fold"] >= 0].assign(**{"sample-id": lambda table: table["row"]})
    guessing = compare_with_guessing(kind, scored, GROUPS[scored["row"]])
    assert guessing.interval is not None
    for value in (headline_score(kind, scored), *guessing.interval, guessing.score):
        shown = f"{value:.1f}" if kind == "regression" else f"{100 * value:.1f} %"
        assert shown in message
    assert message.startswith("so far: kNN on UniFrac ")
    assert "8 more methods" in message


def test_of_one_method_nothing_is_told_before_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    FirstScore("regression", GROUPS, (), methods=1)("random_forest", predictions("regression"))
    assert caplog.messages == []
