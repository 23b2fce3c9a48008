import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.splits import assign_folds, folds_of_labels, held_out_groups
from aam.data.target_columns import observed_values
from aam.tasks.pretrain.inputs import held_out
from aam.util.errors import InputError

names = st.lists(st.text("abc01", min_size=1, max_size=6), min_size=12, max_size=40, unique=True)
kinds = st.sampled_from([(), ("classes",), ("groups",), ("classes", "groups")])
IDS = [f"s{i}" for i in range(60)]


def labelled(ids: list[str], order: list[str], kind: tuple[str, ...]) -> dict[str, list[str]]:
    """Return classes of a third, and groups of two samples, in some order."""
    number = {name: position for position, name in enumerate(sorted(ids))}
    found = {
        "classes": ["odd" if number[name] % 3 else "even" for name in order],
        "groups": [f"g{number[name] // 2}" for name in order],
    }
    return {name: found[name] for name in kind}


@settings(max_examples=50, deadline=None)
@given(
    ids=names,
    fraction=st.floats(0.1, 0.9),
    k=st.integers(2, 4),
    kind=kinds,
    random=st.randoms(),
    seed=st.sampled_from([0, 3, -1, 2**40]),
)
def test_draws_take_whole_groups_and_do_not_depend_on_order(ids, fraction, k, kind, random, seed):
    def drawn(order):
        labels = labelled(ids, order, kind)
        columns = {
            "held_out": held_out(order, fraction, seed),
            "test": held_out_groups(order, fraction, seed, **labels),
            "fold": assign_folds(order, k, seed, **labels),
        }
        return pd.DataFrame(columns, index=order).loc[ids]

    made = drawn(ids)
    assert made.equals(drawn(random.sample(ids, len(ids))))
    assert made["held_out"].sum() == min(max(round(fraction * len(ids)), 2), len(ids) - 2)
    # Pairs, or single samples of each class, come as near to the fraction as whole ones can.
    nearest = {(): 0.5, ("classes",): 1, ("groups",): 1}.get(kind, 3)
    assert abs(made["test"].sum() - fraction * len(ids)) <= nearest
    assert set(made["fold"]) == set(range(k))
    if "groups" in kind:
        by_group = made.groupby(labelled(ids, ids, kind)["groups"])[["test", "fold"]]
        assert (by_group.nunique() == 1).all(axis=None)


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


@pytest.mark.parametrize("classes", [None, "ab"])
def test_folds_are_of_about_the_same_size_and_classes(classes):
    groups = [f"g{group}" for group in range(40) for _ in range(1 + group % 7)]
    ids = [f"s{i}" for i in range(len(groups))]
    labels = classes and [classes[i % 2] for i in range(len(ids))]
    folds = assign_folds(ids, 5, 0, classes=labels, groups=groups)
    assert (pd.Series(folds).groupby(groups).nunique() == 1).all()
    assert np.ptp(np.bincount(folds)) <= 7
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


def observed(*values):
    index = [f"s{i}" for i in range(len(values))]
    frame = pd.DataFrame({"host_age": pd.Series(values, index=index, dtype=object)})
    return observed_values(frame, "regression", ["host_age"])["host_age"]


def test_numbers_are_read_exactly():
    values = observed("0.1", " 7 ", None, "-1e-3", "+.5", "3.")
    assert values.to_dict() == {"s0": 0.1, "s1": 7.0, "s3": -0.001, "s4": 0.5, "s5": 3.0}


@pytest.mark.parametrize("bad", ["-Infinity", "1e999", "nan", "1,234", "1_000", "old", "0x10", ""])
def test_text_in_a_numeric_target_is_refused(bad):
    message = rf"'host_age': got 2 of 4 values .*: {bad!r} in samples 's1', 's3';"
    with pytest.raises(InputError, match=message):
        observed("1", bad, "2", bad)
