"""Which clades a label depends on: what is planted is named, and what is related to it is not."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
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
    p_of_addition,
    squared_distances,
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


# The constants of the method, which the definitions below need.
PSEUDO_SHARE = 5e-4
"""Share of reads that is added before a logarithm is taken."""
SHORTEST = 1e-4
"""Least length that a branch counts with."""
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Penalties of a ridge to choose from, in units of the mean of the squared features of a sample."""


def weighted_logs(share, length):
    """Return features of clades: logarithms of their shares, weighted by their branches."""
    return np.log(1 + share / PSEUDO_SHARE) * np.sqrt(np.maximum(length, SHORTEST))


LETTERS = ["f", "e", "d", "c", "b", "a"]
SMALL = parse_newick("((a:1,b:2):0.5,((c:1):2,(d:1,e:1):1):3,f:4);")
"""Preorder: the root, ab, a, b, cd, c, d, f; nobody has enough of e."""


def small_counts():
    """Return reads of forty samples: e is in one of them, d in two, b in three, c in four."""
    counts = np.zeros((40, len(LETTERS)), int)
    for letter, samples in {"a": 40, "b": 3, "c": 4, "d": 2, "e": 1, "f": 5}.items():
        counts[:samples, LETTERS.index(letter)] = 1 + np.arange(samples)
    return counts


def small_clades():
    return Clades.of_table(csr_array(small_counts()), LETTERS, SMALL)


def test_clades_are_the_nodes_that_divide_features_of_several_samples():
    clades = small_clades()
    assert clades.parent_B.tolist() == [-1, 0, 1, 1, 0, 4, 4, 0]
    assert clades.end_B.tolist() == [8, 4, 3, 4, 7, 6, 7, 8]
    # A node with one child is its child, further from the root.
    assert clades.length_B.tolist() == [0, 0.5, 1, 2, 3, 3, 2, 4]
    assert clades.tip_B.tolist() == [-1, -1, 5, 4, -1, 3, 2, 0]


def test_a_clade_has_the_reads_of_its_features():
    clades = small_clades()
    counts = small_counts()
    shares = counts / counts.sum(axis=1, keepdims=True)
    below = ["abcdf", "ab", "a", "b", "cd", "c", "d", "f"]
    for node, letters in enumerate(below):
        expected = shares[:, [LETTERS.index(letter) for letter in letters]].sum(axis=1)
        np.testing.assert_allclose(clades.share_NB[:, node], expected)
        features = [LETTERS[at] for at in clades.features(node)]
        assert features == list(letters)
    np.testing.assert_allclose(clades.logs_NB, weighted_logs(clades.share_NB, clades.length_B))


def test_zeros_that_a_table_stores_are_no_reads():
    counts = csr_array(small_counts() + 1)
    counts.data -= 1
    clades = Clades.of_table(counts, LETTERS, SMALL)
    assert clades.tip_B.tolist() == small_clades().tip_B.tolist()


def test_features_are_clades_of_their_own_without_a_tree():
    clades = Clades.of_table(csr_array(small_counts()), LETTERS, None)
    assert clades.parent_B.tolist() == [-1, 0, 0, 0, 0, 0]
    assert clades.tip_B.tolist() == [-1, 0, 2, 3, 4, 5]
    assert clades.length_B.tolist() == [0, 1, 1, 1, 1, 1]
    assert clades.end_B.tolist() == [6, 2, 3, 4, 5, 6]


def test_clades_are_tested_where_a_tenth_of_the_samples_has_them():
    clades = small_clades()
    # Four of forty samples have c, and fewer have b and d.
    assert clades.children == [[1, 4, 7], [2], [], [], [5], [], [], []]
    assert [clades.above(node) for node in (0, 1, 6)] == [[], [0], [4, 0]]


def test_clades_overlap_where_one_is_within_the_other():
    clades = small_clades()
    within = {(one, two) for one in range(8) for two in range(8) if clades.overlap(one, two)}
    nested = {(1, 2), (1, 3), (4, 5), (4, 6), *((0, node) for node in range(8))}
    same = {(node, node) for node in range(8)}
    assert within == nested | {(two, one) for one, two in nested} | same


def test_a_clade_is_found_by_the_features_that_it_has_and_others_are_of_the_root():
    clades = small_clades()
    found = [
        clades.find(np.array([LETTERS.index(letter) for letter in letters]))
        for letters in ("a", "ab", "cd", "ce", "e", "af", "bf", "d")
    ]
    assert found == [2, 1, 4, 5, ROOT, ROOT, ROOT, 6]


def test_other_reads_of_the_samples_keep_the_clades():
    clades = small_clades()
    other = clades.of_draw(csr_array(small_counts()[::-1]))
    np.testing.assert_allclose(other.share_NB, clades.share_NB[::-1])
    np.testing.assert_allclose(other.logs_NB, clades.logs_NB[::-1])
    assert other.tip_B is clades.tip_B
    rng = np.random.default_rng(0)
    tests, _ = draw_tests(rng, 60)
    drawn = draw_counts(rng, 60)
    again = tests.of_draw(csr_array(drawn))
    assert again.label_NC is tests.label_NC
    assert again.clades.end_B is tests.clades.end_B
    np.testing.assert_allclose(
        again.clades.share_NB[:, -1], drawn[:, -1] / drawn.sum(axis=1), rtol=1e-9
    )


def draw_tests(rng, samples, groups=None, **changes):
    """Return the tests of clades of a label that follows a family, and its task."""
    counts = draw_counts(rng, samples)
    label = log_share(counts, ["f2m3"]) + 0.5 * rng.normal(size=samples)
    task = dataclasses.replace(problem(counts, label, groups=groups), **changes)
    rows = choose_rows(task)
    clades = Clades.of_table(csr_array(task.counts[rows]), NAMES, TREE)
    return CladeTests.of_task(task, rows, clades), task


def ridge(tests):
    """Return weights of each fold by the definition of a ridge, and the means that it starts at."""
    fits = []
    features, label = tests.clades.logs_NB, tests.label_NC
    for fold in range(tests.fold_N.max() + 1):
        is_train = tests.fold_N != fold
        center, mean = features[is_train].mean(axis=0), label[is_train].mean(axis=0)
        x, y = features[is_train] - center, label[is_train] - mean
        kernel = x @ x.T
        scale = np.trace(kernel) / len(x)
        errors = {}
        for candidate in PENALTIES:
            inverse = np.linalg.inv(kernel + scale * candidate * np.eye(len(x)))
            hat = kernel @ inverse
            error = ((y - hat @ y) ** 2).sum() / (1 - np.trace(hat) / len(x)) ** 2
            errors[error] = x.T @ inverse @ y
        fits.append((errors[min(errors)], center, mean))
    return fits


def predict_by(fits, tests, features):
    found = np.empty_like(tests.label_NC)
    for fold, (weight, center, mean) in enumerate(fits):
        is_test = tests.fold_N == fold
        found[is_test] = mean + (features[is_test] - center) @ weight
    return found


@pytest.mark.parametrize("samples", [40, 120], ids=["fewer than clades", "more than clades"])
def test_the_machine_is_a_ridge_with_the_penalty_of_generalized_cross_validation(samples):
    tests, _ = draw_tests(np.random.default_rng(6), samples)
    expected = predict_by(ridge(tests), tests, tests.clades.logs_NB)
    np.testing.assert_allclose(tests.machine.predicted_NC, expected, rtol=1e-6, atol=1e-8)


def test_reads_of_a_clade_are_replaced_by_those_of_samples_that_are_alike_beyond_it():
    rng = np.random.default_rng(7)
    units = np.arange(60) // 2
    tests, _ = draw_tests(rng, 60, groups=units)
    clades = tests.clades
    family = clades.children[clades.children[ROOT][0]][2]
    below, above = np.arange(family, clades.end_B[family]), clades.above(family)
    beyond = np.setdiff1d(np.arange(len(clades.end_B)), [*below, *above])
    fits = ridge(tests)
    total = np.zeros_like(tests.label_NC)
    for sample in range(60):
        distance = ((clades.logs_NB[:, beyond] - clades.logs_NB[sample, beyond]) ** 2).sum(axis=1)
        distance[units == units[sample]] = np.inf
        nearest = np.argsort(distance)[:5]
        found = tests.find_stand_ins(np.concatenate([below, above]))[sample]
        assert set(found) == set(nearest)
        for other in nearest:
            share = clades.share_NB[sample].copy()
            gained = clades.share_NB[other, family] - share[family]
            share[below] = clades.share_NB[other, below]
            share[above] = np.maximum(share[above] + gained, 0)
            logs = weighted_logs(share, clades.length_B)
            features = np.where(np.arange(60)[:, None] == sample, logs, clades.logs_NB)
            total[sample] += predict_by(fits, tests, features)[sample]
    without = tests.predict_without(family)
    np.testing.assert_allclose(without, total / 5, rtol=1e-6, atol=1e-8)
    assert tests.predict_without(family) is without, "it is kept"


def test_without_any_reads_the_mean_of_the_other_folds_is_predicted():
    tests, _ = draw_tests(np.random.default_rng(7), 60, groups=np.arange(60) // 2)
    means = [tests.label_NC[tests.fold_N != fold].mean() for fold in range(5)]
    np.testing.assert_allclose(tests.predict_without(ROOT)[:, 0], np.array(means)[tests.fold_N])


def test_stand_ins_are_of_other_units_as_many_as_there_are_up_to_five():
    tests, _ = draw_tests(np.random.default_rng(8), 12, groups=np.arange(12) // 4)
    assert tests.find_stand_ins(np.array([3])).shape == (12, 5)
    tests, _ = draw_tests(np.random.default_rng(8), 6, groups=np.arange(6) // 3)
    stand_ins = tests.find_stand_ins(np.array([3]))
    assert stand_ins.shape == (6, 3)
    assert all(set(row) == set(range(3, 6)) for row in stand_ins[:3].tolist())
    alone, _ = draw_tests(
        np.random.default_rng(8), 6, groups=np.zeros(6, int), fold=np.arange(6) % 2
    )
    np.testing.assert_allclose(alone.predict_without(3), alone.machine.predicted_NC)


def test_labels_folds_and_units_are_those_of_the_chosen_samples():
    rng = np.random.default_rng(9)
    counts = draw_counts(rng, 12)
    words = np.array(["b", "a", "b", "c"] * 3)
    task = problem(counts, words, groups=np.arange(12) // 2, classes=["a", "b", "c"])
    task = dataclasses.replace(task, fold=np.array([-1, -1, *([0, 1, 3, 3, 0] * 2)]))
    rows = choose_rows(task)
    assert rows.tolist() == list(range(2, 12))
    tests = CladeTests.of_task(task, rows, Clades.of_table(csr_array(counts[2:]), NAMES, TREE))
    assert tests.label_NC.tolist() == [
        [float(word == name) for name in "abc"] for word in words[2:]
    ]
    assert tests.fold_N.tolist() == [0, 1, 2, 2, 0] * 2
    assert tests.unit_N.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_an_addition_is_tested_by_sums_over_units_beyond_what_is_given():
    rng = np.random.default_rng(10)
    label, predicted, without = rng.normal(size=(3, 30, 2))
    predicted += 0.5 * label
    unit = np.arange(30) // 3
    constant, other = np.ones(30), rng.normal(size=30)
    # What is given twice is given once.
    for given in ([], [constant, other], [constant, other, 2 * other]):
        residual = np.eye(30)
        if given:
            design = np.stack(given, axis=1)
            residual -= design @ np.linalg.pinv(design)
        product = (residual @ (label - without) * (residual @ (predicted - without))).sum(axis=1)
        sums = product.reshape(10, 3).sum(axis=1)
        expected = stats.ttest_1samp(sums, 0, alternative="greater").pvalue
        assert p_of_addition(label, predicted, without, given, unit) == pytest.approx(expected)


def test_an_addition_of_two_units_or_of_nothing_is_no_evidence():
    label = np.array([[1.0], [2.0], [4.0], [5.0]])
    nothing = np.zeros((4, 1))
    assert p_of_addition(label, label, nothing, [], np.array([0, 0, 1, 1])) == 1.0
    assert p_of_addition(label, label, nothing, [], np.array([0, 0, 1, 2])) < 0.1
    assert p_of_addition(label, nothing, nothing, [], np.arange(4)) == 1.0
    # Sums that are all the same have no spread, and are the surest evidence.
    assert p_of_addition(nothing + 1, nothing + 1, nothing, [], np.arange(4)) < 1e-6


def test_a_clade_is_tested_given_the_named_ones_beside_it():
    tests, _ = draw_tests(np.random.default_rng(5), SAMPLES)
    clades = tests.clades
    half, other_half = clades.children[ROOT]
    family, sister = clades.children[half][:2]
    member = clades.children[family][0]
    share = clades.share_NB[:, sister]
    log, presence = tests.describe_others(member, [family, sister, ROOT, half, member])
    np.testing.assert_allclose(log, np.log(share + PSEUDO_SHARE))
    assert presence.tolist() == (share > 0).astype(float).tolist()
    without = tests.predict_without(member)
    factors = tests.label_NC, tests.machine.predicted_NC, without
    given = [np.ones(SAMPLES), without[:, 0], log, presence]
    expected = p_of_addition(*factors, given, tests.unit_N)
    assert tests.test(member, [family, sister]) == pytest.approx(expected)
    expected = p_of_addition(*factors, given[:2], tests.unit_N)
    assert tests.test(member) == pytest.approx(expected)
    root = p_of_addition(*factors[:2], tests.predict_without(ROOT), [], tests.unit_N)
    assert tests.test(ROOT, [other_half]) == pytest.approx(root)


def test_clades_below_one_that_fails_its_test_are_not_tested():
    tests, _ = draw_tests(np.random.default_rng(5), SAMPLES)
    found = tests.explore([])
    assert found[ROOT] == tests.test(ROOT)
    asked = {ROOT}
    for node, children in enumerate(tests.clades.children):
        if node in asked and found[node] <= 0.05:
            asked.update(children)
    assert found.keys() == asked
    noise = dataclasses.replace(tests, label_NC=np.random.default_rng(1).normal(size=(SAMPLES, 1)))
    noise.without = {}
    assert noise.explore([]).keys() == {ROOT}
    assert noise.name() == []


def test_a_named_clade_says_what_is_lost_without_its_reads():
    tests, _ = draw_tests(np.random.default_rng(5), SAMPLES)
    named_clades = tests.name()
    assert [one.p for one in named_clades] == sorted(one.p for one in named_clades)
    one = named_clades[0]
    error = (tests.label_NC - tests.machine.predicted_NC)[:, 0] ** 2
    lost = (tests.label_NC - tests.predict_without(one.node))[:, 0] ** 2 - error
    assert one.effect == pytest.approx(lost.mean() / tests.label_NC.var())
    assert one.folds == sum(lost[tests.fold_N == fold].sum() > 0 for fold in range(5))
    others = [other.node for other in named_clades]
    assert one.p == pytest.approx(tests.test(one.node, others))


def test_as_many_clades_are_named_as_their_tests_allow():
    clades = small_clades()
    # Three clades are below the root: one of them that passes may have p = 0.05 / 3.
    edge = 0.05 / 3
    others = {ROOT: 0.05, 4: 0.9, 7: 0.8}
    assert choose_level(clades, others | {1: 0.9 * edge}) == [1]
    assert choose_level(clades, others | {1: 1.1 * edge}) == []
    # Two of three may have 0.1 / 3, and three 0.15 / 3.
    two = {ROOT: 0.05, 1: 1.9 * edge, 4: 1.9 * edge}
    assert sorted(choose_level(clades, two | {7: 0.9})) == [1, 4]
    assert choose_level(clades, two | {1: 2.1 * edge, 7: 0.9}) == []
    # What is asked below counts as a test, and the finer clade is named.
    finer = {ROOT: 0.01, 1: 0.01, 2: 0.012, 4: 0.9, 7: 0.8}
    assert choose_level(clades, finer) == [2]
    assert choose_level(clades, finer | {2: 0.013}) == [1]
    assert choose_level(clades, {ROOT: 0.01}) == []


def test_squared_distances_are_exact_far_from_the_origin():
    rng = np.random.default_rng(11)
    one, two = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    expected = ((one[:, None] - two) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(one, two), expected)
    np.testing.assert_allclose(squared_distances(one + 1e6, two + 1e6), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_of_more_samples_than_are_looked_at_leaves_room_for_others(seed):
    sizes = [MOST_SAMPLES + 300, 400, 300]
    unit = np.repeat(np.arange(3), sizes)
    task = problem(np.ones((len(unit), 2), int), np.zeros(len(unit)), groups=unit)
    rows = choose_rows(dataclasses.replace(task, fold=unit, seed=seed))
    found = np.bincount(unit[rows])
    assert found.tolist() == [MOST_SAMPLES - 700, 400, 300]


def test_samples_of_one_fold_name_nothing():
    rng = np.random.default_rng(5)
    counts = draw_counts(rng)
    task = problem(counts, log_share(counts, ["f2m3"]))
    assert named(dataclasses.replace(task, fold=np.zeros(SAMPLES, int))) == ([], [])
