from pathlib import Path

import biom
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from unifrac_cases import compute, needs_ssu

from aam.data.table import FeatureTable
from aam.data.trees.branches import read_tree
from aam.unifrac.engines import ScikitBio
from aam.unifrac.ssu import Ssu

REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "unifrac-reference"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"{REFERENCE} is absent"),
]
ENGINES = pytest.mark.parametrize("engine", [pytest.param(Ssu(), marks=needs_ssu), ScikitBio()])


def load(folder: str, table_name: str, tree_name: str):
    content = biom.load_table(str(REFERENCE / folder / table_name))
    counts = csr_array(content.matrix_data.T.tocsr()).astype(np.int64)
    counts.sort_indices()
    samples, features = list(content.ids()), list(content.ids("observation"))
    tree = read_tree(REFERENCE / folder / tree_name, features)
    return FeatureTable(samples, features, counts), tree


def crawford():
    return load("crawford", "crawford.biom", "crawford.tre")


def dartunifrac():
    return load("dartunifrac", "ASVs_counts.biom", "ASVs_aligned.tre")


@ENGINES
@pytest.mark.parametrize(
    ("data", "metric", "truth"),
    [
        (crawford, "unweighted", "crawford/test.ssu.exp"),
        (dartunifrac, "unweighted", "dartunifrac/ASVs_unweighted_truth.txt"),
        (dartunifrac, "weighted_normalized", "dartunifrac/ASVs_weighted_normalized_truth.tsv"),
    ],
)
def test_published_distances(engine, data, metric, truth):
    table, tree = data()
    expected = pd.read_csv(REFERENCE / truth, sep="\t", index_col=0)
    found = compute(engine, table, tree, metric)
    expected = expected.loc[table.sample_ids, table.sample_ids].to_numpy()
    assert np.allclose(found, expected, rtol=0, atol=1e-6)


@needs_ssu
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("data", [crawford, dartunifrac])
def test_alpha_of_the_generalized_metric_means_the_same_to_both_engines(data, alpha):
    table, tree = data()
    by_ssu, by_us = (compute(e, table, tree, "generalized", alpha) for e in (Ssu(), ScikitBio()))
    assert np.allclose(by_ssu, by_us, rtol=0, atol=1e-6)
