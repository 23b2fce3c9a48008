"""Short trainings whose batches can be watched or broken."""

from collections.abc import Callable

import pytest
import safetensors.torch
import torch

from aam.batches.dataset import BatchDataset
from aam.config.sections.execution import Optimization
from aam.config.sections.training import EarlyStoppingSettings, Pretraining
from aam.model.encoder import set_dropout
from aam.train.checkpoint import Checkpoints
from aam.train.loop import fit
from aam.train.memory import step_memory
from aam.train.memory.micro_batches import MicroBatches
from aam.train.options import step_options
from aam.train.progress import EarlyStopping, Validation
from aam.util.run_options import RunOptions


@pytest.fixture
def train(devices, quick, new_model, new_feed, monkeypatch) -> Callable:
    # No batch is asked for before the first step.
    monkeypatch.setattr(step_memory, "fit_to_memory", lambda *_, **__: MicroBatches())

    def run(
        folder=None,
        dataset=None,
        *,
        validation=None,
        dropout=0.0,
        devices=devices,
        runtime=None,
        background=True,
        **changes,
    ):
        settings = {name: changes.pop(name) for name in Pretraining.model_fields if name in changes}
        model = new_model()
        set_dropout(model, dropout)
        # A run depends on no random state that it finds.
        torch.seed()
        progress = fit(
            model,
            dataset or new_feed(),
            quick.model_copy(update={"optimizer": "adamw", **settings}),
            devices=devices,
            options=step_options(Optimization(**{"precision": "fp32", **changes})),
            checkpoints=Checkpoints(folder, "a", background=background),
            name="test",
            runtime=RunOptions(**{"checkpoint_every_s": 0.0, **(runtime or {})}),
            validation=validation,
        )
        return safetensors.torch.save(model.state_dict()), progress

    return run


@pytest.fixture(scope="session")
def cache() -> dict[str, bytes]:
    return {}


@pytest.fixture
def whole(train, cache) -> bytes:
    """Return the weights of a run in which nothing happens."""
    if not cache:
        cache["weights"] = train()[0]
    return cache["weights"]


@pytest.fixture(scope="session")
def new_validation() -> Callable[..., Validation]:
    """Return the function that gives a validation of known scores, followed by early stopping."""

    def build(values: list[float], patience: int = 2) -> Validation:
        given = iter(values)
        stopping = EarlyStopping(EarlyStoppingSettings(patience=patience, min_delta=0.01))
        return Validation(lambda: {"score": next(given)}, 10, "score", stopping)

    return build


@pytest.fixture
def feed_with(new_feed) -> Callable[..., BatchDataset]:
    """Return the function that gives a dataset that calls functions before and after a batch."""

    def build(before=lambda step: None, after=lambda step, batch: None) -> BatchDataset:
        class Changed(BatchDataset):
            def __getitem__(self, step):
                before(step)
                batch = super().__getitem__(step)
                after(step, batch)
                return batch

        return new_feed(Changed)

    return build


@pytest.fixture
def interrupt(train, feed_with) -> Callable[..., None]:
    """Return the function that trains up to a step, which never begins."""

    def run(folder, last, before=lambda step: None, **changes) -> None:
        def stop(step):
            before(step)
            if step == last:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            train(folder, feed_with(stop), **changes)

    return run
