import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.augment.views import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.util.errors import InputError

SAMPLES = [f"s{i}" for i in range(9)]
FEATURES = [f"f{i}" for i in range(25)]
DENSE = np.random.default_rng(0).poisson(6, (9, 25))
NOTHING = Augmentation(rarefaction_draws=0, asv_dropout=0.0, cutmix=0.0, seed=7, depth=40)
EVERYTHING = Augmentation(rarefaction_draws=2, asv_dropout=0.2, cutmix=1.5, seed=7, depth=40)


def table_of(rows=range(9), columns=range(25)) -> FeatureTable:
    counts = csr_array(DENSE[np.ix_(rows, columns)].astype(np.int64))
    counts.sort_indices()
    return FeatureTable([SAMPLES[i] for i in rows], [FEATURES[j] for j in columns], counts)


def store_of(table: FeatureTable, augmentation: Augmentation, views: int = 2) -> SampleStore:
    rarefied = [rarefy(table, augmentation.depth, 0, view) for view in range(views)]
    return build_store(table.feature_ids, table, rarefied, augmentation)


def named_rows(store: SampleStore, features: list[str]) -> set[tuple]:
    rows = set()
    for row, view in enumerate(store.row_view.tolist()):
        held = slice(store.offsets[row], store.offsets[row + 1])
        made = slice(store.parent_offsets[row], store.parent_offsets[row + 1])
        asvs = [features[asv] for asv in store.asvs[held]]
        parents = [store.sample_ids[parent] for parent in store.parents[made]]
        rows.add(
            (
                view,
                tuple(zip(parents, store.weights[made].tolist(), strict=True)),
                frozenset(zip(asvs, store.counts[held].tolist(), strict=True)),
            )
        )
    return rows


def test_views_come_first_and_hold_the_rarefied_tables():
    table = table_of()
    store = store_of(table, NOTHING)
    assert store.views == 2
    assert len(store.row_view) == 18
    for view in range(2):
        expected = rarefy(table, 40, 0, view)
        columns = [FEATURES.index(name) for name in expected.feature_ids]
        matrix = store.view_matrix(view, 25).toarray()
        assert np.array_equal(matrix[:, columns], expected.counts.toarray())
        assert matrix.sum() == expected.counts.sum()
    assert store.parents.tolist() == [*range(9), *range(9)]


def test_rows_and_their_parents():
    store = store_of(table_of(), EVERYTHING)
    parents = np.diff(store.parent_offsets)
    assert (store.row_view == -1).sum() == 2 * 9 + 2 * 9 + 2 * round(1.5 * 9)
    assert (parents == 2).sum() == 2 * round(1.5 * 9)
    assert (np.diff(store.offsets) > 0).all()
    for row in range(len(store.row_view)):
        own = store.parents[store.parent_offsets[row] : store.parent_offsets[row + 1]]
        asvs = store.asvs[store.offsets[row] : store.offsets[row + 1]]
        assert (np.diff(asvs) > 0).all()
        assert DENSE[own][:, asvs].any(axis=0).all()
    sums = np.add.reduceat(store.weights, store.parent_offsets[:-1])
    assert sums == pytest.approx(np.ones(len(sums)), abs=1e-6)
    mixed = np.flatnonzero(parents == 2)
    pairs = store.parents[store.parent_offsets[mixed][:, None] + np.arange(2)]
    assert (pairs[:, 0] != pairs[:, 1]).all()
    # The first parents take turns.
    firsts = np.bincount(pairs[:, 0], minlength=9)
    assert firsts.min() >= 2
    assert firsts.max() <= 4


def test_further_draws_have_the_depth_and_differ_from_the_views():
    store = store_of(table_of(), dataclasses.replace(NOTHING, rarefaction_draws=2), views=1)
    rows = named_rows(store, FEATURES)
    assert len({asvs for _, _, asvs in rows}) == 27
    assert all(sum(count for _, count in asvs) == 40 for _, _, asvs in rows)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(9)), st.permutations(range(25)))
def test_rows_do_not_depend_on_the_order_of_the_table(rows, columns):
    shuffled = table_of(rows, columns)
    expected = named_rows(store_of(table_of(), EVERYTHING), FEATURES)
    assert named_rows(store_of(shuffled, EVERYTHING), shuffled.feature_ids) == expected


def test_shallow_samples_of_the_table_are_skipped():
    table = table_of()
    counts = csr_array(np.vstack([np.eye(1, 25, dtype=np.int64), table.counts.toarray()]))
    counts.sort_indices()
    deeper = FeatureTable(["shallow", *SAMPLES], FEATURES, counts)
    expected = named_rows(store_of(table, EVERYTHING), FEATURES)
    assert named_rows(store_of(deeper, EVERYTHING), FEATURES) == expected


def test_seeds_differ():
    other = dataclasses.replace(EVERYTHING, seed=8)
    rows = [named_rows(store_of(table_of(), each), FEATURES) for each in (EVERYTHING, other)]
    assert len(rows[0] & rows[1]) <= 18 + 2


def test_views_of_different_samples_and_mixes_of_one_are_refused():
    table = table_of()
    views = [rarefy(table, 40, 0, 0), rarefy(table_of(range(8)), 40, 0, 1)]
    with pytest.raises(AssertionError, match="different samples"):
        build_store(FEATURES, table, views, NOTHING)
    with pytest.raises(InputError, match=r"augmentation\.cutmix"):
        store_of(table_of(range(1)), EVERYTHING)
