"""Models of a task that are trained at a time."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from aam.config.sections.training import Finetuning
from aam.stages import finetune
from aam.stages.entry import RunContext
from aam.stages.pace import MARGIN_S
from aam.stages.processes import processes
from aam.train.loop import TimeIsUp

OUTPUTS = ("model", "predictions", "history")


def run(study, pretrained, folder: Path, **runtime) -> dict[str, Path]:
    outputs = {name: folder / name for name in OUTPUTS}
    inputs = {**study.task_inputs("age"), "model": pretrained["model"]}
    context = RunContext(work=folder / "work", **runtime)
    finetune.run(study.finetune_slice("age"), inputs=inputs, outputs=outputs, runtime=context)
    return outputs


def test_the_number_of_cores_changes_no_byte(study, pretrained, tmp_path):
    one, two = (
        run(study, pretrained, tmp_path / str(threads), threads=threads) for threads in (1, 2)
    )
    assert one["predictions"].read_bytes() == two["predictions"].read_bytes()
    files = sorted(path.relative_to(one["model"]) for path in one["model"].rglob("*.*"))
    assert any(path.name == "model.safetensors" for path in files)
    for path in files:
        assert (one["model"] / path).read_bytes() == (two["model"] / path).read_bytes(), path


def test_the_time_limit_ends_all_processes_with_nothing_declared_written(
    study, pretrained, tmp_path
):
    with pytest.raises(TimeIsUp, match="run the same command again"):
        run(study, pretrained, tmp_path, threads=2, time_limit_s=MARGIN_S)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


def test_heads_alone_take_one_process_and_others_one_per_core():
    settings = Finetuning()
    assert processes(settings, models=10, threads=4) == 4
    assert processes(settings, models=3, threads=8) == 3
    assert processes(replace_encoder(settings, "frozen"), models=10, threads=4) == 1


def replace_encoder(settings: Finetuning, encoder: str) -> Finetuning:
    return settings.model_copy(update={"encoder": encoder})


def test_processes_end_with_the_one_that_began_them(tmp_path):
    script = Path(__file__).with_name("orphans.py")
    with subprocess.Popen([sys.executable, script, tmp_path]) as parent:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.send_signal(signal.SIGKILL)
    numbers = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: not any(map(psutil.pid_exists, numbers)))


def wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("waited for a minute")
