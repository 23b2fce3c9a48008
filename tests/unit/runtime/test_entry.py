"""The door between Snakemake and a stage."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aam.config.sections.execution import Runtime
from aam.runtime import entry
from aam.runtime.run_options import RunOptions


@pytest.mark.parametrize(
    "settings",
    [None, {}, {"workers": 0, "checkpoint_every_s": "2e0", "strategy": "fsdp", "nodes": 2}],
)
def test_settings_reach_the_stage_as_the_configuration_reads_them(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(entry.log, "start", lambda file: logging.getLogger(__name__))
    given: list[RunOptions] = []
    snakemake = SimpleNamespace(
        log=[],
        config={} if settings is None else {"runtime": settings},
        params=SimpleNamespace(cfg={}, get=lambda name: None),
        resources={},
        threads=3,
        input={},
        output={},
    )
    entry.main(lambda cfg, *, inputs, outputs, runtime: given.append(runtime), snakemake)
    (options,), expected = given, Runtime.model_validate(settings or {})
    assert options.threads == 3, "those that Snakemake grants, whatever the most of a job is"
    for key in Runtime.model_fields.keys() - {"threads"}:
        assert getattr(options, key) == getattr(expected, key)


def test_an_input_that_was_changed_since_ends_as_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(entry.log, "start", lambda file: logging.getLogger(__name__))
    made, given = tmp_path / "made.tsv", []
    params = SimpleNamespace(cfg={}, get=lambda name: None)
    job = SimpleNamespace(log=[], config={}, params=params, resources={}, threads=1)
    job.input, job.output = {}, {"table": str(made)}
    entry.main(lambda cfg, *, outputs, **others: outputs["table"].write_text("right"), job)
    job.input, job.output = job.output, {}
    entry.main(lambda cfg, *, inputs, **others: given.append(inputs["table"].read_text()), job)
    made.write_text("wrong")
    with pytest.raises(SystemExit, match="content that its stage did not write"):
        entry.main(lambda cfg, *, inputs, **others: given.append(inputs["table"].read_text()), job)
    assert given == ["right"]
