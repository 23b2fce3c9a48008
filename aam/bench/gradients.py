"""Gradients of the configured models, compared with differences of their losses.

For each part of a model, the derivative of the loss along a random direction of the part's weights
is taken twice: from the backward pass, and from two values of the loss a small step apart. Both are
in double precision, on a small random batch, so they agree to many digits where the backward pass
is right.

Shape suffixes: U distinct ASVs, S positions, B samples, A ASVs of a sample.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aam.batches.masking import Masker
from aam.config import slices
from aam.config.configuration import Config
from aam.config.metrics import FAITH_PD
from aam.data.target import Target
from aam.model.batch import TARGET, AsvBlock, Batch, Masked, SampleBlock, map_tensors
from aam.model.encoder import build_encoder, set_dropout
from aam.model.predictor import Predictor
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.settings import PretrainSettings

TOLERANCE = 1e-5
"""Relative error above which a gradient is taken to be wrong: right ones have 1e-6 or less."""
STEP = 1e-5
"""Length of the step along a direction, whose length is 1."""
NEGLIGIBLE = 1e-8
"""Derivatives below this, relative to the loss, are compared as if they had this size."""
DIRECTIONS = 3
"""Random directions for each part."""
PART_WORDS = 3
"""Words of a parameter's dotted name that name its part, at most."""
SAMPLES = 6
ASVS = 8
PATCHES = 5
"""Patches of a sequence."""


@dataclass(frozen=True)
class PartError:
    """How far the gradient of a part of a model is from the differences of the loss."""

    part: str
    """Beginning of the names of its parameters."""
    relative: float
    """Relative error of the derivative, the largest of all directions."""

    @property
    def is_wrong(self) -> bool:
        """Whether rounding cannot explain the error; NaN counts as wrong."""
        return not self.relative <= TOLERANCE


def check_gradients(model: nn.Module, batch: Batch, seed: int = 0) -> list[PartError]:
    """Compare the gradient of a model's loss with differences, part by part.

    Parameters
    ----------
    model
        Model whose forward pass returns losses by name, with `loss` among them. Its weights become
        float64, and its dropout 0.
    batch
        What the loss is computed of.
    seed
        Seed of the directions.

    Returns
    -------
    list of PartError
        One for each part that has weights, in the order of the model.
    """
    set_dropout(model, 0.0)
    model.double()
    batch = map_tensors(batch, _in_double)
    generator = torch.Generator().manual_seed(seed)
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        part = ".".join(name.split(".")[:-1][:PART_WORDS])
        parts.setdefault(part, []).append(parameter)
    with _double_precision():
        model.zero_grad()
        loss = model(batch)["loss"]
        loss.backward()
        least = NEGLIGIBLE * max(1.0, abs(float(loss.detach())))
        return [
            PartError(part, _largest_error(model, batch, parameters, least, generator))
            for part, parameters in parts.items()
        ]


def check_configured(config: Config) -> Iterator[tuple[str, list[PartError]]]:
    """Check every model of a configuration, in pretraining and with the head of each task.

    Parameters
    ----------
    config
        The whole configuration; its files are not read.

    Yields
    ------
    what : str
        Dataset, model, and task where it is fine-tuning.
    errors : list of PartError
        One for each part.
    """
    for dataset in config.datasets:
        for model in config.models:
            settings = PretrainSettings.read(slices.pretrain(config, dataset, model))
            yield f"{dataset}, {model}, pretraining", _check_pretraining(settings)
            for task, section in config.tasks.items():
                if section.dataset == dataset:
                    tuning = slices.finetune(config, dataset, model, task)
                    errors = _check_task(settings, tuning)
                    yield f"{dataset}, {model}, {task}", errors


def _check_pretraining(settings: PretrainSettings) -> list[PartError]:
    """Check the encoder with the heads of its pretraining."""
    distances = settings.pretraining.distances or {}
    patch_bp = settings.architecture["patch_bp"]
    variances = dict.fromkeys(distances, 0.1)
    model = PretrainingModel.from_settings(settings, PATCHES * patch_bp, variances)
    batch = _random_batch(patch_bp)
    rng = np.random.default_rng(1)
    for metric in distances:
        if metric == FAITH_PD:
            batch.values[FAITH_PD] = torch.from_numpy(rng.uniform(size=(SAMPLES, 1)))
        else:
            upper_BB = np.triu(rng.uniform(0.2, 0.9, (SAMPLES, SAMPLES)), k=1)
            batch.distances[metric] = torch.from_numpy(upper_BB + upper_BB.T)
    return check_gradients(model, batch)


def _check_task(settings: PretrainSettings, tuning: Mapping[str, Any]) -> list[PartError]:
    """Check the encoder with the head and the loss of a task; covariates are left out."""
    patch_bp = settings.architecture["patch_bp"]
    shape = settings.shape(PATCHES * patch_bp)
    encoder = build_encoder(shape, seed=0, backend=settings.step_options.attention)
    kind = tuning["kind"]
    classes = tuning["classes"] or ["low", "high"]
    columns = tuning["columns"]
    if kind == "regression":
        numbers = np.random.default_rng(2).uniform(1.0, 9.0, (SAMPLES, len(columns)))
        observed = [[f"{number:.3f}" for number in row] for row in numbers]
    else:
        observed = [[classes[row % len(classes)]] for row in range(SAMPLES)]
    target = Target.fit(
        kind,
        columns,
        observed,
        np.ones(SAMPLES, bool),
        loss=tuning["finetuning"]["loss"],
        transform=tuning["transform"],
        classes=tuning["classes"],
    )
    batch = _random_batch(patch_bp)
    batch.values[TARGET] = torch.from_numpy(target.encode(observed))
    return check_gradients(Predictor(encoder, target, seed=0), batch)


def _random_batch(patch_bp: int) -> Batch:
    """Return samples with all ASVs in different numbers, some nucleotides of which are masked."""
    rng = np.random.default_rng(0)
    tokens_US = rng.integers(1, 5, (ASVS, PATCHES * patch_bp)).astype(np.uint8)
    masker = Masker(0.2, seed=0, patch_bp=patch_bp)
    tokens_US, places = masker.mask(tokens_US, np.arange(ASVS), epoch=0)
    masked = Masked(*map(torch.from_numpy, places))
    asv_BA = torch.arange(ASVS).expand(SAMPLES, -1).contiguous()
    counts_BA = torch.from_numpy(rng.integers(1, 100, (SAMPLES, ASVS)).astype(np.float64))
    return Batch(
        asvs=[AsvBlock(torch.from_numpy(tokens_US), masked)],
        samples=[SampleBlock(asv_BA, torch.ones_like(asv_BA, dtype=torch.bool), counts_BA)],
        order_B=torch.arange(SAMPLES),
        distances={},
        values={},
    )


def _in_double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _largest_error(
    model: nn.Module,
    batch: Batch,
    parameters: list[nn.Parameter],
    least: float,
    generator: torch.Generator,
) -> float:
    """Return the largest relative error of a part's derivatives along random directions."""
    errors = []
    norm = sum(float(one.grad.square().sum()) for one in parameters if one.grad is not None) ** 0.5
    # What a derivative along a random direction usually is: by chance one can be close to zero.
    usual = norm / sum(one.numel() for one in parameters) ** 0.5
    for _ in range(DIRECTIONS):
        directions = [
            torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in parameters
        ]
        length = torch.stack([direction.square().sum() for direction in directions]).sum().sqrt()
        directions = [direction / length for direction in directions]
        analytical = sum(
            float((one.grad * direction).sum())
            for one, direction in zip(parameters, directions, strict=True)
            if one.grad is not None
        )
        numerical = _difference(model, batch, parameters, directions)
        size = max(abs(analytical), abs(numerical), usual, least)
        errors.append(abs(analytical - numerical) / size)
    # NaN has to win, which `max` does not promise.
    return float(np.max(errors))


@torch.no_grad()
def _difference(
    model: nn.Module, batch: Batch, parameters: list[nn.Parameter], directions: list[Tensor]
) -> float:
    """Return the central difference of the loss along a direction; the weights end as they were."""
    saved = [one.detach().clone() for one in parameters]
    losses = []
    for sign in (1.0, -1.0):
        for one, start, direction in zip(parameters, saved, directions, strict=True):
            one.copy_(start + sign * STEP * direction)
        losses.append(float(model(batch)["loss"]))
    for one, start in zip(parameters, saved, strict=True):
        one.copy_(start)
    return (losses[0] - losses[1]) / (2 * STEP)


@contextmanager
def _double_precision() -> Iterator[None]:
    """Keep double precision where models call `Tensor.float`, to leave a lower one."""
    to_single = Tensor.float
    Tensor.float = Tensor.double  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.float = to_single  # type: ignore[method-assign]
