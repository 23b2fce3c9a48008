import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from aam.data.rarefaction import (
    expected_prevalence,
    expected_richness,
    features_of_rows,
    rarefy,
)
from aam.data.table import FeatureTable
from aam.util.errors import InputError

SAMPLES, FEATURES = [f"s{i}" for i in range(5)], [f"f{i}" for i in range(40)]
tables = hnp.arrays(np.int64, (5, 7), elements=st.integers(0, 9)).map(
    lambda dense: np.hstack([dense, np.full((5, 1), 4)])
)


def table_of(dense, samples=None, features=None) -> FeatureTable:
    counts = csr_array(np.asarray(dense, dtype=np.int64))
    rows, columns = counts.shape
    return FeatureTable(samples or SAMPLES[:rows], features or FEATURES[:columns], counts)


def cells(table: FeatureTable) -> dict[tuple[str, str], int]:
    coordinates = table.counts.tocoo()
    return {
        (table.sample_ids[i], table.feature_ids[j]): int(count)
        for i, j, count in zip(*coordinates.coords, coordinates.data, strict=True)
    }


@settings(deadline=None)
@given(
    dense=tables,
    depth=st.integers(1, 4),
    rows=st.permutations(range(5)),
    columns=st.permutations(range(8)),
    kept=st.integers(1, 5),
)
def test_a_draw_has_the_depth_and_knows_neither_order_nor_other_samples(
    dense, depth, rows, columns, kept
):
    table, rows = table_of(dense), rows[:kept]
    view = rarefy(table, depth, 1, "view")
    before, whole = cells(table), cells(view)
    assert view.sample_ids == SAMPLES
    assert (view.reads == depth).all()
    assert all(0 < count <= before[cell] for cell, count in whole.items())
    assert (view.counts.sum(axis=0) > 0).all()
    part = table_of(
        dense[np.ix_(rows, columns)], [SAMPLES[i] for i in rows], [FEATURES[j] for j in columns]
    )
    expected = {cell: count for cell, count in whole.items() if cell[0] in part.sample_ids}
    assert cells(rarefy(part, depth, 1, "view")) == expected


def test_order_of_samples_and_features_is_kept_and_views_and_seeds_differ():
    table = table_of([[9, 9, 9], [1, 0, 0], [9, 9, 9]], ["z", "shallow", "a"], ["q", "m", "b"])
    view = rarefy(table, 20, 0)
    assert (view.sample_ids, view.feature_ids) == (["z", "a"], ["q", "m", "b"])
    table = table_of(np.full((3, 40), 5))
    draws = [cells(rarefy(table, 50, *name)) for name in ((0, 0), (0, 1), (1, 0))]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert cells(rarefy(table, 200, 0)) == cells(table), "all reads"


def test_samples_of_too_many_or_too_few_reads_are_named():
    table = table_of([[10**9 - 2, 1], [10**9, 7]])
    with pytest.raises(
        InputError, match=r"too many reads .*: 1000000007 in sample 's1'; .* fewer than"
    ):
        rarefy(table, 10, 0)
    assert rarefy(table.select_samples(np.array([0])), 10, 0).reads.tolist() == [10]
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 42.*41.*'s3'.*10, 20, 30"):
        rarefy(table_of([[10], [20], [30], [41]]), 42, 0)


def test_expected_richness_is_the_mean_of_draws():
    counts = np.array([50, 20, 5, 1, 1])
    rng = np.random.default_rng(3)
    simulated = [
        np.mean([(rng.multivariate_hypergeometric(counts, depth) > 0).sum() for _ in range(3000)])
        for depth in (5, 40)
    ]
    assert expected_richness(counts, np.array([5, 40])) == pytest.approx(simulated, abs=0.06)


@settings(deadline=None)
@given(hnp.arrays(np.int64, 6, elements=st.integers(1, 10**9)))
def test_richness_is_one_at_one_read_and_all_at_all_reads(counts):
    ends = expected_richness(counts, np.array([1, counts.sum()]))
    assert ends == pytest.approx([1, 6], abs=1e-3)


def test_prevalence_and_the_features_of_some_rows_are_means_of_draws():
    rng = np.random.default_rng(0)
    dense = rng.multinomial(400, rng.dirichlet(np.full(40, 0.3)), 30)
    depth, rows, draws = 60, 8, 60
    prevalence_F = expected_prevalence(csr_array(dense), depth)
    named = [f"f{number}" for number in range(40)]
    table = table_of(dense, [f"s{number}" for number in range(30)], named)
    present = np.zeros((draws, 30, 40))
    for view in range(draws):
        drawn = rarefy(table, depth, 0, view)
        present[view][:, [named.index(name) for name in drawn.feature_ids]] = (
            drawn.counts.toarray() > 0
        )
    np.testing.assert_allclose(prevalence_F, present.mean(axis=(0, 1)), atol=0.06)
    some = [view[rng.choice(30, rows)].any(axis=0).sum() for view in present for _ in range(10)]
    assert features_of_rows(prevalence_F, rows) == pytest.approx(np.mean(some), rel=0.05)
    whole_F = (dense > 0).mean(axis=0)
    for enough in (400, 500):
        np.testing.assert_allclose(expected_prevalence(csr_array(dense), enough), whole_F)
