from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import problem_of

from benchmarks import null, small_studies


def noise(kind: str, samples: int = 40):
    rng = np.random.default_rng(0)
    reads = rng.poisson(5, (samples, 6))
    distances = rng.random((samples, samples))
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0)
    fold = np.arange(samples) % 5
    target = rng.permutation(np.repeat(["a", "b"], samples // 2))
    return problem_of(target, reads, distances, fold, "ab")


@pytest.mark.parametrize("way", null.WAYS)
def test_a_draw_of_labels_is_reproducible_and_says_which_claims_are_made(way):
    task = noise(way)
    drawn = null.draw_labels(task, way, np.random.default_rng(1))
    again = null.draw_labels(task, way, np.random.default_rng(1))
    assert drawn.target.tolist() == again.target.tolist()
    assert (drawn.kind == "regression") == way.startswith("numbers")
    found = null.claims(small_studies.cut(drawn, 40, 0))
    assert found.keys() >= {*null.CLAIMS, *null.MEANS}
    assert not found["works, by the super learner"]


def test_groups_share_what_is_drawn_for_them():
    groups = np.repeat([f"g{i}" for i in range(10)], 4)
    task = replace(noise("numbers by group"), group=groups)
    drawn = null.draw_labels(task, "numbers by group", np.random.default_rng(0))
    numbers = pd.Series(drawn.target).groupby(drawn.group)
    assert numbers.std().mean() < 0.7 * np.std(drawn.target)
    labels = null.draw_labels(task, "two classes by group", np.random.default_rng(0))
    assert (pd.Series(labels.target).groupby(labels.group).nunique() == 1).all()
    free = null.draw_labels(task, "two classes", np.random.default_rng(0))
    assert set(free.group) == {""}


def test_the_table_says_how_often_each_claim_was_made():
    rows = [
        {"study": "s", "way": "numbers", "draw": draw, "has an interval": draw > 0}
        | dict.fromkeys(null.CLAIMS, draw == 0)
        | dict.fromkeys(null.MEANS, 0.5 * draw)
        for draw in range(4)
    ]
    text = null.summary(pd.DataFrame(rows))
    assert "| works, by the super learner | all | 4 | 25.0% | 2.5% |" in text
    assert "| the interval leaves out guessing, on the good side | all | 3 | 0.0% | 2.5% |" in text
    assert "| super learner less guessing | numbers | 4 | +0.7500 | 0.3227 |" in text


def test_rules_are_compared_on_what_was_predicted(tmp_path):
    rng = np.random.default_rng(0)
    task = noise("classification")
    task.counts.data[:] = rng.poisson(9, len(task.counts.data))
    small = small_studies.cut(task, 40, 0)
    small = replace(small, asked=["kernel_clr", "knn_unifrac", "kernel_unifrac", "elastic_net"])
    tables = small_studies.cross_validate(small, 1)
    tables.predictions.assign(group="").to_parquet(tmp_path / "task-40-0.parquet")
    tables.nested.to_parquet(tmp_path / "task-40-0.nested.parquet")
    table = small_studies.compare(tmp_path)
    assert set(table["rule"]) == {*small_studies.RULES, "the package's weights, not nested"}
    chosen = table.set_index("rule").loc["the best one (chosen)"]
    assert chosen["behind chosen"] == 0
    assert chosen["behind best"] >= 0


@pytest.mark.parametrize("kind", ["numbers", "four classes"])
def test_simulated_methods_are_as_skilled_as_they_should_be(kind):
    rng = np.random.default_rng(0)
    values, truth, classes = small_studies.draw_methods(
        kind,
        [0.8, 0.1],
        np.ones(2),
        correlation=0.5,
        unit_N=np.arange(2000),
        rng=rng,
    )
    losses = [small_studies.loss(value, truth, classes) for value in values.values()]
    if kind == "numbers":
        squares = [np.corrcoef(value[:, 0], truth)[0, 1] ** 2 for value in values.values()]
        assert squares == pytest.approx([0.8, 0.1], abs=0.03)
    assert losses[0] < 0.8 * losses[1] if kind == "numbers" else losses[0] < losses[1] - 0.2


def test_rules_are_compared_on_simulated_methods(monkeypatch, capsys):
    monkeypatch.setattr(small_studies, "FREQUENCIES", {"numbers": ()})
    monkeypatch.setattr(small_studies, "SKILLS", {"one strong": (0.8, *[0.2] * 7)})
    monkeypatch.setattr(small_studies, "UNITS", (40,))
    rules = {name: small_studies.RULES[name] for name in (small_studies.CHOSEN, "mean of all")}
    table = small_studies.simulate(2, rules)
    behind = table.groupby("rule")["behind chosen"].mean()
    assert behind[small_studies.CHOSEN] == 0
    assert behind["mean of all"] > 10
    small_studies.print_simulated(table)
    assert "| mean of all |" in capsys.readouterr().out


def test_greedy_selection_adds_numbers_to_a_mean():
    """The mean of four learners has no error; that of the three best errs by a third."""
    observed = np.linspace(0, 10, 20)
    values = {"a": observed, "b": observed - 0.5, "c": observed - 0.5, "d": observed + 1.0}
    columns = {name: value[:, None] for name, value in values.items()}
    greedy = small_studies.greedy(columns, observed, [], np.arange(20))
    np.testing.assert_allclose(greedy.apply(columns)[:, 0], observed, atol=1e-9)
