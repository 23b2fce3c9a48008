import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from aam.config.sections.finetuning import Finetuning
from aam.data.predictions import read_predictions
from aam.tasks.finetune import parallel, recipes
from aam.train.loop import TimeIsUp
from aam.util.errors import InputError
from aam.util.run_options import RunOptions


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch) -> None:
    """Hide the accelerator from this process, and from those that it starts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.fixture
def run(study, pretrained):
    def finetuning(folder: Path, recipe: str = "full", networks: int = 1, **options) -> None:
        settings = {"recipe": recipe, "networks": networks}
        study.finetune(folder, "age", settings, options, model=pretrained["model"])

    return finetuning


@pytest.fixture
def forking(monkeypatch) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which processes have imported torch, and see what tests change."""

    @contextmanager
    def fork() -> Iterator[None]:
        with monkeypatch.context() as patch:
            context = multiprocessing.get_context("fork")
            patch.setattr(multiprocessing, "get_context", lambda _method: context)
            yield

    return fork


def test_neither_the_number_of_cores_nor_a_time_limit_changes_a_byte(run, forking, tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    with pytest.raises(TimeIsUp, match="run the same command again"), forking():
        run(two, threads=2, deadline=time.time())
    assert [path.name for path in two.iterdir()] == ["work"]
    run(two, threads=2)
    run(one, threads=1)
    paths = [path.relative_to(one) for path in one.rglob("*.*")]
    assert "model.safetensors" in {path.name for path in paths}
    for path in (*paths, "digests", "predictions"):
        assert (one / path).read_bytes() == (two / path).read_bytes(), path


def test_recipes_are_the_same_whatever_the_processes_and_their_curves_are_their_own(
    run, forking, tmp_path, monkeypatch
):
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    for folder, threads in ((tmp_path / "1", 1), (tmp_path / "2", 2)):
        with forking():
            run(folder, "auto", networks=2, threads=threads, log_dir=folder / "curves")
    for name in ("recipes", "predictions", "digests", "nested"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
    table = read_predictions(tmp_path / "1" / "recipes")
    weight = pd.to_numeric(table.groupby(["fold", "recipe"], sort=False)["weight"].first())
    np.testing.assert_allclose(weight.groupby("fold").sum(), 1, rtol=1e-6)
    curves = {path.parent.parent.name for path in (tmp_path / "1").rglob("events*")}
    expected = {
        f"fold{fold}-{recipe}{number}"
        # Two networks are asked for, and the budget has room for a third.
        for fold, recipe, number in product("01", ("partial", "full"), ("", "-1", "-2"))
    }
    # Of two folds each is left out with two parts of the other.
    inner = {
        f"without{fold}+part{part}-{recipe}"
        for fold, part, recipe in product("01", "01", ("partial", "full"))
    }
    assert curves == expected | inner
    trained = {path.name for path in (tmp_path / "1" / "model").glob("fold*")}
    assert trained == expected | {"fold0-kernel", "fold1-kernel"}


def test_every_process_has_its_part_of_each_recipe():
    models = [
        parallel.ModelKey(recipe, fold)
        for fold in range(4)
        for recipe in ("kernel", "partial", "full")
    ]
    turns = parallel.divide_models(models, 2)
    assert Counter(sum(turns, [])) == Counter(models)
    for turn in turns:
        assert Counter(model.recipe for model in turn) == {"kernel": 2, "partial": 2, "full": 2}
        assert [model.fold for model in turn] == sorted(model.fold for model in turn)


def test_a_model_has_one_core_and_a_frozen_encoder_one_process(run, tmp_path, monkeypatch):
    cores = RunOptions(threads=8, devices=2)
    assert parallel.processes(Finetuning(), 10, cores) == 8
    assert parallel.processes(Finetuning(recipe="partial"), 3, cores) == 3
    assert parallel.processes(Finetuning(recipe="frozen"), 3, cores) == 1
    numbers = []
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    run(tmp_path, "frozen", threads=4)
    assert set(numbers) == {1}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert parallel.threads_of_a_model(threads=4) == 4
    assert parallel.processes(Finetuning(), 10, cores) == 2


@pytest.mark.parametrize(
    ("free_gb", "noise_gb", "own_gb"), [(40.0, 0.3, 9.0), (9.0, 0.1, 2.0), (3.0, 0.05, 0.5)]
)
def test_free_memory_is_shared_and_its_noise_forgotten(monkeypatch, free_gb, noise_gb, own_gb):
    """Of 4 processes; 0.9 of what is free may be taken."""
    for free in (free_gb, free_gb + noise_gb):
        monkeypatch.setattr(parallel, "host_budget_mb", lambda limit, gb=free: 0.9 * gb * 1024)
        assert parallel._memory_gb(RunOptions(), 4) == own_gb
    assert parallel._memory_gb(RunOptions(max_memory_gb=10.0), 4) == 2.5


@pytest.mark.parametrize("error", [ValueError("odd weights"), InputError("odd weights")])
def test_a_process_says_at_once_what_stopped_it(monkeypatch, caplog, error):
    def fail(models, runtime):
        raise error

    monkeypatch.setattr(parallel.log, "start_log", lambda path: None)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with pytest.raises(type(error)):
        parallel._process(fail, [(0, "full", 0)], RunOptions(), os.getppid())
    record = caplog.records[-1]
    assert record.levelname == "ERROR"
    assert "odd weights" in caplog.text
    assert (record.exc_info is None) == isinstance(error, InputError), "a user needs no traceback"
