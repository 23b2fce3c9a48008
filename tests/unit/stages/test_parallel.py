"""Models of a task that are trained at a time."""

import os
import time
from pathlib import Path

import pytest
import torch

from aam.config.sections.finetuning import Finetuning
from aam.runtime.run_options import RunOptions
from aam.stages import finetune
from aam.tasks.finetune import parallel
from aam.tasks.finetune.parallel import processes, threads_of_a_model
from aam.train.loop import TimeIsUp
from aam.util.errors import InputError

OUTPUTS = ("model", "predictions", "history", "digests")


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch) -> None:
    """Hide the accelerator from this process, and from those that it starts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


def run(study, pretrained, folder: Path, encoder: str = "full", **runtime) -> dict[str, Path]:
    outputs = {name: folder / name for name in OUTPUTS}
    inputs = {**study.task_inputs("age"), "model": pretrained["model"]}
    cfg = study.finetune_slice("age")
    cfg["finetuning"]["encoder"] = encoder
    context = RunOptions(work=folder / "work", **runtime)
    finetune.run(cfg, inputs=inputs, outputs=outputs, runtime=context)
    return outputs


@pytest.mark.parametrize("encoder", ["full", "partial", "frozen"])
def test_the_number_of_cores_changes_no_byte(study, pretrained, tmp_path, encoder):
    one, two = (
        run(study, pretrained, tmp_path / str(threads), encoder, threads=threads)
        for threads in (1, 2)
    )
    assert one["digests"].read_bytes() == two["digests"].read_bytes()
    assert one["predictions"].read_bytes() == two["predictions"].read_bytes()
    files = sorted(path.relative_to(one["model"]) for path in one["model"].rglob("*.*"))
    assert any(path.name == "model.safetensors" for path in files)
    for path in files:
        assert (one["model"] / path).read_bytes() == (two["model"] / path).read_bytes(), path


def test_the_time_limit_ends_all_processes_with_nothing_declared_written(
    study, pretrained, tmp_path
):
    with pytest.raises(TimeIsUp, match="run the same command again"):
        run(study, pretrained, tmp_path, threads=2, deadline=time.time())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


@pytest.mark.parametrize("encoder", ["full", "partial", "frozen"])
def test_a_model_has_one_core_and_a_frozen_encoder_one_process(encoder, monkeypatch):
    settings = Finetuning(encoder=encoder)
    assert threads_of_a_model(threads=4) == 1
    assert processes(settings, models=10, threads=4) == (1 if encoder == "frozen" else 4)
    assert processes(settings, models=3, threads=8) == (1 if encoder == "frozen" else 3)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert threads_of_a_model(threads=4) == 4, "an accelerator has one process with all cores"
    assert processes(settings, models=10, threads=4) == 1


def test_a_frozen_encoder_is_run_in_one_thread(study, pretrained, tmp_path, monkeypatch):
    """Sums in other threads have other last bits, which a small table need not show."""
    numbers = []
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    run(study, pretrained, tmp_path, "frozen", threads=4)
    assert set(numbers) == {1}


@pytest.mark.parametrize(
    ("free_gb", "noise_gb", "own_gb"), [(40.0, 0.3, 9.0), (9.0, 0.1, 2.0), (3.0, 0.05, 0.5)]
)
def test_free_memory_is_shared_and_its_noise_forgotten(monkeypatch, free_gb, noise_gb, own_gb):
    """Of 4 processes; 0.9 of what is free may be taken."""
    for free in (free_gb, free_gb + noise_gb):
        monkeypatch.setattr(parallel, "budget_mb", lambda limit, device, gb=free: 0.9 * gb * 1024)
        assert parallel._memory_gb(RunOptions(), 4) == own_gb
    assert parallel._memory_gb(RunOptions(max_memory_gb=10.0), 4) == 2.5


@pytest.mark.parametrize("error", [ValueError("odd weights"), InputError("odd weights")])
def test_a_process_says_at_once_what_stopped_it(monkeypatch, caplog, error):
    def fail(models, runtime):
        raise error

    monkeypatch.setattr(parallel.log, "start", lambda path: None)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with pytest.raises(type(error)):
        parallel._process(fail, [(0, 0)], RunOptions(), os.getppid())
    record = caplog.records[-1]
    assert record.levelname == "ERROR"
    assert "odd weights" in caplog.text
    assert (record.exc_info is None) == isinstance(error, InputError), "a user needs no traceback"
