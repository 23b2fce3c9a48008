"""The part of a run in which no stage was at work."""

from pathlib import Path

import psutil
import pytest

from aam.util import worklog
from benchmarks import overhead
from benchmarks.worklog import Work, read_work


def test_where_the_time_went() -> None:
    spans = (11.0, 12.0, 20.0), (13.0, 15.0, 22.0), (27.0, 30.0, 35.0)
    works = [Work(started, begun, ended, 1.0, 1, 1) for started, begun, ended in spans]
    found = overhead.wall_time(works, 10.0, 40.0)
    assert found == overhead.WallTime(30.0, 15.0, 4.0, before_s=1.0, between_s=5.0, after_s=5.0)
    text = overhead.report(works, found)
    for words in ("3 stages, 20.0 s in all", "6.0 s in all: imports", "50.0 % of the wall time"):
        assert words in text
    assert text.endswith("not even starting: 36.7 %")


def test_a_log_tells_of_its_work_unless_it_failed(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO")
    with worklog.at_work():
        pass
    (tmp_path / "good.log").write_text(caplog.text)
    caplog.clear()
    with pytest.raises(AssertionError), worklog.at_work():
        raise AssertionError
    assert not caplog.text
    work = read_work(tmp_path / "good.log")
    assert work is not None
    assert 0.0 <= work.seconds < 60.0
    assert work.started_s < work.begun_s
    assert work.started_s == pytest.approx(psutil.Process().create_time(), abs=2)
    assert 0.0 <= work.cores_s < 60.0
    assert 10 < work.first_mb <= work.peak_mb < 10_000
