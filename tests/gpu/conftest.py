"""The device of each test: `make gpu` runs those on CUDA, `make test` those on the CPU too.

Tests that compare with a CPU run on CUDA alone: a CPU would be compared with itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import torch
from unit.conftest import make, new_encoder, one_thread, tiny
from unit.train.conftest import train

__all__ = ["make", "new_encoder", "one_thread", "tiny", "train"]


@contextmanager
def without_cuda() -> Iterator[None]:
    """Compute on the CPU in the block, whatever there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


@pytest.fixture(scope="session")
def on_cpu() -> Callable:
    """Return the context manager in which a CPU computes."""
    return without_cuda


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def device(request, one_thread) -> Iterator[torch.device]:
    """Compute on this device in the test, and in the fixtures that depend on this one."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("there is no accelerator, and a CPU cannot fail this")
        yield torch.device("cuda")
        return
    with without_cuda():
        yield torch.device("cpu")


@pytest.fixture(scope="session")
def pretrained_here(device, study, tmp_path_factory) -> dict[str, Path]:
    """Return the outputs of a pretraining on the device."""
    return study.pretrain(tmp_path_factory.mktemp(f"pretrained-{device.type}"))


@pytest.fixture(scope="session")
def finetuned_here(
    device, study, pretrained_here, tmp_path_factory
) -> Callable[..., dict[str, Path]]:
    """Return the function that fine-tunes a task on the device, once for the same settings."""
    finished: dict[str, dict[str, Path]] = {}

    def finetune(task: str, **settings) -> dict[str, Path]:
        name = f"{task} {settings}"
        if name not in finished:
            models = {} if task == "scratch" else {"model": pretrained_here["model"]}
            folder = tmp_path_factory.mktemp(f"{task}-{device.type}")
            finished[name] = study.finetune(folder, task, settings, **models)
        return finished[name]

    return finetune


@pytest.fixture(scope="session")
def sequences(study, tmp_path_factory) -> Path:
    """Return the sequences of the study as FASTA."""
    fasta = tmp_path_factory.mktemp("sequences") / "sequences.fasta"
    records = (f">{name}\n{sequence}\n" for name, sequence in study.tiny.sequences.items())
    fasta.write_text("".join(records))
    return fasta


@pytest.fixture(scope="session")
def host(study) -> pd.DataFrame:
    """Return the covariate that some tasks have."""
    ids = study.tiny.table.sample_ids
    index = pd.Index(ids, name="sample-id")
    return pd.DataFrame({"host": [["a", "b"][int(name) % 2] for name in ids]}, index=index)
