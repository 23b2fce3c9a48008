import psutil
import pytest

from aam.util.log import log_work, read_work


def test_a_log_tells_of_its_work_unless_it_failed(caplog) -> None:
    caplog.set_level("INFO")
    with log_work():
        pass
    log = caplog.text
    caplog.clear()
    with pytest.raises(AssertionError), log_work():
        raise AssertionError
    assert read_work(caplog.text) is None
    work = read_work(log)
    assert work is not None
    assert 0.0 <= work.seconds < 60.0
    assert work.started_s < work.begun_s
    assert work.started_s == pytest.approx(psutil.Process().create_time(), abs=2)
    assert 0.0 <= work.cores_s < 60.0
    assert 10 < work.first_mb <= work.peak_mb < 10_000
