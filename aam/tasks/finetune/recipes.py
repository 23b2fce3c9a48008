"""What is trained, chosen inside the training samples of a fold where the encoder is `auto`.

Shape suffixes: L labelled samples, N samples left out, C columns or classes.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aam.config.sections.finetuning import Finetuning
from aam.data.folds import TEST
from aam.evaluate.predictions import mean_recall
from aam.model.asv_encoders import Architecture
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.kernel_machine import CANDIDATES, MOST_SAMPLES
from aam.tasks.finetune.setup import PARTS, FinetuneSetup, Part
from aam.tasks.finetune.train_fold import trained
from aam.util.atomic import read_json, write_json

logger = logging.getLogger(__name__)

STEPS, LEAST_EPOCHS, MOST_EPOCHS = 200, 6, 60
"""Steps that a model is trained for, within bounds of the passes over its samples."""
COMMON: dict[str, Any] = {"batch_size": 32, "optimizer": "muon", "class_weights": True}
RECIPES: dict[str, dict[str, Any]] = {
    "kernel": {"encoder": "kernel"},
    "partial": {"encoder": "partial", "learning_rate": 5e-4, "asv_dropout": 0.3, **COMMON},
    "full": {"encoder": "full", "learning_rate": 3e-4, "asv_dropout": 0.15, **COMMON},
}
"""Changes of the settings, the cheapest first."""
CORES, SPEED, SAMPLE_BLOCK, DISTINCT, FIT_SECONDS = 2, 1.3e11, 3.3, 0.4, 3e-11
"""Of the machine that costs are estimated for: cores, and operations per second of each; how many
times as long those of a block over a sample's ASVs take; the part of the ASVs of a batch's samples
that are met for the first time in it; and the seconds of support vectors per cube of the samples.
Measured on the mackerels, infant guts and oral samples of the leaderboard."""
FOLDS, SAMPLES = 5, 500
"""What `budget_minutes` is for; it grows in proportion with both, for fewer samples it stays."""


@dataclass(frozen=True)
class Choice:
    """The recipe of a fold."""

    recipe: str
    settings: Finetuning
    errors: Mapping[str, float]
    """By recipe that was tried: error on the parts left out, in deviations of the training values,
    or one less the mean recall of the classes. Empty where nothing else was tried."""
    optimism: float | None = None
    """How much lower the error would look if the parts that it is quoted on were chosen by, too;
    None where fewer than two recipes or parts were tried."""


def choose(setup: FinetuneSetup, fold: int, frozen: FrozenEmbeddings) -> Choice:
    """Return the recipe of least error on parts of the training samples of a fold.

    What is tried follows from estimates alone, not from the time that anything takes: the same
    files and settings give the same choice on every machine.
    """
    path = setup.work / "choice" / f"fold{fold}.json"
    settings = {name: recipe_settings(setup, fold, name) for name in possible_recipes(setup)}
    if path.is_file() and (known := read_json(path))["fingerprint"] == setup.fingerprint:
        known_by = known["errors"], known["optimism"]
        return Choice(known["recipe"], settings[known["recipe"]], *known_by)
    chosen_from, parts = affordable(setup, settings, fold)
    tried = chosen_from if parts else []
    found = [_errors(setup, fold, name, settings[name], frozen, parts) for name in tried]
    errors = {name: error for name, (error, _) in zip(tried, found, strict=True)}
    optimism = optimism_of(np.array([each for _, each in found])) if parts > 1 else None
    best = min(chosen_from, key=lambda name: errors.get(name, 0.0))
    told = ", ".join(f"{name} {error:.3f}" for name, error in errors.items()) or "no other tried"
    logger.info("fold %d: %s; errors inside of the training samples: %s", fold, best, told)
    kept_as = {"recipe": best, "errors": errors, "optimism": optimism}
    write_json(path, {"fingerprint": setup.fingerprint, **kept_as})
    return Choice(best, settings[best], errors, optimism)


def optimism_of(error_RP: NDArray[np.float64]) -> float:
    """Return what a mean error gains where recipes R are chosen by the parts P it is quoted on.

    That is the mean error of what the other parts choose for each, less that of the best recipe.
    """
    by_others_P = (error_RP.sum(axis=1, keepdims=True) - error_RP).argmin(axis=0)
    honest_P = error_RP[by_others_P, np.arange(error_RP.shape[1])]
    return float(honest_P.mean() - error_RP.mean(axis=1).min())


def possible_recipes(setup: FinetuneSetup) -> list[str]:
    """Return the recipes that can learn the target, the cheapest first."""
    task = setup.task
    obstacle = setup.settings.kernel_obstacle(task.kind, task.columns, task.condition)
    few = (setup.labelled.fold != TEST).sum() <= MOST_SAMPLES
    return [name for name in RECIPES if (obstacle is None and few) or name != "kernel"]


def recipe_settings(setup: FinetuneSetup, fold: int, name: str) -> Finetuning:
    """Return the settings of a recipe, with as many passes as the labels bear."""
    training = setup.labelled.training(fold, setup.settings.labels, setup.settings.seed)
    steps = math.ceil(int(training.sum()) / COMMON["batch_size"])
    epochs = min(MOST_EPOCHS, max(LEAST_EPOCHS, math.ceil(STEPS / steps)))
    changes = {"epochs": epochs, **RECIPES[name]}
    if name == "partial":
        changes["trained_layers"] = setup.make_encoder(fold, 0).shape.sample_layers
    return setup.settings.model_copy(update=changes)


def affordable(
    setup: FinetuneSetup, settings: Mapping[str, Finetuning], fold: int
) -> tuple[list[str], int]:
    """Return the recipes that the budget allows to try, and on how many parts."""
    shape = setup.make_encoder(fold, 0).shape
    folds = len(set(setup.labelled.fold.tolist()) - {TEST})
    grown = folds / FOLDS * max(1.0, (setup.labelled.fold != TEST).sum() / SAMPLES)
    limit = 60.0 * setup.settings.budget_minutes * grown
    training = setup.labelled.training(fold, setup.settings.labels, setup.settings.seed)
    cost = {
        name: folds * seconds(setup, shape, own, int(training.sum())) / CORES
        for name, own in settings.items()
    }
    names, possible = list(settings), len(setup.labelled.parts(training, PARTS))
    for number in range(len(names), 1, -1):
        tried = names[:number]
        each = sum(cost[name] for name in tried) * (PARTS - 1) / PARTS
        left = limit - setup.settings.models * max(cost[name] for name in tried)
        parts = min(possible, PARTS if each * PARTS <= left else int(left / each))
        if parts >= 1:
            return tried, parts
    return names[:1], 0


def seconds(setup: FinetuneSetup, shape: Architecture, settings: Finetuning, samples: int) -> float:
    """Return about how long a core trains a model of a recipe."""
    if settings.encoder == "kernel":
        outputs = (
            len(set(setup.labelled.observed_LC[:, 0])) if setup.task.kind != "regression" else 1
        )
        return outputs * CANDIDATES * PARTS * FIT_SECONDS * samples**3
    # The first rows are those of the first view.
    asvs = setup.store.offsets[len(setup.store.sample_ids)] / len(setup.store.sample_ids)
    tokens = math.ceil(setup.tokens.tokens.shape[1] / shape.patch_bp) * DISTINCT
    asv_blocks = shape.asv_layers * tokens if settings.encoder == "full" else 0.0
    operations = 6.0 * 12 * shape.width**2 * (SAMPLE_BLOCK * shape.sample_layers + asv_blocks)
    return settings.epochs * samples * asvs * operations / SPEED


def _errors(
    setup: FinetuneSetup,
    fold: int,
    name: str,
    settings: Finetuning,
    frozen: FrozenEmbeddings,
    parts: int,
) -> tuple[float, list[float]]:
    """Return the error of a recipe on some parts of a fold's training samples, and on each."""
    labelled = setup.labelled
    training = labelled.training(fold, setup.settings.labels, setup.settings.seed)
    splits = labelled.parts(training, parts)
    inner = replace(
        setup,
        labelled=replace(labelled, fold=_parts_as_folds(training, splits)),
        settings=settings.model_copy(update={"labels": 1.0, "models": 1}),
        make_encoder=lambda _, number: setup.make_encoder(fold, number),
        work=setup.work / "choice" / f"fold{fold}" / name,
        # What they log would take the place of the curves of the models that stay.
        runtime=replace(setup.runtime, log_dir=None),
    )
    rows, outputs = [], []
    for part in range(len(splits)):
        model = FoldModel(inner, part, 0, kept(frozen, settings.encoder))
        rows.append(np.flatnonzero(inner.labelled.fold == part))
        outputs.append(model.outputs(trained(model)[0], rows[-1]))
    points = [out.point_NC for out in outputs]
    whole = _error(setup, training, np.concatenate(rows), np.concatenate(points))
    return whole, [_error(setup, training, *part) for part in zip(rows, points, strict=True)]


def _error(
    setup: FinetuneSetup,
    training: NDArray[np.bool_],
    rows_N: NDArray[np.intp],
    point_NC: NDArray[np.float64],
) -> float:
    labelled = setup.labelled
    observed_NC = labelled.observed_LC[rows_N]
    if setup.task.kind == "regression":
        deviation_C = labelled.observed_LC[training].astype(np.float64).std(axis=0)
        error_NC = np.abs(point_NC - observed_NC.astype(np.float64))
        return float((error_NC / np.where(deviation_C > 0, deviation_C, 1.0)).mean())
    classes = np.array(setup.task.classes or sorted(set(labelled.observed_LC[:, 0])))
    predicted_N = classes[point_NC.argmax(axis=1)]
    return 1.0 - mean_recall(observed_NC[:, 0].astype(str), predicted_N)


def _parts_as_folds(training: NDArray[np.bool_], splits: Sequence[Part]) -> NDArray[np.int64]:
    """Return folds [L] whose samples are the parts left out; others train, or are no part."""
    place, fold_L = np.flatnonzero(training), np.full(len(training), TEST, np.int64)
    fold_L[place] = len(splits)
    for part, (_, out) in enumerate(splits):
        fold_L[place[out]] = part
    return fold_L


def kept(frozen: FrozenEmbeddings, encoder: str) -> FrozenEmbeddings:
    """Return the embeddings that training leaves as they are."""
    if encoder == "full":
        return FrozenEmbeddings()
    return FrozenEmbeddings(frozen.asv_UD) if encoder == "partial" else frozen
