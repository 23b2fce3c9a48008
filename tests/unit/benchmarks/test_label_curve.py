"""Labels that are planted in real guts."""

import numpy as np
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.data.trees import parse_newick
from aam.evaluate.clade_tests import Clades
from benchmarks import label_curve
from benchmarks.label_curve import FAMILY, count_clades_of, mix_guts, plant_motif

TREE = "((AAAAAACC:1,AAAAAAGG:1):1,((AAAAAATT:1,CCCCCCGG:1):1,CCCCCCTT:1,GGGGGGTT:1):1);"
NAMES = ["AAAAAACC", "AAAAAAGG", "AAAAAATT", "CCCCCCGG", "CCCCCCTT", "GGGGGGTT"]


def study():
    counts = np.random.default_rng(0).integers(1, 30, (40, len(NAMES)))
    table = FeatureTable([f"s{number}" for number in range(40)], NAMES, csr_array(counts))
    return table, Clades.of_table(table.counts, NAMES, parse_newick(TREE))


def test_features_of_one_clade_are_one_and_scattered_ones_are_several():
    _, clades = study()
    assert count_clades_of(np.array([1, 1, 0, 0, 0, 0], bool), clades) == 1
    assert count_clades_of(np.array([1, 1, 1, 0, 0, 0], bool), clades) == 2
    assert count_clades_of(np.array([0, 0, 1, 0, 1, 1], bool), clades) == 3


def test_of_the_motifs_that_are_drawn_the_most_scattered_is_planted(monkeypatch):
    """Six A lie in two clades of three features, six C in two of two; GGGGGG is in one."""
    table, clades = study()
    drawn = iter(["A" * 6, "C" * 6, "G" * 6])

    class Drawn:
        def choice(self, letters, size):
            return [*next(drawn)]

    monkeypatch.setattr(label_curve, "MOTIFS", 2)
    planted_N = plant_motif(table, clades, Drawn())
    reads = table.counts.toarray()
    share_N = reads[:, [3, 4]].sum(axis=1) / reads.sum(axis=1)
    logs_N = np.log(share_N + 5e-4)
    np.testing.assert_allclose(planted_N, (logs_N - logs_N.mean()) / logs_N.std())


def test_a_mixture_has_reads_of_two_samples_of_its_family_and_of_no_other():
    """Every sample of this study has a feature of its own."""
    samples = 4 * FAMILY
    counts = csr_array(1000 * np.eye(samples, dtype=np.int64))
    names = [f"s{number}" for number in range(samples)]
    mixed, families = mix_guts(FeatureTable(names, names, counts), 40)
    reads = mixed.counts.toarray()
    assert ((reads > 0).sum(axis=1) == 2).all()
    assert (reads.max(axis=1) < 850).all()
    family_of_feature = {}
    for row, family in zip(reads, families, strict=True):
        for feature in np.flatnonzero(row):
            assert family_of_feature.setdefault(feature, family) == family
