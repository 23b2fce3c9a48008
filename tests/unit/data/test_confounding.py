"""Columns of the metadata that predict a target without a read."""

import numpy as np
import pandas as pd
import pytest

from aam.data.confounding import confounders, is_technical, predictive_columns

SAMPLES = 60
IDS = [f"s{i}" for i in range(SAMPLES)]
NUMBER = np.arange(SAMPLES)
CLASSES = pd.Series(np.where(NUMBER % 2, "ill", "well"), index=IDS)
AGES = pd.Series(20.0 + 10 * (NUMBER % 5), index=IDS)


def found_for(target, column, *, kind="classification", name="plate", exclude=(), groups=None):
    values = np.asarray(column, dtype=object)
    metadata = pd.DataFrame({name: values}, index=IDS)
    return confounders(target, metadata, kind=kind, exclude=exclude, seed=0, groups=groups)


def test_a_plate_that_predicts_the_classes_exactly_or_nearly():
    plate = np.where(NUMBER % 2, "p1", "p2")
    assert found_for(CLASSES, plate) == [{"column": "plate", "score": 1.0, "kind": "exact"}]
    plate[:4] = "p1"
    (nearly,) = found_for(CLASSES, plate)
    assert nearly["kind"] == "nearly"
    assert nearly["score"] == pytest.approx((28 / 30 + 1) / 2)
    plate[:20] = "p1"
    assert found_for(CLASSES, plate) == [], "two thirds of the well ones are on their own plate"
    several = [f"{one} {number % 5}" for number, one in enumerate(np.where(NUMBER % 2, "a", "b"))]
    assert found_for(CLASSES, several)[0]["kind"] == "exact", "ten plates of six"


def test_numbers_that_are_constant_in_a_batch():
    batch = NUMBER % 5
    assert found_for(AGES, batch, kind="regression", name="batch")[0]["kind"] == "exact"
    noisy = AGES + np.random.default_rng(0).normal(0, 3, SAMPLES)
    (nearly,) = found_for(noisy, batch, kind="regression", name="batch")
    assert 0.9 < nearly["score"] < 1
    assert nearly["kind"] == "nearly"
    wide = AGES + np.random.default_rng(0).normal(0, 20, SAMPLES)
    assert found_for(wide, batch, kind="regression", name="batch") == []
    as_text = AGES.map(repr)
    assert found_for(as_text, batch, kind="regression")[0]["kind"] == "exact"


def test_a_column_with_nearly_as_many_values_as_samples_predicts_nothing():
    assert found_for(CLASSES, IDS, name="barcode") == []
    pairs = [f"b{number}" if number < 50 else CLASSES.iloc[number] for number in NUMBER]
    assert found_for(CLASSES, pairs, name="barcode") == []
    assert found_for(AGES, AGES + NUMBER / 1000, kind="regression", name="barcode") == []


def test_chance_raises_no_alarm():
    """Plates, of two to twenty samples each, that are drawn at random: 300 draws."""
    rng = np.random.default_rng(0)
    for draw in range(300):
        plates = [2, 5, 30][draw % 3]
        assert found_for(CLASSES, rng.permutation(NUMBER % plates)) == []
        assert found_for(AGES, rng.permutation(NUMBER % plates), kind="regression") == []


def test_a_sample_is_never_predicted_by_its_own_group():
    """Twelve people of five samples: each has one class, and a plate of their own."""
    person = pd.Series([f"person {number // 5}" for number in NUMBER], index=IDS)
    diagnosis = pd.Series(np.where(NUMBER // 5 % 2, "ill", "well"), index=IDS)
    assert found_for(diagnosis, person)[0]["kind"] == "exact"
    assert found_for(diagnosis, person, groups=person) == []
    center = np.where(NUMBER // 5 % 2, "north", "south")
    assert found_for(diagnosis, center, name="center", groups=person)[0]["kind"] == "exact"
    alone = pd.Series("", index=IDS)
    assert found_for(diagnosis, person, groups=alone) == found_for(diagnosis, person)


def test_a_plate_that_all_of_a_rare_class_are_on_is_found():
    """Of 60 samples 6 are ill; their plate has 5 others: most on it are ill, and all ill are."""
    rare = pd.Series(np.where(NUMBER < 6, "ill", "well"), index=IDS)
    (found,) = found_for(rare, np.where(NUMBER < 11, "p1", "p2"))
    assert found["kind"] == "nearly"
    assert found["score"] == pytest.approx((1 + 49 / 54) / 2)


def test_a_value_that_is_missing_in_one_class_alone_predicts_it():
    run = np.where(NUMBER % 2, "r1", None)
    assert found_for(CLASSES, run, name="sequencing_run")[0]["kind"] == "exact"


def test_technical_columns_are_confounders_and_others_only_predictive():
    region = np.where(NUMBER % 2, "north", "south")
    metadata = pd.DataFrame(
        {"diagnosis": CLASSES, "region": region, "run": region, "same": "x"}, index=IDS
    )
    found = {
        search: [
            entry["column"]
            for entry in search(
                CLASSES, metadata, kind="classification", exclude=["diagnosis"], seed=0
            )
        ]
        for search in (predictive_columns, confounders)
    }
    assert found == {predictive_columns: ["region", "run"], confounders: ["run"]}


def test_by_chance_alone_a_column_of_few_groups_is_not_found_unless_it_is_technical():
    """Six people: one in ten columns of three and three predicts their classes."""
    number = np.arange(24)
    person = pd.Series([f"person {i}" for i in number // 4], index=number)
    target = pd.Series(np.where(number // 4 < 3, "ill", "well"), index=number)
    metadata = pd.DataFrame({"hobby": target, "plate": target})
    found = predictive_columns(
        target, metadata, kind="classification", exclude=[], seed=0, groups=person
    )
    assert [entry["column"] for entry in found] == ["plate"]


def test_of_few_samples_nothing_is_said():
    few = pd.Series(["a", "b"] * 4)
    metadata = pd.DataFrame({"plate": few})
    assert confounders(few, metadata, kind="classification", exclude=[], seed=0) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(
            (name, True)
            for name in (
                *("run", "Run_ID", "run_prefix", "sequencing_run", "plate", "PlateNumber", "batch"),
                *("extraction_kit", "BarcodeSequence", "LinkerPrimerSequence", "center_name"),
                *("centre", "run_center", "qiita_study_id", "study", "instrument_model", "lane"),
            )
        ),
        *(
            (name, False)
            for name in (
                *("platelets", "template", "airplane", "trunk_fat", "running_km", "consequence"),
                *("study_arm", "study_group", "city", "percent_fat", "brunch", "centered_age"),
            )
        ),
    ],
)
def test_technical_columns_are_known_by_their_names(name, expected):
    assert is_technical(name) == expected
