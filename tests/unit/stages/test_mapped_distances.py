"""Pretraining on distances that memory has no room for ends with the same bytes."""

import logging
from pathlib import Path

import pytest

from aam.stages import pretrain
from aam.stages.entry import RunContext
from aam.train import preparation


def outputs_of(study, folder: Path, sampler: str) -> dict[str, Path]:
    cfg = study.pretrain_slice()
    names = ("model", "metrics", "history", "embeddings", "asvs", "pairs")
    outputs = {name: folder / name for name in names}
    pretrain.run(
        {**cfg, "pretraining": {**cfg["pretraining"], "epochs": 1, "sampler": sampler}},
        inputs=study.pretraining_inputs,
        outputs=outputs,
        runtime=RunContext(work=folder / "work"),
    )
    return outputs


@pytest.mark.parametrize("sampler", ["uniform", "blocks"])
def test_the_model_does_not_depend_on_where_the_distances_lie(
    study, tmp_path, monkeypatch, caplog, sampler
):
    in_memory = outputs_of(study, tmp_path / "memory", sampler)
    monkeypatch.setattr(preparation, "DISTANCES_SHARE", 0.0)
    with caplog.at_level(logging.INFO):
        mapped = outputs_of(study, tmp_path / "mapped", sampler)
    assert sum("are mapped from files" in message for message in caplog.messages) == 1
    for name in ("embeddings", "asvs", "pairs"):
        assert in_memory[name].read_bytes() == mapped[name].read_bytes()
    weights = [outputs["model"] / "model.safetensors" for outputs in (in_memory, mapped)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not (tmp_path / "mapped" / "work").exists()
