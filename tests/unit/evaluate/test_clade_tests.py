"""Which clades a label depends on: what is planted is named, and what is related to it is not."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.trees import parse_newick
from aam.evaluate.clade_tests import (
    LOOSEST,
    MOST_SAMPLES,
    ROOT,
    Clades,
    CladeTests,
    choose_level,
    choose_rows,
)
from aam.learners.baselines.problem import Problem

SAMPLES = 120
FAMILIES = 8
MEMBERS = 6
NAMES = [f"f{family}m{member}" for family in range(FAMILIES) for member in range(MEMBERS)]


def newick():
    """Return a tree of families, whose members are short branches apart."""
    families = [
        "(" + ",".join(f"f{family}m{member}:0.1" for member in range(MEMBERS)) + "):0.5"
        for family in range(FAMILIES)
    ]
    halves = [",".join(families[: FAMILIES // 2]), ",".join(families[FAMILIES // 2 :])]
    return "(" + ",".join(f"({half}):0.3" for half in halves) + ");"


TREE = parse_newick(newick())


def draw_counts(rng, samples=SAMPLES):
    """Return reads in which families vary together, and members beside them."""
    family = np.repeat(rng.normal(size=(samples, FAMILIES)), MEMBERS, axis=1)
    both = 0.5 * rng.normal(size=(samples, 3)) @ rng.normal(size=(3, len(NAMES)))
    weight = np.exp(family + both + rng.normal(size=(samples, len(NAMES))))
    shares = weight / weight.sum(axis=1, keepdims=True)
    return np.array([rng.multinomial(1000, share) for share in shares])


def problem(counts, target, groups=None, classes=()):
    number = len(target)
    units = np.arange(number) if groups is None else np.asarray(groups)
    return Problem(
        kind="classification" if classes else "regression",
        target=np.asarray(target),
        classes=list(classes),
        fold=units % 5,
        group=np.array([""] * number if groups is None else [f"u{unit}" for unit in units]),
        counts=csr_array(counts),
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((counts.shape[1], 0)),
        lengths=np.zeros(0),
        seed=1,
    )


def named(task, names=NAMES, tree=TREE):
    """Return the members of each named clade, as sets, and the clades themselves."""
    rows = choose_rows(task)
    clades = Clades.of_table(csr_array(task.counts[rows]), names, tree)
    found = CladeTests.of_task(task, rows, clades).name()
    return [{names[at] for at in clades.features(one.node)} for one in found], found


def log_share(counts, names):
    shares = counts[:, [NAMES.index(name) for name in names]].sum(axis=1) / counts.sum(axis=1)
    value = np.log(shares + 1e-3)
    return (value - value.mean()) / value.std()


@pytest.mark.parametrize("planted", [["f2m3"], [f"f5m{member}" for member in range(MEMBERS)]])
@pytest.mark.parametrize("is_class", [False, True])
def test_a_planted_signal_is_named_and_its_relatives_are_not(planted, is_class):
    rng = np.random.default_rng(5)
    counts = draw_counts(rng)
    label = log_share(counts, planted) + 0.5 * rng.normal(size=SAMPLES)
    task = problem(counts, label)
    if is_class:
        words = np.where(label > np.median(label), "high", "low")
        task = problem(counts, words, classes=["high", "low"])
    sets, found = named(task)
    assert sets
    assert all(one & set(planted) for one in sets)
    # The surest comes first, within what was planted or a few around it.
    assert len(sets[0]) <= 2 * MEMBERS
    assert found[0].p == min(one.p for one in found)
    assert found[0].effect > 0
    assert found[0].folds >= 3


def test_a_label_of_noise_has_hardly_ever_a_name():
    named_draws = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        # All six samples of a unit have the same label, so that 120 samples are twenty labels.
        units = np.repeat(np.arange(20), 6)
        counts = draw_counts(rng) + 50 * draw_counts(rng, 20)[units]
        label = rng.normal(size=20)[units]
        named_draws += bool(named(problem(counts, label, groups=units))[0])
    assert named_draws <= 3


def test_of_six_signals_in_thirty_studies_one_name_in_ten_is_false_at_most():
    false, names = 0, 0
    for seed in range(30):
        rng = np.random.default_rng(100 + seed)
        counts = draw_counts(rng)
        planted = [f"f{family}m{member}" for family, member in ((0, 1), (3, 4), (6, 2))]
        label = sum(log_share(counts, [name]) for name in planted) + rng.normal(size=SAMPLES)
        sets, _ = named(problem(counts, label))
        names += len(sets)
        false += sum(not one & set(planted) for one in sets)
    assert names >= 30
    assert false <= 0.1 * names


def test_neither_the_order_of_samples_nor_that_of_features_nor_names_of_units_change_anything():
    rng = np.random.default_rng(2)
    counts = draw_counts(rng)
    units = np.repeat(np.arange(SAMPLES // 2), 2)
    label = log_share(counts, ["f1m1"]) + 0.4 * rng.normal(size=SAMPLES)
    task = problem(counts, label, groups=units)
    sets, found = named(task)
    assert sets
    rows = rng.permutation(SAMPLES)
    columns = rng.permutation(len(NAMES))
    shuffled = dataclasses.replace(
        task,
        target=task.target[rows],
        fold=task.fold[rows],
        group=np.array([f"other{name}" for name in task.group[rows]]),
        counts=csr_array(counts[rows][:, columns]),
    )
    others, again = named(shuffled, [NAMES[column] for column in columns])
    assert others == sets
    np.testing.assert_allclose([one.p for one in again], [one.p for one in found], rtol=1e-6)


def test_without_a_tree_features_are_named_one_by_one():
    names, false = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts = draw_counts(rng)
        label = log_share(counts, ["f4m0"]) + 0.3 * rng.normal(size=SAMPLES)
        sets, _ = named(problem(counts, label), tree=None)
        assert sets[0] == {"f4m0"}
        names += len(sets)
        false += len(sets) - 1
    assert false <= 0.1 * names


def test_nothing_is_named_where_a_table_has_no_frequent_feature_or_few_units():
    rng = np.random.default_rng(4)
    empty = np.zeros((SAMPLES, len(NAMES)), int)
    empty[np.arange(SAMPLES), rng.integers(len(NAMES), size=SAMPLES)] = 5
    label = rng.normal(size=SAMPLES)
    assert named(problem(empty, label))[0] == []
    units = np.arange(SAMPLES) % 2
    assert named(problem(draw_counts(rng), units.astype(float), groups=units))[0] == []


def test_the_finest_clades_are_named_at_the_loosest_level_with_few_enough_tests():
    counts = np.ones((4, len(NAMES)), int)
    clades = Clades.of_table(csr_array(counts), NAMES, TREE)
    halves = clades.children[ROOT]
    family = clades.children[halves[0]][0]
    member = clades.children[family][0]
    p_of = {ROOT: 0.001, halves[0]: 1e-4, halves[1]: 0.6}
    p_of |= dict.fromkeys(clades.children[halves[0]], 0.5) | {family: 1e-4}
    p_of |= dict.fromkeys(clades.children[family], 0.5) | {member: 1e-3}
    # Twelve tests at 0.001 are 0.012 by chance; at 0.5 they would be six.
    assert choose_level(clades, p_of) == [member]
    assert choose_level(clades, p_of | {member: 0.02}) == [family]
    assert choose_level(clades, p_of | {ROOT: LOOSEST + 0.01}) == []


def test_of_many_samples_whole_units_are_looked_at():
    number = MOST_SAMPLES + 500
    task = problem(np.ones((number, 2), int), np.zeros(number), groups=np.arange(number) // 5)
    task = dataclasses.replace(task, fold=np.where(np.arange(number) < 10, -1, task.fold))
    rows = choose_rows(task)
    assert len(rows) == MOST_SAMPLES
    assert (task.fold[rows] >= 0).all()
    assert np.unique(task.group[rows], return_counts=True)[1].tolist() == [5] * (MOST_SAMPLES // 5)
