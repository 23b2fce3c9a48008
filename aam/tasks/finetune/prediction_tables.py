"""The tables of predictions that fine-tuning writes.

Shape suffixes: L labelled samples, C columns or classes, Q quantiles.
"""

import numpy as np
import pandas as pd

from aam.data.predictions import DRAW, GROUP, PROBABILITY, QUANTILE, TARGET, UNNESTED, class_order
from aam.data.target import QUANTILES
from aam.inference.outputs import Outputs
from aam.learners.super_learner import WITHOUT
from aam.tasks.finetune.recipe_mixture import MixedRecipes
from aam.tasks.finetune.setup import FinetuneSetup


def recipe_table(setup: FinetuneSetup, mixed: MixedRecipes) -> pd.DataFrame:
    """Return `prediction_table` of every recipe alone.

    Parameters
    ----------
    setup
        What the models of the task share.
    mixed
        Outputs and weights of the recipes.

    Returns
    -------
    pandas.DataFrame
        With the columns `recipe` and `weight` before the others.
    """
    parts = []
    for recipe, outputs in mixed.by_recipe.items():
        table = prediction_table(setup, outputs)
        table.insert(0, "recipe", recipe)
        table.insert(1, "weight", table["fold"].map(mixed.weights[recipe]))
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def nested_table(setup: FinetuneSetup, mixed: MixedRecipes) -> pd.DataFrame:
    """Return the nested predictions of the mixed recipes.

    Parameters
    ----------
    setup
        What the models of the task share.
    mixed
        Nested outputs of the recipes.

    Returns
    -------
    pandas.DataFrame
        `sample-id`, `without` (the block of folds that the models have not seen), with several
        columns to predict `target`, and `predicted` or the probabilities.
    """
    parts = []
    for block, predicted in mixed.nested.items():
        table = prediction_table(setup, predicted.outputs)
        targets = len(table) // len(predicted.is_row_L)
        rows = np.tile(predicted.is_row_L, targets)
        part = table[rows].drop(columns=["fold", "observed", GROUP])
        part.insert(1, WITHOUT, block)
        parts.append(part)
    if not parts:
        return pd.DataFrame({"sample-id": [], WITHOUT: [], "predicted": []})
    return pd.concat(parts, ignore_index=True)


def predictions_for_scores(setup: FinetuneSetup, mixed: MixedRecipes) -> pd.DataFrame:
    """Return `prediction_table`, with what the report compares it with.

    Parameters
    ----------
    setup
        What the models of the task share.
    mixed
        Outputs of the recipes.

    Returns
    -------
    pandas.DataFrame
        Further columns are `unnested`, what mixed recipes predict with weights that rest on models
        which saw the fold, and `draw:<number>`, what they predict with one network each, where
        there are several.
    """
    table = prediction_table(setup, mixed.outputs)
    if mixed.unnested is not None:
        table[UNNESTED] = prediction_table(setup, mixed.unnested)["predicted"]
    for number, outputs in enumerate(mixed.draws):
        table[f"{DRAW}{number}"] = prediction_table(setup, outputs)["predicted"]
    return table


def prediction_table(setup: FinetuneSetup, outputs: Outputs) -> pd.DataFrame:
    """Return the columns of `networks.tsv`.

    Parameters
    ----------
    setup
        What the models of the task share.
    outputs
        Outputs for the L labelled samples.

    Returns
    -------
    pandas.DataFrame
        `sample-id`, `fold`, the group, `observed`, `predicted`, and quantiles or probabilities.
        Samples are in the order of the folds file; of several columns each has all samples, and
        `target`.
    """
    task = setup.task
    labelled = setup.labelled
    point_LC = outputs.point_NC
    ids = [setup.store.sample_ids[sample] for sample in labelled.samples]
    base = pd.DataFrame({"sample-id": ids, "fold": labelled.fold, GROUP: labelled.units})
    if task.kind != "regression":
        observed = labelled.observed_LC[:, 0]
        classes = np.array(task.classes or class_order(observed))
        probabilities = {PROBABILITY + str(name): point_LC[:, i] for i, name in enumerate(classes)}
        return base.assign(
            observed=observed, predicted=classes[point_LC.argmax(axis=1)], **probabilities
        )
    parts = []
    for number, column in enumerate(task.columns):
        part = base.assign(observed=labelled.observed_LC[:, number], predicted=point_LC[:, number])
        if outputs.quantile_NCQ is not None:
            for q, value_L in zip(QUANTILES, outputs.quantile_NCQ[:, number].T, strict=True):
                part[f"{QUANTILE}{q:g}"] = value_L
        if len(task.columns) > 1:
            part.insert(1, TARGET, column)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
