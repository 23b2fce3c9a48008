"""Pretraining on distances that memory has no room for ends with the same bytes."""

import logging
from pathlib import Path

import pytest

from aam.runtime.run_options import RunOptions
from aam.stages import pretrain
from aam.tasks.pretrain import preparation


def outputs_of(study, folder: Path, sampler: str) -> dict[str, Path]:
    cfg = study.pretrain_slice()
    names = ("model", "metrics", "history", "embeddings", "asvs", "pairs")
    outputs = {name: folder / name for name in names}
    pretrain.run(
        {**cfg, "pretraining": {**cfg["pretraining"], "epochs": 1, "sampler": sampler}},
        inputs=study.pretraining_inputs,
        outputs=outputs,
        runtime=RunOptions(work=folder / "work"),
    )
    return outputs


@pytest.mark.parametrize("sampler", ["uniform", "blocks"])
def test_the_model_does_not_depend_on_where_the_distances_lie(
    study, tmp_path, monkeypatch, caplog, sampler
):
    in_memory = outputs_of(study, tmp_path / "memory", sampler)
    monkeypatch.setattr(preparation, "DISTANCES_FRACTION", 0.0)
    with caplog.at_level(logging.INFO):
        mapped = outputs_of(study, tmp_path / "mapped", sampler)
    assert sum("are mapped from files" in message for message in caplog.messages) == 1
    for name in ("embeddings", "asvs", "pairs"):
        assert in_memory[name].read_bytes() == mapped[name].read_bytes()
    weights = [outputs["model"] / "model.safetensors" for outputs in (in_memory, mapped)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not (tmp_path / "mapped" / "work").exists()


@pytest.mark.parametrize("fraction", [0.5, 0.0])
def test_it_is_known_how_much_is_mapped(study, tmp_path, monkeypatch, fraction):
    monkeypatch.setattr(preparation, "DISTANCES_FRACTION", fraction)
    prepared = preparation.prepare(study.pretrain_slice(), study.pretraining_inputs, work=tmp_path)
    assert prepared.mapped_mb * 2**20 == (0 if fraction else 4 * 20 * 20)


def test_a_limit_of_memory_is_kept_by_all_processes_together():
    left_mb = 2.0**10
    held_gb = preparation.held_mb(preparation.torch.device("cpu")) / 2**10
    one, four = (preparation._room(held_gb + left_mb / 2**10, number) for number in (1, 4))
    assert one == pytest.approx(4 * four, rel=0.1)
    assert one < left_mb * 2**20
    assert preparation._room(held_gb / 2, 1) == 0
