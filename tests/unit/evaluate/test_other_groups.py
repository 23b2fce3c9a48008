"""Columns that should keep samples together, and do not: people who gave several samples."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.sparse import csr_array

from aam.data.confounding import Observed
from aam.evaluate.other_groups import MOST_COLUMNS, _folds_of_groups, try_other_groups
from aam.util.seeds import generator, seed_of

PEOPLE = 24
EACH = 8


def study(rng, *, signal=0.0, kind="classification"):
    """Return reads of people who are ill or not: samples of one are alike, whatever the disease."""
    person = np.repeat(np.arange(PEOPLE), EACH)
    is_ill = np.arange(PEOPLE) % 2 == 0
    logs = rng.normal(0, 2, (PEOPLE, 60))
    logs[:, :10] += signal * is_ill[:, None]
    share = np.exp(logs[person] + rng.normal(0, 0.3, (len(person), 60)))
    counts = csr_array(rng.poisson(1000 * share / share.sum(axis=1, keepdims=True)))
    ids = pd.Index([f"s{number}" for number in range(len(person))])
    metadata = pd.DataFrame(
        {
            "well_id": [f"w{number // 2}" for number in range(len(person))],
            "HOST_SUBJECT_ID": [f"p{one}" for one in person],
            "cage": [f"c{one // 3}" for one in person],
        },
        index=ids,
    )
    value = np.where(is_ill, "ill", "well")[person]
    if kind == "regression":
        value = rng.normal(size=PEOPLE)[person]
    return pd.Series(value, index=ids), counts, metadata, person


def observed_of(target, fold, kind="classification"):
    """Return a target whose samples are units by themselves."""
    units = np.asarray(target.index, object)
    return Observed.from_values(target, kind=kind, fold=fold, units=units)


def tried(target, counts, metadata, fold, *, kind="classification", exclude=("diagnosis",)):
    observed = observed_of(target, fold, kind)
    found = try_other_groups(observed, counts, metadata, exclude=exclude, seed=0)
    return {one.column: one for one in found}


def test_wells_as_groups_of_repeated_people_are_found_out():
    target, counts, metadata, _ = study(np.random.default_rng(0))
    # Wells of two samples: a person is in several folds.
    fold = np.arange(len(target)) // 2 % 5
    found = tried(target, counts, metadata, fold)
    assert [*found] == ["HOST_SUBJECT_ID", "cage"], "a well is no unit"
    person = found["HOST_SUBJECT_ID"]
    assert person.with_own_folds > 0.95
    assert person.score < 0.7
    assert person.groups == PEOPLE
    assert person.is_worse
    again = tried(target, counts, metadata, fold)
    assert again == found, "seeded"


def test_people_as_groups_are_not_worse_than_themselves_nor_is_a_real_signal():
    rng = np.random.default_rng(1)
    target, counts, metadata, person = study(rng)
    found = tried(target, counts, metadata, person % 5)
    assert [*found] == ["cage"], "people are whole in the folds"
    strong, counts, metadata, _ = study(rng, signal=6.0)
    fold = np.arange(len(strong)) // 2 % 5
    found = tried(strong, counts, metadata, fold)
    assert found["HOST_SUBJECT_ID"].score > 0.9
    assert not found["HOST_SUBJECT_ID"].is_worse


def test_numbers_of_people_are_found_out():
    target, counts, metadata, _ = study(np.random.default_rng(2), kind="regression")
    fold = np.arange(len(target)) // 2 % 5
    found = tried(target, counts, metadata, fold, kind="regression")["HOST_SUBJECT_ID"]
    assert found.is_worse
    assert found.with_own_folds < 0.2 < found.score, "errors"


def test_noise_is_rarely_worse_with_other_groups():
    alarms = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        target, counts, metadata, _ = study(rng, signal=2.0)
        people = rng.permutation([f"p{number // 4}" for number in range(len(target))])
        shuffled = counts[rng.permutation(len(target))]
        metadata = metadata.assign(HOST_SUBJECT_ID=people, cage="one")
        found = tried(target, shuffled, metadata, np.arange(len(target)) % 5)
        alarms += any(one.is_worse for one in found.values())
    assert alarms <= 2


def test_two_people_and_a_class_of_one_home_cannot_be_tried():
    target, counts, metadata, person = study(np.random.default_rng(3))
    fold = np.arange(len(target)) // 2 % 5
    two_people = np.where(person < 12, "a", "b")
    home = np.where(target == "ill", "north", [f"h{one}" for one in person])
    for name, values in (("HOST_SUBJECT_ID", two_people), ("household", home)):
        columns = metadata[[]].assign(**{name: values})
        assert tried(target, counts, columns, fold) == {}, name


def test_of_many_columns_some_are_tried():
    rng = np.random.default_rng(3)
    target, counts, _, person = study(rng)
    columns = pd.DataFrame(index=target.index)
    # Some divide the classes so that they cannot be tried.
    for number in range(2 * MOST_COLUMNS):
        family = rng.integers(0, 11, person.max() + 1)
        columns[f"family_{number}"] = [f"f{family[one]}" for one in person]
    fold = np.arange(len(target)) // 2 % 5
    assert len(tried(target, counts, columns, fold)) == MOST_COLUMNS


def test_samples_without_a_group_are_of_their_own():
    target, counts, metadata, person = study(np.random.default_rng(3))
    missing = metadata[["HOST_SUBJECT_ID"]].where(person[:, None] < 20, None)
    fold = np.arange(len(target)) // 2 % 5
    assert tried(target, counts, missing, fold)["HOST_SUBJECT_ID"].groups == 20 + 4 * EACH


def reference_losses(observed, counts, fold):
    """Return the loss of each sample by the five nearest of the other folds."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    losses = []
    for one in range(len(fold)):
        distance = np.sqrt(((np.sqrt(shares) - np.sqrt(shares[one])) ** 2).sum(axis=1))
        there = np.flatnonzero(fold != fold[one])
        nearest = there[np.argsort(distance[there])[:5]]
        if observed.is_number:
            value = observed.value_NK[:, 0]
            losses.append(abs(value[one] - np.median(value[nearest])))
            continue
        frequency = observed.value_NK[there].sum(axis=0)
        votes = (observed.value_NK[nearest] / distance[nearest][:, None]).sum(axis=0) / frequency
        losses.append(float(votes.argmax() != observed.value_NK[one].argmax()))
    return np.array(losses)


def p_of_more(added, group):
    """Return the one-sided p-value that sums of groups are above 0."""
    sums = np.bincount(group, weights=added)
    # Groups that all add the same have no spread, and p is zero.
    with np.errstate(divide="ignore"):
        t = sums.sum() / np.sqrt(len(sums)) / sums.std(ddof=1)
    return stats.t.sf(t, len(sums) - 1)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_columns_are_tried_by_the_five_nearest_samples_of_the_other_folds(kind):
    rng = np.random.default_rng(5)
    target, counts, metadata, person = study(rng, signal=5.0, kind=kind)
    fold = np.arange(len(target)) // 2 % 5
    observed = observed_of(target, fold, kind)
    names = metadata[["HOST_SUBJECT_ID"]]
    (found,) = try_other_groups(observed, counts, names, exclude=(), seed=0)
    dense = counts.toarray()
    own = reference_losses(observed, dense, fold)
    if kind == "regression":
        value = observed.value_NK[:, 0]
        weight = np.full(len(value), 1 / len(value))
        guess = np.abs(value - np.median(value))
        assert found.with_own_folds == pytest.approx(own.mean())
    else:
        of_class = observed.value_NK.argmax(axis=1)
        weight = 1 / (2 * np.bincount(of_class)[of_class])
        guess = np.full(len(own), 0.5)
        assert found.with_own_folds == pytest.approx(1 - weight @ own)
    other_fold = _folds_of_groups(observed, person, seed_of("HOST_SUBJECT_ID", 0))
    other = reference_losses(observed, dense, other_fold)
    score = weight @ other
    assert found.score == pytest.approx(score if kind == "regression" else 1 - score)
    p = p_of_more(weight * (other - own), person)
    assert found.p == pytest.approx(p)
    has_gain = p_of_more(weight * (guess - own), person) < 0.05
    is_worse = p < 0.05 and has_gain and score - weight @ own > 0.1 * (weight @ (guess - own))
    assert found.is_worse == is_worse


def test_p_values_are_corrected_for_the_columns_that_are_tried():
    target, counts, metadata, person = study(np.random.default_rng(5), signal=4.0)
    fold = np.arange(len(target)) // 2 % 5
    alone = tried(target, counts, metadata[["HOST_SUBJECT_ID"]], fold)["HOST_SUBJECT_ID"]
    both = tried(target, counts, metadata, fold)["HOST_SUBJECT_ID"]
    assert both.p == pytest.approx(min(1.0, 2 * alone.p))
    assert 0 < alone.p < 1


def test_folds_keep_groups_together_and_classes_apart():
    person = np.repeat(np.arange(12), [5, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2])
    is_ill = np.isin(person, [0, 2, 4, 6, 8, 10])
    target = pd.Series(np.where(is_ill, "ill", "well"), [f"s{i}" for i in range(len(person))])
    observed = observed_of(target, np.arange(len(person)) % 3)
    found = _folds_of_groups(observed, person, 0)
    assert np.unique(found).tolist() == [0, 1, 2]
    by_person = [set(found[person == one].tolist()) for one in range(12)]
    assert all(len(folds) == 1 for folds in by_person)
    for is_class in (is_ill, ~is_ill):
        _, first = np.unique(person[is_class], return_index=True)
        assert np.bincount(found[is_class][first]).tolist() == [2, 2, 2]
    # The largest of those who are ill are divided first: they have five samples, and three.
    assert [found[person == one][0] for one in (0, 2)] == [0, 1]


def test_folds_of_groups_are_as_many_as_those_of_the_task_but_ten_or_the_groups_at_most():
    person = np.repeat(np.arange(12), 3)
    target = pd.Series(np.where(person % 2, "ill", "well"), [f"s{i}" for i in range(36)])
    observed = observed_of(target, np.arange(36) % 30)
    assert np.unique(_folds_of_groups(observed, person, 0)).tolist() == list(range(10))
    three = person // 4
    assert np.unique(_folds_of_groups(observed, three, 0)).tolist() == [0, 1, 2]


def test_folds_of_groups_with_numbers_hold_as_many_groups():
    person = np.repeat(np.arange(12), 3)
    target = pd.Series(1.0 + person % 2, [f"s{i}" for i in range(36)])
    observed = observed_of(target, np.arange(36) % 3, "regression")
    assert np.bincount(_folds_of_groups(observed, person, 0)[::3]).tolist() == [4, 4, 4]


def test_a_column_is_tried_with_four_groups_and_two_of_each_class():
    target, counts, metadata, person = study(np.random.default_rng(3))
    fold = np.arange(len(target)) // 2 % 5
    for groups, is_tried in ((4, True), (3, False)):
        columns = metadata[[]].assign(household=[f"h{one // 2 % groups}" for one in person])
        assert ("household" in tried(target, counts, columns, fold)) == is_tried
    value = pd.Series(np.random.default_rng(0).normal(size=24)[person], target.index)
    columns = metadata[[]].assign(household=[f"h{one // 2 % 4}" for one in person])
    assert "household" in tried(value, counts, columns, fold, kind="regression")
    # All who are well are of one home, and then of two.
    is_ill = target == "ill"
    for homes, is_tried in ((1, False), (2, True)):
        home = [
            f"h{one % 5}" if ill else f"w{one // 2 % homes}"
            for one, ill in zip(person, is_ill, strict=True)
        ]
        columns = metadata[[]].assign(household=home)
        assert ("household" in tried(target, counts, columns, fold)) == is_tried


def test_columns_that_divide_samples_alike_are_tried_once_and_those_of_the_task_never():
    target, counts, metadata, person = study(np.random.default_rng(3))
    fold = np.arange(len(target)) // 2 % 5
    twice = metadata[["HOST_SUBJECT_ID"]].assign(patient=[f"x{one}" for one in person])
    assert len(tried(target, counts, twice, fold)) == 1
    assert tried(target, counts, metadata, fold, exclude=("HOST_SUBJECT_ID", "cage")) == {}


def test_of_nine_samples_no_column_is_tried():
    target, counts, metadata, _ = study(np.random.default_rng(3))
    few = slice(0, 9)
    assert tried(target[few], counts[few], metadata[few], np.arange(9) % 3) == {}


def test_the_rarer_class_has_as_much_say_as_the_frequent_one():
    rng = np.random.default_rng(6)
    target, counts, metadata, person = study(rng, signal=3.0)
    kept = (np.arange(len(target)) % EACH < 2) | (target == "ill").to_numpy()
    target, counts, metadata, person = target[kept], counts[kept], metadata[kept], person[kept]
    fold = np.arange(len(target)) % 5
    observed = observed_of(target, fold)
    names = metadata[["HOST_SUBJECT_ID"]]
    (found,) = try_other_groups(observed, counts, names, exclude=(), seed=0)
    loss = reference_losses(observed, counts.toarray(), fold)
    is_ill = (target == "ill").to_numpy()
    balanced = 1 - (loss[is_ill].mean() + loss[~is_ill].mean()) / 2
    assert found.with_own_folds == pytest.approx(balanced)


def test_of_a_large_study_a_thousand_samples_are_predicted():
    rng = np.random.default_rng(7)
    person = np.repeat(np.arange(150), 8)
    value = rng.normal(size=150)[person]
    counts = csr_array(rng.poisson(np.exp(rng.normal(1, 1.5, (150, 20)))[person] + 0.5))
    index = pd.Index([f"s{i}" for i in range(1200)])
    metadata = pd.DataFrame({"host_subject_id": [f"p{one}" for one in person]}, index)
    target = pd.Series(value, index)
    fold = np.arange(1200) % 5
    found = tried(target, counts, metadata, fold, kind="regression")["host_subject_id"]
    observed = observed_of(target, fold, "regression")
    rows = generator("other_groups", 0).choice(np.arange(1200), 1000, replace=False)
    loss = reference_losses(observed, counts.toarray(), fold)
    assert found.with_own_folds == pytest.approx(loss[rows].mean())
    assert found.groups == 150
