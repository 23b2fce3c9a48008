from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.config import slices
from aam.config.configuration import load
from aam.data.folds import TEST, read_folds
from aam.data.splits import MOST_STUDY_FOLDS
from aam.data.table import FeatureTable, write_biom
from aam.distances.store import write_distances
from aam.learners.baselines import problem
from aam.stages.baselines import fit_baselines
from aam.stages.folds import divide_into_folds
from aam.util.errors import InputError

SAMPLES = 60
IDS = [f"{i:03d}" for i in range(SAMPLES)]
STAGES = ["young", "adult", "old"]
UNLUCKY = (2, 3, 10)
"""Samples of one fold where seed 1 draws three."""
METADATA = {
    "age": [None if i == 3 else str(i / 7) for i in range(SAMPLES)],
    "weight": [None if i in (4, 5) else str(100 - i) for i in range(SAMPLES)],
    "early": [str(i) if i < 20 else None for i in range(SAMPLES)],
    "late": [str(i) if i >= 20 else None for i in range(SAMPLES)],
    "stage": [STAGES[i // 20] for i in range(SAMPLES)],
    "host": [f"h{i // 3}" for i in range(SAMPLES)],
    "study": [f"study{i % 6}" for i in range(SAMPLES)],
    "cage": [f"c{i % 12}" for i in range(SAMPLES)],
    "lab": [f"lab {4 if i in (1, 25) else i // 12}" for i in range(SAMPLES)],
    "center": [f"center {i % 4}" for i in range(SAMPLES)],
    "ill": ["yes" if i % 4 else "no" for i in range(SAMPLES)],
    "sex": ["ab"[i % 4 // 2] for i in range(SAMPLES)],
    "country": [None if i == 2 else ["NA", "01", " x\ty "][i % 3] for i in range(SAMPLES)],
    "charge": [str(i / 2 - 1.5) for i in range(SAMPLES)],
    "one": ["x"] * SAMPLES,
    "centre": ["x" if i == 7 else "y" for i in range(SAMPLES)],
    "described": [f"study{i % 2}" if i < 40 else None for i in range(SAMPLES)],
    "visit": ["2/7/14" if i % 3 else f"2014-02-{1 + i % 28:02d}" for i in range(SAMPLES)],
    "slashed": [f"{1 + i % 9}/7/14" for i in range(SAMPLES)],
    "same": [str(0.5 + (i >= 40)) for i in range(SAMPLES)],
    "rare": ["a"] * 57 + ["b"] * 3,
    "unlucky": ["b" if i in UNLUCKY else "a" for i in range(SAMPLES)],
    "published": [None if i == 2 else f"fold{1 + i % 11}" for i in range(SAMPLES)],
    "empty": [None] * SAMPLES,
    "constant": ["1"] * SAMPLES,
    "awkward": [["NA", 'say "x"', "null"][i % 3] for i in range(SAMPLES)],
    "NA": [str(i % 2) for i in range(SAMPLES)],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("folds")
    paths = {name: folder / name for name in ("table", "tree", "distances", "metadata")}
    counts = np.random.default_rng(0).integers(1, 50, (SAMPLES, 5))
    counts[:, 0] = 5 * np.arange(SAMPLES) + 1
    write_biom(paths["table"], FeatureTable(IDS, list("abcde"), csr_array(counts)), {})
    paths["tree"].write_text("(a:1.0,b:1.0,c:1.0,(d:1.0,e:1.0):1.0);")
    place = np.arange(SAMPLES) / SAMPLES
    write_distances(paths["distances"], IDS, np.abs(place[:, None] - place), {})
    frame = pd.DataFrame({"sample_id": IDS, **METADATA}, dtype=object)
    frame.to_parquet(paths["metadata"], index=False)
    return paths


def config(task: dict):
    return load({"datasets": {"d": {"table": "t.biom"}}, "tasks": {"t": {"dataset": "d", **task}}})


@pytest.fixture
def divide(files, tmp_path):
    def run(
        column, kind="regression", metadata=files["metadata"], name="t", **task
    ) -> pd.DataFrame:
        output = tmp_path / "folds.tsv"
        divide_into_folds(
            table=files["table"],
            metadata=metadata,
            settings=slices.folds(config({"column": column, "kind": kind, **task}), name),
            folds_out=output,
            members_out=tmp_path / "members.tsv",
            notes_out=tmp_path / "notes.tsv",
        )
        return read_folds(output)

    return run


def test_several_targets_keep_the_samples_that_have_all(divide):
    made = divide(["weight", "age"], folds={"k": 3})
    assert made.index.tolist() == [name for i, name in enumerate(IDS) if i not in (3, 4, 5)]
    head = ["fold", "observed", "group"]
    assert made.columns.tolist() == [*head, "observed:weight", "observed:age"]
    for column in ("weight", "age"):
        # To the last bit.
        expected = [float(METADATA[column][int(name)]) for name in made.index]
        assert made[f"observed:{column}"].astype(float).tolist() == expected
    assert made["observed"].tolist() == made["observed:weight"].tolist()
    assert divide(["age"], folds={"k": 3}).columns.tolist() == head


def test_classes_and_categories_are_text_whatever_they_look_like(divide):
    task = {"condition": ["country", "study"], "transform_by": "country"}
    made = divide("awkward", "classification", folds={"k": 2}, condition=["country", "study"])
    assert set(made["observed"]) == set(METADATA["awkward"])
    assert set(made["group"]) == {""}
    made = divide("age", folds={"k": 2}, **task)
    assert made.columns.tolist()[3:] == ["category:country", "category:study"]
    expected = [METADATA["country"][int(name)] or "" for name in made.index]
    assert made["category:country"].tolist() == expected


def test_groups_are_whole_and_known_by_their_samples_not_by_the_order(divide, files, tmp_path):
    pd.read_parquet(files["metadata"])[::-1].to_parquet(tmp_path / "m", index=False)
    task = {"column": "age", "folds": {"k": 4, "groups": "host", "test": 0.25}}
    made = divide(**task)
    assert made.equals(divide(**task, metadata=tmp_path / "m"))
    assert set(made["fold"]) == {TEST, 0, 1, 2, 3}
    assert (made.groupby("group")["fold"].nunique() == 1).all()
    assert abs((made["fold"] == TEST).sum() - 0.25 * len(made)) <= 2


def test_stratified_samples_to_test_have_the_proportions_of_the_classes(divide):
    settings = {"k": 4, "stratified": True, "test": 0.2}
    made = divide("stage", "ordinal", classes=STAGES, folds=settings)
    tested = made.loc[made["fold"] == TEST, "observed"]
    assert tested.value_counts().to_dict() == dict.fromkeys(STAGES, 4)


def test_each_value_of_a_column_is_a_fold_and_whole_ones_are_held_out(divide, caplog):
    made = divide("age", folds={"column": "published"})
    assert IDS[2] not in made.index
    assert "left out, as 'published' has no value: sample '002'" in caplog.text
    assert made.loc[[IDS[1], IDS[9], IDS[10]], "fold"].tolist() == [1, 9, 10]
    made = divide("age", folds={"column": "study", "test": 0.3})
    studies = pd.Series(METADATA["study"], index=IDS)[made.index]
    assert (made["fold"].groupby(studies).nunique() == 1).all()
    assert studies[made["fold"] == TEST].nunique() == 2
    assert set(made["fold"]) == {TEST, 0, 1, 2, 3}


def test_values_of_a_column_are_the_test_set(divide, caplog):
    study = pd.Series(METADATA["study"], index=IDS)
    for folds in ({"k": 3}, {"column": "cage"}):
        made = divide("age", folds={**folds, "test": {"study": ["study1", "study4"]}})
        assert ((made["fold"] == TEST) == study[made.index].isin(["study1", "study4"])).all()
        assert set(made["fold"]) >= {TEST, 0, 1, 2}
    assert "divides" not in caplog.text
    divide("age", folds={"k": 3, "groups": "host", "test": {"study": "study1"}})
    assert "divides 10 of 20 groups of 'host'" in caplog.text


def test_each_study_is_a_fold_and_a_group_of_the_further_question(divide, caplog):
    task = {"folds": {"k": 5, "test": {"sex": "b"}}, "studies": "study"}
    study = pd.Series(METADATA["study"], index=IDS)
    sex = pd.Series(METADATA["sex"], index=IDS)
    made = divide("age", **task, name="t@studies")
    assert made["group"].tolist() == study[made.index].tolist()
    assert ((made["fold"] == TEST) == (sex[made.index] == "b")).all()
    rest = made[made["fold"] != TEST]
    assert (rest.groupby("group")["fold"].nunique() == 1).all()
    assert rest["fold"].nunique() == rest["group"].nunique()
    own = divide("age", **task)
    assert set(own["fold"]) == {TEST, 0, 1, 2, 3, 4}
    divide("age", folds={"k": 5}, studies="published", name="t@studies")
    assert "question about studies, as 'published' has no value: sample '002'" in caplog.text


def test_more_than_ten_studies_are_left_out_in_ten_folds_of_about_the_same_size_and_classes(divide):
    made = divide("age", folds={"k": 5}, studies="host", name="t@studies")
    assert made["group"].nunique() > MOST_STUDY_FOLDS
    assert set(made["fold"]) == set(range(MOST_STUDY_FOLDS))
    assert (made.groupby("group")["fold"].nunique() == 1).all()
    assert np.ptp(np.bincount(made["fold"])) <= 3, "studies of three samples"
    task = {"kind": "classification", "folds": {"k": 5}, "studies": "host", "name": "t@studies"}
    classes = divide("ill", **task)
    assert set(classes["fold"]) == set(range(MOST_STUDY_FOLDS))
    assert (classes.groupby("fold")["observed"].nunique() == 2).all()


def test_people_in_several_studies_belong_to_the_one_with_most_of_their_samples(
    divide, tmp_path, caplog
):
    task = {"folds": {"k": 3, "groups": "host"}, "studies": "lab"}
    own = divide("age", **task)
    made = divide("age", **task, name="t@studies")
    assert {*own.index} - {*made.index} == {IDS[1], IDS[25]}
    assert "2 samples of 2 values of 'host' that are in several of 'lab'" in caplog.text
    host = pd.Series(METADATA["host"], index=IDS)
    assert (made["fold"].groupby(host[made.index]).nunique() == 1).all()
    # No encoder of a fold sees them: they are of its study, or of a person that it knows.
    members = read_folds(tmp_path / "members.tsv")["fold"]
    assert members[[IDS[1], IDS[25]]].tolist() == [TEST, TEST]
    assert (members[made.index] == made["fold"]).all()


def test_times_that_cannot_be_read_are_said(divide, caplog):
    people = {"k": 3, "groups": "host"}
    divide("weight", folds=people, time="age")
    assert "neither a number nor a date" not in caplog.text
    divide("weight", folds={"k": 3, "groups": "cage"}, time="visit")
    assert "samples with a 'visit' that is neither a number nor a date" in caplog.text


def test_a_forecast_learns_from_what_was_before(divide, caplog):
    people = {"k": 3, "groups": "cage", "test": {"sex": "b"}}
    age = pd.Series(METADATA["age"], index=IDS).astype(float)
    sex = pd.Series(METADATA["sex"], index=IDS)
    for cut, expected in (("5", 5.0), ("auto", None)):
        made = divide("weight", folds=people, time="age", forecast=cut, name="t@forecast")
        is_later = made["fold"] == TEST
        assert set(sex[made.index]) == {"a"}, "another test set stays out of it"
        assert "003" not in made.index, "it has no time"
        latest = age[made.index][~is_later].max()
        assert (age[made.index][is_later] > latest).all()
        assert expected is None or latest <= expected < age[made.index][is_later].min()
        assert (made[~is_later].groupby("group")["fold"].nunique() == 1).all()
    assert is_later.mean() == pytest.approx(0.3, abs=0.05)
    assert "folds.test divides" not in caplog.text
    assert "left out of the forecast, as 'age' has no time: sample '003'" not in caplog.text
    divide("weight", folds={"k": 3, "groups": "cage"}, time="age", forecast="5", name="t@forecast")
    assert "left out of the forecast, as 'age' has no time: sample '003'" in caplog.text


def test_samples_that_the_task_does_not_want_take_no_part(divide):
    made = divide(["age"], folds={"k": 2}, where={"study": ["study1", "study4"], "country": "01"})
    expected = [IDS[i] for i in range(SAMPLES) if i % 6 in (1, 4) and i % 3 == 1]
    assert made.index.tolist() == expected


def test_classes_that_no_sample_has_are_reported(divide, caplog):
    divide("stage", "ordinal", classes=STAGES, folds={"k": 2})
    assert "no sample has" not in caplog.text
    divide("stage", "ordinal", classes=["egg", *STAGES], folds={"k": 2})
    assert "classes of 'stage' that no sample has: 'egg'" in caplog.text


def test_folds_that_a_column_names_are_the_groups_unless_others_are_given(divide, tmp_path):
    value = pd.Series(METADATA["study"], index=IDS)
    made = divide("age", folds={"column": "study"})
    assert made["group"].tolist() == value[made.index].tolist()
    singly = divide("age", folds={"column": "study", "groups": False})
    assert set(singly["group"]) == {""}
    assert singly["fold"].equals(made["fold"])
    assert len(read_folds(tmp_path / "members.tsv")) == SAMPLES, "also the one without an age"
    within = divide("age", folds={"column": "study", "groups": "cage"})
    assert within["group"].tolist() == [f"c{int(name) % 12}" for name in within.index]
    assert within["fold"].equals(made["fold"])
    assert set(divide("age", folds={"k": 3, "groups": False})["group"]) == {""}


def test_members_share_a_group_or_a_fold_with_a_labelled_sample(divide, tmp_path):
    where = {"study": ["study0", "study1", "study3"]}
    made = divide("early", folds={"column": "study", "groups": "cage"}, where=where)
    members = read_folds(tmp_path / "members.tsv")["fold"]
    fold = dict(zip(made["group"].str[1:].astype(int) % 6, made["fold"], strict=True))
    assert members.to_dict() == {name: fold[int(name) % 6] for name in IDS if int(name) % 6 in fold}


CLASSES = {"kind": "classification"}
ORDINAL = {"column": "stage", "kind": "ordinal", "folds": {"k": 2}}


def in_folds(**folds) -> dict:
    return {"column": "age", "folds": folds}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"column": "na"}, "'na': got no such column.*'NA'"),
        ({"column": "stag", **CLASSES}, "'stag': got no such column.*mean 'stage'"),
        ({"column": "age", "condition": ["contry"]}, "'contry': got no such .*mean 'country'"),
        (in_folds(k=3, groups="hosts"), "'hosts': .* mean 'host'"),
        ({"column": "empty"}, "'empty': got no value in any of the 60"),
        ({"column": "constant"}, "'constant': got the one value '1.0' in all 60"),
        (
            {"column": "stage"},
            "'stage': got 60 of 60 values .*: 'adult' in samples '020', '021' and 18",
        ),
        ({**ORDINAL, "classes": ["old", "adult"]}, "'stage': .* no class of the task: 'young'"),
        ({"column": ["early", "same"]}, "'same': got the one value '0.5' in all 20 samples that"),
        ({"column": ["early", "late"]}, "'early', 'late': got no sample that has a value in each"),
        ({"column": "charge", "transform": "log"}, r"'charge': got 2 of .* not above -1: -1.5 in"),
        ({**in_folds(column="described"), "column": "same"}, "'same': .* in all 40 samples that"),
        ({"column": "age", "where": {"study": "x"}}, "'study': .* 60 samples; expected 'x', as"),
        ({**CLASSES, **in_folds(k=4), "column": "rare"}, "'rare': .* than folds: 'b' with 3"),
        (in_folds(k=60), "'age': got a value in 59 samples"),
        (in_folds(k=21, groups="host"), "'host': got only 20 groups: h0, "),
        (
            in_folds(k=18, groups="host", test=0.3),
            "'host': got only 14 groups beyond folds.test: ",
        ),
        (
            in_folds(k=2, groups="one"),
            "'one': got the one value 'x' in all 59 samples; expected at least two groups, .* name "
            "the column that says which samples belong together, or set folds.groups: false",
        ),
        (in_folds(k=3, groups="country"), "'country': got no value in sample '002' of the 59 that"),
        (in_folds(k=2, test=0.001), "folds.test = 0.001 is less than the smallest group, 1"),
        (in_folds(column="study", test=0.9), "'study': got 1 folds in the 10 .* folds.test leaves"),
        (in_folds(column="empty"), "'empty': got 0 folds in the 59"),
        (in_folds(k=2, groups="centre"), "'centre': got a fold of 58 of 59 samples, .* leaves 1"),
        (
            in_folds(column="study", groups="host"),
            "'host': got groups that lie in several folds of 'study': 'h0' in 'study0' and "
            "'study1' and 'study2', .* and 15 more; .*draw the folds with folds.k",
        ),
        (
            {**CLASSES, **in_folds(column="described"), "column": "described"},
            "'described': got every class is in one value of 'described' alone: 'study0' in "
            "'study0', .* leave these classes out with `where`",
        ),
        (
            {**CLASSES, **in_folds(k=2, groups="center"), "column": "ill"},
            "'ill': got classes are in one value of 'center' alone: 'no' in 'center 0'",
        ),
        (
            {**CLASSES, **in_folds(column="sex"), "column": "ill"},
            "'ill': got classes are in one value of 'sex' alone: 'no' in 'a'",
        ),
        (
            {**CLASSES, **in_folds(k=3, seed=1), "column": "unlucky"},
            "'unlucky': got classes whose samples all lie in one fold.*: 'b'; .*stratified: true",
        ),
    ],
)
def test_what_cannot_be_divided_is_explained(divide, tmp_path, task, message):
    with pytest.raises(InputError, match=message):
        divide(**{"kind": "regression", "folds": {"k": 2}, **task})
    assert not list(tmp_path.iterdir())


STUDY_TASK = {"column": "age", "kind": "regression", "folds": {"k": 3}, "name": "t@studies"}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"studies": "studdy"}, "'studdy': got no such column.*mean 'study'"),
        ({"studies": "sex"}, "'sex'.*: got 2 studies .*: 'a' .*; expected at least 3"),
        (
            {"studies": "center", **CLASSES, "column": "ill"},
            "'center'.*: got one class alone in 4 of 4 studies: 'center 0' [(]15[)], .*'ill'",
        ),
        (
            {"studies": "study", "folds": {"k": 3, "groups": "host"}},
            "'study'.*: got values of 'host' that are in several studies: 'h0', .*; each in one "
            "study alone would leave out 39 of 59 samples; .*Hint: name a column in `studies` that "
            "keeps the samples of a 'host' together, or remove `studies`",
        ),
        ({"folds": {"k": 3, "test": {"study": "s9"}}, "name": "t"}, "'s9'; .*'study1' [(]10[)]"),
        (
            {"time": "slashed", "folds": {"k": 3, "groups": "host"}, "name": "t"},
            "'slashed', which `time` names: got no time in 59 samples: '1/7/14', .*the year first",
        ),
        (
            {"time": "visit", "folds": {"k": 3, "groups": "host"}, "name": "t"},
            "'visit'.*: got 0 of 20 values of 'host' that have samples of two times; expected at",
        ),
        (
            {
                **{"time": "age", "forecast": "2014-02-07", "column": "weight"},
                **{"folds": {"k": 3, "groups": "host"}, "name": "t@forecast"},
            },
            "`forecast: 2014-02-07` of .*: got no time on the scale of 'age', which has times from",
        ),
        (
            {
                **{"time": "age", "forecast": "9", "column": "weight"},
                **{"folds": {"k": 3, "groups": "host"}, "name": "t@forecast"},
            },
            "`forecast: 9` .*: got samples of 19 people up to it, and of 0 after it; .*auto",
        ),
        ({"folds": {"k": 3, "test": {"one": "x"}}, "name": "t"}, "'one'.* in all 59 samples"),
        ({"folds": {"k": 3, "test": {"non": "x"}}, "name": "t"}, "'non': got no such column"),
    ],
)
def test_studies_and_test_sets_that_cannot_be_are_explained(divide, tmp_path, task, message):
    with pytest.raises(InputError, match=message):
        divide(**{**STUDY_TASK, **task})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            {**CLASSES, **in_folds(k=3), "column": "deep"},
            "'deep': got classes with fewer samples than folds: 'b' with 2; of the 20 samples of "
            "'b' rarefaction keeps 2; .*Hint: lower rarefaction.depth, lower folds.k, or leave "
            "these classes out",
        ),
        (
            {**CLASSES, **in_folds(k=3), "column": "gone"},
            "'gone': got the one value 'a' in all 30 samples that rarefaction keeps; it drops 20 "
            "of 'b'; .*Hint: lower rarefaction.depth",
        ),
        (
            {**in_folds(k=2), "where": {"gone": "b"}},
            "'gone': got 'b' in none of the samples that rarefaction keeps; before it there were "
            "20; .*Hint: lower rarefaction.depth",
        ),
        (
            {**in_folds(k=2), "column": "late"},
            "'late': got no value in any of the 30 samples that rarefaction keeps; before it 20 ",
        ),
        (
            in_folds(k=40),
            "'age': got a value in 30 samples; rarefaction keeps these of 50; .*depth",
        ),
        (
            in_folds(k=5, groups="site"),
            "'site': got only 3 groups: .*; rarefaction keeps them of 5; .*Hint: lower rarefaction",
        ),
        (
            {**CLASSES, **in_folds(k=3), "column": "rare"},
            "'rare': got classes with fewer samples than folds: 'b' with 2; expected at least 3 "
            "samples of each class. Hint: lower folds.k, or leave these classes out: where: "
            '{"rare": \\["a", "c"\\]}',
        ),
    ],
)
def test_the_depth_is_named_where_it_is_the_cause(tmp_path, task, message):
    ids = [f"s{i:02d}" for i in range(50)]
    write_biom(
        tmp_path / "table", FeatureTable(ids[:30], ["a"], csr_array(np.ones((30, 1), int))), {}
    )
    columns = {
        "age": [str(i) for i in range(50)],
        "deep": ["b" if i in (0, 1) or i >= 32 else "a" for i in range(50)],
        "gone": ["b" if i >= 30 else "a" for i in range(50)],
        "late": [str(i) if i >= 30 else None for i in range(50)],
        "site": [f"site {i % 3 if i < 30 else i % 5}" for i in range(50)],
        "rare": ["b" if i in (0, 1) else "ac"[i % 2] for i in range(50)],
    }
    frame = pd.DataFrame({"sample_id": ids, **columns}, dtype=object)
    frame.to_parquet(tmp_path / "metadata", index=False)
    with pytest.raises(InputError, match=message):
        divide_into_folds(
            table=tmp_path / "table",
            metadata=tmp_path / "metadata",
            settings=slices.folds(config({"kind": "regression", **task}), "t"),
            folds_out=tmp_path / "folds.tsv",
            members_out=tmp_path / "members.tsv",
            notes_out=tmp_path / "notes.tsv",
        )
    assert not (tmp_path / "folds.tsv").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"column": "ill", **CLASSES, "where": {"stage": ["young", "ol"]}}, "no sample has 'ol'"),
        ({"column": "cases", **CLASSES}, "the classes 'No' in 20 samples, 'no' in 20 samples look"),
        ({"column": "unsure", **CLASSES}, "'unknown' in 20 samples may stand for a missing value"),
        ({"column": "far", "kind": "regression"}, "-9999 in 2 samples far from all other numbers"),
        ({"column": "comma", "kind": "regression"}, "read with decimal commas, '0,5' as 0.5"),
        (in_folds(k=2, groups="own"), "every sample has a group of its own"),
    ],
)
def test_what_looks_odd_in_a_task_is_told_on_its_notes(files, tmp_path, task, message):
    frame = pd.read_parquet(files["metadata"]).assign(
        cases=["No", "no", "yes"] * 20,
        unsure=["ill", "well", "unknown"] * 20,
        far=["-9999", "-9999", *map(str, range(2, SAMPLES))],
        comma=[f"{i},5" for i in range(SAMPLES)],
        own=IDS,
    )
    frame.to_parquet(tmp_path / "metadata", index=False)
    divide_into_folds(
        table=files["table"],
        metadata=tmp_path / "metadata",
        settings=slices.folds(config({"kind": "regression", "folds": {"k": 2}, **task}), "t"),
        folds_out=tmp_path / "folds.tsv",
        members_out=tmp_path / "members.tsv",
        notes_out=tmp_path / "notes.tsv",
    )
    assert message in (tmp_path / "notes.tsv").read_text()


def test_numbers_and_truth_values_of_where_find_other_spellings(divide, files, tmp_path):
    frame = pd.read_parquet(files["metadata"]).assign(
        visit=["1.0", "2.0", "3.0"] * 20,
        code=["01", "02", "08"] * 20,
        smoker=["True", "False"] * 30,
    )
    frame.to_parquet(tmp_path / "m", index=False)

    def kept(**where):
        task = {"folds": {"k": 2}, "where": where, "metadata": tmp_path / "m"}
        return len(divide("weight", **task))

    assert kept(visit=[1, 2]) == 39
    assert kept(visit=1) == kept(visit="1.0")
    assert kept(smoker="TRUE") == kept(smoker="True")
    assert kept(code=["01"])
    # YAML reads 010 as 8: a code is none of its numbers.
    with pytest.raises(InputError, match=r"expected '8', .*numbers or dates, such as 010"):
        kept(code=8)


@pytest.mark.parametrize(
    ("column", "settings", "other"),
    [
        # h0 has a sample of another study, study0 has samples without a target.
        ("host", {"k": 3, "groups": "host", "test": 0.3}, "002"),
        ("study", {"column": "study", "test": 0.3}, "024"),
    ],
)
def test_all_samples_of_a_held_out_group_are_of_its_fold(divide, tmp_path, column, settings, other):
    made = divide("early", folds=settings, where={"study": ["study0", "study1", "study3"]})
    members = read_folds(tmp_path / "members.tsv")["fold"]
    value = pd.Series(METADATA[column], index=IDS)
    # Sample by sample: the fold of any labelled one of the same value.
    fold = {value[name]: made.loc[name, "fold"] for name in made.index}
    assert members.to_dict() == {name: fold[value[name]] for name in IDS if value[name] in fold}
    assert members.index.is_monotonic_increasing
    assert TEST in set(members)
    assert other in members.index
    assert other not in made.index


def test_members_without_groups_are_the_labelled_samples_and_no_conditions_matter(divide, tmp_path):
    task = {"folds": {"k": 3, "test": 0.2}, "where": {"study": ["study1", "study4"]}}
    made = divide("weight", **task)
    members = read_folds(tmp_path / "members.tsv")["fold"]
    assert members.to_dict() == made["fold"].to_dict()
    divide("weight", **task, condition=["country"])
    assert read_folds(tmp_path / "members.tsv")["fold"].equals(members)


@pytest.mark.usefixtures("few_trees")
def test_baselines_read_what_the_folds_say(files, divide, tmp_path, monkeypatch):
    task = {"column": ["age", "weight"], "kind": "regression"}
    made = divide(**task, folds={"k": 2, "test": 0.2})

    def predicted(distances, **changes):
        fit_baselines(
            folds=tmp_path / "folds.tsv",
            views=[files["table"]],
            tree=files["tree"],
            distances=distances,
            **dict(slices.baselines(config({**task, "folds": {"k": 2}, **changes}), "t")),
            predictions_out=tmp_path / "predictions.tsv",
            nested_out=tmp_path / "nested.parquet",
        )
        return pd.read_csv(tmp_path / "predictions.tsv", sep="\t", dtype={"sample-id": str})

    table = predicted([files["distances"]], baselines="all")
    head = ["sample-id", "target", "fold", "baseline", "observed", "predicted"]
    assert table.columns.tolist() == head
    for (target, _), part in table.groupby(["target", "baseline"]):
        assert part["sample-id"].tolist() == made.index.tolist()
        assert part["fold"].tolist() == made["fold"].tolist()
        numbers = made[f"observed:{target}"].astype(float).tolist()
        assert part["observed"].tolist() == pytest.approx(numbers, rel=1e-5)
    without = predicted([], baselines=["extra_trees"])
    known = table["baseline"].isin(["median", "extra_trees"])
    pd.testing.assert_frame_equal(without, table[known].reset_index(drop=True))
    monkeypatch.setattr(problem, "MOST_COMPARED", 10)
    monkeypatch.setattr(problem, "LANDMARKS", 12)
    few = predicted([files["distances"]], baselines="all")
    differs = (few["predicted"] != table["predicted"]).groupby(few["baseline"]).any()
    # Forests see all samples, too, but have fewer parts.
    of_all = {"median", "gradient_boosting"}
    assert {name for name, other in differs.items() if not other} == of_all
