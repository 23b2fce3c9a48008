"""How the recipes of a task are mixed: by what they predict for samples that they never saw.

Shape suffixes: L labelled samples, T those that weights are fitted to, C columns or classes.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from aam.evaluate.mixture import Mixture
from aam.inference.outputs import Outputs
from aam.tasks.finetune.setup import FinetuneSetup


def recipe_mixture(
    setup: FinetuneSetup, is_row_L: NDArray[np.bool_], by_recipe: Mapping[str, Outputs]
) -> Mixture:
    """Return the mixture fitted to the predictions of some samples.

    Parameters
    ----------
    setup
        Has the observed values and the groups of the labelled samples.
    is_row_L
        The labelled samples that the weights are fitted to. For the score of a fold their
        predictions come from models that saw neither the fold nor these samples.
    by_recipe
        Outputs of all labelled samples, by recipe.
    """
    if len(by_recipe) == 1:
        return Mixture.equal(list(by_recipe))
    if not is_row_L.any():
        return Mixture.equal(list(by_recipe))
    labelled = setup.labelled
    observed_TC = labelled.observed_LC[is_row_L]
    unit_T = np.array(labelled.units)[is_row_L]
    value_TC = {name: outputs.point_NC[is_row_L] for name, outputs in by_recipe.items()}
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
