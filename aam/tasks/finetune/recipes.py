"""What is trained where the recipe is `auto`: as many recipes as the budget allows.

Shape suffixes: L labelled samples, C columns or classes.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aam.config.sections.finetuning import BUDGET_CORES, Finetuning
from aam.data.folds import TEST
from aam.data.nested_folds import InnerFit, inner_fits
from aam.model.asv_encoders import Architecture
from aam.tasks.finetune.kernel_head_fit import CANDIDATES, MOST_SAMPLES
from aam.tasks.finetune.setup import PARTS, FinetuneSetup
from aam.util.flops import trained_flops

STEPS = 200
"""Steps that a model is trained for, within bounds of the passes over its samples."""
LEAST_EPOCHS = 6
MOST_EPOCHS = 60
"""Bounds of the passes over the samples."""
MOST_NETWORKS = 3
"""Networks of a recipe that a budget pays for in each fold."""
LEAST_SAMPLES = 2
"""Training samples of a fit."""
COMMON: dict[str, Any] = {"batch_size": 32, "optimizer": "muon", "class_weights": True}
"""Settings that all recipes with steps share."""
RECIPES: dict[str, dict[str, Any]] = {
    "kernel": {"recipe": "kernel"},
    "partial": {"recipe": "partial", "learning_rate": 5e-4, "asv_dropout": 0.3, **COMMON},
    "full": {"recipe": "full", "learning_rate": 3e-4, "asv_dropout": 0.15, **COMMON},
}
"""By name, the settings of the task that a recipe replaces."""
# The estimates of seconds rest on the next four, which were measured on the mackerels, infant guts
# and oral samples of the leaderboard.
SPEED = 1.3e11
"""Operations per second of a core."""
SAMPLE_BLOCK = 3.3
"""How many times as long an operation takes in a block over a sample's ASVs."""
DISTINCT = 0.4
"""Distinct ASVs of a batch over the sum of its samples' ASVs."""
FIT_SECONDS = 3e-11
"""Seconds of support vectors, per training sample cubed."""


def affordable_recipes(setup: FinetuneSetup) -> dict[str, int]:
    """Return the recipes that the budget allows to train in all folds, the cheapest first.

    There is one at least. Only estimates decide, never a measured time: the same files and settings
    give the same recipes on every machine. The models of the nested cross-validation
    are part of the cost. What is left of the budget goes to further networks of other initial
    weights, because one draw of these may be far from the usual one.

    Parameters
    ----------
    setup
        Data and settings of the task.

    Returns
    -------
    dict
        Number of models per fold, by recipe.
    """
    labelled = setup.labelled
    settings = setup.settings
    folds = sorted(set(labelled.fold.tolist()) - {TEST})
    labels = int((labelled.fold != TEST).sum())
    left = BUDGET_CORES * settings.budget_s(len(folds), labels)
    shape = setup.make_encoder(folds[0], 0).shape
    sizes = [int(labelled.training(fold, settings.labels, settings.seed).sum()) for fold in folds]
    cost_of_folds: dict[str, float] = {}
    cost: dict[str, float] = {}
    for name in possible_recipes(setup):
        nested_sizes = [int(fit.is_training_N.sum()) for fit in nested_fits(setup, name)]
        models = 1 if name == "kernel" else settings.networks
        cost_of_folds[name] = _seconds_of_fits(setup, shape, name, sizes)
        cost[name] = models * cost_of_folds[name]
        cost[name] += _seconds_of_fits(setup, shape, name, nested_sizes)
    chosen: dict[str, int] = {}
    for name in sorted(cost, key=cost.__getitem__):
        if cost[name] <= left or not chosen:
            left -= cost[name]
            chosen[name] = 1 if name == "kernel" else settings.networks
    networks = [name for name in chosen if name != "kernel"]
    for name in networks:
        while chosen[name] < MOST_NETWORKS and cost_of_folds[name] <= left:
            left -= cost_of_folds[name]
            chosen[name] += 1
    return chosen


def _seconds_of_fits(
    setup: FinetuneSetup, shape: Architecture, recipe: str, sizes: Sequence[int]
) -> float:
    """Return about how long a core trains one model of a recipe for each number of samples."""
    return sum(
        seconds(setup, shape, recipe_settings(setup, shape, recipe, size), size) for size in sizes
    )


def nested_fits(setup: FinetuneSetup, recipe: str) -> list[InnerFit]:
    """Return the fits that the nested predictions of a recipe come from.

    A kernel head is fitted without every pair of blocks. What takes minutes to train is fitted
    as seldom as possible. An encoder of an inductive fold has seen all other folds, so that a fit
    serves one block alone.

    Parameters
    ----------
    setup
        Data and settings of the task.
    recipe
        Name of the recipe.

    Returns
    -------
    list of InnerFit
        Without fits to fewer than `LEAST_SAMPLES` samples.
    """
    labelled = setup.labelled
    settings = setup.settings
    is_quick = recipe in ("kernel", "frozen")
    is_used_L = labelled.training(TEST, settings.labels, settings.seed)
    fits = []
    for fit in inner_fits(labelled.fold, np.array(labelled.units), ring=not is_quick):
        is_training_L = fit.is_training_N & is_used_L
        if is_training_L.sum() < LEAST_SAMPLES:
            continue
        if not settings.inductive:
            fits.append(InnerFit(fit.name, is_training_L, fit.predicted))
            continue
        for block, rows in fit.predicted.items():
            fits.append(InnerFit(f"for{block}-{fit.name}", is_training_L, {block: rows}))
    # Fits with the same encoder follow each other, so that samples are embedded once.
    return sorted(fits, key=lambda fit: fit.name) if settings.inductive else fits


def possible_recipes(setup: FinetuneSetup) -> list[str]:
    """Return the recipes that can learn the target."""
    task = setup.task
    obstacle = setup.settings.kernel_obstacle(task.kind, task.columns, task.condition)
    are_few = (setup.labelled.fold != TEST).sum() <= MOST_SAMPLES
    fits_kernel = obstacle is None and are_few
    return [name for name in RECIPES if name != "kernel" or fits_kernel]


def recipe_settings(
    setup: FinetuneSetup, shape: Architecture, name: str, samples: int
) -> Finetuning:
    """Return the settings of a recipe.

    Parameters
    ----------
    setup
        Settings of the task.
    shape
        Architecture of the encoder.
    name
        Name of the recipe.
    samples
        Number of training samples: fewer samples are gone through more often.

    Returns
    -------
    Finetuning
        Those of the task, changed by the recipe.
    """
    steps = math.ceil(samples / COMMON["batch_size"])
    epochs = min(MOST_EPOCHS, max(LEAST_EPOCHS, math.ceil(STEPS / steps)))
    changes = {"epochs": epochs, **RECIPES[name]}
    if name == "partial":
        changes["trained_layers"] = shape.sample_layers
    return setup.settings.model_copy(update=changes)


def seconds(setup: FinetuneSetup, shape: Architecture, settings: Finetuning, samples: int) -> float:
    """Estimate how long a core trains one model of a recipe.

    Parameters
    ----------
    setup
        Data of the task.
    shape
        Architecture of the encoder.
    settings
        Settings of the recipe.
    samples
        Number of training samples.

    Returns
    -------
    float
        Seconds.
    """
    if settings.recipe == "kernel":
        machines = 1
        if setup.task.kind != "regression":
            # Each class has a machine against all others.
            machines = len(set(setup.labelled.observed_LC[:, 0]))
        return machines * CANDIDATES * PARTS * FIT_SECONDS * samples**3
    # The first rows are those of the first view.
    store = setup.store
    asvs_per_sample = store.offsets[len(store.sample_ids)] / len(store.sample_ids)
    patches = math.ceil(setup.tokens.tokens.shape[1] / shape.patch_bp) * DISTINCT
    sample_layer = trained_flops("transformer", shape.width, shape.ffn_ratio)
    operations_per_asv = SAMPLE_BLOCK * shape.sample_layers * sample_layer
    if settings.recipe == "full":
        asv_layer = trained_flops(shape.encoder, shape.width, shape.ffn_ratio)
        operations_per_asv += shape.asv_layers * patches * asv_layer
    return settings.epochs * samples * asvs_per_sample * operations_per_asv / SPEED
