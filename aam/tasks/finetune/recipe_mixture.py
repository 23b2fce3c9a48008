"""How the recipes of a task are mixed: by what they predict for samples that they never saw.

Shape suffixes: L labelled samples, T those that weights are fitted to, C columns or classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.data.nested_folds import InnerFit, blocks_of_folds
from aam.data.predictions import class_order
from aam.inference.outputs import Outputs, Share, mean_outputs
from aam.learners.mixture import Mixture
from aam.tasks.finetune.parallel import ModelKey
from aam.tasks.finetune.setup import FinetuneSetup


@dataclass(frozen=True, eq=False)
class NestedPrediction:
    """What a mixture of recipes predicts without a block of folds.

    Attributes
    ----------
    is_row_L
        Whether every recipe has a prediction of a labelled sample from a model that saw neither the
        block nor the sample.
    outputs
        Outputs for all labelled samples, NaN where `is_row_L` is false.
    """

    is_row_L: NDArray[np.bool_]
    outputs: Outputs


@dataclass(frozen=True, eq=False)
class MixedRecipes:
    """What the models of a task predict together.

    Attributes
    ----------
    outputs
        Outputs for each labelled sample, the mean of the views, mixed from models that never saw
        its label. No model behind the weights of a fold saw the fold.
    unnested
        The same with weights that rest on models which saw the fold; None where nothing is mixed.
    draws
        The same with one network of each recipe in place of several; none where there is one.
    nested
        Nested predictions by block of folds, for the weights of a super learner.
    by_recipe
        Outputs of the models of each recipe alone.
    weights
        What each recipe counts for, by its name, in every fold and in the held-out test set.
    shares
        What each model counts for in predictions of other tables: fitted to all folds.
    """

    outputs: Outputs
    unnested: Outputs | None
    draws: list[Outputs]
    nested: dict[int, NestedPrediction]
    by_recipe: dict[str, Outputs]
    weights: dict[str, dict[int, float]]
    shares: dict[ModelKey, Share]


@dataclass(frozen=True, eq=False)
class RecipeMixer:
    """Mixes what the models of a task predict.

    Attributes
    ----------
    setup
        Has the observed values, the folds and the groups of the labelled samples.
    networks
        Models per fold by recipe.
    inner_fits
        The fits of the nested cross-validation by recipe; none where nothing is mixed.
    outer, test
        What the models of a fold predict for the fold, and for the test set.
    nested
        What the models of nested fits predict for their rows, by recipe and name of the fit.
    """

    setup: FinetuneSetup
    networks: Mapping[str, int]
    inner_fits: Mapping[str, list[InnerFit]]
    outer: Mapping[ModelKey, Outputs]
    test: Mapping[ModelKey, Outputs]
    nested: Mapping[tuple[str, str], Outputs]

    def mix(self) -> MixedRecipes:
        """Return the predictions mixed by nested weights, and what they are compared with."""
        by_recipe = {recipe: self._average_recipe(recipe) for recipe in self.networks}
        # The weights of each fold rest on what its block has.
        nested = {block: self._collect_nested(block) for block in self._blocks()}
        by_fold = self._fit_mixtures(by_recipe, nested)
        final = recipe_mixture(self.setup, self._is_training(TEST), by_recipe)
        unnested = None
        if len(self.networks) > 1:
            # These weights are fitted to predictions by models of other folds, which saw the fold.
            unnested_by_fold = {
                fold: recipe_mixture(self.setup, self._is_training(fold), by_recipe)
                for fold in self._folds()
            }
            unnested = self._mix_folds(self.outer, unnested_by_fold, final)
        weights = {}
        for recipe in self.networks:
            weights[recipe] = {fold: mixture.weights[recipe] for fold, mixture in by_fold.items()}
            weights[recipe][TEST] = final.weights[recipe]
        return MixedRecipes(
            outputs=self._mix_folds(self.outer, by_fold, final),
            unnested=unnested,
            draws=self._mix_single_networks(by_fold, final),
            nested={
                block: self._mix_nested(is_row_L, outputs)
                for block, (is_row_L, outputs) in nested.items()
            },
            by_recipe=by_recipe,
            weights=weights,
            shares=_divide_weights(self.outer, dict.fromkeys(self._folds(), final)),
        )

    def _folds(self) -> list[int]:
        return sorted(set(self.setup.labelled.fold.tolist()) - {TEST})

    def _blocks(self) -> list[int]:
        if not any(self.inner_fits.values()):
            return []
        return sorted(set(blocks_of_folds(self.setup.labelled.fold).values()))

    def _is_training(self, fold: int) -> NDArray[np.bool_]:
        """Return the samples whose labels a fold's models may use; of `TEST`, all in any fold."""
        settings = self.setup.settings
        return self.setup.labelled.training(fold, settings.labels, settings.seed)

    def _average_recipe(self, recipe: str) -> Outputs:
        """Return the outputs of the models of one recipe, which count alike."""
        shares = {key: Share() for key in self.outer if key.recipe == recipe}
        return self._join_folds(shares, shares)

    def _collect_nested(self, block: int) -> tuple[NDArray[np.bool_], dict[str, Outputs]]:
        """Return the rows that all recipes predicted without a block, and their outputs."""
        labels = len(self.setup.labelled.fold)
        columns = next(iter(self.nested.values())).point_NC.shape[1]
        is_row_L = np.ones(labels, np.bool_)
        by_recipe = {}
        for recipe, fits in self.inner_fits.items():
            is_predicted_L = np.zeros(labels, np.bool_)
            point_LC = np.full((labels, columns), np.nan)
            for fit in fits:
                rows = fit.predicted.get(block)
                if rows is None:
                    continue
                outputs = self.nested[recipe, fit.name]
                point_LC[rows] = outputs.point_NC[np.searchsorted(fit.rows, rows)]
                is_predicted_L[rows] = True
            by_recipe[recipe] = Outputs(point_LC)
            is_row_L &= is_predicted_L
        return is_row_L, by_recipe

    def _mix_nested(
        self, is_row_L: NDArray[np.bool_], by_recipe: Mapping[str, Outputs]
    ) -> NestedPrediction:
        """Return the nested predictions of the mixture of recipes, for a super learner."""
        mixture = recipe_mixture(self.setup, is_row_L & self._is_training(TEST), by_recipe)
        outputs = [Outputs(predicted.point_NC[is_row_L]) for predicted in by_recipe.values()]
        shares = [Share(mixture.weights[name], mixture.temperatures[name]) for name in by_recipe]
        mixed = mean_outputs(outputs, shares)
        point_LC = np.full((len(is_row_L), mixed.point_NC.shape[1]), np.nan)
        point_LC[is_row_L] = mixed.point_NC
        return NestedPrediction(is_row_L, Outputs(point_LC))

    def _fit_mixtures(
        self,
        by_recipe: Mapping[str, Outputs],
        nested: Mapping[int, tuple[NDArray[np.bool_], dict[str, Outputs]]],
    ) -> dict[int, Mixture]:
        """Return the mixture of each fold, fitted to predictions of models that never saw it."""
        mixtures = {}
        for fold, block in blocks_of_folds(self.setup.labelled.fold).items():
            if block in nested:
                is_row_L, outputs = nested[block]
                is_used_L = is_row_L & self._is_training(fold)
                mixtures[fold] = recipe_mixture(self.setup, is_used_L, outputs)
            else:
                # A single recipe has the whole weight.
                mixtures[fold] = Mixture.equal(list(by_recipe))
        return mixtures

    def _mix_folds(
        self, models: Iterable[ModelKey], by_fold: Mapping[int, Mixture], final: Mixture
    ) -> Outputs:
        """Return outputs mixed by the weights of each fold, of the test set by the final ones."""
        keys = list(models)
        shares = _divide_weights(keys, by_fold)
        final_shares = _divide_weights(keys, dict.fromkeys(self._folds(), final))
        return self._join_folds(shares, final_shares)

    def _mix_single_networks(self, by_fold: Mapping[int, Mixture], final: Mixture) -> list[Outputs]:
        """Return the mixed outputs with one network of each recipe, for every draw of weights.

        There are as many draws as every recipe has networks; none where that is one.
        """
        numbers = [models for recipe, models in self.networks.items() if recipe != "kernel"]
        draws = []
        for number in range(min(numbers, default=1)):
            keys = [key for key in self.outer if key.recipe == "kernel" or key.number == number]
            draws.append(self._mix_folds(keys, by_fold, final))
        return draws if len(draws) > 1 else []

    def _join_folds(
        self, shares: Mapping[ModelKey, Share], test_shares: Mapping[ModelKey, Share]
    ) -> Outputs:
        """Return the outputs of all labelled samples, each the mean over its models."""
        fold_L = self.setup.labelled.fold
        parts = {}
        for fold in self._folds():
            fold_shares = {key: share for key, share in shares.items() if key.fold == fold}
            parts[fold] = _average(self.outer, fold_shares)
        if self.test:
            parts[TEST] = _average(self.test, test_shares)
        # The parts stand fold after fold; the rows go back to the order of the labelled samples.
        rows = np.concatenate([np.flatnonzero(fold_L == fold) for fold in parts])
        order = np.argsort(rows)
        quantiles = [mean.quantile_NCQ for mean in parts.values() if mean.quantile_NCQ is not None]
        return Outputs(
            point_NC=np.concatenate([mean.point_NC for mean in parts.values()])[order],
            quantile_NCQ=np.concatenate(quantiles)[order] if quantiles else None,
        )


def _divide_weights(
    models: Iterable[ModelKey], mixtures: Mapping[int, Mixture]
) -> dict[ModelKey, Share]:
    """Return what each model of the folds counts for, by the mixture of its fold."""
    keys = list(models)
    shares = {}
    for key in keys:
        mixture = mixtures[key.fold]
        # The networks of a recipe in a fold divide its weight.
        networks = sum(other.fold == key.fold and other.recipe == key.recipe for other in keys)
        shares[key] = Share(
            weight=mixture.weights[key.recipe] / networks,
            temperature=mixture.temperatures[key.recipe],
            group=f"{key.part}-{key.recipe}" if networks > 1 else "",
        )
    return shares


def _average(outputs: Mapping[ModelKey, Outputs], shares: Mapping[ModelKey, Share]) -> Outputs:
    return mean_outputs([outputs[key] for key in shares], [*shares.values()])


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

    Returns
    -------
    Mixture
        Equal weights where there is one recipe, or no sample.
    """
    if len(by_recipe) == 1 or not is_row_L.any():
        return Mixture.equal(list(by_recipe))
    labelled = setup.labelled
    observed_TC = labelled.observed_LC[is_row_L]
    unit_T = np.array(labelled.units)[is_row_L]
    value_TC = {name: outputs.point_NC[is_row_L] for name, outputs in by_recipe.items()}
    if setup.task.kind != "regression":
        classes = setup.task.classes or class_order(labelled.observed_LC[:, 0])
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
