import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.augment.operations import Row, asv_dropout, cutmix, rarefaction_draw

rows = st.dictionaries(st.integers(0, 30), st.integers(1, 50), min_size=1, max_size=20).map(
    lambda counts: Row(np.array(sorted(counts)), np.array([counts[asv] for asv in sorted(counts)]))
)
seeds = st.integers(0, 100)


def reads(row: Row) -> dict[int, int]:
    assert (np.diff(row.asvs) > 0).all()
    assert (row.counts > 0).all()
    return dict(zip(row.asvs.tolist(), row.counts.tolist(), strict=True))


@settings(deadline=None)
@given(rows, st.floats(0.01, 1), seeds)
def test_a_draw_has_the_depth_and_only_the_parents_reads(row, share, seed):
    depth = max(1, int(share * row.counts.sum()))
    drawn = reads(rarefaction_draw(row, depth, np.random.default_rng(seed)))
    assert sum(drawn.values()) == depth
    assert all(count <= reads(row)[asv] for asv, count in drawn.items())


@settings(deadline=None)
@given(rows, st.floats(0, 1), seeds)
def test_dropout_leaves_the_share_out_and_changes_no_other_count(row, share, seed):
    left = reads(asv_dropout(row, share, np.random.default_rng(seed)))
    assert left.items() <= reads(row).items()
    assert len(left) == max(1, len(row.asvs) - int(share * len(row.asvs) + 0.5))


def test_dropout_leaves_out_every_asv_alike():
    row = Row(np.arange(10), np.arange(1, 11))
    rng = np.random.default_rng(0)
    seen = np.bincount(
        np.concatenate([asv_dropout(row, 0.3, rng).asvs for _ in range(2000)]), minlength=10
    )
    assert seen / 2000 == pytest.approx(np.full(10, 0.7), abs=0.05)


@settings(deadline=None)
@given(rows, rows, seeds)
def test_every_asv_of_a_mix_is_one_parents(first, second, seed):
    rng = np.random.default_rng(seed)
    mixed, weight = cutmix(first, second, rng)
    one, other = reads(first), reads(second)
    assert reads(mixed)
    assert all(count in (one.get(asv), other.get(asv)) for asv, count in reads(mixed).items())
    assert 0 <= weight <= 1
    assert one.keys() & other.keys() <= reads(mixed).keys()
    disjoint = cutmix(
        Row(first.asvs[:1], first.counts[:1]), Row(np.array([99]), np.array([4])), rng
    )
    assert len(disjoint[0].asvs) >= 1


def test_the_weight_is_the_share_of_asvs_from_the_first_parent():
    first = Row(np.arange(200), np.full(200, 1))
    second = Row(np.arange(200), np.full(200, 2))
    rng = np.random.default_rng(1)
    pairs = [cutmix(first, second, rng) for _ in range(300)]
    shares = np.array([(mixed.counts == 1).mean() for mixed, _ in pairs])
    weights = np.array([weight for _, weight in pairs])
    assert np.abs(shares - weights).mean() < 0.04
    assert np.quantile(weights, [0.25, 0.75]) == pytest.approx([0.25, 0.75], abs=0.08)
