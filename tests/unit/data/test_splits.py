import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aam.data.holdout import held_out
from aam.data.splits import assign_folds, folds_of_labels, held_out_groups
from aam.data.targets import observed_values
from aam.util.errors import InputError

names = st.lists(st.text("abc01", min_size=1, max_size=6), min_size=12, max_size=40, unique=True)
kinds = st.sampled_from([(), ("classes",), ("groups",), ("classes", "groups")])
IDS = [f"s{i}" for i in range(60)]


@settings(deadline=None)
@given(names, st.floats(0.01, 0.99), st.integers(0, 5), st.randoms())
def test_held_out_samples_do_not_depend_on_order(ids, fraction, seed, random):
    shuffled = random.sample(ids, len(ids))
    chosen = set(np.array(ids)[held_out(ids, fraction, seed)])
    assert chosen == set(np.array(shuffled)[held_out(shuffled, fraction, seed)])
    assert len(chosen) == min(max(round(fraction * len(ids)), 2), len(ids) - 2)


def test_seeds_differ_and_three_samples_are_too_few_to_hold_out():
    with pytest.raises(InputError, match="at least 4"):
        held_out(["a", "b", "c"], 0.2, 0)
    for draw in (
        lambda seed: held_out(IDS, 0.2, seed),
        lambda seed: held_out_groups(IDS, 0.3, seed),
        lambda seed: assign_folds(IDS, 5, seed),
        lambda seed: assign_folds(IDS, 5, seed, groups=[f"g{i // 3}" for i in range(60)]),
    ):
        assert not np.array_equal(draw(0), draw(1))
    assert not held_out_groups(IDS, 0.3, 0, groups=["g"] * 60).any(), "the group is too large"


def labelled(ids: list[str], order: list[str], kind: tuple[str, ...]) -> dict[str, list[str]]:
    """Return classes of a third, and groups of two samples, in some order."""
    number = {name: position for position, name in enumerate(sorted(ids))}
    found = {
        "classes": ["odd" if number[name] % 3 else "even" for name in order],
        "groups": [f"g{number[name] // 2}" for name in order],
    }
    return {name: found[name] for name in kind}


@settings(max_examples=60, deadline=None)
@given(ids=names, fraction=st.floats(0.1, 0.9), kind=kinds, random=st.randoms())
def test_samples_to_test_are_whole_groups_whatever_the_order(ids, fraction, kind, random):
    def chosen(order):
        mask = held_out_groups(order, fraction, 3, **labelled(ids, order, kind))
        return pd.Series(mask, index=order)[ids]

    held = chosen(ids)
    assert held.equals(chosen(random.sample(ids, len(ids))))
    # Pairs, or single samples of each class, come as near to the fraction as whole ones can.
    nearest = {(): 0.5, ("classes",): 1, ("groups",): 1}.get(kind, 3)
    assert abs(held.sum() - fraction * len(ids)) <= nearest
    if "groups" in kind:
        assert (held.groupby(labelled(ids, ids, kind)["groups"]).nunique() == 1).all()


@settings(max_examples=40, deadline=None)
@given(
    ids=names,
    k=st.integers(2, 4),
    kind=kinds,
    random=st.randoms(),
    seed=st.sampled_from([0, 3, -1, 2**40]),
)
def test_folds_do_not_depend_on_order(ids, k, kind, random, seed):
    def folds(order):
        drawn = assign_folds(order, k, seed, **labelled(ids, order, kind))
        return pd.Series(drawn, index=order)[ids]

    drawn = folds(ids)
    assert drawn.equals(folds(random.sample(ids, len(ids))))
    assert set(drawn) == set(range(k))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=6, max_size=20),
    k=st.integers(2, 5),
    stratified=st.booleans(),
)
def test_a_group_stays_in_one_fold(sizes, k, stratified):
    groups = [f"g{group}" for group, size in enumerate(sizes) for _ in range(size)]
    assume(len(groups) >= 2 * k)
    classes = [f"c{i % 2}" for i in range(len(groups))] if stratified else None
    folds = assign_folds(
        [f"s{i}" for i in range(len(groups))], k, 0, classes=classes, groups=groups
    )
    assert (pd.Series(folds).groupby(groups).nunique() == 1).all()
    assert set(folds.tolist()) == set(range(k))


def test_folds_are_of_about_the_same_size_and_classes():
    groups = [f"g{group}" for group in range(40) for _ in range(1 + group % 7)]
    sizes = np.bincount(assign_folds([f"s{i}" for i in range(len(groups))], 5, 0, groups=groups))
    assert sizes.max() - sizes.min() <= 7
    folds = assign_folds(IDS[:50], 5, 0, classes=["rare"] * 10 + ["common"] * 40)
    assert np.bincount(folds[:10]).tolist() == [2] * 5
    assert np.bincount(folds[10:]).tolist() == [8] * 5


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "1", "9"], [2, 1, 0, 1]),
        (["fold10", "fold2", "fold1"], [2, 1, 0]),
        (["10.0", "2.0"], [1, 0]),
        (["test", "train"], [0, 1]),
        (["7", "07", "8"], [1, 0, 2]),
    ],
)
def test_labels_are_numbered_in_natural_order(labels, expected):
    assert folds_of_labels(labels).tolist() == expected


def metadata(*values):
    index = [f"s{i}" for i in range(len(values))]
    return pd.DataFrame({"host_age": pd.Series(values, index=index, dtype=object)})


def test_numbers_are_read_exactly():
    frame = metadata("0.1", " 7 ", None, "-1e-3", "+.5", "3.")
    values = observed_values(frame, "regression", ["host_age"])["host_age"]
    assert values.to_dict() == {"s0": 0.1, "s1": 7.0, "s3": -0.001, "s4": 0.5, "s5": 3.0}


@pytest.mark.parametrize(
    "bad", ["inf", "-Infinity", "1e999", "nan", "1,5", "1_000", "old", "0x10", ""]
)
def test_text_in_a_numeric_target_is_refused(bad):
    message = rf"'host_age': got 2 \({bad!r} in s1, {bad!r} in s3\) of 4 values"
    with pytest.raises(InputError, match=message):
        observed_values(metadata("1", bad, "2", bad), "regression", ["host_age"])


def test_targets_that_do_not_vary_where_they_meet_are_refused():
    frame = metadata("1", "2", "3").assign(weight=["7", "7", "8"], height=["1", "2", None])
    with pytest.raises(InputError, match="'weight': got the one value '7.0' in all 2"):
        observed_values(frame, "regression", ["height", "weight"])
    both = observed_values(frame, "regression", ["weight", "host_age"])
    assert both.columns.tolist() == ["weight", "host_age"]
    assert both.loc["s2"].tolist() == [8.0, 3.0]
