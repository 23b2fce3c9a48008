"""Folds of several targets, of ordered classes, with samples to test; members; and baselines."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.config import slices
from aam.config.configuration import load
from aam.data.folds import TEST, read_folds, read_members
from aam.data.samples import SampleStore, write_samples
from aam.evaluate.baselines import on_reads
from aam.runtime.run_options import RunOptions
from aam.stages import baselines, folds
from aam.unifrac.store import write_distances
from aam.util.errors import InputError

SAMPLES, FEATURES = 60, 5
IDS = [f"{i:03d}" for i in range(SAMPLES)]
STAGES = ["young", "adult", "old"]
METADATA = {
    "age": [None if i == 3 else str(i / 7) for i in range(SAMPLES)],
    "weight": [None if i in (4, 5) else str(100 - i) for i in range(SAMPLES)],
    "early": [str(i) if i < 20 else None for i in range(SAMPLES)],
    "late": [str(i) if i >= 20 else None for i in range(SAMPLES)],
    "stage": [STAGES[i // 20] for i in range(SAMPLES)],
    "host": [f"h{i // 3}" for i in range(SAMPLES)],
    "study": [f"study{i % 6}" for i in range(SAMPLES)],
    "country": [None if i == 2 else ["NA", "01", " x\ty "][i % 3] for i in range(SAMPLES)],
    "diet": [["plants|meat", "a|b", "fish"][i % 3] for i in range(SAMPLES)],
    "charge": [str(i / 2 - 1.5) for i in range(SAMPLES)],
    "centre": ["x" if i == 7 else "y" for i in range(SAMPLES)],
    "described": [f"study{i % 2}" if i < 40 else None for i in range(SAMPLES)],
    "same": [str(0.5 + (i >= 40)) for i in range(SAMPLES)],
    "rare": ["a"] * 57 + ["b"] * 3,
    "published": [None if i == 2 else f"fold{1 + i % 11}" for i in range(SAMPLES)],
    "empty": [None] * SAMPLES,
    "constant": ["1"] * SAMPLES,
    "awkward": [["NA", 'say "x"', "null"][i % 3] for i in range(SAMPLES)],
    "NA": [str(i % 2) for i in range(SAMPLES)],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("folds")
    paths = {name: folder / name for name in ("samples", "distances", "metadata")}
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 50, (SAMPLES, FEATURES))
    counts[:, 0] = 5 * np.arange(SAMPLES) + 1
    store = SampleStore(
        sample_ids=IDS,
        views=1,
        row_view=np.zeros(SAMPLES, np.int32),
        offsets=np.arange(SAMPLES + 1, dtype=np.int64) * FEATURES,
        asvs=np.tile(np.arange(FEATURES, dtype=np.int32), SAMPLES),
        counts=counts.astype(np.int32).ravel(),
        parent_offsets=np.arange(SAMPLES + 1, dtype=np.int64),
        parents=np.arange(SAMPLES, dtype=np.int32),
        weights=np.ones(SAMPLES, dtype=np.float32),
    )
    write_samples(paths["samples"], store, {})
    place = np.arange(SAMPLES) / SAMPLES
    write_distances(paths["distances"], IDS, np.abs(place[:, None] - place), {})
    frame = pd.DataFrame({"sample_id": IDS, **METADATA}, dtype=object)
    frame.to_parquet(paths["metadata"], index=False)
    return paths


def config(task: dict):
    return load({"datasets": {"d": {"table": "t.biom"}}, "tasks": {"t": {"dataset": "d", **task}}})


@pytest.fixture
def divide(files, tmp_path):
    """Run the stage on a task and return its folds."""

    def run(column, kind="regression", metadata=files["metadata"], **task) -> pd.DataFrame:
        output = tmp_path / "folds.tsv"
        folds.run(
            slices.folds(config({"column": column, "kind": kind, **task}), "t"),
            inputs={**files, "metadata": metadata},
            outputs={"folds": output, "members": tmp_path / "members.tsv"},
            runtime=RunOptions(),
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


def test_folds_are_the_same_for_another_order_of_the_metadata(divide, files, tmp_path):
    pd.read_parquet(files["metadata"])[::-1].to_parquet(tmp_path / "m", index=False)
    task = {"column": "stage", "kind": "classification", "folds": {"k": 4, "groups": "host"}}
    assert divide(**task).equals(divide(**task, metadata=tmp_path / "m"))


def test_whole_groups_are_held_out_and_in_no_fold(divide):
    made = divide("age", folds={"k": 4, "groups": "host", "test": 0.25})
    assert set(made["fold"]) == {-1, 0, 1, 2, 3}
    assert (made.groupby("group")["fold"].nunique() == 1).all()
    assert abs((made["fold"] == -1).sum() - 0.25 * len(made)) <= 2


def test_stratified_samples_to_test_have_the_proportions_of_the_classes(divide):
    settings = {"k": 4, "stratified": True, "test": 0.2}
    made = divide("stage", "ordinal", classes=STAGES, folds=settings)
    tested = made.loc[made["fold"] == TEST, "observed"]
    assert tested.value_counts().to_dict() == dict.fromkeys(STAGES, 4)


def test_folds_of_a_column_leave_out_samples_without_one(divide, caplog):
    made = divide("age", folds={"column": "published"})
    assert IDS[2] not in made.index
    assert "left out, for want of a value of 'published': 1 (002)" in caplog.text
    assert made.loc[[IDS[1], IDS[9], IDS[10]], "fold"].tolist() == [1, 9, 10]


def test_each_study_is_a_fold_and_whole_studies_are_held_out(divide):
    made = divide("age", folds={"column": "study"})
    studies = pd.Series(METADATA["study"], index=IDS)[made.index]
    assert made["fold"].tolist() == [int(name[-1]) for name in studies]
    made = divide("age", folds={"column": "study", "test": 0.3})
    assert (made["fold"].groupby(studies).nunique() == 1).all()
    assert studies[made["fold"] == -1].nunique() == 2
    assert set(made["fold"]) == {-1, 0, 1, 2, 3}


def test_samples_that_the_task_does_not_want_take_no_part(divide):
    wanted = {"study": ["study1", "study4"], "country": "01"}
    made = divide(["age"], folds={"k": 2}, where=wanted)
    expected = [IDS[i] for i in range(SAMPLES) if i % 6 in (1, 4) and i % 3 == 1]
    assert made.index.tolist() == expected


def test_classes_that_a_model_never_sees_are_reported(divide, caplog):
    divide("stage", "ordinal", classes=["egg", *STAGES], folds={"k": 2})
    assert "classes of 'stage' that no sample has: 1 (egg)" in caplog.text
    divide("described", "classification", folds={"column": "described"})
    assert "never sees them: 2 (study0, study1)" in caplog.text
    caplog.clear()
    divide("stage", "ordinal", classes=STAGES, folds={"k": 2})
    assert "no sample has" not in caplog.text


CLASSES = {"kind": "classification"}
ORDINAL = {"column": "stage", "kind": "ordinal", "folds": {"k": 2}}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"column": "na"}, "'na': got no such column.*'NA'"),
        ({"column": "stag", **CLASSES}, "'stag': got no such column.*mean 'stage'"),
        ({"column": "age", "condition": ["contry"]}, "'contry': got no such .*mean 'country'"),
        ({"column": "age", "folds": {"k": 3, "groups": "hosts"}}, "'hosts': .* mean 'host'"),
        ({"column": "age", "folds": {"column": "fold"}}, "'fold': got no such column"),
        ({"column": "empty"}, "'empty': got no value in any of the 60"),
        ({"column": "constant"}, "'constant': got the one value '1.0' in all 60"),
        ({"column": "constant", **CLASSES}, "'constant': got the one value '1' in all 60"),
        ({"column": "stage"}, "'stage': got 60 .'young' in 000, .* of 60 values"),
        (
            {**ORDINAL, "classes": ["old", "adult"]},
            "'stage': got values that are no class of the task: 1 .'young'.; expected one of",
        ),
        (
            {**ORDINAL, "classes": [*STAGES, "old|frail"]},
            r"classes of 'stage': got classes with a '\|': 1",
        ),
        (
            {"column": "diet", **CLASSES},
            r"'diet': got classes with a '\|': 2 \('a\|b', 'plants\|meat'\)",
        ),
        (
            {"column": ["early", "late"]},
            "columns 'early', 'late': got no sample that has a value in each",
        ),
        (
            {"column": "charge", "transform": "log"},
            r"'charge': got 2 \(-1.5 in 000, -1.0 in 001\) of 60 values that are not above -1",
        ),
        (
            {"column": "same", "folds": {"column": "described"}},
            "'same': got the one value '0.5' in all 40 samples that have a value of 'described'",
        ),
        (
            {"column": "age", "where": {"study": "x"}},
            "'study': got .*study0.*in 60 samples; expected 1 .x., as `where` of the task says",
        ),
        (
            {"column": "rare", **CLASSES, "folds": {"k": 4}},
            "'rare': got classes with fewer samples than folds: 1 .b: 3.; expected at least 4",
        ),
        ({"column": "age", "folds": {"k": 60}}, "'age': got a value in 59 samples"),
        ({"column": "age", "folds": {"k": 21, "groups": "host"}}, "'host': got groups 20 .h0"),
        (
            {"column": "age", "folds": {"k": 18, "groups": "host", "test": 0.3}},
            "'host': got groups 14 .* beyond folds.test; .*lower folds.k or folds.test",
        ),
        (
            {"column": "age", "folds": {"k": 3, "groups": "country"}},
            "'country': got no value in 1 .002.",
        ),
        (
            {"column": "age", "folds": {"k": 2, "test": 0.001}},
            "folds.test = 0.001 is less than the smallest group, 1",
        ),
        (
            {"column": "age", "folds": {"column": "study", "test": 0.9}},
            "'study': got 1 folds in the 10 samples that folds.test leaves",
        ),
        ({"column": "age", "folds": {"column": "empty"}}, "'empty': got 0 folds in the 59"),
        (
            {"column": "age", "folds": {"column": "centre"}},
            "'centre': got a fold of 58 of 59 samples, which leaves 1 to train on; expected .* 2",
        ),
        (
            {"column": "age", "folds": {"k": 2, "groups": "centre"}},
            "'centre': got a fold of 58 of 59 samples, which leaves 1 to train on",
        ),
    ],
)
def test_what_cannot_be_divided_is_explained(divide, tmp_path, task, message):
    with pytest.raises(InputError, match=message):
        divide(**{"kind": "regression", "folds": {"k": 2}, **task})
    assert not list(tmp_path.iterdir())


def members_by_search(made: pd.DataFrame, column: str) -> dict[str, int]:
    """Return the members sample by sample: the fold of any labelled one of the same value."""
    value = dict(zip(IDS, METADATA[column], strict=True))
    found = {}
    for name in IDS:
        alike = [other for other in made.index if value[other] == value[name] is not None]
        if alike:
            found[name] = int(made.loc[alike[0], "fold"])
    return found


@pytest.mark.parametrize(
    ("column", "settings"),
    [
        ("host", {"k": 3, "groups": "host", "test": 0.3}),
        ("study", {"column": "study", "test": 0.3}),
    ],
)
def test_all_samples_of_a_held_out_group_belong_to_its_fold(divide, tmp_path, column, settings):
    made = divide("early", folds=settings, where={"study": ["study0", "study1", "study3"]})
    members = read_members(tmp_path / "members.tsv")
    assert members.to_dict() == members_by_search(made, column)
    assert members.index.tolist() == [name for name in IDS if name in members.index]
    assert TEST in set(members)
    # h0 has a sample of another study, study0 has samples without a target.
    other = {"host": "002", "study": "024"}[column]
    assert other in members.index
    assert other not in made.index


def test_members_without_groups_are_the_labelled_samples_and_no_conditions_matter(divide, tmp_path):
    task = {"folds": {"k": 3, "test": 0.2}, "where": {"study": ["study1", "study4"]}}
    made = divide("weight", **task)
    members = read_members(tmp_path / "members.tsv")
    assert members.to_dict() == made["fold"].to_dict()
    divide("weight", **task, condition=["country"])
    assert read_members(tmp_path / "members.tsv").equals(members)


@pytest.mark.parametrize(
    "task",
    [
        {"column": ["age", "weight"], "kind": "regression"},
        {"column": "stage", "kind": "ordinal", "classes": ["egg", *STAGES]},
    ],
)
def test_baselines_read_what_the_folds_say(files, divide, tmp_path, monkeypatch, task):
    monkeypatch.setattr(on_reads, "TREES", 5)
    monkeypatch.setattr(on_reads, "ITERATIONS", 40)
    made = divide(**task, folds={"k": 2, "test": 0.2})
    output = tmp_path / "predictions.tsv"
    baselines.run(
        slices.baselines(config({**task, "folds": {"k": 2}}), "t"),
        inputs={**files, "folds": tmp_path / "folds.tsv"},
        outputs={"predictions": output},
        runtime=RunOptions(),
    )
    table = pd.read_csv(output, sep="\t", dtype={"sample-id": str, "observed": str})
    head = ["fold", "baseline", "observed", "predicted"]
    if task["kind"] == "ordinal":
        probabilities = [f"probability:{name}" for name in task["classes"]]
        assert table.columns.tolist() == ["sample-id", *head, *probabilities]
        table["target"] = "stage"
    else:
        assert table.columns.tolist() == ["sample-id", "target", *head]
    for (target, _), part in table.groupby(["target", "baseline"]):
        assert part["sample-id"].tolist() == made.index.tolist()
        assert part["fold"].tolist() == made["fold"].tolist()
        if task["kind"] == "ordinal":
            assert part["observed"].tolist() == made["observed"].tolist()
        else:
            numbers = made[f"observed:{target}"].astype(float).tolist()
            assert part["observed"].astype(float).tolist() == pytest.approx(numbers, rel=1e-5)
