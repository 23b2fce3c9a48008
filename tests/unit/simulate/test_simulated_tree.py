import numpy as np

from aam.simulate.birth_death import birth_death_tree, coalescent_tree
from aam.simulate.evolution import evolve, site_rates
from aam.util.seeds import generator


def named(tree):
    for number, tip in enumerate(tree.tips()):
        tip.name = str(number)
    return tree


def test_neighbours_split_at_their_ages():
    tree = named(coalescent_tree(np.array([1.0, 3.0, 2.0])))
    assert str(tree).strip() == "((0:1.0,1:1.0):2.0,(2:2.0,3:2.0):1.0);"


def test_tree_is_binary_with_positive_lengths():
    tree = birth_death_tree(200, generator("tree"))
    nodes = list(tree.traverse(include_self=False))
    assert tree.count(tips=True) == 200
    assert {len(node.children) for node in [tree, *nodes]} == {0, 2}
    assert min(node.length for node in nodes) > 0
    assert tree.length is None


def test_sequences_are_distinct_even_on_a_tree_without_time():
    tree = birth_death_tree(120, generator("tree"))
    for node in tree.traverse(include_self=False):
        node.length = 1e-9
    sequences = evolve(tree, 60, generator("sequences"))
    assert len(set(sequences)) == 120
    assert {len(sequence) for sequence in sequences} == {60}
    assert set("".join(sequences)) == set("ACGT")
    # The branches have the lengths of the added substitutions.
    added = np.array([tip.length for tip in tree.tips()])[1:] * 60
    assert np.allclose(added, np.round(added), atol=1e-4)
    assert (added > 0.3).all()


def test_relatives_have_similar_sequences():
    tree = named(birth_death_tree(150, generator("tree")))
    letters = np.array([list(s) for s in evolve(tree, 400, generator("sequences"))])
    different = (letters[:, None] != letters[None]).mean(axis=2)
    path = tree.cophenet()
    patristic = path.filter([str(number) for number in range(150)]).data
    upper = np.triu_indices(150, 1)
    assert np.corrcoef(patristic[upper], different[upper])[0, 1] > 0.7


def test_transitions_outnumber_transversions():
    tree = named(coalescent_tree(np.array([0.02])))
    first, second = evolve(tree, 20000, generator("pair"))
    changes = [frozenset(pair) for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    transitions = sum(change in ({"A", "G"}, {"C", "T"}) for change in changes)
    assert len(changes) / 20000 == np.clip(len(changes) / 20000, 0.03, 0.045)
    assert 1.0 < transitions / (len(changes) - transitions) < 1.6


def test_sites_differ_in_rate_by_stretches():
    rates = site_rates(5000, generator("rates"))
    assert np.isclose(rates.mean(), 1)
    assert np.quantile(rates, 0.9) > 8 * np.quantile(rates, 0.1)
    logs = np.log(rates)
    assert np.corrcoef(logs[:-1], logs[1:])[0, 1] > 0.4
