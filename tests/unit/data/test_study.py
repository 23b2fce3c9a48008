"""What a study is said to be, and the configuration that is proposed for it."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.sparse import csr_array

from aam.cli import main
from aam.config.configuration import load
from aam.config.slices import describe, folds
from aam.data.importing.region import recognize_region
from aam.data.importing.ribosomal_genes import E_COLI
from aam.data.splits import divide_labelled
from aam.data.study.columns import (
    Column,
    column_of,
    columns_of,
    lies_within,
    propose_grouping,
    require_groups,
    require_targets,
    study_columns,
    task_kind,
    technical_columns,
)
from aam.data.study.drafts import draft_task, propose_targets
from aam.data.study.proposal import (
    depth_sentences,
    plain_name,
    propose_configuration,
    propose_depth,
    propose_name,
)
from aam.data.study.study import (
    Study,
    decision_lines,
    study_sentences,
    task_sentences,
    with_decisions,
)
from aam.data.table import FeatureTable, TableFacts
from aam.data.target_columns import observed_values
from aam.simulate import birth_death_tree, evolve
from aam.util.errors import InputError
from aam.util.notes import Note

SAMPLES = 60
V4 = "TACGTAGGTGGCAAGCG"
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
    groups = [propose_grouping(columns_of(one)) for one in (METADATA, renamed)]
    assert [one and one.name for one in groups] == ["patient", "fish_id"]


def proposed_groups(name: str, values: list[str]) -> str | None:
    metadata = pd.DataFrame({name: values}, dtype=object)
    found = propose_grouping(columns_of(metadata))
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
    assert "`groups: false`" not in propose_configuration(files, columns_of(METADATA), 9)
    without = METADATA.drop(columns="patient")
    text = propose_configuration(files, columns_of(without), 9)
    assert "# `groups: false`, and the page will not warn about it." in text
    assert "# Nearly every sample has its own value in: host_id." in text
    tasks = load(yaml.safe_load(text)).tasks
    assert {task.folds.groups for task in tasks.values()} == {None}, "only the user can say so"
    no_task = propose_configuration(files, [], 9)
    assert "groups" not in no_task


def test_check_names_what_may_flatter_a_task():
    def said(column="diagnosis", kind="classification", **folds):
        task = {"dataset": "d", "column": column, "kind": kind, "folds": {"k": 3, **folds}}
        sections = {"datasets": {"d": {"table": "t"}}, "tasks": {"t": task}}
        settings = describe(load(sections), "d").tasks["t"]
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
                *divide_labelled(twice, settings),
                pd.Series(np.arange(SAMPLES) % 7, twice.index),
            )
        )

    text = said()
    assert "Task t: nothing says which samples belong together" in text
    assert "`run` predicts the target exactly, with nothing else known" in text
    assert "samples of one `subject` share the target. Set `groups: subject`" in text
    others = "other columns predict the target exactly or nearly by themselves"
    assert f"{others}: hospital. Are" in text
    assert "belong together" not in said(groups=False)
    text = said(groups="subject")
    assert "`run` predicts the target exactly" in text
    assert "belong together" not in text
    assert "share the target" not in text, "its samples are never on two sides"
    numbers = said("dose", "regression", groups=False)
    assert "`plate` predicts the target exactly" in numbers
    assert "`run`" not in numbers


def test_a_proposed_depth_loses_few_samples():
    assert propose_depth(np.array([5] * 3 + list(range(1234, 1291)))) == 1200
    assert propose_depth(np.array([90_000] * 40)) == 10_000
    assert propose_depth(np.array([4, 4])) == 4


def test_a_low_depth_is_proposed_only_where_a_better_one_loses_too_many_samples():
    few = np.array([7, 30, 90] + [20_000] * 37)
    assert propose_depth(few) == 500
    shallow = np.array([130] * 10 + [900] * 30)
    assert propose_depth(shallow) == 130
    said = " ".join(depth_sentences(shallow, 130, are_labelled=True))
    assert "a depth of 130 loses 0" in said
    assert "500 would lose 10 samples" in said
    (said,) = depth_sentences(few, 500, are_labelled=True)
    assert "40 labelled samples, a depth of 250 loses 3, a depth of 500 loses 3, a depth of" in said


def test_a_depth_is_proposed_for_the_samples_that_matter():
    reads = [9000] * 50 + [60] * 10
    frame = METADATA.assign(sample_type=["stool"] * 54 + ["control blank"] * 6)
    frame.loc[IDS[50:], "diagnosis"] = None
    study = Study(
        table=table(reads),
        left_out=pd.DataFrame(columns=["what", "id", "why"]),
        sequences={"a": V4, "b": "A" * 20},
        metadata=frame,
    )
    assert study.blanks == IDS[54:]
    assert len(study.reads_that_matter()) == 54
    labelled_alone = study.reads_that_matter(["diagnosis"])
    assert len(labelled_alone) == 50
    assert propose_depth(labelled_alone) == 9000
    assert "6 samples are blanks" in "\n".join(study_sentences(study, frame, depth=1000))
    said = "\n".join(study_sentences(study, frame, depth=90, targets=["diagnosis"]))
    assert "Of 50 labelled samples, a depth of 45 loses 0, a depth of 90 loses 0" in said
    assert "500 would lose 0 samples" in said
    assert "Proposed: 9000" in said


def test_a_study_is_described():
    study = Study(
        table=table([2000] * SAMPLES),
        left_out=pd.DataFrame(columns=["what", "id", "why"]),
        sequences={"a": V4, "b": "A" * 20},
        metadata=METADATA,
        region=recognize_region([E_COLI[533:623], "A" * 90], np.array([120_000, 60])),
    )
    text = "\n".join([*study_sentences(study, METADATA, depth=1000)])
    assert "60 samples, 2 ASVs, 120,060 reads: 2,001 in the median sample" in text
    assert "Samples of one `patient` should stay together (`groups`): there are 15" in text
    assert "how samples were processed: plate. Check" in text
    assert "Sequences of 90 nucleotides: 16S, V4 (E. coli 534 to 623, behind 515F)." in text


def test_what_is_predicted_keeps_no_samples_together():
    """A column `patient` may say who is one, and who is healthy."""
    study = Study(
        table=table([2000] * SAMPLES),
        left_out=pd.DataFrame(columns=["what", "id", "why"]),
        sequences={},
        metadata=METADATA,
    )
    text = "\n".join(study_sentences(study, METADATA, depth=1000, targets=["patient"]))
    assert "Samples of one `patient`" not in text


@pytest.mark.parametrize("seed", [12, 36, 37, 38])
def test_sequences_of_the_simulation_are_of_no_gene(seed):
    """With the first three seeds 3 to 15 % begin, turned, as V4 does: they share their ends."""
    draws = np.random.default_rng(seed)
    sequences = evolve(birth_death_tree(120, draws), 100, draws)
    found = recognize_region(sequences, np.full(len(sequences), 9))
    assert found.gene == "other"
    assert not [*found.oddities()]


def test_a_proposed_configuration_is_one_and_leaves_the_rest_as_comments():
    files = {"table": "/d/t.biom", "metadata": "/d/m.tsv"}
    text = propose_configuration(files, columns_of(METADATA), 1200)
    tasks = load(yaml.safe_load(text)).tasks
    assert list(tasks) == ["diagnosis", "age"]
    assert tasks["age"].folds.groups == tasks["diagnosis"].folds.groups == "patient"
    assert tasks["diagnosis"].where == {"diagnosis": ["ill", "well"]}
    of_two = propose_configuration(
        files, columns_of(METADATA.assign(patient=["a", "a", "b", "b"] * 15)), 9
    )
    assert '{k: 2, groups: "patient", stratified: true}' in of_two
    assert "#   host_id: names, 60 different ones" in text
    assert load(yaml.safe_load(propose_configuration(files, [], 9))).tasks == {}
    assert load(yaml.safe_load(text)).models == {}
    assert "With `models: {base: {}}` they are" in text
    large = pd.concat([METADATA] * 20, ignore_index=True)
    assert list(
        load(yaml.safe_load(propose_configuration(files, columns_of(large), 9))).models
    ) == ["base"]
    more = METADATA.assign(sex=["m", "f", "f"] * 20, score=METADATA["age"])
    listed = propose_configuration(files, columns_of(more), 9).partition("tasks:\n")[2]
    proposed = yaml.safe_load(listed.replace("\n#  ", "\n  "))
    assert list(proposed) == ["diagnosis", "age", "score", "sex"]


def test_a_large_study_is_not_asked_for_the_distances_of_all_pairs():
    files = {"table": "/d/t.biom", "metadata": "/d/m.tsv"}
    for repeats, is_large in ((100, False), (200, True)):
        columns = columns_of(pd.concat([METADATA] * repeats, ignore_index=True))
        tasks = load(yaml.safe_load(propose_configuration(files, columns, 9))).tasks
        assert (tasks["age"].baselines is not None) == is_large
    assert set(tasks["age"].baselines) == {
        "random_forest_median",
        "extra_trees",
        "kernel_clr",
        "kernel_clades",
    }
    assert "random_forest" in tasks["diagnosis"].baselines


def test_every_proposed_task_has_a_name_of_its_own_that_a_configuration_allows():
    columns = ["age (years)", "age_years", "2019", "yes", "x" * 120, "--lost", "Größe", "🙂"]
    metadata = pd.DataFrame(dict.fromkeys(columns, METADATA["age"]), dtype=object)
    files = {"table": "/d/🙂.biom", "metadata": "/d/m.tsv"}
    text = propose_configuration(files, columns_of(metadata), 9, targets=columns)
    loaded = load(yaml.safe_load(text))
    names = ["age_years", "age_years_2", "2019", "yes", "x" * 90, "lost", "Gr_e", "target"]
    assert list(loaded.tasks) == names
    assert [task.column for task in loaded.tasks.values()] == columns
    assert loaded.datasets["mine"].table == "/d/🙂.biom"
    assert "\n  age_years:\n" in text, "a name has quotes only where it needs them"


def column(*values, declared=None, name="x"):
    """Return what a column of values is said to be."""
    ids = [f"s{number}" for number in range(len(values))]
    frame = pd.DataFrame({name: pd.Series(values, index=ids, dtype=object)})
    frame.attrs["q2:types"] = {} if declared is None else {name: declared}
    return columns_of(frame.reindex([*ids]))[0]


SITES = [f"{1 + number % 12:02d}" for number in range(60)]
AGES = [str(number) for number in range(20, 60)]


@pytest.mark.parametrize(
    ("values", "declared", "kind", "task"),
    [
        (SITES, "categorical", "classes", "classification"),
        (SITES, None, "classes", "classification"),
        (SITES, "numeric", "number", "regression"),
        ([str(1 + number % 12) for number in range(60)], None, "number", "regression"),
        (
            [str(1 + number % 12) for number in range(60)],
            "categorical",
            "classes",
            "classification",
        ),
        (["0", "10", "50", "100"] * 10, "numeric", "number", "regression"),
        (["0", "10", "50", "100"] * 10, None, "classes", "classification"),
        (["2019", "2020"] * 10, None, "classes", "classification"),
        (["2019-05-01", "2020-05-01"] * 10, None, "names", None),
        (["5/1/19", "6/1/19"] * 10, None, "names", None),
        (["20190501", "20200501"] * 10 + ["20210101"] * 20, None, "names", None),
        (["2019-05-01", "2020-05-01"] * 10, "categorical", "classes", "classification"),
        ([f"{number:03d}" for number in range(60)], None, "names", None),
        (["7.1", "7.25", "6.9", "8"], None, "number", "regression"),
        ([f"{age},5" for age in AGES], None, "number", "regression"),
        ([f"{age} years" for age in AGES], None, "number", "regression"),
        ([*AGES, "90+", "<1"], None, "number", None),
        (["5", "5"], "numeric", "one value", None),
        ([f"p{number}" for number in range(60)], None, "names", None),
    ],
)
def test_the_declared_type_decides_and_else_what_the_values_are(values, declared, kind, task):
    found = column(*values, declared=declared)
    assert found.kind == kind
    assert task_kind(found) == task


def test_a_column_is_described_with_what_looks_odd():
    assert str(column(*AGES, "90+", "90+", "<1")) == (
        "x: number from 20 to 59; 3 values that are no numbers: '90+' (2), '<1' (1)"
    )
    assert str(column(*AGES, "-9999", "-9999")).endswith("-9999 (2) may stand for a missing value")
    assert str(column(*(f"{age},5" for age in AGES))).endswith("; read with decimal commas")
    assert "'Male' and 'male' may be one value" in str(column(*["Male", "male"] * 5))
    assert "'unknown' may stand for a missing value" in str(column(*["a", "unknown"] * 5))
    assert str(column("2019-05-01", "2020-05-02")) == "x: names, 2 different ones; dates or times"
    assert "codes" in str(column(*SITES))


def test_columns_that_are_asked_for_are_refused_by_their_values(caplog):
    columns = [
        column(*AGES, "90+", "<1", name="age"),
        column(*["2019-05-01", "2020-05-01"] * 10, name="when"),
        column(*["Male", "male", "f"] * 9, name="sex"),
    ]
    with pytest.raises(InputError) as caught:
        require_targets(columns, ["age", "when", "sex"], Path("m.tsv"))
    age, when = str(caught.value).splitlines()
    assert "m.tsv, column 'age': got 2 values that are no numbers: '90+' (1), '<1' (1)" in age
    assert "empty these cells" in age
    assert "'categorical'" in age
    assert "dates or times" in when
    assert "write 'categorical'" in when
    require_targets(columns, ["sex"], Path("m.tsv"))
    assert "column 'sex': 'Male' and 'male' may be one value" in caplog.text


FILES = {"table": "/d/t.biom", "metadata": "/d/m.tsv"}


def proposed(metadata, targets=None):
    """Return the text of a configuration and its tasks, also those in comments."""
    text = propose_configuration(FILES, columns_of(metadata), 9, targets)
    head, _, tasks = text.partition("\ntasks:\n")
    return text, load(yaml.safe_load(head + "\ntasks:\n" + tasks.replace("\n#", "\n"))).tasks


def slices(text_of_tasks):
    sections = {"datasets": {"mine": {"table": "t"}}, "tasks": text_of_tasks}
    return describe(load(sections), "mine").tasks


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"center": [f"c{i % 4}" for i in range(60)]}, "center"),
        # Studies come before the runs that they were read in.
        (
            {
                "sequencing_run": [f"r{i % 4}" for i in range(60)],
                "cohort": [f"c{i // 20}" for i in range(60)],
            },
            "cohort",
        ),
        ({"qiita_study_id": [str(10317 + i // 20) for i in range(60)]}, "qiita_study_id"),
        # Two are too few, and so are four of which two have one class.
        ({"center": [f"c{i // 2 % 2}" for i in range(60)]}, None),
        ({"center": ["aab"[i % 3] if i < 30 else "cd"[i % 2] for i in range(60)]}, None),
        # Each person was in several.
        (
            {
                "center": [f"c{i % 4}" for i in range(60)],
                "patient": [f"p{i // 4}" for i in range(60)],
            },
            None,
        ),
        # Most samples have none.
        ({"center": [f"c{i % 4}" if i < 40 else None for i in range(60)]}, None),
        ({"cabinet": [f"c{i % 4}" for i in range(60)]}, None),
    ],
)
def test_init_asks_about_studies_where_each_can_be_left_out(changes, asked):
    metadata = pd.DataFrame({"diagnosis": ["ill", "ill", "well"] * 20, **changes}, dtype=object)
    text = propose_configuration({"table": "/d/t.biom"}, columns_of(metadata), 9, ["diagnosis"])
    tasks = load(yaml.safe_load(text)).tasks
    assert tasks["diagnosis"].studies == asked
    for name in tasks:
        divide_labelled(metadata, folds(load(yaml.safe_load(text)), name))


def test_a_column_with_values_that_are_no_numbers_is_a_comment_that_says_why():
    metadata = METADATA.assign(age=[*AGES, *["90+"] * 12, *["<1"] * 8])
    text, tasks = proposed(metadata)
    assert "age" not in tasks
    why = "#   `age`: 20 values that are no numbers: '90+' (12), '<1' (8); expected numbers alone;"
    assert f"# Not proposed:\n{why}" in text
    with pytest.raises(InputError, match=r"12|90\+"):
        propose_configuration(FILES, columns_of(metadata), 9, ["age"])


def test_what_a_run_would_refuse_is_left_out_of_a_task():
    metadata = METADATA.assign(
        # Samples of `c` are of one person, `unknown` may be no class, `d` is rare.
        diagnosis=["a", "b", "a", "b"] * 12 + ["c"] * 4 + ["unknown"] * 6 + ["d", None],
        patient=[*[f"p{i // 4}" for i in range(58)], None, None],
    )
    metadata.loc[metadata["diagnosis"] == "c", "patient"] = "p0"
    text, tasks = proposed(metadata, ["diagnosis"])
    assert tasks["diagnosis"].where["diagnosis"] == ["a", "b"]
    assert "None" not in str(tasks["diagnosis"].where["patient"])
    assert "# left out: samples without a value in `patient` (1)" in text
    assert "# left out: 'unknown' (6), 'c' (4), 'd' (1)" in text
    assert "# 'unknown' may stand for a missing value" in text
    sparse = METADATA.assign(patient=[f"p{i // 2}" if i < 30 else None for i in range(60)])
    text, tasks = proposed(sparse, ["diagnosis"])
    assert tasks["diagnosis"].folds.groups is None
    assert "# no groups: `patient` has no value in 29 of 59 samples" in text
    confounded = METADATA.assign(patient=["a", "b"] * 30, diagnosis=["x", "y"] * 30)
    text, tasks = proposed(confounded)
    assert "diagnosis" not in tasks
    assert "#   `diagnosis`: every class is in one value of 'patient' alone" in text


cells = st.sampled_from(
    ["a", "b", "B", "c|d", "1", "1.0", "2", "3,5", "90+", "unknown", None, "TRUE", "2019-01-01"]
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(5, 60), groups=st.integers(1, 30))
def test_a_run_accepts_every_task_that_is_proposed(data, n, groups):
    """Whatever the metadata hold."""
    few = data.draw(st.lists(cells, min_size=2, max_size=6))
    random = data.draw(st.randoms(use_true_random=False))
    frame = pd.DataFrame(
        {
            "label": [random.choice(few) for _ in range(n)],
            "number": [random.choice([str(i), str(i), "90+", None][: 2 + i % 3]) for i in range(n)],
            "subject": [random.choice([f"p{i % groups}", "p0", None]) for i in range(n)],
            "plain": [random.choice("xyz") for _ in range(n)],
        },
        index=[f"s{i}" for i in range(n)],
        dtype=object,
    )
    if data.draw(st.booleans()):
        frame = frame.drop(columns="subject")
    head, _, tasks = propose_configuration(FILES, columns_of(frame), 9).partition("\ntasks:\n")
    for name, settings_of_task in slices(yaml.safe_load(tasks.replace("\n#", "\n")) or {}).items():
        _, values, fold, _ = divide_labelled(frame, settings_of_task)
        assert len(values) == len(fold), name


@given(st.lists(st.sampled_from([*AGES, "90+", "3,5", "12 years", "x", "-9999"]), min_size=2))
def test_a_run_reads_the_numbers_that_a_column_is_said_to_have(values):
    """The values that it refuses are those that the description names."""
    found = column_of(pd.Series(values, name="x", dtype=object))
    if found.kind != "number":
        return
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    if not len(found.unread):
        assert observed_values(frame, "regression", ["x"])["x"].notna().all()
        return
    with pytest.raises(InputError) as caught:
        observed_values(frame, "regression", ["x"])
    assert f"{found.unread.sum()} of {len(values)} values" in str(caught.value)
    assert all(repr(value) in str(caught.value) for value in found.unread.index[:5])


def write_files(folder: Path) -> dict[str, Path]:
    """Write a study of 24 samples, half of them with few reads, whose metadata have more rows."""
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(6)]
    rows = [[name, *[str(9 if i % 2 else 100 + i) for i in range(24)]] for name in names]
    ids = [f"S{i:02d}" for i in range(24)]
    lines = ["\t".join(row) for row in (["#OTU ID", *ids], *rows)]
    (folder / "t.tsv").write_text("\n".join(lines) + "\n")
    cells = ["sample-id\tsite"]
    for i in range(24):
        cells.append(f"S{i:02d}\t{'rare' if i % 2 else ('gut', 'skin')[i // 2 % 2]}")
    cells += [f"other{i}\tmouth" for i in range(50)]
    (folder / "m.tsv").write_text("\n".join(cells) + "\n")
    tree = "(" + ",".join(f"{name}:{2 if name == names[0] else 0.1}" for name in names[:3]) + ")"
    tree += ":0.1,(" + ",".join(f"{name}:0.1" for name in names[3:]) + "):0.1"
    (folder / "tree.nwk").write_text(f"({tree});")
    return {"table": folder / "t.tsv", "metadata": folder / "m.tsv", "tree": folder / "tree.nwk"}


def test_a_study_is_seen_as_rarefaction_leaves_it(tmp_path):
    study = Study.read(**write_files(tmp_path))
    assert len(study.table.sample_ids) == 24
    kept = study.at_depth(100)
    assert kept.index.tolist() == [f"S{i:02d}" for i in range(0, 24, 2)]
    (column,) = columns_of(kept)
    # Neither classes of shallow samples nor those of other samples of the project.
    assert column.frequent == ["gut", "skin"]
    assert len(column.counts) == 2
    assert any("longer than 0.6" in note.text for note in study.notes)
    # Without the one long branch the samples have a sixth fewer reads.
    assert len(study.at_depth(600)) == 12
    assert len(study.at_depth(560, drops_long_branches=True)) == 6
    with pytest.raises(InputError, match="deepest sample"):
        study.at_depth(10_000)


def test_init_proposes_what_a_run_would_see(tmp_path, capsys, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    main(["init", "t.tsv", "m.tsv", "--tree", "tree.nwk", "--output", "mine.yaml"])
    said = capsys.readouterr().out
    text = (tmp_path / "mine.yaml").read_text()
    assert "rare" in text, "half of the samples are below a twentieth"
    assert "mouth" not in text
    assert "longer than 0.6" in said


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        # Ten different whole numbers may be codes, eleven are numbers.
        ([str(i % 10) for i in range(40)], "classes"),
        ([str(i % 11) for i in range(44)], "number"),
        # With decimals five are numbers.
        ([str(i % 4 + 0.5) for i in range(40)], "classes"),
        ([str(i % 5 + 0.5) for i in range(40)], "number"),
        # More than half of the values have to be numbers.
        ([*map(str, range(11)), *["x"] * 11], "names"),
        ([*map(str, range(11)), *["x"] * 10], "number"),
        # Twenty classes at most, of which one besides the most frequent one repeats.
        ([f"c{i % 20}" for i in range(40)], "classes"),
        ([f"c{i % 21}" for i in range(42)], "names"),
        (["a", "a", "b", "b", "c"], "classes"),
        (["a", "a", "a", "b", "c"], "names"),
        (["1", "2", "3"], "number"),
        (["1", "1", "2", "2"], "classes"),
        (["a", None], "one value"),
        ([None, None], "empty"),
    ],
)
def test_values_decide_whether_a_column_has_numbers_classes_or_names(values, kind):
    assert column(*values).kind == kind


def test_a_class_needs_five_samples_and_unknown_ones_are_left_out_where_two_others_are():
    found = column(*["a"] * 5, *["b"] * 5, *["c"] * 4, *["unknown"] * 6)
    assert found.frequent == ["a", "b"]
    assert column(*["a"] * 5, *["b"] * 4, *["unknown"] * 6).frequent == ["unknown", "a"]
    assert column(*["gut"] * 5, *["skin"] * 5, *["blank"] * 5).frequent == ["gut", "skin"]
    assert task_kind(column(*["a"] * 5, *["b"] * 4)) is None
    assert task_kind(column(*["a"] * 5, *["b"] * 5)) == "classification"


def test_eight_classes_are_listed_and_what_is_missing_is_counted():
    eight = [f"c{i % 8}" for i in range(16)]
    assert str(column(*eight, None)).endswith("c7 (2); 1 missing")
    nine = str(column(*[f"c{i % 9}" for i in range(18)]))
    assert nine == "x: classes " + ", ".join(f"c{i} (2)" for i in range(8)) + ", …"
    assert "value that is no number: '90+' (1)" in column(*AGES, "90+").unread_text


PEOPLE = [f"p{i // 2}" for i in range(20)]
HOMES = [f"h{i // 4}" for i in range(20)]


@pytest.mark.parametrize(
    ("fine", "coarse", "expected"),
    [
        (PEOPLE, HOMES, True),
        (HOMES, PEOPLE, False),
        (PEOPLE, [name.upper() for name in PEOPLE], False),
        (PEOPLE, [f"h{i % 3}" for i in range(20)], False),
        # Four fifths of the samples have to have a value.
        (PEOPLE, [*HOMES[:16], *[None] * 4], True),
        (PEOPLE, [*HOMES[:15], *[None] * 5], False),
    ],
)
def test_a_column_lies_within_one_of_fewer_values_that_never_divides_its_own(
    fine, coarse, expected
):
    columns = {one.name: one for one in columns_of(pd.DataFrame({"a": fine, "b": coarse}))}
    assert lies_within(columns["a"], columns["b"]) == expected


@pytest.mark.parametrize(("homes", "proposed"), [(10, "household"), (9, "host")])
def test_the_coarsest_unit_of_ten_values_is_proposed_as_group(homes, proposed):
    host = [f"p{i // 2}" for i in range(80)]
    household = [f"h{min(i // 8, homes - 1)}" for i in range(80)]
    columns = columns_of(pd.DataFrame({"host": host, "household": household}))
    assert propose_grouping(columns).name == proposed


def test_columns_of_studies_and_technical_ones_are_known_by_their_names():
    metadata = METADATA.assign(
        run=["1", "2"] * 30, center=["x", "y", "z"] * 20, study=["s1", "s2"] * 30, site="one"
    )
    columns = columns_of(metadata)
    assert [one.name for one in study_columns(columns)] == ["study", "center", "run"]
    assert [one.name for one in technical_columns(columns)] == ["plate", "run", "center", "study"]


def test_a_column_of_groups_that_is_missing_a_target_or_constant_is_refused():
    columns = columns_of(METADATA)
    assert require_groups(columns, "patient", ["age"], Path("m.tsv")).name == "patient"
    with refused("no column 'patent'", "did you mean 'patient'"):
        require_groups(columns, "patent", [], Path("m.tsv"))
    with refused("no column 'zzzz'", "correct the name"):
        require_groups(columns, "zzzz", [], Path("m.tsv"))
    with refused("groups 'age': got a column to predict"):
        require_groups(columns, "age", ["age"], Path("m.tsv"))
    with refused("groups 'body': got body: one value"):
        require_groups(columns, "body", [], Path("m.tsv"))


def test_a_target_without_values_or_of_names_is_refused():
    columns = columns_of(METADATA.assign(nothing=None))
    with refused("column 'nothing': got no values"):
        require_targets(columns, ["nothing"], Path("m.tsv"))
    with refused("host_id: names, 60 ", "such as 's0', 's1', 's10' and 57"):
        require_targets(columns, ["host_id"], Path("m.tsv"))


NUMBER = np.arange(SAMPLES)
ILL = np.where(NUMBER % 2, "ill", "well")
NEARLY_ALIKE = np.where(NUMBER < 4, "well", ILL)
HALF_ALIKE = np.where(NUMBER < 30, "well", ILL)
AGE = (np.where(NUMBER % 2, 40.0, 20.0) + NUMBER / 60).astype(str)


def sentences_of_task(columns: dict[str, np.ndarray], reads: np.ndarray | None = None) -> list[str]:
    """Return what `check` says of a task that predicts the first of these columns."""
    metadata = pd.DataFrame(columns, index=IDS, dtype=object)
    target = next(iter(columns))
    kind = "regression" if target == "age" else "classification"
    task = {"dataset": "d", "column": target, "kind": kind, "folds": {"k": 3, "groups": False}}
    sections = {"datasets": {"d": {"table": "t"}}, "tasks": {"t": task}}
    settings = describe(load(sections), "d").tasks["t"]
    of_samples = None if reads is None else pd.Series(reads, IDS)
    return [*task_sentences("t", settings, *divide_labelled(metadata, settings), of_samples)]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"ill": ILL, "run": ILL, "plate": ILL},
            "`run`, `plate` each predict the target exactly",
        ),
        ({"ill": ILL, "run": NEARLY_ALIKE}, "`run` (97%) predicts the target nearly exactly"),
        (
            {"ill": ILL, "run": HALF_ALIKE},
            "better than by guessing (50% of a class right) by `run` (75%) alone",
        ),
        (
            {"age": AGE, "run": HALF_ALIKE},
            "better than by guessing (a mean error of 11.3) by `run` (5.09) alone",
        ),
        # A column that is neither technical nor a circumstance may be another form of the target.
        (
            {"ill": ILL, "remark": np.where(NUMBER % 2, "a", "b")},
            "other columns predict the target exactly or nearly by themselves: remark",
        ),
    ],
)
def test_check_names_columns_that_predict_a_target_by_themselves(columns, sentence):
    (text,) = sentences_of_task(columns)
    assert sentence in text


def test_check_says_where_the_number_of_reads_predicts_a_target():
    assert sentences_of_task({"ill": ILL}) == []
    (text,) = sentences_of_task({"ill": ILL}, reads=np.where(NUMBER % 2, 9000, 100) + NUMBER)
    assert "the number of reads of a sample predicts the target exactly" in text


def test_decisions_stand_below_a_refusal_the_cautions_first():
    notes = [Note("a plain one"), Note("a caution", is_caution=True)]
    assert decision_lines([]) == []
    assert decision_lines(notes) == ["Decided for you:", "  a caution", "  a plain one"]
    with pytest.raises(InputError, match="(?s)^refused\nDecided for you:\n  a caution"):
        with with_decisions(notes):
            raise InputError("refused")
    with with_decisions(notes):
        pass


@pytest.fixture
def amounts() -> Study:
    """Return amounts of two genera, without a taxonomy, a tree or sequences."""
    facts = TableFacts(is_counted=False, has_sequences=False, noun="genus")
    counts = csr_array(np.ones((3, 2)))
    return Study(
        table=FeatureTable(["a", "b", "c"], ["x", "y"], counts, facts),
        left_out=pd.DataFrame({"what": ["sample"], "id": ["d"], "why": ["no amounts"]}),
        sequences={},
        metadata=pd.DataFrame({"age": ["1", "2", None]}, ["a", "b", "c"], dtype=object),
    )


def description_of(study: Study) -> str:
    return "\n".join(study_sentences(study, study.metadata, depth=9))


def test_a_table_of_amounts_is_described_without_rarefaction(amounts):
    text = description_of(amounts)
    assert "3 samples, 2 genera, amounts: each sample is scaled to one." in text
    assert "1 samples have no metadata." in text
    assert "1 metadata columns, in 3 samples:" in text
    assert "Rarefaction" not in text
    assert amounts.at_depth(10**9) is amounts.metadata


def test_a_study_has_a_tree_of_its_own_or_of_lineages_or_none(amounts):
    assert "neither sequences nor a tree nor lineages" in description_of(amounts)
    assert not amounts.can_have_tree
    taxa = dataclasses.replace(amounts, taxa={"x": "k__A; p__B", "y": ""})
    assert "50% of the genera have a taxon." in description_of(taxa)
    assert "Their lineages make the tree" in description_of(taxa)
    assert taxa.ranks == {"x": ["k__A", "p__B"], "y": []}
    tree = dataclasses.replace(amounts, has_tree=True)
    assert "The tree has a tip for every genus." in description_of(tree)
    lineages = dataclasses.replace(amounts, lineages={"x": ("k__A",)})
    assert lineages.ranks == {"x": ["k__A"]}
    assert lineages.can_have_tree


def test_a_depth_keeps_the_samples_that_have_as_many_reads():
    frame = METADATA.copy()
    frame.attrs["q2:types"] = {"age": "numeric"}
    study = Study(
        table=table([*[50] * 20, *[99] * 20, *[100] * 20]),
        left_out=pd.DataFrame(columns=["what", "id", "why"]),
        sequences={"a": V4, "b": "A" * 20},
        metadata=frame,
        behind_long_branches=frozenset(["b"]),
    )
    kept = study.at_depth(100)
    assert kept.index.tolist() == IDS[20:], "99 reads of one ASV and 1 of another"
    assert kept.attrs == frame.attrs
    assert study.at_depth(100, drops_long_branches=True).index.tolist() == IDS[40:]
    with refused("rarefaction.depth: got 102"):
        study.at_depth(102)


@pytest.mark.parametrize(
    ("reads", "depth"),
    [
        # One of twenty may be lost, and one of five to reach five hundred.
        ([1] + [600] * 19, 600),
        ([1] * 2 + [600] * 18, 500),
        ([100] * 4 + [600] * 16, 500),
        ([100] * 5 + [600] * 15, 100),
        ([499] * 20, 490),
        ([9999] * 20, 9900),
        ([10_001] * 20, 10_000),
        ([7] * 20, 7),
        ([0] * 20, 1),
        ([129] * 20, 120),
    ],
)
def test_a_proposed_depth_loses_few_samples_and_has_two_digits(reads, depth):
    assert propose_depth(np.array(reads)) == depth


def test_a_depth_of_five_hundred_is_not_called_low():
    reads = np.array([400, 900, 2000])
    assert len([*depth_sentences(reads, 500, are_labelled=False)]) == 1
    first, low = depth_sentences(reads, 499, are_labelled=False)
    assert first == (
        "Of 3 samples, a depth of 249 loses 0, a depth of 499 loses 1, a depth of 998 loses 2."
    )
    assert "499 reads are few" in low


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("ecam/table.qza", "ecam"),
        ("data/feature-table.biom", "mine"),
        ("data/atlas_v2.tsv", "atlas_v2"),
        ("x1/otu.tsv", "mine"),
        ("gut study/table.biom", "gut_study"),
        ("-moving--pictures-.biom", "moving--pictures"),
    ],
)
def test_a_study_is_called_after_its_file_or_folder(path, name):
    assert propose_name(Path(path), "mine") == name


def test_names_of_columns_become_names_of_tasks():
    assert plain_name("Größe (cm)", "x") == "Gr_e_cm"
    assert plain_name("x" * 91, "y") == "x" * 90
    assert plain_name("??", "y") == "y"


def test_a_column_of_classes_and_one_of_numbers_are_proposed_as_targets():
    metadata = METADATA.assign(
        sex=["m", "f", "f"] * 20, diagnosis=["ill", "well"] * 30, bmi=METADATA["age"]
    )
    assert propose_targets(columns_of(metadata)) == ["diagnosis", "age"]


def test_a_column_of_thirty_numbers_is_proposed_as_target():
    for labels, targets in ((30, ["bmi"]), (29, [])):
        frame = pd.DataFrame({"bmi": METADATA["age"].where(np.arange(60) < labels)})
        assert propose_targets(columns_of(frame)) == targets


def columns_with_patients(without: int) -> tuple[Column, Column]:
    """Return the columns of ages, and of patients whom so many samples lack."""
    patient = METADATA["patient"].where(NUMBER >= without)
    columns = columns_of(pd.DataFrame({"patient": patient, "age": METADATA["age"]}, dtype=object))
    by_name = {one.name: one for one in columns}
    return by_name["age"], by_name["patient"]


def test_samples_without_a_group_are_left_out_where_they_are_a_fifth_at_most():
    draft = draft_task(*columns_with_patients(without=12))
    assert (draft.groups, len(draft.samples)) == ("patient", 48)
    assert draft.comments[0].startswith("left out: samples without a value in `patient` (12)")


def test_a_column_that_more_than_a_fifth_lacks_makes_no_groups():
    age, patient = columns_with_patients(without=13)
    draft = draft_task(age, patient)
    assert (draft.groups, len(draft.samples)) == (None, 60)
    assert draft.comments[0].startswith("no groups: `patient` has no value in 13 of 60 samples")
    with refused("a value in 80% of the samples or more"):
        draft_task(age, patient, must_group=True)
