import resource
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import torch

from aam.batches.dataset import BatchDataset
from aam.batches.masking import Masker
from aam.config.sections.execution import Optimization
from aam.config.sections.finetuning import Finetuning
from aam.config.sections.training import Pretraining
from aam.config.settings.finetuning import TargetSettings
from aam.data.target import Target
from aam.distributed.devices import Devices
from aam.inference.outputs import Outputs, decode_outputs, raw_outputs
from aam.model.kernel_head import KernelShape
from aam.model.predictor import Predictor
from aam.tasks.finetune import cross_validation
from aam.tasks.finetune.cross_validation import CrossValidation
from aam.tasks.finetune.setup import FinetuneSetup, Labelled
from aam.tasks.pretrain.model import PretrainingModel
from aam.train.options import step_options
from aam.util.run_options import RunOptions

LABELLED = np.array([17, 0, 3, 4, 19, 8, 9, 11, 14])
FOLD = (0, 1, 2, 0, 1, 2, 0, 1, 2)
KNOWN = {
    "regression": ["61", "3.5", "10", "14", "70", "30", "33", "40", "52"],
    "classification": ["gut", "skin", "gut", "gut", "skin", "skin", "gut", "gut", "skin"],
    "ordinal": ["low", "mid", "high", "high", "low", "mid", "mid", "high", "low"],
}
TARGET = {
    "classes": None,
    "transform": "zscore",
    "transform_by": None,
    "bounds": (None, None),
    "condition": [],
}
COLUMN = {"regression": "age", "classification": "site", "ordinal": "level"}


@pytest.fixture(scope="session")
def new_model(new_encoder) -> Callable[..., PretrainingModel]:
    def build(encoder=None, **changes) -> PretrainingModel:
        settings = {"weights": {"unweighted": 1.0}, "variances": {"unweighted": 0.05}}
        settings |= {"nucleotide_weight": 1.0, "seed": 1, **changes}
        own = encoder or new_encoder(20, asv_layers=1, sample_layers=1, patch_bp=5)
        return PretrainingModel(own, **settings)

    return build


@pytest.fixture(scope="session")
def new_feed(tiny) -> Callable[..., BatchDataset]:
    """Return the function that builds a dataset, by itself of 5 steps per epoch and 2 epochs."""

    def build(kind: type[BatchDataset] = BatchDataset, data=tiny, **changes) -> BatchDataset:
        own = {"store": data.store, "tokens": data.tokens, "samples": np.arange(20)}
        own |= {"batch_size": 4, "epochs": 2, "seed": 0, "masker": Masker(0.2, 0)}
        return kind(**{**own, "distances": {"unweighted": data.distances}, **changes})

    return build


@pytest.fixture(scope="session")
def devices(one_thread: None) -> Devices:
    """Return the CPU in fp32."""
    return Devices("fp32", 1)


@pytest.fixture(scope="session")
def quick() -> Pretraining:
    """Return settings of a run of ten steps."""
    return Pretraining(epochs=2, batch_size=4, learning_rate=3e-3)


@pytest.fixture
def new_task(augmented, new_encoder, devices, tmp_path) -> Callable[..., CrossValidation]:
    """Return the function that sets up the cross-validation of nine samples in three folds.

    Its keyword arguments are those of `Labelled`, of `FinetuneSetup`, and settings.
    """

    def build(
        kind: str = "regression",
        observed: Sequence | None = None,
        *,
        samples: Sequence[int] = LABELLED,
        fold: Sequence[int] = FOLD,
        units: Sequence[str] | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        target: Mapping[str, object] | None = None,
        **changes,
    ) -> CrossValidation:
        known = np.array(KNOWN[kind] if observed is None else observed, object)
        setup = {
            "work": tmp_path / "work",
            "fingerprint": "here",
            "make_encoder": lambda fold, number: new_encoder(
                20, seed=8, asv_layers=1, sample_layers=1
            ),
            "asvs": None,
            "runtime": RunOptions(),
        }
        setup |= {name: changes.pop(name) for name in setup if name in changes}
        settings = {"recipe": "full", "epochs": 2, "batch_size": 4, **changes}
        return CrossValidation(
            FinetuneSetup(
                store=augmented.store,
                tokens=augmented.tokens,
                labelled=Labelled(
                    np.array(samples),
                    known.reshape(len(samples), -1),
                    np.array(fold),
                    units or [f"unit {sample}" for sample in samples],
                    {name: np.array(text, object) for name, text in (categories or {}).items()},
                ),
                task=TargetSettings(
                    **{**TARGET, "kind": kind, "columns": [COLUMN[kind]], **(target or {})}
                ),
                settings=Finetuning(**settings),
                devices=devices,
                options=step_options(Optimization(precision="fp32")),
                about={"remark": "from the test"},
                **setup,
            )
        )

    return build


@pytest.fixture
def datasets(monkeypatch) -> list[BatchDataset]:
    seen, fit = [], cross_validation.fit

    def spy(model, dataset, *args, **kwargs):
        seen.append(dataset)
        return fit(model, dataset, *args, **kwargs)

    monkeypatch.setattr(cross_validation, "fit", spy)
    return seen


@pytest.fixture(scope="session")
def kernel_predictor(tiny, new_encoder) -> Callable[[Target], Predictor]:
    """Return the function that builds a predictor with a machine of half of the tiny ASVs."""

    def build(target: Target) -> Predictor:
        draw, asv_PS = torch.Generator().manual_seed(0), tiny.tokens.tokens[::2]
        shape = KernelShape(7, *asv_PS.shape)
        predictor = Predictor(new_encoder(20, asv_layers=1), target, kernel=shape, seed=0)
        head = predictor.head
        for part in (head.sample_TF, head.weight_TO, head.bias_O):
            part.copy_(0.3 * torch.randn(part.shape, generator=draw))
        head.scale_F.fill_(0.1)
        head.asv_PS.copy_(torch.from_numpy(asv_PS.copy()))
        head.gaussian.fill_(True)
        return predictor.eval().requires_grad_(False)

    return build


@pytest.fixture
def ask(augmented, devices) -> Callable[..., Outputs]:
    """Return the function that asks a model about samples, by no other way than their reads."""

    def outputs(predictor, samples, covariates=None, by=None) -> Outputs:
        store, views = augmented.store, augmented.store.views
        rows_R = np.concatenate([view * len(store.sample_ids) + samples for view in range(views)])
        category_RF = None
        if covariates is not None:
            category_RF = np.tile(predictor.vocabulary.encode(covariates), (views, 1))
        output_RO = raw_outputs(
            predictor, store, augmented.tokens, rows_R, devices, category_RF=category_RF
        )
        by_R = None if by is None else [*by] * views
        return decode_outputs(predictor.target, output_RO, views, by_R)

    return outputs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Free a disk that a test has filled before pytest reports to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
