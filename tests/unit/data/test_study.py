"""What a study is said to be, and the configuration that is proposed for it."""

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.sparse import csr_array

from aam.config.configuration import load
from aam.config.slices import describe
from aam.data.splits import labelled
from aam.data.study.columns import columns_of, grouping
from aam.data.study.proposal import configuration, proposed_depth
from aam.data.study.read_starts import sequence_sentences
from aam.data.study.sentences import study_sentences, task_sentences
from aam.data.table import FeatureTable

SAMPLES = 60
IDS = [f"s{i}" for i in range(SAMPLES)]
METADATA = pd.DataFrame(
    {
        "age": [str(i / 2) for i in range(SAMPLES)],
        "patient": [f"p{i // 4}" for i in range(SAMPLES)],
        "diagnosis": ["ill", "well"] * 29 + ["odd", None],
        "plate": ["1", "2", "3"] * 20,
        "collection_date": [f"2020-01-{i:02d}" for i in range(SAMPLES)],
        "host_id": IDS,
        "body": ["gut"] * SAMPLES,
    },
    index=IDS,
    dtype=object,
)


def table(reads: list[int]) -> FeatureTable:
    counts = np.array([reads, [1] * len(reads)]).T
    return FeatureTable(IDS[: len(reads)], ["a", "b"], csr_array(counts))


def test_columns_are_told_by_what_they_could_be():
    found = {one.name: one for one in columns_of(METADATA)}
    assert {name: one.kind for name, one in found.items()} == {
        "age": "number",
        "patient": "classes",
        "diagnosis": "classes",
        "plate": "classes",
        "collection_date": "names",
        "host_id": "names",
        "body": "one value",
    }
    assert str(found["diagnosis"]) == "diagnosis: classes ill (29), well (29), odd (1); 1 missing"
    assert found["diagnosis"].frequent == ["ill", "well"]
    assert str(found["age"]) == "age: number from 0 to 29.5"
    renamed = METADATA.rename(columns={"patient": "plate_id", "plate": "fish_id"})
    groups = [grouping(columns_of(one)) for one in (METADATA, renamed)]
    assert [one and one.name for one in groups] == ["patient", "fish_id"]


def proposed_groups(name: str, values: list[str]) -> str | None:
    metadata = pd.DataFrame({name: values}, dtype=object)
    found = grouping(columns_of(metadata))
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("name", "values", "is_proposed"),
    [
        ("host_subject_id", [f"{i // 4}.0" for i in range(200)], True),
        ("PatientID", [f"{i // 4}" for i in range(200)], True),
        ("Subject", ["subject-1", "subject-2"] * 10, True),
        ("mouse", [f"m{i // 4}" for i in range(40)], True),
        ("family_of_origin", [f"f{i // 3}" for i in range(60)], True),
        # 383 values in 441 people.
        ("animal_protein_pct", [str(min(i, 382) / 7) for i in range(441)], False),
        ("animal_portions", [str(i % 60) for i in range(200)], False),
        ("subject_id", [str(i / 2 // 2 / 2) for i in range(200)], False),
        ("family_history", ["yes", "no"] * 40, False),
        ("patient_weight", [str(60 + i % 40) for i in range(200)], False),
        # Nearly every sample is of another one.
        ("patient", [f"p{min(i, 382)}" for i in range(441)], False),
        ("patient", [f"p{i}" for i in range(40)], False),
        ("qiita_study_id", [str(i % 4) for i in range(40)], False),
    ],
)
def test_groups_are_proposed_where_a_column_can_be_one(name, values, is_proposed):
    assert proposed_groups(name, values) == (name if is_proposed else None)


def test_where_no_groups_are_proposed_a_comment_says_what_can_be_said():
    files = {"table": "/d/t.biom", "metadata": "/d/m.tsv"}
    assert "`groups: false`" not in configuration(files, columns_of(METADATA), 9)
    without = METADATA.drop(columns="patient")
    text = configuration(files, columns_of(without), 9)
    assert "# `groups: false`, and the page will not warn about it." in text
    assert "# Nearly every sample has its own value in: host_id." in text
    tasks = load(yaml.safe_load(text)).tasks
    assert {task.folds.groups for task in tasks.values()} == {None}, "only the user can say so"
    no_task = configuration(files, [], 9)
    assert "groups" not in no_task


def test_check_names_what_may_flatter_a_task():
    def said(column="diagnosis", kind="classification", **folds):
        task = {"dataset": "d", "column": column, "kind": kind, "folds": {"k": 3, **folds}}
        sections = {"datasets": {"d": {"table": "t"}}, "tasks": {"t": task}}
        settings = describe(load(sections), "d")["tasks"]["t"]
        twice = METADATA.assign(
            diagnosis=["ill", "well"] * 30,
            run=["1", "2"] * 30,
            hospital=["north", "south"] * 30,
            subject=[f"p{i // 8}-{i % 2}" for i in range(SAMPLES)],
            dose=[str(10 * (i % 3)) for i in range(SAMPLES)],
        )
        return "\n".join(
            task_sentences(
                "t",
                settings,
                *labelled(twice, settings)[:2],
                labelled(twice, settings)[3],
            )
        )

    text = said()
    assert "Task t: nothing says which samples belong together" in text
    assert "`run` predicts the target exactly, without any reads" in text
    assert "samples of one `subject` share the target. Set `groups: subject`" in text
    others = "other columns predict the target exactly or for nearly every sample, without any "
    assert f"{others}reads: hospital. Are" in text
    assert "belong together" not in said(groups=False)
    text = said(groups="subject")
    assert "`run` predicts the target exactly" in text
    assert "belong together" not in text
    assert "share the target" not in text, "its samples are never on two sides"
    numbers = said("dose", "regression", groups=False)
    assert "`plate` predicts the target exactly" in numbers
    assert "`run`" not in numbers


def test_a_proposed_depth_loses_few_samples():
    assert proposed_depth(table([5] * 3 + list(range(1234, 1291)))) == 1200
    assert proposed_depth(table([90_000] * 40)) == 10_000
    assert proposed_depth(table([3, 3])) == 4


V4 = "TACGTAGGTGGCAAGCG"


@pytest.mark.parametrize(
    ("sequence", "said"),
    [
        (V4, None),
        ("CGCTTGCCACCTACGTA", "reverse complements: complement and reverse them"),
        ("GTGCCAGCCGCCGCGGTAA" + V4, "still have the primer 515F: trim it"),
    ],
)
def test_a_study_is_described(sequence, said):
    text = "\n".join(
        study_sentences(table([2000] * SAMPLES), {"a": sequence, "b": "A" * 20}, METADATA)
    )
    assert "60 samples, 2 ASVs, 120,060 reads: 2,001 in the median sample" in text
    assert "Samples of one `patient` should stay together (`groups`): there are 15" in text
    assert "how samples were processed: plate. Check" in text
    assert f"{1 if said is None else 0:.0%} of the reads begin as 16S" in text
    for words in ("reverse complements", "still have the primer"):
        assert (words in text) == (said is not None and words in said)


def test_a_part_of_other_reads_is_told():
    few = {"a": V4, "b": "A" * 20}
    assert len([*sequence_sentences(table([2000] * 9), few)]) == 1, "fewer than a twentieth"
    given = table([7] * 9)
    *_, said = sequence_sentences(given, few)
    assert said.startswith("12% of the reads begin elsewhere")
    *_, said = sequence_sentences(given, few | {"b": "CGCTTGCCACCTACGTA"})
    assert said.startswith("12% look like reverse complements")


def test_a_proposed_configuration_is_one_and_leaves_the_rest_as_comments():
    files = {"table": "/d/t.biom", "metadata": "/d/m.tsv"}
    text = configuration(files, columns_of(METADATA), 1200)
    tasks = load(yaml.safe_load(text)).tasks
    assert list(tasks) == ["age", "diagnosis"]
    assert tasks["age"].folds.groups == tasks["diagnosis"].folds.groups == "patient"
    assert tasks["diagnosis"].where == {"diagnosis": ["ill", "well"]}
    of_two = configuration(files, columns_of(METADATA.assign(patient=["a", "a", "b", "b"] * 15)), 9)
    assert '{k: 2, groups: "patient", stratified: true}' in of_two
    assert "#   host_id: names, 60 different ones" in text
    assert load(yaml.safe_load(configuration(files, [], 9))).tasks == {}
    assert load(yaml.safe_load(text)).models == {}
    assert "# so far, see docs/results.md. With `models: {base: {}}` AAM is trained too." in text
    large = pd.concat([METADATA] * 20, ignore_index=True)
    assert list(load(yaml.safe_load(configuration(files, columns_of(large), 9))).models) == ["base"]
    more = METADATA.assign(sex=["m", "f", "f"] * 20, score=METADATA["age"])
    listed = configuration(files, columns_of(more), 9).partition("tasks:\n")[2]
    proposed = yaml.safe_load(listed.replace("\n#  ", "\n  "))
    assert list(proposed) == ["age", "sex", "score", "diagnosis"]


def test_every_proposed_task_has_a_name_of_its_own_that_a_configuration_allows():
    columns = ["age (years)", "age_years", "2019", "yes", "x" * 120, "--lost", "Größe", "🙂"]
    metadata = pd.DataFrame(dict.fromkeys(columns, METADATA["age"]), dtype=object)
    files = {"table": "/d/🙂.biom", "metadata": "/d/m.tsv"}
    text = configuration(files, columns_of(metadata), 9, targets=columns)
    loaded = load(yaml.safe_load(text))
    names = ["age_years", "age_years_2", "2019", "yes", "x" * 90, "lost", "Gr_e", "target"]
    assert list(loaded.tasks) == names
    assert [task.column for task in loaded.tasks.values()] == columns
    assert loaded.datasets["mine"].table == "/d/🙂.biom"
    assert "\n  age_years:\n" in text, "a name has quotes only where it needs them"
