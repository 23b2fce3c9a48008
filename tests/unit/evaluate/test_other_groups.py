"""Columns that should keep samples together, and do not: people who gave several samples."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from aam.data.confounding import Observed
from aam.evaluate.other_groups import MOST_COLUMNS, try_other_groups

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


def tried(target, counts, metadata, fold, *, kind="classification", exclude=("diagnosis",)):
    units = np.asarray(target.index, object)
    observed = Observed.from_values(target, kind=kind, fold=fold, units=units)
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
