import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aam.data.holdout import held_out
from aam.data.splits import assign_folds, folds_of_labels, held_out_groups
from aam.data.targets import (
    metadata_column,
    observed_values,
)
from aam.util.errors import InputError

names = st.lists(st.text("abc01", min_size=1, max_size=6), min_size=12, max_size=40, unique=True)


@settings(deadline=None)
@given(names, st.floats(0.01, 0.99), st.integers(0, 5), st.randoms())
def test_held_out_samples_do_not_depend_on_order(ids, share, seed, random):
    shuffled = random.sample(ids, len(ids))
    chosen = {name for name, held in zip(ids, held_out(ids, share, seed), strict=True) if held}
    again = held_out(shuffled, share, seed)
    assert chosen == {name for name, held in zip(shuffled, again, strict=True) if held}
    assert len(chosen) == min(max(round(share * len(ids)), 2), len(ids) - 2)


def test_held_out_samples_depend_on_the_seed():
    ids = [f"s{i}" for i in range(100)]
    assert not np.array_equal(held_out(ids, 0.2, 0), held_out(ids, 0.2, 1))


def test_three_samples_are_too_few_to_hold_out():
    with pytest.raises(InputError, match="at least 4"):
        held_out(["a", "b", "c"], 0.2, 0)


@settings(max_examples=60, deadline=None)
@given(
    ids=names,
    share=st.floats(0.1, 0.9),
    kind=st.sampled_from(["plain", "classes", "groups", "both"]),
    random=st.randoms(),
)
def test_samples_to_test_are_whole_groups_whatever_the_order(ids, share, kind, random):
    number = {name: position for position, name in enumerate(sorted(ids))}

    def chosen(order):
        classes = ["odd" if number[name] % 3 else "even" for name in order]
        groups = [f"g{number[name] // 2}" for name in order]
        mask = held_out_groups(
            order,
            share,
            3,
            classes=classes if kind in ("classes", "both") else None,
            groups=groups if kind in ("groups", "both") else None,
        )
        return {name for name, held in zip(order, mask, strict=True) if held}

    held = chosen(ids)
    assert held == chosen(random.sample(ids, len(ids)))
    # Pairs, or single samples of each class, come as near to the share as whole ones can.
    assert abs(len(held) - share * len(ids)) <= {"plain": 0.5, "classes": 1, "groups": 1}.get(
        kind, 3
    )
    if kind in ("groups", "both"):
        whole = [name for name in ids if number[name] ^ 1 < len(ids)]
        pairs = {number[name] // 2 for name in held}
        assert {name for name in whole if number[name] // 2 in pairs} <= held


def test_samples_to_test_depend_on_the_seed_and_may_be_none():
    ids = [f"s{i}" for i in range(40)]
    assert not np.array_equal(held_out_groups(ids, 0.3, 0), held_out_groups(ids, 0.3, 1))
    one_group = held_out_groups(ids, 0.3, 0, groups=["g"] * 40)
    assert not one_group.any()


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


@settings(max_examples=40, deadline=None)
@given(
    ids=names,
    k=st.integers(2, 4),
    kind=st.sampled_from(["plain", "classes", "groups", "both"]),
    random=st.randoms(),
    seed=st.sampled_from([0, 3, -1, 2**40]),
)
def test_folds_do_not_depend_on_order(ids, k, kind, random, seed):
    number = {name: position for position, name in enumerate(sorted(ids))}

    def folds(order):
        classes = ["odd" if number[name] % 2 else "even" for name in order]
        groups = [f"g{number[name] // 2}" for name in order]
        return dict(
            zip(
                order,
                assign_folds(
                    order,
                    k,
                    seed,
                    classes=classes if kind in ("classes", "both") else None,
                    groups=groups if kind in ("groups", "both") else None,
                ).tolist(),
                strict=True,
            )
        )

    drawn = folds(ids)
    assert drawn == folds(random.sample(ids, len(ids)))
    assert set(drawn.values()) == set(range(k))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=6, max_size=20),
    k=st.integers(2, 5),
    stratified=st.booleans(),
)
def test_a_group_stays_in_one_fold(sizes, k, stratified):
    groups = [f"g{group}" for group, size in enumerate(sizes) for _ in range(size)]
    ids = [f"s{i}" for i in range(len(groups))]
    classes = [f"c{i % 2}" for i in range(len(groups))] if stratified else None
    assume(len(groups) >= 2 * k)
    folds = assign_folds(ids, k, 0, classes=classes, groups=groups)
    spread = pd.Series(folds).groupby(groups).nunique()
    assert (spread == 1).all()
    assert set(folds.tolist()) == set(range(k))


def test_grouped_folds_are_of_about_the_same_size():
    groups = [f"g{group}" for group in range(40) for _ in range(1 + group % 7)]
    folds = assign_folds([f"s{i}" for i in range(len(groups))], 5, 0, groups=groups)
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= 7


def test_stratified_folds_have_the_shares_of_the_classes():
    classes = ["rare"] * 10 + ["common"] * 40
    folds = assign_folds([f"s{i}" for i in range(50)], 5, 0, classes=classes)
    assert np.bincount(folds[:10]).tolist() == [2] * 5
    assert np.bincount(folds[10:]).tolist() == [8] * 5


def test_seeds_draw_different_folds():
    ids = [f"s{i}" for i in range(60)]
    groups = [f"g{i // 3}" for i in range(60)]
    for extra in (None, groups):
        draws = [assign_folds(ids, 5, seed, groups=extra).tolist() for seed in (0, 1)]
        assert draws[0] != draws[1]


def metadata(*values):
    index = [f"s{i}" for i in range(len(values))]
    return pd.DataFrame({"host_age": pd.Series(values, index=index, dtype=object)})


def observed(frame, kind="regression", classes=None):
    return observed_values(frame, kind, ["host_age"], classes)["host_age"]


def test_numbers_are_read_exactly():
    values = observed(metadata("0.1", " 7 ", None, "-1e-3", "+.5", "3."))
    assert values.to_dict() == {"s0": 0.1, "s1": 7.0, "s3": -0.001, "s4": 0.5, "s5": 3.0}


@pytest.mark.parametrize(
    "bad", ["inf", "-Infinity", "1e999", "nan", "1,5", "1_000", "old", "0x10", ""]
)
def test_text_in_a_numeric_target_is_refused(bad):
    with pytest.raises(InputError) as caught:
        observed(metadata("1", bad, "2", bad))
    message = str(caught.value)
    assert "'host_age'" in message
    assert f"got 2 ({bad!r} in s1, {bad!r} in s3) of 4 values" in message


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_targets_without_values_or_without_difference_are_refused(kind):
    with pytest.raises(InputError, match="'host_age': got no value in any of the 2"):
        observed(metadata(None, None), kind)
    with pytest.raises(InputError, match="'host_age': got the one value '3.*' in all 2 samples"):
        observed(metadata("3", None, "3"), kind)


def test_a_misspelt_column_is_recognized():
    with pytest.raises(InputError, match="'Host_Agee': got no such column.*mean 'host_age'"):
        metadata_column(metadata("1"), "Host_Agee")


def test_ordered_classes_are_those_of_the_task():
    values = observed(metadata("low", None, "high"), "ordinal", ["low", "mid", "high"])
    assert values.to_dict() == {"s0": "low", "s2": "high"}
    with pytest.raises(InputError, match=r"no class of the task: 2 \('hi', 'lo'\)"):
        observed(metadata("lo", "mid", "hi"), "ordinal", ["low", "mid", "high"])


def test_targets_that_do_not_vary_where_they_meet_are_refused():
    frame = metadata("1", "2", "3").assign(weight=["7", "7", None], height=["1", "2", "3"])
    frame.loc["s2", "weight"] = "8"
    frame.loc["s2", "height"] = None
    with pytest.raises(InputError, match="'weight': got the one value '7.0' in all 2"):
        observed_values(frame, "regression", ["height", "weight"])
    both = observed_values(frame, "regression", ["weight", "host_age"])
    assert both.columns.tolist() == ["weight", "host_age"]
    assert both.loc["s2"].tolist() == [8.0, 3.0]
