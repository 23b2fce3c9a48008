"""Samples that `where` of a task keeps, and what is said where it keeps fewer than it could."""

import logging

import pandas as pd
import pytest

from aam.data.target_columns import BeforeRarefaction, samples_where
from aam.util.errors import InputError

METADATA = pd.DataFrame({"site": ["gut", "gut", "skin", None]}, index=["s1", "s2", "s3", "s4"])


def test_values_that_no_sample_has_are_told_and_others_taken_in_silence(caplog):
    with caplog.at_level(logging.WARNING):
        assert samples_where(METADATA, {"site": ["gut"]}).index.tolist() == ["s1", "s2"]
        assert not caplog.text
        found = samples_where(METADATA, {"site": ["skin", "oral"]})
    assert found.index.tolist() == ["s3"]
    assert "'site': no sample has 'oral'" in caplog.text
    assert "'gut', 'skin'" in caplog.text


def test_where_no_sample_is_kept_rarefaction_is_the_cause_if_it_dropped_them():
    drawn = METADATA.loc[["s1", "s2"]]
    with pytest.raises(InputError, match=r"site.*value.* in 2 samples.*'skin'.*correct the values"):
        samples_where(drawn, {"site": ["skin"]})
    before = BeforeRarefaction(METADATA, depth=1000)
    dropped = r"'skin' in none of the samples .*depth 1000.* there were 1.*lower rarefaction.depth"
    with pytest.raises(InputError, match=dropped):
        samples_where(drawn, {"site": ["skin"]}, before)
    # It did not drop what was not there.
    with pytest.raises(InputError, match="correct the values of `where`"):
        samples_where(drawn, {"site": ["oral"]}, before)
