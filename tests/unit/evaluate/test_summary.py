"""Sentences of the summary and of the accuracy page."""

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.conformal import cross_intervals, interval_report
from aam.evaluate.report import target_report
from aam.evaluate.summary import Results, accuracy_page, summary_page


def report(**described) -> dict:
    """Return the scores of a model that is off by one, beside a baseline off by two."""
    observed = np.arange(12.0)
    table = pd.DataFrame({"sample-id": [f"s{i}" for i in range(12)], "fold": np.arange(12) % 3})
    table = table.assign(observed=observed, predicted=observed + 1)
    return {
        **target_report("regression", table),
        **{"model": "base", "task": "age", "kind": "regression", "evaluation": "transductive"},
        **{"labels": 1.0, "bootstrap": {}, "comparisons": {}},
        "intervals": interval_report(cross_intervals(table, 0.6), 0.6),
        "baselines": {"median": target_report("regression", table.assign(predicted=observed + 2))},
        **described,
    }


@pytest.mark.parametrize(("labels", "said"), [(1.0, None), (0.1, "10 %"), (0.125, "12.5 %")])
def test_a_model_of_few_labels_says_that_its_baselines_had_all(labels, said):
    text = summary_page(Results("mouth", {}, [report(labels=labels)]))
    assert "better than the best baseline, training median (2.00)." in text
    if said is None:
        assert "Trained on" not in text
    else:
        assert f"Trained on {said} of the labels; the baselines on all. Transductive" in text


def test_no_page_claims_that_a_transductive_model_never_saw_a_sample():
    assert "by a model that never saw its label, and" in accuracy_page([report()])
