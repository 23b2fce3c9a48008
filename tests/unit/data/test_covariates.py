import logging

import numpy as np
import pandas as pd
import pytest

from aam.data.covariates import read_covariates
from aam.util.errors import InputError


def metadata(**columns) -> pd.DataFrame:
    frame = pd.DataFrame(columns, dtype=object)
    return frame.set_index(pd.Index([f"s{i}" for i in range(len(frame))], name="sample-id"))


def test_columns_are_numbers_or_categories_and_what_is_missing_stays_so():
    ages = [str(20 + i) for i in range(30)]
    frame = metadata(
        age=[None, *ages], sex=[*"mf" * 15, None], code=["01", "02", "03"] * 10 + ["01"]
    )
    found = read_covariates(frame, ["age", "sex", "code"])
    assert np.isnan(found.numbers["age"][0])
    assert found.numbers["age"][1:].tolist() == list(range(20, 50))
    assert found.categories["sex"].tolist() == [*"mf" * 15, ""]
    assert found.categories.keys() == {"sex", "code"}
    assert found.samples == 31


def test_a_declared_type_decides():
    frame = metadata(visit=[str(i % 12) for i in range(36)])
    assert read_covariates(frame, ["visit"]).numbers.keys() == {"visit"}
    # Pandas 2 keeps the columns that were asked for, and with them the attributes of that time.
    declared = frame.copy()
    declared.attrs["q2:types"] = {"visit": "categorical"}
    assert read_covariates(declared, ["visit"]).categories.keys() == {"visit"}


@pytest.mark.parametrize(
    ("columns", "wanted", "facts"),
    [
        ({"age": [*map(str, range(20, 49)), "old"]}, "age", ["age", "old"]),
        ({"age": [*map(str, range(30))]}, "agee", ["agee", "'age'"]),
    ],
)
def test_what_cannot_be_read_is_named(columns, wanted, facts):
    with pytest.raises(InputError) as raised:
        read_covariates(metadata(**columns), [wanted])
    assert [fact for fact in facts if fact not in str(raised.value)] == []


def test_columns_that_say_nothing_are_named(caplog):
    frame = metadata(site=["gut"] * 30, name=[f"person {i}" for i in range(30)], sex=[*"mf" * 15])
    with caplog.at_level(logging.WARNING):
        read_covariates(frame, ["site", "name", "sex"])
    said = [record.getMessage() for record in caplog.records]
    assert [("'site'" in text, "'name'" in text) for text in said] == [(True, False), (False, True)]
