"""How the recipes of a task are mixed: by what they predict for samples that they never saw.

Shape suffixes: L labelled samples, T training samples, C columns or classes.
"""

from collections.abc import Mapping

import numpy as np

from aam.evaluate.mixture import Mixture
from aam.inference.outputs import Outputs
from aam.tasks.finetune.setup import FinetuneSetup


def recipe_mixture(setup: FinetuneSetup, fold: int, by_recipe: Mapping[str, Outputs]) -> Mixture:
    """Return the mixture fitted to the held-out predictions of a fold's training samples.

    `by_recipe` are outputs of all labelled samples, each by models that never saw its label. So no
    label of the fold enters its weights directly; the models behind the other folds have seen it.
    """
    if len(by_recipe) == 1:
        return Mixture(dict.fromkeys(by_recipe, 1.0), dict.fromkeys(by_recipe, 1.0))
    labelled, settings = setup.labelled, setup.settings
    training_L = labelled.training(fold, settings.labels, settings.seed)
    observed_TC, unit_T = labelled.observed_LC[training_L], np.array(labelled.units)[training_L]
    value_TC = {name: outputs.point_NC[training_L] for name, outputs in by_recipe.items()}
    if setup.task.kind != "regression":
        classes = setup.task.classes or sorted(set(labelled.observed_LC[:, 0]))
        return Mixture.fit(value_TC, observed_TC[:, 0].astype(str), classes, unit_T)
    numbers_TC = observed_TC.astype(np.float64)
    deviation_C = numbers_TC.std(axis=0)
    scale_C = np.where(deviation_C > 0, deviation_C, 1.0)
    # Columns count alike, each in its own deviations.
    columns = numbers_TC.shape[1]
    return Mixture.fit(
        {name: (each_TC / scale_C).reshape(-1, 1) for name, each_TC in value_TC.items()},
        (numbers_TC / scale_C).reshape(-1),
        (),
        np.repeat(unit_T, columns),
    )
