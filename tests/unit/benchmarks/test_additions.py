from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks import additions


@pytest.mark.parametrize("target", additions.TARGETS)
def test_a_drawn_study_follows_its_covariates_and_is_reproducible(target):
    design = additions.Design(units=40, each=3, target=target, shape="a line", added=0.0)
    task, covariates = additions.draw_study(design, np.random.default_rng(0))
    again, _ = additions.draw_study(design, np.random.default_rng(0))
    assert task.target.tolist() == again.target.tolist()
    # Persons keep their values, and stay in one fold.
    for values in (task.target, covariates.numbers["age"], task.fold):
        assert (pd.Series(values).groupby(task.group).nunique() == 1).all()
    age_N = covariates.numbers["age"]
    if task.regression:
        assert pd.Series(age_N).corr(pd.Series(task.target), method="spearman") > 0.5
    else:
        assert age_N[task.target == "ill"].mean() > age_N[task.target == "well"].mean() + 0.5


def test_reads_that_know_no_more_add_nothing_and_those_that_do_are_found(monkeypatch):
    """A small version of the row in the table of false claims."""
    monkeypatch.setattr(additions, "TREES", 10)
    design = additions.Design(units=120, each=1, target="numbers", shape="a line", added=0.0)
    rows = [additions.measure_draw(design, draw) for draw in range(2)]
    rows.append(additions.measure_draw(replace(design, added=2.0), 0))
    table = pd.DataFrame(rows)
    assert table["adds"].tolist() == [False, False, True]
    assert not table["costs"].any()
    assert table["gain"][:2].abs().max() < 0.1 < table["gain"][2]
    text = additions.summarize(table)
    assert "| know more | 120 of 1 | numbers | 1 | 100.0% | 0.0% |" in text
