from pathlib import Path

import psutil
import pytest

from aam.util import worklog
from benchmarks.worklog import read_work


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
