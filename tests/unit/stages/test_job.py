"""The door between Snakemake and a stage."""

import errno
import logging
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors import SafetensorError

from aam.config.sections.execution import Runtime
from aam.stages import job as stage_job


@pytest.mark.parametrize(
    "settings",
    [None, {}, {"workers": 0, "checkpoint_every_s": "2e0", "strategy": "fsdp", "nodes": 2}],
)
def test_settings_reach_the_stage_as_the_configuration_reads_them(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(stage_job.log, "start_log", lambda file: logging.getLogger(__name__))
    snakemake = SimpleNamespace(
        log=[],
        config={} if settings is None else {"runtime": settings},
        params=SimpleNamespace(settings={}, get=lambda name: None),
        resources={},
        threads=3,
        input={},
        output={},
    )
    with stage_job.run_job(snakemake) as found:
        options = found.runtime
    expected = Runtime.model_validate(settings or {})
    assert options.threads == 3, "those that Snakemake grants, whatever the most of a job is"
    for key in Runtime.model_fields.keys() - {"threads"}:
        assert getattr(options, key) == getattr(expected, key)


def test_an_input_that_was_changed_since_ends_as_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stage_job.log, "start_log", lambda file: logging.getLogger(__name__))
    made, given = tmp_path / "made.tsv", []
    params = SimpleNamespace(settings={}, get=lambda name: None)
    job = SimpleNamespace(log=[], config={}, params=params, resources={}, threads=1)
    job.input, job.output = {}, {"table": str(made)}
    with stage_job.run_job(job) as writing:
        writing.outputs["table"].write_text("right")
    job.input, job.output = job.output, {}
    with stage_job.run_job(job) as reading:
        given.append(reading.inputs["table"].read_text())
    made.write_text("wrong")
    with (
        pytest.raises(SystemExit, match="content that its stage did not write"),
        stage_job.run_job(job) as reading,
    ):
        given.append(reading.inputs["table"].read_text())
    assert given == ["right"]


FULL = f"{os.strerror(errno.ENOSPC)} (os error 28)"


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, FULL, "x"), shutil.Error([("x", "y", FULL)]), SafetensorError(FULL)],
    ids=lambda error: type(error).__name__,
)
def test_a_full_disk_ends_as_one_message_even_where_the_log_has_no_room(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_job.log, "start_log", lambda file: logging.getLogger(__name__))
    params = SimpleNamespace(settings={}, get=lambda name: None)
    job = SimpleNamespace(log=["/dev/full"], config={}, params=params, resources={}, threads=1)
    job.input = job.output = {}

    with (
        pytest.raises(SystemExit, match="no room on the disk.*Hint: free some"),
        stage_job.run_job(job),
    ):
        raise error
    with pytest.raises(ZeroDivisionError), stage_job.run_job(job):
        raise ZeroDivisionError
