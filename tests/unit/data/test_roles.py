"""What columns are by their names, and what is proposed for headers of public studies."""

import pytest
import yaml
from gallery.headers import HEADERS, Header

from aam.config.configuration import load
from aam.data.roles import UnitName, is_blank, is_technical, unit_name, words_of
from aam.data.study.columns import columns_of, propose_grouping
from aam.data.study.proposal import propose_configuration

FILES = {"table": "t.biom", "metadata": "m.tsv"}


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name.split(":")[0])
def test_units_and_tasks_of_public_headers(header: Header) -> None:
    columns = columns_of(header.metadata())
    found = propose_grouping(columns)
    assert (found and found.name) == header.groups
    text = propose_configuration(FILES, columns, 1000)
    uncommented = text.replace("\n#  ", "\n  ") if "tasks:\n" in text else text
    tasks = yaml.safe_load("x:\n" + uncommented.partition("tasks:\n")[2])["x"] or {}
    proposed = [task["column"] for task in tasks.values()]
    assert proposed[0] in header.first if header.first else not proposed
    assert set(header.tasks) <= set(proposed)
    assert not set(header.never) & set(proposed)
    of_numbers = {task["column"] for task in tasks.values() if task["kind"] == "regression"}
    assert of_numbers == header.of_numbers & set(proposed)
    load(yaml.safe_load(text))


@pytest.mark.parametrize(
    "name", ["HOST_SUBJECT_ID", "hostSubjectId", "Host subject ID", "host-subject.id"]
)
def test_a_name_has_the_same_words_however_it_is_written(name: str) -> None:
    assert words_of(name) == ("host", "subject", "id")
    assert unit_name(name) == UnitName.UNIT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cage", UnitName.UNIT),
        ("Mouse #", UnitName.UNIT),
        ("family_of_origin", UnitName.ABOUT_UNITS),
        ("plot", UnitName.PLACE),
        ("cube_id", UnitName.OTHER_ID),
        *((name, None) for name in ("well_id", "sample_id", "tube_id", "run_id", "biosample_id")),
        *((name, None) for name in ("body_site", "depth", "animal_run", "host_taxid")),
    ],
)
def test_units_are_known_by_their_names(name: str, expected: UnitName | None) -> None:
    assert unit_name(name) == expected


@pytest.mark.parametrize(
    "name", ["SEQ", "tm300_8_tool", "WELL", "kit lot", "DNA_conc", "freezer_box"]
)
def test_what_a_laboratory_writes_down_is_technical(name: str) -> None:
    assert is_technical(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, True) for text in ("BLANK1.1A", "10317.BLANK.3", "NTC", "neg_control_2")),
        *((text, True) for text in ("control blank", "Extraction control", "ZymoMock", "PCR-neg")),
        *((text, False) for text in ("control", "negative", "HC12", "blanket", "Mock infected")),
    ],
)
def test_blanks_are_known_by_their_names(text: str, expected: bool) -> None:
    assert is_blank(text) == expected
