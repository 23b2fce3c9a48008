"""What is recomputed of a matrix, and what differs too much."""

from contextlib import contextmanager
from itertools import combinations

import numpy as np
import pytest
from unifrac_cases import compute, random_case

from aam.config.metrics import METRICS
from aam.distances import check
from aam.distances.check import check_values, draw_checked
from aam.distances.engines import ScikitBio, Sparse


@pytest.mark.parametrize("samples", [2, 3, 6])
def test_every_pair_is_drawn_once_where_as_many_are_asked_for(samples):
    pairs = zip(*draw_checked(samples, 1000, "unweighted"), strict=True)
    assert list(pairs) == list(combinations(range(samples), 2))
    (values,) = draw_checked(samples, 1000, "faith_pd")
    assert values.tolist() == list(range(samples))


def test_a_few_are_drawn_differently_for_each_metric():
    first, second = draw_checked(50, 7, "unweighted")
    assert len(first) == len(second) == 7
    assert ((0 <= first) & (first < second) & (second < 50)).all()
    others = draw_checked(50, 7, "generalized")
    assert not (np.array_equal(first, others[0]) and np.array_equal(second, others[1]))
    (values,) = draw_checked(50, 7, "faith_pd")
    assert len(set(values.tolist())) == 7
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("by_engine", [False, True])
def test_what_is_right_passes_and_one_wrong_value_does_not(metric, by_engine, caplog):
    table, tree = random_case(3, 7)
    facts = METRICS[metric]
    engine = ScikitBio() if facts.phylogenetic else Sparse()
    values = compute(engine, table, tree, metric)
    given = facts.parameters_in({"alpha": 0.5})
    other = engine if by_engine else None
    tree = tree if facts.phylogenetic else None
    with caplog.at_level("INFO"):
        check_values(values, table, tree, metric, given, count=1000, other=other)
    number = 7 if facts.per_sample else 21
    assert f"{metric}: {number} values recomputed, largest difference" in caplog.text
    wrong = values.copy()
    place = (4,) if facts.per_sample else (2, 5)
    wrong[place] += 1e-3 * max(1.0, values[place])
    names = " and ".join(table.sample_ids[row] for row in place)
    message = f"{metric} of {names} is .*, but .* when recomputed by other means"
    with pytest.raises(RuntimeError, match=message):
        check_values(wrong, table, tree, metric, given, count=1000, other=other)


def test_samples_are_recomputed_alone():
    table, tree = random_case(3, 40)
    seen = []

    class Noting:
        name = "noting"

        @contextmanager
        def compute(self, table, tree, metric, parameters):
            seen.append(table.sample_ids)
            assert {tip.name for tip in tree.tips()} == {*table.feature_ids}
            with ScikitBio().compute(table, tree, metric, parameters) as found:
                yield found

    values = compute(ScikitBio(), table, tree, "unweighted")
    check_values(values, table, tree, "unweighted", {}, count=3, other=Noting())
    first, second = draw_checked(40, 3, "unweighted")
    drawn = sorted({*first.tolist(), *second.tolist()})
    assert seen == [[table.sample_ids[row] for row in drawn]]


def test_differences_are_relative_above_one_and_the_worst_is_named(caplog):
    names = ["x", "y", "z"]
    with caplog.at_level("INFO"):
        check._compare(np.array([0.5 + 9e-6, 100.0009]), np.array([0.5, 100.0]), names[:2], "m")
    assert "m: 2 values recomputed, largest difference 9.0e-04" in caplog.text
    with pytest.raises(RuntimeError, match=r"m of x is 0.500011, but 0.5 when .*tolerance 1e-05"):
        check._compare(np.array([0.500011]), np.array([0.5]), names, "m")
    with pytest.raises(RuntimeError, match="m of y is 200"):
        check._compare(np.array([1.1, 200.0, 3.1]), np.array([1.0, 100.0, 3.0]), names, "m")
    with pytest.raises(RuntimeError, match="m of y is nan"):
        check._compare(np.array([9.0, np.nan]), np.array([1.0, 1.0]), names, "m")
    with pytest.raises(RuntimeError, match="m of x is 1, but nan"):
        check._compare(np.array([1.0]), np.array([np.nan]), names, "m")


def test_no_pair_is_nothing_to_check():
    table, tree = random_case(3, 1)
    check_values(np.full((1, 1), 9.0), table, tree, "unweighted", {}, count=5, other=None)
    table, tree = random_case(3, 4)
    check_values(np.full((4, 4), 9.0), table, tree, "unweighted", {}, count=0, other=None)
