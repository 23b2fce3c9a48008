"""The door between Snakemake and a stage."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from aam.config.sections.execution import Runtime
from aam.runtime import entry
from aam.runtime.run_options import RunOptions


@pytest.fixture(autouse=True)
def _logging_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.log, "start", lambda file: logging.getLogger(__name__))


def context_of(**config: Any) -> RunOptions:
    """Return what a stage is told when Snakemake has this configuration."""
    told: list[RunOptions] = []
    snakemake = SimpleNamespace(
        log=[],
        config=config,
        params=SimpleNamespace(cfg={}, get=lambda name: None),
        resources={},
        threads=3,
        input={},
        output={},
    )
    entry.main(lambda cfg, *, inputs, outputs, runtime: told.append(runtime), snakemake)
    return told[0]


@pytest.mark.parametrize("config", [{}, {"runtime": None}, {"runtime": {}}])
def test_defaults_are_those_of_the_configuration(config: dict[str, Any]) -> None:
    context, defaults = context_of(**config), Runtime()
    assert context.threads == 3, "those that Snakemake grants, whatever the most of a job is"
    for key in Runtime.model_fields.keys() - {"threads"}:
        assert getattr(context, key) == getattr(defaults, key)


def test_settings_reach_the_stage_as_numbers() -> None:
    context = context_of(runtime={"workers": 0, "checkpoint_every_s": "2e0"})
    assert (context.workers, context.checkpoint_every_s) == (0, 2.0)
    assert context.max_memory_gb == Runtime().max_memory_gb
