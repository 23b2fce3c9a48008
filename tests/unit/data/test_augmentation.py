import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.data.augmentation import Augmentation, Row, asv_dropout, build_store, cutmix
from aam.data.rarefaction import rarefy
from aam.data.stores import SampleStore
from aam.data.table import FeatureTable
from aam.util.errors import InputError

rows = st.dictionaries(st.integers(0, 30), st.integers(1, 50), min_size=1, max_size=20).map(
    lambda counts: Row(np.array(sorted(counts)), np.array([counts[asv] for asv in sorted(counts)]))
)
SAMPLES = [f"s{i}" for i in range(9)]
FEATURES = [f"f{i}" for i in range(25)]
DENSE = np.random.default_rng(0).poisson(6, (9, 25))
DEPTH = 40
EVERYTHING = Augmentation(asv_dropout=0.2, cutmix=1.5, seed=7)


def reads(row: Row) -> dict[int, int]:
    assert (np.diff(row.asvs) > 0).all()
    assert (row.counts > 0).all()
    return dict(zip(row.asvs.tolist(), row.counts.tolist(), strict=True))


@settings(deadline=None)
@given(row=rows, other=rows, fraction=st.floats(0.01, 1), seed=st.integers(0, 100))
def test_what_the_operations_keep_of_their_rows(row, other, fraction, seed):
    rng, own, theirs = np.random.default_rng(seed), reads(row), reads(other)
    left = reads(asv_dropout(row, fraction, rng))
    assert left.items() <= own.items()
    assert len(left) == max(1, len(own) - int(fraction * len(own) + 0.5))
    row_mixed, weight = cutmix(row, other, rng)
    mixed = reads(row_mixed)
    assert mixed
    assert all(count in (own.get(asv), theirs.get(asv)) for asv, count in mixed.items())
    assert own.keys() & theirs.keys() <= mixed.keys()
    assert 0 <= weight <= 1
    single = Row(row.asvs[:1], row.counts[:1])
    assert len(cutmix(single, Row(np.array([99]), np.array([4])), rng)[0].asvs) >= 1


def test_dropout_leaves_out_every_asv_alike_and_the_weight_is_the_fraction_of_the_first():
    row, rng = Row(np.arange(10), np.arange(1, 11)), np.random.default_rng(0)
    kept = np.concatenate([asv_dropout(row, 0.3, rng).asvs for _ in range(2000)])
    assert np.bincount(kept) / 2000 == pytest.approx(np.full(10, 0.7), abs=0.05)
    first, second = (Row(np.arange(200), np.full(200, count)) for count in (1, 2))
    pairs = [cutmix(first, second, rng) for _ in range(300)]
    weights = np.array([weight for _, weight in pairs])
    fractions = np.array([(mixed.counts == 1).mean() for mixed, _ in pairs])
    assert np.abs(fractions - weights).mean() < 0.04
    assert np.quantile(weights, [0.25, 0.75]) == pytest.approx([0.25, 0.75], abs=0.08)


def table_of(rows=range(9), columns=range(25)) -> FeatureTable:
    counts = csr_array(DENSE[np.ix_(rows, columns)].astype(np.int64))
    return FeatureTable([SAMPLES[i] for i in rows], [FEATURES[j] for j in columns], counts)


def store_of(table: FeatureTable, augmentation: Augmentation, views: int = 2) -> SampleStore:
    rarefied = [rarefy(table, DEPTH, 0, view) for view in range(views)]
    return build_store(table.feature_ids, rarefied, augmentation)


def named_rows(store: SampleStore, features: list[str] = FEATURES) -> set[tuple]:
    rows = set()
    for row, view in enumerate(store.row_view.tolist()):
        held = slice(*store.offsets[row : row + 2])
        made = slice(*store.parent_offsets[row : row + 2])
        asvs = [features[asv] for asv in store.asvs[held]]
        parents = [store.sample_ids[parent] for parent in store.parents[made]]
        weighted = tuple(zip(parents, store.weights[made].tolist(), strict=True))
        rows.add((view, weighted, frozenset(zip(asvs, store.counts[held].tolist(), strict=True))))
    return rows


def test_rows_and_their_parents():
    store = store_of(table_of(), EVERYTHING)
    parents = np.diff(store.parent_offsets)
    assert (store.row_view == -1).sum() == 2 * 9 + 2 * round(1.5 * 9)
    assert (parents == 2).sum() == 2 * round(1.5 * 9)
    # Two views of all samples, all different and of the depth.
    reads = np.add.reduceat(store.counts, store.offsets[:-1])
    assert (reads[:18] == DEPTH).all()
    assert len({asvs for _, _, asvs in named_rows(store)}) >= 18
    for row in range(len(store.row_view)):
        own = store.parents[slice(*store.parent_offsets[row : row + 2])]
        asvs = store.asvs[slice(*store.offsets[row : row + 2])]
        assert len(asvs)
        assert (np.diff(asvs) > 0).all()
        assert DENSE[own][:, asvs].any(axis=0).all()
    sums = np.add.reduceat(store.weights, store.parent_offsets[:-1])
    assert sums == pytest.approx(np.ones(len(sums)), abs=1e-6)
    mixed = np.flatnonzero(parents == 2)
    pairs = store.parents[store.parent_offsets[mixed][:, None] + np.arange(2)]
    assert (pairs[:, 0] != pairs[:, 1]).all()
    # The first parents take turns.
    assert set(np.bincount(pairs[:, 0], minlength=9)) <= {2, 3, 4}


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(9)), st.permutations(range(25)))
def test_rows_depend_on_the_seed_not_on_order_or_shallow_samples(rows, columns):
    shuffled, expected = table_of(rows, columns), named_rows(store_of(table_of(), EVERYTHING))
    assert named_rows(store_of(shuffled, EVERYTHING), shuffled.feature_ids) == expected
    counts = np.vstack([np.eye(1, 25, dtype=np.int64), DENSE.astype(np.int64)])
    with_shallow = FeatureTable(["shallow", *SAMPLES], FEATURES, csr_array(counts))
    assert named_rows(store_of(with_shallow, EVERYTHING)) == expected
    other = named_rows(store_of(table_of(), dataclasses.replace(EVERYTHING, seed=8)))
    assert len(expected & other) <= 18 + 2


def test_mixes_of_one_sample_are_refused():
    with pytest.raises(InputError, match=r"augmentation\.cutmix"):
        store_of(table_of(range(1)), EVERYTHING)
